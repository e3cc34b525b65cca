//! Bytes both ways between two sockets, until both ends have closed: after an Upgrade, and for streams.
//!
//! A message is one receive and one send, from a buffer that is held only meanwhile; both directions are one
//! task, and neither is read again before the event loop reports readiness. Bulk goes by splice(2). Small
//! messages do not: the pipe costs a system call as the buffer does, and copying a few kilobytes costs less
//! than handing over their pages.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use reactor::Interest;

use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Deadlines, Elapsed};
use crate::io::pipe::{Pipe, Pipes};
use crate::io::socket::{Socket, Unwritten};
use crate::io::turn;
use crate::limits::{BULK_BYTES_MIN, BULK_READS, TUNNEL_READS_PER_TURN_MAX};

/// One end of a tunnel, with the bytes that were read from it before the tunnel began.
pub(crate) struct End<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) read_ahead: &'a mut Buffer,
}

/// An end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Upstream,
}

/// Observes what passes through a tunnel while it does.
pub(crate) trait TunnelObserver {
    /// Called after `len` bytes have been read from that side.
    fn received(&self, from: Side, len: usize);
}

/// For tunnels without an observer.
impl TunnelObserver for () {
    fn received(&self, _: Side, _: usize) {}
}

/// The result of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes sent to the client.
    pub(crate) to_client: u64,
    /// Bytes sent to the endpoint.
    pub(crate) to_upstream: u64,
    /// Whether both ends have closed in order.
    pub(crate) is_complete: bool,
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both ends have closed in order.
    Complete,
    /// No bytes passed for too long.
    Idle,
    /// One end failed.
    Broken {
        /// The end that failed.
        side: Side,
        /// Whether the client had received the end of the endpoint's bytes.
        client_was_told: bool,
    },
}

/// Relays bytes until both ends have closed, one of them fails, or nothing has passed either way for `idle`.
pub(crate) async fn tunnel(
    client: End<'_>,
    upstream: End<'_>,
    idle: Duration,
    (deadlines, pipes): (&Rc<Deadlines>, &Pipes),
    observer: &impl TunnelObserver,
) -> (Passed, Ending) {
    let deadline = Deadline::new(deadlines);
    let alive = || deadline.start(idle);
    alive();
    let from_client = |len| observer.received(Side::Client, len);
    let from_upstream = |len| observer.received(Side::Upstream, len);
    let mut up = Direction::new(Side::Client, client.socket, client.read_ahead, upstream.socket);
    let mut down = Direction::new(Side::Upstream, upstream.socket, upstream.read_ahead, client.socket);
    let ending = loop {
        let turn = deadline.guard(|cx| {
            // Towards the client first: when an endpoint sends its last bytes and accepts no more, the
            // client still gets them.
            let down = down.poll(cx, pipes, &alive, &from_upstream)?;
            let up = up.poll(cx, pipes, &alive, &from_client)?;
            match (up, down) {
                (Poll::Ready(Turn::Interrupted), _) | (_, Poll::Ready(Turn::Interrupted)) => {
                    Poll::Ready(Ok(Turn::Interrupted))
                }
                (Poll::Ready(Turn::Done), Poll::Ready(Turn::Done)) => Poll::Ready(Ok(Turn::Done)),
                _ => Poll::Pending,
            }
        });
        match turn.await {
            Ok(Ok(Turn::Interrupted)) => turn::yield_now(&deadlines.clock).await,
            Ok(Ok(Turn::Done)) => break Ending::Complete,
            Ok(Err(TunnelError(side))) => {
                break Ending::Broken { side, client_was_told: matches!(down.state, State::Done) };
            }
            Err(Elapsed) => break Ending::Idle,
        }
    };
    let is_complete = ending == Ending::Complete;
    (Passed { to_client: down.passed, to_upstream: up.passed, is_complete }, ending)
}

/// One direction of a tunnel.
struct Direction<'a> {
    source: Side,
    from: &'a Socket,
    to: &'a Socket,
    /// Bytes read and not yet written; it has memory only while there are any.
    buffer: &'a mut Buffer,
    state: State,
    /// Consecutive large reads, after which splicing begins.
    streak: u8,
    passed: u64,
}

/// ```text
///        bulk                end of the source       passed on
/// Copying ⇄ Splicing ──────────────▶ Ending ─────────────▶ Done
///     no bulk
/// ```
enum State {
    Copying,
    /// The bytes in the pipe, which exists only while there are any.
    Splicing(Option<(Pipe, usize)>),
    Ending,
    Done,
}

