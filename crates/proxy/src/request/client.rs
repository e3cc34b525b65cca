//! The client's end of a request, whichever protocol it speaks.

use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use observe::Reason;
use wire::h1::Version;

use crate::body::{Framing, Sink};
use crate::io::deadline::{Deadline, Deadlines, Elapsed};
use crate::io::pace::Direction;
use crate::io::socket::{Socket, Unwritten};
use crate::io::stream::Stream;
use crate::limits::HALF_CLOSED_GRACE;
use crate::upstream::fault::Fault;

/// Where a request came from, and where its response goes.
#[derive(Clone, Copy)]
pub(crate) enum Client<'a> {
    Http1(&'a Socket),
    /// One of several requests on a connection, over HTTP/2 or HTTP/3.
    Stream(Stream<'a>),
}

/// The client's end with the time that it has.
#[derive(Clone, Copy)]
pub(crate) struct Timeout<'a> {
    pub(crate) deadline: &'a Deadline,
    /// Between two writes.
    pub(crate) send_timeout: Duration,
}

impl<'a> Client<'a> {
    /// Whether the client speaks HTTP/2 or HTTP/3.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// The protocol of the client, as nginx names it. `version` is that of the head.
    pub(crate) fn protocol(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Stream(Stream::Http2(_)), _) => "HTTP/2.0",
            (Self::Stream(Stream::Http3(_)), _) => "HTTP/3.0",
            (Self::Http1(_), Version::Http11) => "HTTP/1.1",
            (Self::Http1(_), Version::Http10) => "HTTP/1.0",
        }
    }

    /// Sends an interim response, of which `head` is all.
    pub(crate) async fn inform(self, status: u16, head: &[u8], timeout: Timeout<'_>) -> Result<(), Fault> {
        match self {
            Self::Http1(socket) => write(socket, &[head], timeout).await,
            Self::Stream(stream) => {
                stream.respond(status, head, false).map_err(|_| Fault::never(Reason::ClientAborted))
            }
        }
    }

    /// Where the content of the response goes, once its head has been sent.
    pub(crate) fn sink(self, framing: Framing) -> Sink<'a> {
        match self {
            Self::Http1(socket) => Sink::Http1 { socket, framing },
            Self::Stream(stream) => Sink::Stream(stream),
        }
    }

    /// Lets the client know that a response which has begun will not be finished. HTTP/1 knows no way but to
    /// close.
    pub(crate) fn break_off(self) {
        if let Self::Stream(stream) = self {
            stream.break_off();
        }
    }
}

/// Ends when the client at the other end of a socket has gone away. One that has shut down its sending
/// side gets some time: it cannot be told from one that is gone; `is_answered` says whether it is being
/// answered by then.
pub(crate) async fn gone(socket: &Socket, deadlines: &Rc<Deadlines>, is_answered: impl Fn() -> bool) {
    match poll_fn(|cx| socket.poll_peek(cx)).await {
        Err(_) => return,
        // The next request has come; a client that sends requests is there.
        Ok(1..) => return pending().await,
        Ok(0) => {}
    }
    let grace = Deadline::new(deadlines);
    // Nothing else can end this wait.
    let _ = grace.within(HALF_CLOSED_GRACE, |_| Poll::<()>::Pending).await;
    if is_answered() {
        // Whether it still reads shows when it is written to.
        pending::<()>().await;
    }
}

/// Writes to a client that speaks HTTP/1.
pub(crate) async fn write(socket: &Socket, slices: &[&[u8]], timeout: Timeout<'_>) -> Result<(), Fault> {
    let written = socket.write_all(&mut Unwritten::new(slices), timeout.send_timeout, timeout.deadline).await;
    client_fault(written.map(|written| written.is_ok()), timeout.deadline)
}

/// Why a client that has taken nothing for too long is left: it was too slow altogether, or stood still.
pub(crate) fn too_slow(deadline: &Deadline) -> Reason {
    if deadline.is_too_slow(Direction::Write) { Reason::SendRate } else { Reason::SendTimeout }
}

fn client_fault(sent: Result<bool, Elapsed>, deadline: &Deadline) -> Result<(), Fault> {
    match sent {
        Ok(true) => Ok(()),
        Ok(false) => Err(Fault::never(Reason::ClientAborted)),
        Err(Elapsed) => Err(Fault::never(too_slow(deadline))),
    }
}
