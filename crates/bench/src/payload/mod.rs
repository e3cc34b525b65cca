//! The static payload server of field case C: what the demo, the tests and the benchmarks put behind a proxy.
//!
//! It shares a CPU with the generator when peers are measured, so its common answers are made once, and a request costs
//! one receive and one send.
//! Must not be in here: TLS, files, or anything artificial that makes a connection dearer than it is.

mod answer;
mod connection;
mod request;
mod server;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::background::Background;
use crate::socket;

pub use answer::RESOURCES;

/// A payload server that runs on threads of its own; dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct Payload {
    address: SocketAddr,
    counters: Arc<Counters>,
    threads: Vec<Background>,
}

/// What a payload server has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came whole.
    pub requests: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
}

/// [`Counts`] as the threads keep them.
#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

impl Payload {
    /// Serves at `address` (port 0: any free one) with so many threads, at least one.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on, or no thread can be started.
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

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What it has seen so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Stops it.
    pub fn stop(self) {}

    /// Blocks for as long as it runs: until the process ends.
    pub fn serve_forever(mut self) {
        self.threads.iter_mut().for_each(Background::join);
    }
}

impl Counters {
    fn read(&self) -> Counts {
        // Closed first: a connection that comes and goes in between must not make `open` negative.
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
