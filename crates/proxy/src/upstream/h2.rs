//! HTTP/2 towards endpoints: sessions that many requests share, and the calls made on them.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use clock::{Clock, Moment};
use observe::Reason;
use tokio::sync::Notify;
use wire::Known;
use wire::h1::Response;
use wire::h2::{Code, Limits, RequestHead, lines};

use super::error::NoConnection;
use super::timer::ResponseTimer;
use crate::io::buffer::Buffer;
use crate::io::connection::Connection;
use crate::io::deadline::Elapsed;
use crate::io::h2::{HeadFault, Link, Progress, Slot, Stream};
use crate::limits::{
    HTTP2_ENDPOINT_STREAM_WINDOW_BYTES, HTTP2_ENDPOINT_WINDOW_BYTES, HTTP2_HEADER_TABLE_BYTES,
    HTTP2_STREAMS_ASSUMED, HTTP2_UNWRITTEN_BYTES_MAX, RESPONSE_HEAD_BYTES_MAX,
};
use crate::upstream::fault::{Fault, Retry};

/// A connection to an endpoint that carries many requests at the same time.
pub(crate) struct Session {
    link: Rc<Link>,
    is_https: bool,
    clock: Clock,
    /// Number of calls on it that have not ended.
    calls: Rc<Cell<usize>>,
    /// Number of requests made on it.
    pub(crate) used: Cell<u64>,
    pub(crate) opened: Moment,
    /// When its last call ended.
    pub(crate) idle_since: Rc<Cell<Moment>>,
    /// It takes no more requests.
    retired: Rc<Cell<bool>>,
}

/// A request that has been made on a session.
pub(crate) struct Call {
    stream: Stream,
    _counted: Counted,
}

/// A call, which is counted until this is dropped.
struct Counted {
    calls: Rc<Cell<usize>>,
    idle_since: Rc<Cell<Moment>>,
    clock: Clock,
}

/// The sessions with one endpoint.
#[derive(Default)]
pub(crate) struct Sessions {
    open: RefCell<Vec<Rc<Session>>>,
    /// Whether a session is being opened.
    is_opening: Cell<bool>,
    opened: Notify,
}

impl Sessions {
    /// A session with room for a call. Another one is opened only if all sessions have reached the
    /// endpoint's limit of streams. One request opens it, while the others wait.
    pub(super) async fn get<F>(&self, open: impl Fn() -> F) -> Result<Rc<Session>, NoConnection>
    where
        F: Future<Output = Result<Session, NoConnection>>,
    {
        loop {
            if let Some(session) = self.open.borrow().iter().find(|session| session.has_room()) {
                return Ok(Rc::clone(session));
            }
            if self.is_opening.get() {
                self.opened.notified().await;
                continue;
            }
            let opening = Opening::begin(self);
            let session = Rc::new(open().await?);
            self.open.borrow_mut().push(Rc::clone(&session));
            drop(opening);
            return Ok(session);
        }
    }

    /// Whether a call can be made without another session.
    pub(super) fn have_room(&self) -> bool {
        self.open.borrow().iter().any(|session| session.has_room())
    }

    /// Removes sessions that are of no more use; calls on them continue.
    pub(super) fn sweep(&self, now: Moment, mut is_due: impl FnMut(&Session) -> bool) {
        self.open.borrow_mut().retain(|session| {
            session.link.check_peer(now);
            !session.retired.get() && !is_due(session)
        });
    }
}

/// Held while a session is being opened. When it is dropped, whatever the result, the waiting requests are
/// woken.
struct Opening<'a>(&'a Sessions);

impl<'a> Opening<'a> {
    fn begin(sessions: &'a Sessions) -> Self {
        sessions.is_opening.set(true);
        Self(sessions)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.is_opening.set(false);
        self.0.opened.notify_waiters();
    }
}

// === impl Session ===

impl Session {
    /// Starts HTTP/2 on a connection.
    pub(super) fn begin(connection: Connection, is_https: bool, clock: Clock) -> Self {
        let opened = connection.opened;
        let link = Link::of_endpoint(connection, LIMITS, clock.clone());
        let retired = Rc::new(Cell::new(false));
        reactor::spawn_detached(drive(Rc::clone(&link), Rc::clone(&retired)));
        Self {
            link,
            is_https,
            clock,
            calls: Rc::default(),
            used: Cell::new(0),
            opened,
            idle_since: Rc::new(Cell::new(opened)),
            retired,
        }
    }

