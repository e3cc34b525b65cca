//! A connection, shared by its driver, which receives and sends, and by the tasks of its streams.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, Moment};
use quinn_proto::{ConnectionError, Dir, Event as QuicEvent, ReadError, StreamEvent, StreamId};
use wire::h1::{Request, RequestLimits};
use wire::h3::{self, BlockReader, Code, Fault, Opened, OwnStream, Settings, StreamUse, UniStream};

use super::slot::{HeadEnd, READ_BYTES_MAX, Side, Slot, number, open_uni, varint, write_stream};
use super::waiting::{AllWaiting, Waiting};
use crate::io::quic;
use crate::io::tls::ClientTls;
use crate::io::wakers::wake;

/// A connection of HTTP/3 with a client.
pub(crate) struct Link {
    pub(super) quic: Rc<quic::Connection>,
    clock: Clock,
    pub(super) state: RefCell<State>,
    pub(super) head_bytes_max: usize,
}

/// The protocol's state of a connection, and that of its streams' tasks.
pub(super) struct State {
    pub(super) h3: h3::Connection,
    /// Boxed: the table stays as large as it has been, and most connections are idle.
    pub(super) slots: HashMap<StreamId, Box<Slot>>,
    /// The client's unidirectional streams.
    uni: Vec<(StreamId, UniStream)>,
    /// Our unidirectional streams, and what is to be written to the control stream.
    control: Option<StreamId>,
    encoder: Option<StreamId>,
    decoder: Option<StreamId>,
    control_out: Vec<u8>,
    /// Number of streams that no task has.
    unserved: Waiting,
    /// Some streams wait until the driver has sent what was written.
    pub(super) awaits_sending: bool,
    /// Streams whose heads have come, and that no task has.
    arrived: VecDeque<StreamId>,
    /// The number that is above those of all requests that have come.
    next_id: u64,
    /// Our control stream is open: requests are taken.
    has_begun: bool,
    /// The result of the handshake, until it is taken.
    client_tls: Option<Box<ClientTls>>,
    /// No streams above this one are served.
    last_served: Option<u64>,
    /// Priorities that the client has changed.
    reprioritized: Vec<(u64, h3::Priority)>,
    /// Streams that were reset since the client broke a rule.
    faults: u32,
    pub(super) fault: Option<Fault>,
    pub(super) has_ended: bool,
}

/// The progress of a connection that its driver has to act on.
pub(crate) enum Progress {
    /// The handshake is complete.
    Connected,
    /// A request begins, whose stream this is.
    Request(StreamId),
    /// A client has broken off so many streams before their heads had come.
    CancelledEarly(u32),
    /// The client has broken the protocol.
    Fault(Fault),
    /// The connection has ended.
    End(ConnectionError),
}

impl Link {
    /// The connection of a client; `head_bytes_max` bounds the heads of requests.
    pub(crate) fn new(
        quic: Rc<quic::Connection>,
        head_bytes_max: usize,
        waiting: AllWaiting,
        clock: Clock,
    ) -> Rc<Self> {
        let settings = Settings {
            field_section_bytes_max: Some(head_bytes_max as u64),
            takes_extended_connect: true,
            qpack_table_bytes_max: h3::qpack::TABLE_BYTES_MAX as u64,
            qpack_blocked_streams_max: h3::qpack::BLOCKED_STREAMS_MAX as u64,
        };
        let state = State {
            h3: h3::Connection::server(settings, clock.unix()),
            slots: HashMap::new(),
            // Control, and those of QPACK.
            uni: Vec::with_capacity(3),
            control: None,
            encoder: None,
            decoder: None,
            control_out: Vec::new(),
            unserved: Waiting::new(waiting),
            awaits_sending: false,
            arrived: VecDeque::new(),
            next_id: 0,
            has_begun: false,
            client_tls: None,
            last_served: None,
            reprioritized: Vec::new(),
            faults: 0,
            fault: None,
            has_ended: false,
        };
        Rc::new(Self { quic, clock, state: RefCell::new(state), head_bytes_max })
    }

