//! Connections to endpoints: which endpoint, which connection, and what to do when there is none.
//!
//! Reuse is the point of the product: a worker keeps idle connections for each endpoint, the last used on
//! top; a worker without one takes one of another worker's before it connects.
//!
//! - A connection is opened only when all are busy, so that their number is the highest concurrency of the
//!   recent past; age closes them. With a fixed cap, an eviction that a connect soon follows is counted as
//!   regretted.
//! - An idle connection is checked before use, without a system call where the request may be sent again
//!   ([`LivenessCheck`]). One that is dead all the same before the first byte of a response is replaced by a
//!   fresh one; that is no retry of the route's budget.
//! - Connections that Forebay closes towards endpoints are reset: nothing is in flight, and no
//!   `TIME_WAIT` remains. A tunnel that the client ends first is the exception: the endpoint may still send.
//!
//! Never in here: the client of a request. [`call`] is the only place where protocols towards endpoints
//! differ.

mod call;
pub(crate) mod checks;
pub(crate) mod cluster;
mod cluster_state;
mod connect;
mod constraints;
mod error;
pub(crate) mod exchange;
pub(crate) mod fault;
mod fcgi;
pub(crate) mod h1;
mod h2;
mod pool;
mod protocol;
mod shared_pool;
pub(crate) mod subrequest;
mod timer;
pub(crate) mod usability;

pub(crate) use call::{Call, Message, Params};
pub(crate) use cluster::{Cluster, Keyed};
pub(crate) use cluster_state::{ClusterState, Health, Member};
pub(crate) use connect::Sources;
#[cfg(test)]
pub(crate) use pool::PooledConnection;
pub(crate) use pool::{Endpoint, LivenessCheck, Pool};
#[cfg(test)]
pub(crate) use protocol::Protocol;
pub(crate) use shared_pool::SharedPool;
pub(crate) use timer::{HeadLimits, ResponseTimer};

/// A stream of a session that a request has of its own, for both directions at once.
pub(crate) type OpenStream = Box<h2::Call>;
/// The slots at the endpoints of a cluster.
pub(crate) type ClusterLimits = balance::ClusterLimits<Endpoint>;
/// A slot at an endpoint.
pub(crate) type Slot = balance::Slot<Endpoint>;
/// A request in the queue for a slot.
pub(crate) type Queued = balance::Queued<Endpoint>;

#[cfg(test)]
mod tests;
