//! Readiness of sockets: a thin, safe layer over `epoll(7)`, always edge-triggered and for both directions.
//!
//! A socket is added once and leaves when it is closed, so that a request costs no `epoll_ctl`. Must not be
//! in here: sockets, HTTP, or the meaning of tokens.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Most events that one [`Epoll::wait`] returns.
const EVENTS_MAX: usize = 512;

/// A set of watched sockets.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// The events of the last [`Epoll::wait`]; kept between waits so that they do not allocate.
pub struct Events(Vec<Event>);

/// An event of the socket that was added with `token`.
///
/// The event may belong to an earlier socket with the same token that was closed in the same turn, so that it
/// is only a hint to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token of the socket.
    pub token: usize,
    /// The peer has ended its stream or reset it: read to the end, since a short read does not show that the
    /// end was reached.
    pub ending: bool,
}

/// Ends an [`Epoll::wait`] from another thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// When no descriptor is left.
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches `source` until it is closed.
    ///
    /// # Errors
    ///
    /// When `source` is watched already, or cannot be watched: see `epoll_ctl(2)`.
    pub fn add(&self, source: impl AsFd, token: usize) -> io::Result<()> {
        self.add_for(source, token, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP)
    }

    fn add_for(&self, source: impl AsFd, token: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, source, EventData::new_u64(token as u64), flags | EventFlags::ET)?)
    }

    /// Waits until a socket is ready or `timeout` has passed, without the delay of up to a millisecond that
    /// `epoll_wait(2)` has. This costs two more system calls if it has to wait at all.
    ///
    /// # Errors
    ///
    /// Errors of `epoll_wait(2)` and `poll(2)`, except for interruptions.
    pub fn wait_precisely(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        self.wait(events, Some(Duration::ZERO))?;
        if !events.0.is_empty() || timeout.is_zero() {
            return Ok(());
        }
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => self.wait(events, Some(Duration::ZERO)),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a socket is ready or `timeout` has passed; `None` waits without limit.
    ///
    /// # Errors
    ///
    /// Errors of `epoll_wait(2)`, except for interruptions.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        events.0.clear();
        match epoll::wait(&self.0, spare_capacity(&mut events.0), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Events {
    /// The events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Ready> {
        self.0.iter().map(|event| {
            let (data, flags) = (event.data, event.flags);
            let ending = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            Ready { token: data.u64() as usize, ending }
        })
    }
}

impl Default for Events {
    fn default() -> Events {
        Events(Vec::with_capacity(EVENTS_MAX))
    }
}

impl Waker {
    /// A waker for the thread that waits on `epoll`, which then sees `token`.
    ///
    /// # Errors
    ///
    /// When no descriptor is left.
    pub fn new(epoll: &Epoll, token: usize) -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Only readable events are watched: an eventfd can always be written to.
        epoll.add_for(&fd, token, EventFlags::IN)?;
        Ok(Waker(fd))
    }

    /// Wakes the thread. Several calls before it has woken count as one.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_precise_wait_is_no_shorter_than_asked_for_and_ends_with_an_event() {
        let (epoll, mut events) = (Epoll::new().expect("an epoll"), Events::default());
        let (start, pause) = (Instant::now(), Duration::from_micros(300));
        epoll.wait_precisely(&mut events, pause).expect("a wait");
        assert!(start.elapsed() >= pause && events.iter().next().is_none());
        let waker = Waker::new(&epoll, 7).expect("an eventfd");
        waker.wake();
        epoll.wait_precisely(&mut events, Duration::from_mins(1)).expect("a wait");
        assert_eq!(events.iter().map(|ready| ready.token).collect::<Vec<_>>(), [7]);
    }
}
