//! The load generator: a [`Plan`] in, an [`Outcome`] out.
//!
//! Every answer is checked, and every request is accounted for: what the outcome says was sent is what the server counted.
//! Must not be in here: what the figures are good for, and how they are shown.

mod clock;
mod connection;
mod outcome;
mod plan;
mod progress;
mod requests;
mod response;
mod schedule;
mod sequence;
mod session;
mod stream;
mod transport;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::thread;

pub use outcome::{Errors, Latency, Outcome, Phases};
pub use plan::{Expect, Pace, Plan, Protocol, Status};
pub use progress::{Progress, SoFar};
use rustls::CertificateError;

use crate::tls::TlsError;
use clock::Clock;
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
        /// The last of several failures.
        source: io::Error,
    },
    /// The server takes connections, and there is no handshake of TLS with it.
    #[error("no TLS with {target}: {source}")]
    Handshake {
        /// With whom.
        target: SocketAddr,
        /// The last of several failures.
        source: io::Error,
    },
    /// The plan's request cannot be.
    #[error("cannot be sent: {0}")]
    Request(#[from] http::Error),
    /// The generator's own machine refused it something: descriptors, CPUs, threads.
    #[error("cannot generate load: {0}")]
    Io(#[from] io::Error),
    /// The plan's TLS cannot be.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl GeneratorError {
    /// What is wrong with the server's certificate, where that is why.
    pub fn distrust(&self) -> Option<&'static str> {
        let GeneratorError::Handshake { source, .. } = self else { return None };
        let rustls::Error::InvalidCertificate(why) = source.get_ref()?.downcast_ref()? else { return None };
        Some(match why {
            // The second is said of an authority that has merely the name of the right one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no authority that is trusted here has signed it"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has ended",
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it has not begun",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "it is for another name"
            }
            _ => "it is not to be trusted",
        })
    }
}

/// Carries out `plan`, and returns when it is over.
///
/// # Errors
///
/// When no connection can be made at all, or no TLS on any of them. Single failures are counted instead.
pub fn run(plan: &Plan) -> Result<Outcome, GeneratorError> {
    run_watched(plan, &Progress::default())
}

/// The same, while somebody may look at how far it has come.
///
/// # Errors
///
/// As [`run`].
///
/// # Panics
///
/// When one of the threads that make the load does.
pub fn run_watched(plan: &Plan, progress: &Progress) -> Result<Outcome, GeneratorError> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let clock = Clock::start();
    let parts: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|index| {
                scope.spawn(move || Worker::new(plan, progress, Share { index, of: threads }, clock)?.run())
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    parts.into_iter().try_fold(Outcome::new(clock.now()), |outcome, part| Ok(outcome.merge(&part?)))
}