    pub(crate) fn quic(&self) -> &quic::Connection {
        &self.quic
    }

    /// The result of the handshake, once.
    pub(crate) fn client_tls(&self) -> Option<Box<ClientTls>> {
        self.state.borrow_mut().client_tls.take()
    }

    /// Number of streams that were reset because the client broke a rule.
    pub(crate) fn faults(&self) -> u32 {
        self.state.borrow().faults
    }

    /// Whether the client sends much that is not yet, or not, a request.
    pub(crate) fn is_suspect(&self) -> bool {
        let state = self.state.borrow();
        state.unserved.are_many() || state.h3.is_costly()
    }

    /// When the first of the heads has to be there that are not whole. `time` is how long one may take of
    /// which so many bytes have come; none is for one that waits for entries of the table.
    pub(crate) fn head_due(&self, time: impl Fn(Option<usize>) -> Duration) -> Option<Moment> {
        let state = self.state.borrow();
        if state.unserved.is_empty() {
            return None;
        }
        let waiting = state.slots.values().filter(|slot| !slot.is_served && slot.broken_by.is_none());
        let bytes = |slot: &Slot| if slot.waits_for_entries { None } else { Some(slot.head_bytes) };
        waiting.map(|slot| slot.since.after(time(bytes(slot)))).min()
    }

    /// Receives and sends until there is progress to act on.
    pub(crate) fn poll_progress(&self, cx: &mut Context<'_>) -> Poll<Progress> {
        loop {
            {
                let state = &mut *self.state.borrow_mut();
                if let Some(fault) = state.fault {
                    return Poll::Ready(Progress::Fault(fault));
                }
                // Early data is taken before the handshake is complete.
                if !state.has_begun && !state.arrived.is_empty() && self.quic.look(|quinn| state.begin(quinn))
                {
                    return Poll::Ready(Progress::Connected);
                }
                if state.has_begun
                    && let Some(id) = state.arrived.pop_front()
                {
                    return Poll::Ready(Progress::Request(id));
                }
                if let Err(fault) = self.quic.look(|quinn| state.write_own(quinn)) {
                    return Poll::Ready(Progress::Fault(fault));
                }
            }
            let own_streams = self.state.borrow().own_streams();
            let polled = self.quic.poll_event(cx, own_streams);
            let state = &mut *self.state.borrow_mut();
            let Poll::Ready(event) = polled else {
                if state.awaits_sending && self.quic.room_ahead() > 0 {
                    state.resume_writers();
                }
                return Poll::Pending;
            };
            match event {
                QuicEvent::Connected if state.has_begun => {}
                QuicEvent::Connected => {
                    self.quic.look(|quinn| state.begin(quinn));
                    return Poll::Ready(Progress::Connected);
                }
                QuicEvent::ConnectionLost { reason } => {
                    state.end();
                    return Poll::Ready(Progress::End(reason));
                }
                QuicEvent::Stream(event) => {
                    let cancelled = self
                        .quic
                        .look(|quinn| state.stream_event(quinn, &event, &self.clock, self.head_bytes_max));
                    match cancelled {
                        Ok(0) => {}
                        Ok(count) => return Poll::Ready(Progress::CancelledEarly(count)),
                        Err(fault) => _ = state.fault.get_or_insert(fault),
                    }
                }
                QuicEvent::HandshakeDataReady
                | QuicEvent::DatagramReceived
                | QuicEvent::DatagramsUnblocked => {}
            }
        }
    }

    /// Whether the handshake is in progress, so that requests may have been repeated by somebody else.
    pub(crate) fn is_early(&self) -> bool {
        self.quic.look(|quinn| quinn.is_handshaking())
    }

