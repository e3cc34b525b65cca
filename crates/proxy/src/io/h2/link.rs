//! A connection, shared by its driver, which reads and writes, and by the tasks of its streams.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use clock::{Clock, Moment};
use smallvec::SmallVec;
use wire::h1::Response;
use wire::h2::{Connection, Event, Fault, Key, Limits};

use crate::io::buffer::{Buffer, Buffers};
use crate::io::connection;
use crate::io::socket::Socket;
use crate::io::wakers::{remember, wake};
use crate::limits::{HTTP2_PING_AFTER, HTTP2_PING_TIMEOUT};

/// A connection of HTTP/2.
pub(crate) struct Link {
    end: End,
    clock: Clock,
    pub(super) state: RefCell<State>,
    /// The task that drives the connection.
    driver: RefCell<Option<Waker>>,
    /// The socket has taken less than it was offered.
    is_blocked: Cell<bool>,
    /// The connection ends once it has no streams.
    ends_when_idle: Cell<bool>,
    /// When the peer was last heard.
    heard: Cell<Moment>,
    /// When the peer was asked whether it is there, and has not been heard since.
    asked: Cell<Option<Moment>>,
}

/// The peer of the connection.
enum End {
    Client(Socket),
    Endpoint(connection::Connection),
}

/// The protocol's state of a connection, and that of its streams' tasks.
pub(super) struct State {
    pub(super) connection: Connection<Slot>,
    /// Bytes that have come and have not been understood.
    ahead: Buffer,
    /// Streams that wait for room among the frames to be written.
    waiting: Vec<Waiting>,
    waited: u64,
    /// Responses that have been taken, whose memory is used again.
    spare: SmallVec<[Box<Head>; SPARE_HEADS_MAX]>,
    pub(super) end: Option<LinkEnd>,
    /// Writes to the peer have failed.
    is_unwritable: bool,
}

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkEnd {
    /// The peer has closed it, or it was closed here.
    Closed,
    /// The peer has broken the protocol.
    Fault,
}

/// The state of a stream beside the protocol's.
#[derive(Default)]
pub(crate) struct Slot {
    /// Content that has come.
    pub(super) content: Vec<u8>,
    /// Trailers that have come, as lines of HTTP/1.
    pub(super) trailers: Vec<u8>,
    /// No content and no trailers follow.
    pub(super) has_end: bool,
    /// Heads of responses that have come.
    pub(super) heads: SmallVec<[Box<Head>; 1]>,
    /// The request was a HEAD.
    pub(super) asks_for_head: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) watcher: Option<Waker>,
    /// It may send before those that wait.
    pub(super) has_turn: bool,
}

/// The head of a response as it has come.
#[derive(Default)]
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    pub(super) response: Response,
    /// Content or trailers follow.
    pub(super) has_more: bool,
}

/// A stream that waits for room.
struct Waiting {
    urgency: u8,
    since: u64,
    key: Key,
}

/// The progress of a connection that its driver has to act on.
pub(crate) enum Progress {
    /// A request begins.
    Request,
    /// The peer takes no more requests.
    Goaway,
    /// The peer has broken the protocol.
    Fault(Fault),
    /// The connection has ended.
    End,
}

/// The payload of our PING. Any frame of the peer is an answer.
const PING: [u8; 8] = *b"forebay?";
/// Content that a stream sends while others wait: one frame, then it is the others' turn.
const TURN_BYTES: usize = 16 << 10;
/// Responses whose memory is kept for a connection.
const SPARE_HEADS_MAX: usize = 2;
/// Frames that wait to be written, beyond which nothing more is read: the peer has to take answers before it
/// asks on.
const UNWRITTEN_BYTES_TO_READ: usize = 128 << 10;

impl Link {
    /// The connection of a client. `ahead` is what has been read of it.
    pub(crate) fn of_client(socket: Socket, ahead: Buffer, limits: Limits, clock: Clock) -> Rc<Self> {
        let connection = Connection::server(limits, clock.unix());
        Self::new(End::Client(socket), ahead, connection, clock)
    }

    /// The connection to an endpoint.
    pub(crate) fn of_endpoint(socket: connection::Connection, limits: Limits, clock: Clock) -> Rc<Self> {
        let ahead = Buffer::empty(&Rc::new(Buffers::default()));
        let connection = Connection::client(limits, clock.unix());
        Self::new(End::Endpoint(socket), ahead, connection, clock)
    }

    fn new(end: End, ahead: Buffer, connection: Connection<Slot>, clock: Clock) -> Rc<Self> {
        let heard = clock.now();
        let state = State {
            connection,
            ahead,
            waiting: Vec::new(),
            waited: 0,
            spare: SmallVec::new(),
            end: None,
            is_unwritable: false,
        };
        Rc::new(Self {
            end,
            clock,
            state: RefCell::new(state),
            driver: RefCell::default(),
            is_blocked: Cell::new(false),
            ends_when_idle: Cell::new(false),
            heard: Cell::new(heard),
            asked: Cell::new(None),
        })
    }

