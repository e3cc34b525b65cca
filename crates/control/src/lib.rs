//! The control plane: makes a [`model::Model`] from Kubernetes objects, and lists the problems that it finds
//! on the way.
//!
//! No stage knows of the stages after it: [`source`] holds objects, [`index`] finds them, [`debounce`]
//! decides when to translate again, [`translate`] makes a whole new model in pure passes, and [`run`] drives
//! the others.
//!
//! Never in here: a client's bytes, and how requests are served.

mod absent;
pub mod acme;
pub mod admission;
mod certificate;
pub mod classes;
mod client;
pub mod convert;
pub mod debounce;
mod driver;
pub mod firewalls;
pub mod geoip;
pub mod index;
mod interfaces;
pub mod legible;
pub mod migration;
pub mod names;
pub mod objects;
pub mod old_version;
pub mod options;
pub mod outcome;
pub mod problem;
pub mod providers;
mod reach;
pub mod relay;
pub mod report;
pub mod resolve;
mod reviews;
pub mod source;
pub mod status;
pub mod translate;
mod unlisted;

pub use client::{ClusterAddress, ConnectError, Connection, UserAddress};
pub use driver::{
    Publisher, check_at, check_cluster, convert_at, convert_cluster, load_at, load_text_at, run, run_cluster,
    run_with,
};
pub use firewalls::{Firewalls, UnreadableFolder};
pub use names::{NsName, ObjectRef, PortRef};
pub use options::{EndpointOverride, Options, ReplicaOptions, Unenforced};
pub use problem::{Problem, Reason, Severity};
pub use providers::Providers;
pub use reviews::{Busy, Review, Reviews};
pub use source::cluster::{ClusterOptions, Condition, Scope};
pub use source::files::LoadError;
pub use translate::{HostCertificate, RouteOrigin, Translation};
pub use unlisted::Unlisted;
