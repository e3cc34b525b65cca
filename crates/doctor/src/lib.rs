//! The checks behind `forebay doctor`: what costs QPS on a machine, in a process and in its traffic, as
//! values.
//!
//! There are three independent steps: [`collect`] reads files and sockets into [`Sample`]s, `read` parses
//! them, and each of the [`CHECKS`] judges [`Samples`]. A check reads nothing but the samples, so that what
//! was captured on one machine can be judged on another.
//!
//! Never in here: anything that changes the examined machine; printing; command lines.

mod check;
mod checks;
pub mod collect;
mod finding;
mod format;
pub mod past;
mod read;
mod sample;
mod samples;
mod sockets;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod ticks;
mod tunnels;
mod zh;

pub use check::{Check, doc_page};
pub use finding::{Evidence, Finding, Translated, Value, Verdict};
pub use read::metrics::METRICS_READ;
pub use read::usage::Usage;
pub use sample::{Absence, NamespaceOwner, Sample, SampleOrigin, Unknown};
pub use samples::Samples;
pub use sockets::{Direction, Owner, SocketGroup, State};
pub use table::{CHECKS, all};
pub use ticks::{ConnectionTick, CpuTicks, Ticks};
pub use tunnels::TunnelEnd;

/// The findings of all checks, in the order of the table.
pub fn examine(samples: &Samples) -> Vec<Finding> {
    all().map(|check| check.examine(samples)).collect()
}
