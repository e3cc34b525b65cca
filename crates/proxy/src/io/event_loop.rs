//! The event loop of a thread, with the threads for work that blocks.

use std::io;

use reactor::Reactor;
use tokio::runtime::{Builder, Runtime};

use crate::limits::FILE_THREADS_MAX;

/// A reactor on whose thread `tokio::task::spawn_blocking` can be called.
pub(crate) struct EventLoop {
    // Dropped first: its tasks may wait for such work.
    reactor: Reactor,
    /// It runs nothing but work that blocks, and has a thread only while there is some.
    blocking: Runtime,
}

impl EventLoop {
    /// Has a function called each time the sockets have been polled.
    pub(crate) fn new(after_poll: impl Fn() + 'static) -> io::Result<Self> {
        let blocking = Builder::new_current_thread().max_blocking_threads(FILE_THREADS_MAX).build()?;
        let mut reactor = Reactor::new()?;
        reactor.set_after_poll(after_poll);
        Ok(Self { reactor, blocking })
    }

    /// Runs a future to its end, and the tasks of the thread beside it.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.blocking.enter();
        self.reactor.run(future)
    }
}
