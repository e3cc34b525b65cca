//! The checks, by subject.
//!
//! Must not be in here: reading files; a check sees nothing but the [`Samples`](crate::Samples) that it is
//! given.

mod contention;
mod outgoing;

pub(crate) mod abuse;
pub(crate) mod affinity;
pub(crate) mod certificates;
pub(crate) mod clients;
pub(crate) mod connections;
pub(crate) mod guard;
pub(crate) mod hops;
pub(crate) mod ipvs;
pub(crate) mod kernel;
pub(crate) mod limits;
pub(crate) mod nic;
pub(crate) mod overlay;
pub(crate) mod ports;
pub(crate) mod queues;
pub(crate) mod shared_limits;
mod subject;
pub(crate) mod throttling;
pub(crate) mod traffic;
pub(crate) mod udp;
pub(crate) mod workers;
