//! The control plane: from Kubernetes objects to a [`model::Model`], with everything that is wrong on the way.
//!
//! The stages, each of which knows nothing of the next: [`source`] holds objects, [`index`] finds them, [`settle`] says
//! when to look again, [`translate`] makes a whole new model of them in pure passes, and [`run`] drives the others.
//!
//! Never in here: a client's bytes, and how requests are served.

mod certificate;
mod driver;
pub mod index;
pub mod objects;
pub mod options;
pub mod problem;
pub mod report;
pub mod resolve;
pub mod settle;
pub mod source;
pub mod translate;

pub use driver::{load_at, load_once, run, run_with};
pub use options::{EndpointOverride, NsName, Options};
pub use problem::{ObjectRef, Problem, Severity};
pub use source::files::LoadError;
pub use translate::{HostCertificate, RouteOrigin, Translation};
