//! `ForebayPolicy`: settings for routes of the Gateway API that its specification lacks and annotations have.
//!
//! `sections` is the table of a policy's sections, `fields` makes one field of each entry and of the
//! annotation that it stands for, and `kinds` has the forms of values. `read` reads a policy, and `drafts`
//! passes the values to the readers of annotations and makes drafts of routes.
//!
//! `definition` is the schema of the kind for the API server.
//!
//! Never in here: the routes to which a policy applies.

pub mod definition;
pub(super) mod drafts;
pub mod fields;
pub mod kinds;
pub(crate) mod read;
pub mod sections;