    /// Reads the request on a stream whose head has come into `head` and `request`. None where it breaks a
    /// rule of HTTP/3, and its stream has been reset.
    pub(crate) fn request(
        &self,
        id: StreamId,
        limits: RequestLimits,
        websocket_key: impl FnOnce() -> String,
        head: &mut Vec<u8>,
        request: &mut Request,
    ) -> Option<Opened> {
        let state = &mut *self.state.borrow_mut();
        state.h3.note_request();
        let slot = state.slots.get_mut(&id)?;
        slot.is_served = true;
        state.unserved.end();
        if slot.is_head_too_large {
            let head = Err(wire::h1::Malformed::HeadTooLarge);
            return Some(Opened { head, priority: h3::Priority::default() });
        }
        let is_end = slot.has_end && slot.unread.is_empty();
        let reader = BlockReader {
            decoder: state.h3.decoder(),
            stream: number(id),
            list_bytes_max: self.head_bytes_max,
        };
        let read = slot.message.request(reader, limits, is_end, websocket_key, head, request);
        let ended = if is_end && read.as_ref().is_ok_and(|opened| opened.head.is_ok()) {
            slot.message.end()
        } else {
            Ok(())
        };
        match ended.and(read) {
            Ok(opened) => {
                let urgency = i32::from(opened.priority.urgency);
                self.quic.look(|quinn| _ = quinn.send_stream(id).set_priority(-urgency));
                Some(opened)
            }
            Err(fault) => {
                self.quic.with(|quinn| state.note_fault(quinn, id, fault));
                state.remove(id);
                None
            }
        }
    }

    /// Says that no more requests are taken, but those that have come or are on the way.
    pub(crate) fn shut_down(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.last_served.is_none() {
            // Identifiers of request streams are multiples of four, and the largest says that all that are
            // on the way are served (RFC 9114 section 5.2).
            state.goaway(LAST_REQUEST);
            self.quic.wake_driver();
        }
    }

    /// Says which requests were the last, once those on the way have come.
    pub(crate) fn finish_shut_down(&self) {
        let state = &mut *self.state.borrow_mut();
        let next = state.next_id;
        if state.last_served.is_none_or(|last| last > next) {
            state.goaway(next);
            self.quic.wake_driver();
        }
    }

    /// Has a packet sent that asks the client for an answer.
    pub(crate) fn ping(&self) {
        self.quic.with(quinn_proto::Connection::ping);
    }

    /// Ends the connection for all its streams.
    pub(crate) fn close(&self, code: Code) {
        self.state.borrow_mut().end();
        self.quic.with(|quinn| quinn.close(clock::instant(), varint(code), Bytes::new()));
    }

    /// Sends what is left to be sent, until the connection is gone.
    pub(crate) fn poll_goodbye(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.quic.is_drained() {
                return Poll::Ready(());
            }
            if self.quic.poll_event(cx, usize::MAX).is_pending() {
                return if self.quic.is_drained() { Poll::Ready(()) } else { Poll::Pending };
            }
        }
    }
}

/// The largest identifier of a request stream.
const LAST_REQUEST: u64 = (1 << 62) - 4;

impl State {
    /// Opens our control stream. False where the handshake has no result yet.
    fn begin(&mut self, quinn: &mut quinn_proto::Connection) -> bool {
        let result = quinn.crypto_session().handshake_data();
        self.client_tls = result.and_then(|result| result.downcast().ok());
        if self.client_tls.is_none() {
            return false;
        }
        self.has_begun = true;
        self.control = open_uni(quinn);
        self.h3.begin(OwnStream::Control, &mut self.control_out);
        write_stream(quinn, self.control, &mut self.control_out);
        true
    }

    /// Number of streams of ours that are open.
    fn own_streams(&self) -> usize {
        [self.control, self.encoder, self.decoder].iter().flatten().count()
    }

    /// Writes to our unidirectional streams. Those of QPACK are opened when there is something to write.
    fn write_own(&mut self, quinn: &mut quinn_proto::Connection) -> Result<(), Fault> {
        if self.control.is_none() {
            return Ok(());
        }
        write_stream(quinn, self.control, &mut self.control_out);
        if !self.h3.unsent_encoder().is_empty() {
            if self.encoder.is_none() {
                self.encoder = self.open_own(quinn, OwnStream::Encoder);
            }
            write_stream(quinn, self.encoder, self.h3.unsent_encoder());
        }
        if !self.h3.unsent_decoder().is_empty() {
            if self.decoder.is_none() {
                self.decoder = self.open_own(quinn, OwnStream::Decoder);
            }
            write_stream(quinn, self.decoder, self.h3.unsent_decoder());
        }
        self.h3.check_unsent()
    }

