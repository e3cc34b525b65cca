//! An event loop on its own thread, which runs until it is stopped.
//!
//! Must not be in here: what the loop does.

use std::io;
use std::thread::{self, JoinHandle};

use crate::epoll::{Epoll, Waker};

/// The token whose readiness ends the loop.
pub(crate) const STOP: usize = usize::MAX;

/// The token of the loop's listening socket.
pub(crate) const LISTENER: usize = usize::MAX - 1;

/// A running loop. Dropping it ends the loop and waits for its thread.
#[derive(Debug)]
pub(crate) struct Background {
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs `serve` on a thread; it has to return when it sees [`STOP`].
    pub(crate) fn spawn(name: &str, serve: impl FnOnce(&Epoll) + Send + 'static) -> io::Result<Background> {
        let epoll = Epoll::new()?;
        let waker = Waker::new(&epoll, STOP)?;
        let thread = thread::Builder::new().name(name.into()).spawn(move || serve(&epoll))?;
        Ok(Background { waker, thread: Some(thread) })
    }

    /// Blocks until the loop has ended.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.waker.wake();
        self.join();
    }
}
