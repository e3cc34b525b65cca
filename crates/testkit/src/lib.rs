//! What the end-to-end tests are made of: both ends of a connection by raw bytes, and the real binary between them.
//!
//! Nothing here sleeps or knows a port beforehand. Whatever waits, waits for an event, and panics when it does not come
//! within [`PATIENCE`].

mod connection;
mod forebay;
pub mod manifest;
mod metrics;
mod output;
mod response;
mod upstream;

use std::time::Duration;

pub use connection::{Connection, Ending};
pub use forebay::{Ended, Forebay, Setup};
pub use metrics::Metrics;
pub use response::Response;
pub use upstream::{Canned, Refusing, Upstream};

/// Longest wait for anything. Long, since a loaded machine is slow; nothing that succeeds takes as long.
pub const PATIENCE: Duration = Duration::from_secs(20);
