//! Where the QPS went: checks of a machine, of a process on it and of its traffic, as values.
//!
//! Three steps that know nothing of each other: [`collect`] reads files and sockets into [`Sample`]s, `read` parses what is
//! in them, and each of the [`CHECKS`] judges a [`Samples`] of them. All that a check looks at is in the samples, so that
//! what was captured on one machine can be judged on another.
//!
//! Never in here: anything that changes what it looks at; printing; command lines.

mod checks;
pub mod collect;
mod finding;
mod format;
mod read;
mod sample;
mod samples;
mod sockets;
mod table;
#[cfg(test)]
mod testing;
mod ticks;
mod tunnels;

pub use finding::{Evidence, Finding, Value, Verdict};
pub use read::metrics::METRICS_READ;
pub use read::prometheus;
pub use sample::{Absence, NamespaceOwner, Sample, Taken, Unknown};
pub use samples::Samples;
pub use sockets::{Direction, Owner, SocketGroup, State};
pub use table::{CHECKS, Check, all, doc_page};
pub use ticks::{ConnectionTick, CpuTicks, Ticks};
pub use tunnels::TunnelEnd;

/// What each check says of a machine, in the order of the table.
pub fn examine(samples: &Samples) -> Vec<Finding> {
    all().map(|check| check.examine(samples)).collect()
}
