//! Request routing: a [`Model`](model::Model) compiled to an immutable [`Snapshot`].
//!
//! A request costs one hash for its host and one walk for its path, whatever the number of hosts and paths.
//! Recompiling costs only the hosts that changed: [`compile`] takes the other host tables from the previous
//! Snapshot. A Snapshot shares the allocations of its model.
//!
//! Never in here: IO; a change to a Snapshot after it is built.

mod aliases;
mod compile;
mod digest;
mod expressions;
mod host;
mod names;
mod needs;
mod path;
mod snapshot;
mod table;

pub use compile::compile;
pub use host::Hosts;
pub use needs::Needs;
pub use snapshot::{Listener, Resolution, Snapshot};
pub use table::HostTable;