    fn socket(&self) -> &Socket {
        match &self.end {
            End::Client(socket) => socket,
            End::Endpoint(connection) => connection.socket(),
        }
    }

    /// Calls a function with the protocol's state. Frames that it makes are written in the driver's next
    /// turn, together with those of others.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Connection<Slot>) -> R) -> R {
        self.with_state(|state| act(&mut state.connection))
    }

    pub(super) fn with_state<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let result = act(&mut state);
        if !state.connection.unwritten().is_empty() && !self.is_blocked.get() {
            self.wake_driver();
        }
        result
    }

    fn wake_driver(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }

    /// Whether the peer does not take what it is sent.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.get()
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.borrow().end.is_some()
    }

    /// Ends the connection once it has no streams.
    pub(crate) fn end_when_idle(&self) {
        self.ends_when_idle.set(true);
        self.wake_driver();
    }

    /// Asks a peer on whose streams nothing has come for long whether it is there, and ends the connection if
    /// it does not answer: one whose machine is gone would keep its requests until their own time is up.
    pub(crate) fn check_peer(&self, now: Moment) {
        let state = &mut *self.state.borrow_mut();
        if state.connection.open_streams() == 0 || now.since(self.heard.get()) < HTTP2_PING_AFTER {
            self.asked.set(None);
            return;
        }
        match self.asked.get() {
            None => {
                self.asked.set(Some(now));
                state.connection.ping(PING);
            }
            Some(asked) if now.since(asked) >= HTTP2_PING_TIMEOUT => _ = state.end(LinkEnd::Closed),
            Some(_) => return,
        }
        self.wake_driver();
    }

    /// Reads and writes until there is progress to act on.
    pub(crate) fn poll_progress(&self, cx: &mut Context<'_>) -> Poll<Progress> {
        remember(&mut self.driver.borrow_mut(), cx);
        let state = &mut *self.state.borrow_mut();
        if state.end.is_some() {
            return Poll::Ready(Progress::End);
        }
        loop {
            match state.understand(self.clock.unix()) {
                Ok(Some(progress)) => return Poll::Ready(progress),
                Ok(None) => {}
                Err(fault) => {
                    state.end(LinkEnd::Fault);
                    return Poll::Ready(Progress::Fault(fault));
                }
            }
            let written = self.poll_write(state, cx);
            if let Poll::Ready(Err(error)) = &written {
                // Before it closed its end, an endpoint may have sent a GOAWAY that names unprocessed
                // requests: all of that is read first.
                if matches!(self.end, End::Client(_)) || !is_closed(error) {
                    return Poll::Ready(state.end(LinkEnd::Closed));
                }
                state.is_unwritable = true;
            }
            if written.is_ready() && self.is_done(state) {
                return Poll::Ready(state.end(LinkEnd::Closed));
            }
            if state.connection.unwritten().len() > UNWRITTEN_BYTES_TO_READ && !state.is_unwritable {
                return Poll::Pending;
            }
            if !matches!(ready!(self.poll_read(state, cx)), Ok(1..)) {
                return Poll::Ready(state.end(LinkEnd::Closed));
            }
        }
    }

    /// Whether all that was to be said has been.
    fn is_done(&self, state: &State) -> bool {
        let is_idle = self.ends_when_idle.get() && state.connection.open_streams() == 0;
        is_idle || state.connection.is_finished()
    }

    fn poll_read(&self, state: &mut State, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = self.socket().poll_fill(cx, &mut state.ahead);
        match read {
            Poll::Ready(_) => self.heard.set(self.clock.now()),
            Poll::Pending => state.ahead.release(),
        }
        read
    }

    fn poll_write(&self, state: &mut State, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if state.is_unwritable {
            let len = state.connection.unwritten().len();
            state.connection.note_written(len);
            return Poll::Ready(Ok(()));
        }
        self.is_blocked.set(true);
        let mut has_written = false;
        while !state.connection.unwritten().is_empty() {
            let slices = [IoSlice::new(state.connection.unwritten())];
            let len = ready!(self.socket().poll_write_some(cx, &slices))?;
            if len == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            state.connection.note_written(len);
            has_written = true;
        }
        if has_written {
            ready!(self.socket().poll_flush(cx))?;
        }
        self.is_blocked.set(false);
        state.pass_turn();
        Poll::Ready(Ok(()))
    }

    /// Tells the peer why the connection ends, and closes it.
    pub(crate) fn poll_goodbye(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        if ready!(self.poll_write(state, cx)).is_ok() {
            // The peer need not hear it.
            let _ = ready!(self.socket().poll_shutdown(cx));
        }
        Poll::Ready(())
    }

    /// Ends the connection for all its streams.
    pub(crate) fn close(&self) {
        self.state.borrow_mut().end(LinkEnd::Closed);
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

// === impl State ===

impl State {
    /// Acts on the frames that have come, until the driver has to.
    fn understand(&mut self, now: std::time::Duration) -> Result<Option<Progress>, Fault> {
        let Self { connection, ahead, spare, .. } = self;
        let mut input = ahead.data();
        let len = input.len();
        let mut progress = None;
        let (mut has_room, mut fault) = (false, None);
        while progress.is_none() {
            match connection.receive(&mut input, now) {
                Ok(Some(Event::RoomForAll)) => has_room = true,
                Ok(Some(event)) => match act(connection, spare, &event) {
                    Ok(next) => progress = next,
                    Err(broken) => {
                        fault = Some(broken);
                        break;
                    }
                },
                Ok(None) => break,
                Err(broken) => {
                    fault = Some(broken);
                    break;
                }
            }
        }
        let read = len - input.len();
        ahead.consume(read);
        if has_room {
            connection.all_data().for_each(|slot| wake(&mut slot.writer));
        }
        fault.map_or(Ok(progress), Err)
    }

    /// Ends the connection for all its streams.
    fn end(&mut self, end: LinkEnd) -> Progress {
        self.end.get_or_insert(end);
        self.waiting.clear();
        self.connection.all_data().for_each(Slot::wake_all);
        Progress::End
    }

    /// Lets a stream wait for room after those of its urgency that wait already.
    pub(super) fn wait_for_turn(&mut self, key: Key) {
        if self.waiting.iter().all(|waiting| waiting.key != key) {
            let urgency = self.connection.priority(key).urgency;
            self.waited += 1;
            self.waiting.push(Waiting { urgency, since: self.waited, key });
        }
    }

    /// Content that a stream may send now, in bytes: none while others wait whose turn it is.
    pub(super) fn room(&self, key: Key, has_turn: bool) -> usize {
        match (self.waiting.is_empty(), has_turn) {
            (true, _) => self.connection.room(key),
            (false, true) => self.connection.room(key).min(TURN_BYTES),
            (false, false) => 0,
        }
    }

    /// Wakes the stream that is the next to send, if there is room.
    pub(super) fn pass_turn(&mut self) {
        while let Some(at) =
            (0..self.waiting.len()).min_by_key(|&at| (self.waiting[at].urgency, self.waiting[at].since))
            && self.connection.has_room()
        {
            let key = self.waiting.swap_remove(at).key;
            if let Some(slot) = self.connection.data(key) {
                slot.has_turn = true;
                wake(&mut slot.writer);
                return;
            }
        }
    }

    /// Keeps the memory of a head that has been taken.
    pub(super) fn keep(&mut self, mut head: Box<Head>) {
        if self.spare.len() < SPARE_HEADS_MAX {
            head.bytes.clear();
            self.spare.push(head);
        }
    }
}

/// Acts on one event. The driver has to act on what is returned.
fn act(
    connection: &mut Connection<Slot>,
    spare: &mut SmallVec<[Box<Head>; SPARE_HEADS_MAX]>,
    event: &Event<'_>,
) -> Result<Option<Progress>, Fault> {
    match *event {
        Event::Request => return Ok(Some(Progress::Request)),
        Event::Goaway => {
            connection.all_data().for_each(Slot::wake_all);
            return Ok(Some(Progress::Goaway));
        }
        Event::Response(key) => {
            let mut head = spare.pop().unwrap_or_default();
            let asks_for_head = connection.data(key).is_some_and(|slot| slot.asks_for_head);
            let read = connection.response(asks_for_head, &mut head.bytes, &mut head.response)?;
            let Some(slot) = connection.data(key) else { return Ok(None) };
            match read {
                Some(has_more) => {
                    head.has_more = has_more;
                    slot.has_end = !has_more;
                    slot.heads.push(head);
                    wake(&mut slot.reader);
                }
                None => slot.wake_all(),
            }
        }
        Event::Trailers(key) => {
            let mut lines = Vec::new();
            let is_whole = connection.trailers(&mut lines)?;
            let Some(slot) = connection.data(key) else { return Ok(None) };
            if is_whole {
                (slot.trailers, slot.has_end) = (lines, true);
                wake(&mut slot.reader);
            } else {
                slot.wake_all();
            }
        }
        Event::Data { key, content, is_end } => {
            let Some(slot) = connection.data(key) else { return Ok(None) };
            slot.content.extend_from_slice(content);
            slot.has_end = is_end;
            wake(&mut slot.reader);
        }
        Event::Reset(key) => {
            if let Some(slot) = connection.data(key) {
                slot.wake_all();
            }
        }
        Event::Room(key) => {
            if let Some(slot) = connection.data(key) {
                wake(&mut slot.writer);
            }
        }
        Event::RoomForAll | Event::Pong(_) => {}
    }
    Ok(None)
}

impl Slot {
    /// The slot of a request with this method.
    pub(crate) fn of_method(method: &[u8]) -> Self {
        Self { asks_for_head: method == b"HEAD", ..Self::default() }
    }

    fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.writer, &mut self.watcher] {
            wake(waker);
        }
    }
}