/// The result of a turn.
enum Turn {
    /// There may be more to read.
    Interrupted,
    /// The end of the source has been relayed.
    Done,
}

/// The end that failed.
struct TunnelError(Side);

impl<'a> Direction<'a> {
    fn new(source: Side, from: &'a Socket, buffer: &'a mut Buffer, to: &'a Socket) -> Self {
        let passed = buffer.len() as u64;
        Self { source, from, to, buffer, state: State::Copying, streak: 0, passed }
    }

    #[expect(clippy::inline_always, reason = "both directions call it: a call more is 2 % of an exchange")]
    #[inline(always)]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        pipes: &Pipes,
        alive: &impl Fn(),
        received: &impl Fn(usize),
    ) -> Poll<Result<Turn, TunnelError>> {
        for _ in 0..TUNNEL_READS_PER_TURN_MAX {
            let len = match self.state {
                State::Copying => ready!(self.poll_copy(cx, alive))?,
                State::Splicing(_) => ready!(self.poll_splice(cx, pipes, alive))?,
                State::Ending => {
                    ready!(self.to.poll_shutdown(cx)).map_err(|_| TunnelError(self.target()))?;
                    self.state = State::Done;
                    0
                }
                State::Done => return Poll::Ready(Ok(Turn::Done)),
            };
            if len > 0 {
                self.passed += len as u64;
                alive();
                received(len);
            }
        }
        Poll::Ready(Ok(Turn::Interrupted))
    }

    /// Writes the bytes that were read before, and reads more.
    fn poll_copy(&mut self, cx: &mut Context<'_>, alive: &impl Fn()) -> Poll<Result<usize, TunnelError>> {
        if !self.buffer.is_empty() {
            ready!(self.poll_write(cx, alive))?;
        }
        let len = ready!(self.from.poll_fill(cx, self.buffer)).map_err(|_| TunnelError(self.source))?;
        if len == 0 {
            self.buffer.clear();
            self.state = State::Ending;
            return Poll::Ready(Ok(0));
        }
        let is_bulk = self.buffer.room() == 0 && self.from.is_clear() && self.to.is_clear();
        self.streak = if is_bulk { self.streak + 1 } else { 0 };
        if self.streak == BULK_READS {
            self.streak = 0;
            self.state = State::Splicing(None);
        }
        Poll::Ready(Ok(len))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, alive: &impl Fn()) -> Poll<Result<(), TunnelError>> {
        let mut unwritten = Unwritten::new(&[self.buffer.data()]);
        let written = self.to.poll_write_all(cx, &mut unwritten);
        let left = unwritten.len();
        let target = self.target();
        if written.is_pending() && left < self.buffer.len() {
            alive();
        }
        self.buffer.consume(self.buffer.len() - left);
        ready!(written).map_err(|_| TunnelError(target))?;
        self.buffer.clear();
        Poll::Ready(Ok(()))
    }

    /// Moves bytes out of the pipe, and more into it.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        pipes: &Pipes,
        alive: &impl Fn(),
    ) -> Poll<Result<usize, TunnelError>> {
        if !self.buffer.is_empty() {
            ready!(self.poll_write(cx, alive))?;
        }
        let (source, target) = (self.source, self.target());
        let State::Splicing(held) = &mut self.state else { unreachable!("asked for while splicing only") };
        while let Some((pipe, len)) = held {
            let drained = self.to.poll_io(cx, Interest::WRITABLE, |stream| pipe.drain(stream, *len));
            *len -= ready!(drained).map_err(|_| TunnelError(target))?;
            alive();
            if *len == 0 {
                pipes.put(held.take().expect("it is there").0);
            }
        }
        // No descriptors left, or no longer bulk.
        let pipe = if self.streak < BULK_READS { pipes.take().ok() } else { None };
        let Some(pipe) = pipe else {
            self.streak = 0;
            self.state = State::Copying;
            return self.poll_copy(cx, alive);
        };
        let filled = self.from.poll_io(cx, Interest::READABLE, |stream| pipe.fill(stream, u64::MAX));
        match filled {
            Poll::Ready(Ok(len)) if len > 0 => {
                self.streak = if len < BULK_BYTES_MIN { self.streak + 1 } else { 0 };
                *held = Some((pipe, len));
                return Poll::Ready(Ok(len));
            }
            Poll::Ready(Ok(_)) => self.state = State::Ending,
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        pipes.put(pipe);
        filled.map_err(|_: io::Error| TunnelError(source))
    }

    fn target(&self) -> Side {
        match self.source {
            Side::Client => Side::Upstream,
            Side::Upstream => Side::Client,
        }
    }
}
