//! A descriptor whose readiness the reactor notes.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use crate::core::{self, Side};
use crate::home::{Home, Order};
use crate::ready::{Interest, Ready};
use crate::slab::Key;
use crate::waker::task_of;

/// A descriptor in non-blocking mode, whose readiness the reactor of the thread notes. One task at a time can
/// wait to read it, and one to write.
///
/// It may be moved to another thread, and dropped or tried there; to be waited for, it has to be
/// [taken out](Self::into_inner) and be watched by that thread's reactor.
#[derive(Debug)]
pub struct Source<T> {
    // Dropped first, so that the descriptor is still open.
    registration: Registration,
    io: T,
}

struct Registration {
    home: Arc<Home>,
    key: Key,
    /// Written by the reactor's thread, and by the thread that has the source. They are the same but for a
    /// source that has moved, for which a lost bit does no harm: it is watched anew or closed.
    bits: Arc<AtomicU8>,
}

impl<T: AsFd> Source<T> {
    /// Watches a descriptor. What is assumed of it at first is corrected by the first attempt.
    ///
    /// # Errors
    ///
    /// Errors of `epoll_ctl(2)`, such as for want of memory.
    ///
    /// # Panics
    ///
    /// If the thread has no reactor.
    pub fn new(io: T, assumed: Ready) -> io::Result<Self> {
        let bits = Arc::new(AtomicU8::new(assumed.to_bits()));
        let (home, key) = core::with(|core| core.watch(&io, &bits))?;
        Ok(Self { registration: Registration { home, key, bits }, io })
    }

    /// The descriptor, which is no longer watched.
    ///
    /// # Errors
    ///
    /// Errors of `epoll_ctl(2)`.
    pub fn into_inner(self) -> io::Result<T> {
        self.registration.home.remove(&self.io)?;
        Ok(self.io)
    }

    /// The descriptor, which goes on being watched.
    pub fn get(&self) -> &T {
        &self.io
    }

    /// Ready when an attempt may succeed. Each call takes an operation off the task's budget, and pends where
    /// nothing is left of it.
    ///
    /// # Panics
    ///
    /// If the task would have to wait, and this is not the thread of the source's reactor.
    #[inline]
    pub fn poll_ready(&self, interest: Interest, cx: &Context<'_>) -> Poll<Ready> {
        let ready = self.registration.ready().of(interest);
        if ready.is_none() {
            self.registration.wait(interest, cx);
            return Poll::Pending;
        }
        if core::spend(cx) { Poll::Ready(ready) } else { Poll::Pending }
    }

    /// Waits until an attempt may succeed.
    pub async fn ready(&self, interest: Interest) -> Ready {
        poll_fn(|cx| self.poll_ready(interest, cx)).await
    }

    /// Tries at once, if the socket may be ready.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where it is not ready; otherwise those of the attempt.
    #[inline]
    pub fn try_io<R>(&self, interest: Interest, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        if self.registration.ready().of(interest).is_none() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let done = act();
        if let Err(error) = &done
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.clear(interest);
        }
        done
    }

    /// Tries as soon and as often as the socket is ready, until the attempt does not say `WouldBlock`.
    ///
    /// # Errors
    ///
    /// The errors of the attempt.
    #[inline]
    pub fn poll_io<R>(
        &self,
        interest: Interest,
        cx: &Context<'_>,
        mut act: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            ready!(self.poll_ready(interest, cx));
            match act() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.clear(interest),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// The same, as a future.
    ///
    /// # Errors
    ///
    /// The errors of the attempt.
    pub async fn io<R>(&self, interest: Interest, mut act: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        poll_fn(|cx| self.poll_io(interest, cx, &mut act)).await
    }

    /// Notes that the socket is not ready: the next event says when it is.
    pub fn clear(&self, interest: Interest) {
        let left = self.registration.ready().without(interest);
        self.registration.bits.store(left.to_bits(), Ordering::Relaxed);
    }
}

impl<T: AsFd> AsFd for Source<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl Registration {
    #[inline]
    fn ready(&self) -> Ready {
        Ready::from_bits(self.bits.load(Ordering::Relaxed))
    }

    fn wait(&self, interest: Interest, cx: &Context<'_>) {
        core::with(|core| {
            assert!(core.is_serial(self.home.serial), "a socket is waited for where it is watched");
            let side = if interest == Interest::WRITABLE { Side::Writer } else { Side::Reader };
            core.wait_for(self.key, side, cx.waker(), task_of(cx.waker()));
        });
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The kernel forgets the descriptor when it is closed; an event that is on its way finds another
        // generation.
        let is_done = core::try_with(|core| {
            let is_here = core.is_serial(self.home.serial);
            if is_here {
                core.forget(self.key);
            }
            is_here
        });
        if is_done != Some(true) {
            self.home.order(Order::Forget(self.key));
        }
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("ready", &self.ready()).finish_non_exhaustive()
    }
}