    fn open_own(&mut self, quinn: &mut quinn_proto::Connection, stream: OwnStream) -> Option<StreamId> {
        let id = open_uni(quinn)?;
        let mut out = Vec::new();
        self.h3.begin(stream, &mut out);
        let unsent = match stream {
            OwnStream::Decoder => self.h3.unsent_decoder(),
            _ => self.h3.unsent_encoder(),
        };
        out.append(unsent);
        *unsent = out;
        Some(id)
    }

    /// Forgets a stream. If it has not been read to its end, the client need not keep entries for it.
    pub(super) fn remove(&mut self, id: StreamId) {
        if self.slots.remove(&id).is_some_and(|slot| !slot.is_whole()) {
            self.h3.decoder().abandon(number(id));
        }
    }

    fn goaway(&mut self, id: u64) {
        self.last_served = Some(id);
        h3::write_goaway(id, &mut self.control_out);
    }

    pub(super) fn end(&mut self) {
        self.has_ended = true;
        // They may be many, and the connection stays for a while to tell the client of its end.
        self.slots.retain(|_, slot| slot.is_served);
        self.unserved.end_all();
        self.slots.values_mut().for_each(|slot| slot.note_broken_by_peer());
    }

    /// Acts on an event of a stream. Returns how many streams were broken off before their heads had come.
    fn stream_event(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        event: &StreamEvent,
        clock: &Clock,
        head_bytes_max: usize,
    ) -> Result<u32, Fault> {
        match *event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                let mut cancelled = 0;
                while let Some(id) = quinn.streams().accept(Dir::Bi) {
                    cancelled += u32::from(self.open(quinn, id, clock, head_bytes_max));
                }
                return Ok(cancelled);
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = quinn.streams().accept(Dir::Uni) {
                    self.uni.push((id, UniStream::new()));
                    self.read_uni(quinn, id, clock)?;
                }
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_uni(quinn, id, clock)?,
            StreamEvent::Readable { id } => return Ok(self.readable(quinn, id).into()),
            StreamEvent::Writable { id } => {
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.is_blocked = false;
                    slot.flush(quinn, id);
                    wake(&mut slot.writer);
                    if slot.is_left && slot.has_finished {
                        // The rest of the request is not needed.
                        let _ = quinn.recv_stream(id).stop(varint(Code::NO_ERROR));
                        self.remove(id);
                    }
                }
            }
            StreamEvent::Stopped { id, .. } => {
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.note_broken_by_peer();
                    if slot.is_left {
                        self.remove(id);
                    }
                } else if [self.control, self.encoder, self.decoder].contains(&Some(id)) {
                    return Err(Fault::of_connection(Code::CLOSED_CRITICAL_STREAM));
                }
            }
            StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
        }
        Ok(0)
    }

    /// Takes a new request stream. True where it is broken off already.
    fn open(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        id: StreamId,
        clock: &Clock,
        head_bytes_max: usize,
    ) -> bool {
        let number = number(id);
        if self.last_served.is_some_and(|last| number >= last) {
            let code = varint(Code::REQUEST_REJECTED);
            // A stream that has just been opened can be both.
            let _ = quinn.recv_stream(id).stop(code);
            let _ = quinn.send_stream(id).reset(code);
            return false;
        }
        self.next_id = self.next_id.max(number + 4);
        self.slots.insert(id, Box::new(Slot::new(clock.now(), head_bytes_max)));
        if !self.unserved.begin() {
            self.fault.get_or_insert(Fault::of_connection(Code::EXCESSIVE_LOAD));
        }
        self.readable(quinn, id)
    }

    /// Notes that bytes have come on a request stream, or its end. True where it is broken off before its
    /// head has come.
    fn readable(&mut self, quinn: &mut quinn_proto::Connection, id: StreamId) -> bool {
        let Some(slot) = self.slots.get_mut(&id) else { return false };
        if slot.is_served {
            if let Ok(Some(_)) = quinn.recv_stream(id).received_reset() {
                slot.note_broken_by_peer();
            }
            slot.wake_reader();
            return false;
        }
        let read = if slot.waits_for_entries { slot.read_end(quinn, id) } else { slot.read_head(quinn, id) };
        let was_reset = match read {
            Ok(has_come) => {
                if has_come {
                    self.arrive(quinn, id);
                }
                return false;
            }
            Err(HeadEnd::Reset) => {
                // The client need not be told of what it has broken off.
                let _ = quinn.send_stream(id).reset(varint(Code::REQUEST_CANCELLED));
                true
            }
            Err(HeadEnd::Fault(fault)) => {
                self.note_fault(quinn, id, fault);
                false
            }
        };
        self.unserved.end();
        self.remove(id);
        was_reset
    }

    /// Has a request served whose head has come, unless it waits for entries of the table.
    fn arrive(&mut self, quinn: &mut quinn_proto::Connection, id: StreamId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let is_blocked = if slot.is_head_too_large {
            Ok(false)
        } else {
            slot.message.is_blocked(self.h3.decoder(), number(id))
        };
        match is_blocked {
            Ok(false) => self.arrived.push_back(id),
            Ok(true) => slot.waits_for_entries = true,
            Err(fault) => self.note_fault(quinn, id, fault),
        }
    }

    /// Goes on with the streams whose entries have come.
    fn unblock(&mut self) {
        while let Some(number) = self.h3.decoder().unblocked() {
            let id = StreamId::new(quinn_proto::Side::Client, Dir::Bi, number / 4);
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.waits_for_entries = false;
            if slot.is_served {
                slot.wake_reader();
            } else {
                self.arrived.push_back(id);
            }
        }
    }

    /// Resets the stream on which the client has broken a rule, or has the connection end.
    pub(super) fn note_fault(&mut self, quinn: &mut quinn_proto::Connection, id: StreamId, fault: Fault) {
        if fault.is_of_connection {
            self.fault.get_or_insert(fault);
            return;
        }
        self.faults += 1;
        let code = varint(fault.code);
        // Either side may have ended already.
        let _ = quinn.recv_stream(id).stop(code);
        let _ = quinn.send_stream(id).reset(code);
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.broken_by.get_or_insert(Side::Us);
            slot.wake_all();
        }
    }

    fn read_uni(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        id: StreamId,
        clock: &Clock,
    ) -> Result<(), Fault> {
        let Some(at) = self.uni.iter().position(|(uni, _)| *uni == id) else { return Ok(()) };
        let mut recv = quinn.recv_stream(id);
        let Ok(mut chunks) = recv.read(true) else { return Ok(()) };
        let has_ended = loop {
            match chunks.next(READ_BYTES_MAX) {
                Ok(Some(chunk)) => {
                    let mut input = &chunk.bytes[..];
                    while !input.is_empty() {
                        let event = self.h3.receive(&mut self.uni[at].1, &mut input, clock.unix())?;
                        if let Some(h3::Event::Priority(stream, priority)) = event {
                            self.reprioritized.push((stream, priority));
                        }
                    }
                }
                Ok(None) | Err(ReadError::Reset(_)) => break true,
                Err(ReadError::Blocked) => break false,
            }
        };
        drop(chunks);
        self.unblock();
        if has_ended {
            let (_, stream) = self.uni.swap_remove(at);
            return h3::Connection::end(&stream);
        }
        if h3::Connection::use_of(&self.uni[at].1) == StreamUse::Unknown {
            self.uni.swap_remove(at);
            // It has not ended.
            let _ = quinn.recv_stream(id).stop(varint(Code::STREAM_CREATION_ERROR));
        }
        for (stream, priority) in self.reprioritized.drain(..) {
            let index = stream / 4;
            let id = StreamId::new(quinn_proto::Side::Client, Dir::Bi, index);
            if self.slots.contains_key(&id) {
                // The stream may have been written to its end.
                let _ = quinn.send_stream(id).set_priority(-i32::from(priority.urgency));
            }
        }
        Ok(())
    }
}
