//! Connections to endpoints: which endpoint, which connection, and what to do when there is none.
//!
//! Reuse is the point of the product: a worker keeps idle connections for each endpoint, the last used on top; one that has
//! none takes one of another worker's before it connects.

pub(crate) mod balance;
mod call;
mod choose;
mod cluster_state;
mod connect;
mod error;
mod fcgi;
pub(crate) mod h1;
mod h2;
mod limit;
mod outlier;
mod pace;
mod pool;
mod protocol;
mod retry_budget;
mod ring;
mod shared_pool;
pub(crate) mod slow_start;
mod sticky;
mod timer;

pub(crate) use balance::{Cluster, Keyed};
pub(crate) use call::{Call, Params, Request};

pub(crate) use choose::{CanaryChoice, by_rules};
pub(crate) use cluster_state::{ClusterState, Health, Member};
pub(crate) use connect::{Connection, Sources};
pub(crate) use limit::{ClusterLimits, Excess, NoPlace, Place, Queued, Wish, is_last};
pub(crate) use outlier::{Outcome, Seen, Standing};
pub(crate) use pool::{Endpoint, Pool};
#[cfg(test)]
pub(crate) use pool::{LivenessCheck, PooledConnection};
#[cfg(test)]
pub(crate) use protocol::Protocol;
pub(crate) use shared_pool::SharedPool;
pub(crate) use sticky::Sticky;
pub(crate) use timer::ResponseTimer;

#[cfg(test)]
mod tests;
