//! The load generator: a [`Plan`] in, an [`Outcome`] out.
//!
//! Every answer is checked, and every request is accounted for: what the outcome says was sent is what the server counted.
//! Must not be in here: what the figures are good for, and how they are shown.

mod connection;
mod outcome;
mod plan;
mod response;
mod schedule;
mod stream;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

pub use outcome::{Errors, Latency, Outcome};
pub use plan::{Expect, Pace, Plan};

use crate::tls::TlsError;
use plan::Share;
use worker::Worker;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// Nothing listens there, or no way leads to it.
    #[error("cannot connect to {target}: {source}")]
    Unreachable {
        /// Where to.
        target: SocketAddr,
        /// The last of several failures in a row.
        source: io::Error,
    },
    /// The generator's own machine refused it something: descriptors, CPUs, threads.
    #[error("cannot generate load: {0}")]
    Io(#[from] io::Error),
    /// The plan's TLS cannot be.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Carries out `plan`, and returns when it is over.
pub fn run(plan: &Plan) -> Result<Outcome, GeneratorError> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let start = Instant::now();
    let parts: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || Worker::new(plan, Share { index, of: threads }, start)?.run()))
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    parts.into_iter().try_fold(Outcome::new(start.elapsed()), |outcome, part| Ok(outcome.merge(&part?)))
}
