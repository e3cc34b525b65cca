//! The static payload server of field case C, which the demo, the tests and the benchmarks use as a backend.
//!
//! When peers are measured it shares a CPU with the generator. So frequent responses are made once, and a
//! request costs one receive and one send. Must not be in here: TLS, files, or anything artificial that makes
//! a connection more expensive.

mod answer;
mod connection;
mod request;
mod resource;
mod server;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::background::Background;
use crate::socket;

pub use resource::RESOURCES;

/// A payload server on its own threads. Dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct Payload {
    address: SocketAddr,
    counters: Arc<Counters>,
    threads: Vec<Background>,
}

/// The counters of a payload server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of complete requests.
    pub requests: u64,
    /// Number of accepted connections.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
}

/// The counters as the threads update them.
#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

impl Payload {
    /// Serves at `address` (port 0: any free one) with this number of threads, at least one.
    ///
    /// # Errors
    ///
    /// When it cannot listen on the address, or no thread can be started.
    pub fn bind(address: SocketAddr, threads: usize) -> io::Result<Payload> {
        let listener = socket::listen(address)?;
        let address = listener.local_addr()?;
        let counters = Arc::new(Counters::default());
        let threads = (0..threads.max(1))
            .map(|_| {
                let (listener, counters) = (listener.try_clone()?, Arc::clone(&counters));
                Background::spawn("payload", move |epoll| server::serve(epoll, &listener, &counters))
            })
            .collect::<io::Result<_>>()?;
        Ok(Payload { address, counters, threads })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The current values of the counters.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Stops the server.
    pub fn stop(self) {}

    /// Blocks until the process ends.
    pub fn serve_forever(mut self) {
        self.threads.iter_mut().for_each(Background::join);
    }
}

impl Counters {
    fn read(&self) -> Counts {
        // `closed` is read first, so that a connection that is opened and closed in between does not make
        // `open` negative.
        let closed = self.closed.load(Ordering::Relaxed);
        let accepted = self.accepted.load(Ordering::Relaxed);
        Counts {
            requests: self.requests.load(Ordering::Relaxed),
            accepted,
            open: accepted.saturating_sub(closed),
        }
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