    fn has_room(&self) -> bool {
        let allowed = self.link.with(|connection| connection.streams_allowed());
        let allowed = allowed.map_or(HTTP2_STREAMS_ASSUMED, |streams| streams as usize);
        !self.retired.get() && !self.link.has_ended() && self.calls.get() < allowed
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls.get() == 0
    }

    /// Counts a request. Returns whether an earlier one used the session.
    pub(crate) fn note_use(&self) -> bool {
        self.used.set(self.used.get() + 1);
        self.used.get() > 1
    }

    /// Stops the session from taking more requests.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
    }

    /// Makes a request. `head` is written as HTTP/1; `te` announces that trailers are accepted; `is_all`
    /// says that there is no body.
    pub(crate) fn call(&self, head: &[u8], te: bool, is_all: bool) -> Result<Call, Fault> {
        let request = RequestHead::of(head, self.is_https).ok_or(Fault::never(Reason::BadTarget))?;
        let counted = Counted::begin(self);
        let slot = Slot::of_method(request.method);
        let fields = lines(head).filter(|(known, ..)| !matches!(known, Known::Host | Known::Te));
        let opened = self.link.with(|connection| connection.open(request, fields, te, is_all, slot));
        match opened {
            Ok(key) if !self.link.has_ended() => {
                Ok(Call { stream: Stream::new(Rc::clone(&self.link), key), _counted: counted })
            }
            _ => {
                self.retire();
                Err(Fault::unsent(Reason::UpstreamReset))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.link.end_when_idle();
    }
}

/// Drives a session to its end. Each call finds out itself.
async fn drive(link: Rc<Link>, retired: Rc<Cell<bool>>) {
    let code = loop {
        match poll_fn(|cx| link.poll_progress(cx)).await {
            Progress::Goaway => {
                retired.set(true);
                link.end_when_idle();
            }
            Progress::Request => {}
            Progress::Fault(fault) => break Some(fault.code),
            Progress::End => break None,
        }
    };
    retired.set(true);
    link.close();
    link.with(|connection| connection.abort(code.unwrap_or(Code::NO_ERROR)));
    // Nothing of the endpoint is waited for.
    poll_fn(|cx| Poll::Ready(link.poll_goodbye(cx).is_ready())).await;
}

/// Every bound of the protocol, set on purpose.
const LIMITS: Limits = Limits {
    streams_max: 0,
    head_bytes_max: RESPONSE_HEAD_BYTES_MAX as u32,
    table_bytes_max: HTTP2_HEADER_TABLE_BYTES,
    stream_window_bytes: HTTP2_ENDPOINT_STREAM_WINDOW_BYTES,
    stream_window_bytes_max: HTTP2_ENDPOINT_STREAM_WINDOW_BYTES,
    connection_window_bytes: HTTP2_ENDPOINT_WINDOW_BYTES,
    unwritten_bytes_max: HTTP2_UNWRITTEN_BYTES_MAX,
};

// === impl Call ===

impl Call {
    /// Its stream, for the bodies of both directions.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Waits for the next head, interim or final. Its text is put at the front of `buffer`, its positions
    /// into `response`.
    pub(crate) async fn head(
        &self,
        response: &mut Response,
        buffer: &mut Buffer,
        timer: &ResponseTimer<'_>,
    ) -> Result<(), Fault> {
        match timer.within(|cx| self.stream.poll_head(cx, response, buffer)).await {
            Err(Elapsed) => Err(Fault::sent(Reason::UpstreamReadTimeout)),
            Ok(head) => head.map_err(fault_of),
        }
    }
}

/// The fault for a head that does not come. A request that the endpoint has not processed may go to another
/// endpoint (RFC 9113 section 8.7).
fn fault_of(fault: HeadFault) -> Fault {
    match fault {
        // The code says that the endpoint is overloaded, and nothing about the connection.
        HeadFault::Reset(Some(Code::REFUSED_STREAM)) => {
            Fault { reason: Reason::UpstreamReset, retry: Retry::Refused }
        }
        HeadFault::Unprocessed => Fault::unsent(Reason::UpstreamReset),
        HeadFault::Malformed => Fault::sent(Reason::UpstreamBadResponse),
        HeadFault::Reset(_) => Fault::sent(Reason::UpstreamReset),
    }
}

impl Counted {
    fn begin(session: &Session) -> Self {
        session.calls.set(session.calls.get() + 1);
        Self {
            calls: Rc::clone(&session.calls),
            idle_since: Rc::clone(&session.idle_since),
            clock: session.clock.clone(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.calls.set(self.calls.get() - 1);
        self.idle_since.set(self.clock.now());
    }
}
