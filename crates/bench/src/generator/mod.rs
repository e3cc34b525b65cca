//! The load generator: a [`Plan`] in, an [`Outcome`] out.
//!
//! Every response is checked, and every request is accounted for: the outcome has as many requests sent as
//! the server counted. Must not be in here: the meaning of the figures, and how they are shown.

mod clock;
mod connection;
mod h3;
mod outcome;
mod plan;
mod progress;
mod requests;
mod response;
mod schedule;
mod sequence;
mod session;
mod stream;
mod texts;
mod transport;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

pub use outcome::{Errors, Latency, Outcome, Phases};
pub use plan::{Expect, Pace, Plan, Protocol, Status, VARIANT};
pub use progress::{Progress, SoFar};
use rustls::CertificateError;

use crate::tls::TlsError;
use clock::Clock;
use plan::Share;
use texts::Texts;
use worker::Worker;

/// Why a plan has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// No connection could be opened.
    #[error("cannot connect to {target}: {source}")]
    Unreachable {
        /// Address that was connected to.
        target: SocketAddr,
        /// The last of several errors.
        source: io::Error,
    },
    /// The server accepts connections, but TLS handshakes fail.
    #[error("no TLS with {target}: {source}")]
    Handshake {
        /// Address that was connected to.
        target: SocketAddr,
        /// The last of several errors.
        source: io::Error,
    },
    /// HTTP/3 without TLS.
    #[error("HTTP/3 needs TLS")]
    Clear,
    /// The plan's request is not valid.
    #[error("cannot be sent: {0}")]
    Request(#[from] http::Error),
    /// The machine of the generator lacks something: descriptors, CPUs, threads.
    #[error("cannot generate load: {0}")]
    Io(#[from] io::Error),
    /// The plan's TLS settings are not valid.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl GeneratorError {
    /// The reason why the server's certificate was rejected; none if the error is another.
    pub fn distrust(&self) -> Option<&'static str> {
        let GeneratorError::Handshake { source, .. } = self else { return None };
        let rustls::Error::InvalidCertificate(why) = source.get_ref()?.downcast_ref()? else { return None };
        Some(match why {
            // The second error occurs if an authority has the same name as the right one but another key.
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

/// Runs `plan` to its end.
///
/// # Errors
///
/// When no connection can be opened at all, or no TLS handshake succeeds. Single failures are counted in the
/// outcome instead.
pub fn run(plan: &Plan) -> Result<Outcome, GeneratorError> {
    run_watched(plan, &Progress::default())
}

/// The same as [`run`], with counters that another thread can read meanwhile.
///
/// # Errors
///
/// The same as those of [`run`].
///
/// # Panics
///
/// When a generator thread panics.
pub fn run_watched(plan: &Plan, progress: &Progress) -> Result<Outcome, GeneratorError> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let texts = Arc::new(Texts::new(plan)?);
    let clock = Clock::start();
    let parts: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|index| {
                let (texts, share) = (&texts, Share { index, of: threads });
                scope.spawn(move || Worker::new(plan, texts, progress, share, clock)?.run())
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    parts.into_iter().try_fold(Outcome::new(clock.now()), |outcome, part| Ok(outcome.merge(&part?)))
}
