//! Which route a request takes: a [`Model`](model::Model) compiled to an immutable [`Snapshot`].
//!
//! A request costs one hash for its host and one walk for its path, however many of them there are. Compiling anew costs
//! the hosts that changed: [`compile`] takes the other host tables over from the Snapshot before. What a model says it shares
//! with its Snapshot.
//!
//! Never in here: IO; a change to a Snapshot after it is built.

mod aliases;
mod compile;
mod digest;
mod expressions;
mod host;
mod path;
mod snapshot;

pub use compile::compile;
pub use host::{HostTable, Hosts};
pub use snapshot::{Listener, Resolution, Snapshot};
