//! `ForebayPolicy`: settings for routes of the Gateway API that its specification lacks and annotations have.
//!
//! `sections` is the table of what a policy can say, `fields` makes one field of each entry and of the annotation that it stands for, and
//! `kinds` says how values are written. `read` reads a policy, and `drafts` has the readers of annotations make of it what routes are to be.
//!
//! `definition` is what the API server is told of the kind.
//!
//! Never in here: which policy holds where.

pub mod definition;
pub(super) mod drafts;
pub mod fields;
pub mod kinds;
pub(crate) mod read;
pub mod sections;
