//! One side of a connection.

use std::time::Duration;

use super::code::Code;
use super::flood::{Begun, Budget};
use super::frame::{self, MAX_31_BITS, kind, signed};
use super::hpack::{Decoder, Encoder};
use super::settings::{Limits, PeerSettings, WINDOW_BYTES_INITIAL};
use super::stream::{Key, Reset, Side, State, Stream, Streams};
use crate::compression::BrokenBlock;
use crate::h1::{Malformed, Request, RequestLimits, Response};
use crate::head::{self, HeadFault, HeaderBlock};
use crate::priority::Priority;

/// The first bytes of a client (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The payload of the PING whose answer shows that the peer has read a GOAWAY.
pub(super) const PARTING: [u8; 8] = *b"parting.";

/// Streams that were reset here and are remembered at least, since frames of theirs may be on the way. All
/// streams that a peer may have open can be reset before it has read of one of them.
const RESETS_REMEMBERED_MIN: usize = 32;

/// A connection of HTTP/2. `T` is what its owner keeps for each stream.
#[derive(Debug)]
pub struct Connection<T> {
    pub(super) is_server: bool,
    pub(super) limits: Limits,
    pub(super) peer: PeerSettings,
    /// The peer's first SETTINGS frame has come.
    pub(super) has_settings: bool,
    /// The peer has acknowledged the settings of this side.
    pub(super) has_acknowledged: bool,
    /// The client's preface has come, or this side is the client.
    pub(super) has_preface: bool,
    pub(super) streams: Streams<T>,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    /// The DATA frame whose payload is still coming.
    pub(super) content: Option<Content>,
    /// The header block that is incomplete, or that has not been read by the owner.
    pub(super) block: Block,
    /// The highest identifier of a stream that the peer has opened.
    pub(super) last_received: u32,
    /// The identifier of the next stream that this side opens.
    pub(super) next_id: u32,
    /// Bytes of content that the peer may send on all streams, and those that have come and are unread.
    pub(super) receive_window: i64,
    pub(super) unread: u32,
    /// Bytes of content that this side may send on all streams.
    pub(super) send_window: i64,
    /// Frames to be written, of which the first `written` bytes have been.
    pub(super) out: Vec<u8>,
    pub(super) written: usize,
    pub(super) leave: Leave,
    /// The peer has said goodbye.
    pub(super) peer_leaves: bool,
    pub(super) budget: Budget,
    pub(super) begun: Option<Begun>,
    /// Identifiers of streams that were reset here, the oldest first.
    pub(super) resets: Vec<u32>,
    /// Number of streams that were reset because the peer broke a rule.
    pub(super) faults: u32,
    /// Memory is scarce: windows do not grow.
    pub(super) is_pressed: bool,
}

/// A DATA frame in which the peer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    /// None where the content is dropped.
    pub(super) key: Option<Key>,
    pub(super) left: usize,
    pub(super) padding: usize,
    pub(super) is_end: bool,
}

/// A header block.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) state: BlockState,
    pub(super) is_end: bool,
    /// Bytes of its frames, headers included.
    pub(super) frame_bytes: usize,
}

/// The stage of a header block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum BlockState {
    #[default]
    None,
    /// CONTINUATION has to follow on this stream.
    Begun(BlockOf, u32),
    /// It waits to be read.
    Whole(BlockOf, u32),
}

/// The purpose of a header block.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockOf {
    Request,
    Response(Key),
    Trailers(Key),
    /// It is decoded for the sake of the table only. The stream is reset with the code, if there is one.
    Nothing(Option<Code>),
}

/// The progress of this side's goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    No,
    /// A GOAWAY is on the way; streams that the peer opened before it knew are served.
    Announced,
    /// No stream above this one is served.
    After(u32),
}

/// A part of the conversation, as the peer has said it.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request begins, which [`Connection::request`] reads.
    Request,
    /// The head of a response has come, which [`Connection::response`] reads.
    Response(Key),
    /// Trailers have come, which [`Connection::trailers`] reads. They are the end of the content.
    Trailers(Key),
    /// Content has come.
    Data {
        /// The stream that it came on.
        key: Key,
        /// A part of the content; it may be empty.
        content: &'a [u8],
        /// It is the last.
        is_end: bool,
    },
    /// A stream has been reset, by either side.
    Reset(Key),
    /// A stream may send more content.
    Room(Key),
    /// All streams may send more content.
    RoomForAll,
    /// The peer takes no more streams. Those that it has not processed have been reset.
    Goaway,
    /// The peer has answered the PING with this payload.
    Pong([u8; 8]),
}

/// The reason to end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fault of HTTP/2 with code {}", code.0)]
pub struct Fault {
    /// The code that the peer is told.
    pub code: Code,
}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Self { code }
    }
}

impl From<BrokenBlock> for Fault {
    fn from(_: BrokenBlock) -> Self {
        Self { code: Code::COMPRESSION_ERROR }
    }
}

/// A request on a new stream.
#[derive(Debug)]
pub struct Opened {
    /// The stream that it came on.
    pub key: Key,
    /// No content follows.
    pub is_end: bool,
    /// The reason why its head cannot be served.
    pub head: Result<(), Malformed>,
}

impl Block {
    fn reader<'b>(&'b self, decoder: &'b mut Decoder, limits: &Limits) -> HeaderBlock<'b, Decoder> {
        let list_bytes_max = limits.head_bytes_max as usize;
        HeaderBlock { decoder, bytes: &self.bytes, list_bytes_max, is_end: self.is_end }
    }
}

impl<T> Connection<T> {
    /// The server's side, before the client's preface.
    pub fn server(limits: Limits, now: Duration) -> Self {
        Self::new(true, limits, now)
    }

    /// The client's side; its preface is the first that is to be written.
    pub fn client(limits: Limits, now: Duration) -> Self {
        Self::new(false, limits, now)
    }

    fn new(is_server: bool, limits: Limits, now: Duration) -> Self {
        let mut out = Vec::new();
        if !is_server {
            out.extend_from_slice(PREFACE);
        }
        limits.announce(is_server, &mut out);
        let window = WINDOW_BYTES_INITIAL;
        Self {
            is_server,
            peer: PeerSettings::default(),
            has_settings: false,
            has_acknowledged: false,
            has_preface: !is_server,
            streams: Streams::default(),
            decoder: Decoder::new(limits.table_bytes_max as usize),
            encoder: Encoder::new(limits.table_bytes_max as usize),
            content: None,
            block: Block::default(),
            last_received: 0,
            next_id: 1,
            receive_window: i64::from(limits.connection_window_bytes.max(window)),
            unread: 0,
            send_window: i64::from(window),
            out,
            written: 0,
            leave: Leave::No,
            peer_leaves: false,
            budget: Budget::new(now),
            begun: None,
            resets: Vec::new(),
            faults: 0,
            is_pressed: false,
            limits,
        }
    }

    /// The frame or header block that is incomplete.
    pub fn begun(&self) -> Option<Begun> {
        self.begun
    }

    /// Number of streams that were reset because the peer broke a rule.
    pub fn faults(&self) -> u32 {
        self.faults
    }

    /// Number of streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.open_count()
    }

    /// The number of streams that the peer allows; none before it has said anything.
    pub fn streams_allowed(&self) -> Option<u32> {
        self.has_settings.then_some(self.peer.streams_max)
    }

    /// The owner's data of a stream, for as long as it holds the stream.
    pub fn data(&mut self, key: Key) -> Option<&mut T> {
        self.streams.get_mut(key).map(|stream| &mut stream.data)
    }

    /// The same of all streams.
    pub fn all_data(&mut self) -> impl Iterator<Item = &mut T> {
        self.streams.all_mut().map(|stream| &mut stream.data)
    }

    /// The order of a stream's content among that of others.
    pub fn priority(&self, key: Key) -> Priority {
        self.streams.get(key).map_or_else(Priority::default, |stream| stream.priority)
    }

    /// How a stream was ended early; none if it was not. A stream that was let go was cancelled here.
    pub fn reset_of(&self, key: Key) -> Option<Reset> {
        match self.streams.get(key) {
            Some(stream) => match stream.state {
                State::Closed(reset) => reset,
                _ => None,
            },
            None => Some(Reset { by: Side::Us, code: Code::CANCEL, is_unprocessed: false }),
        }
    }

    /// Lets the windows stay small, or grow again.
    pub fn set_pressed(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
    }

    /// Reads the request that has just [begun](Event::Request) into `head` and `request`. Returns none where
    /// it breaks a rule of HTTP/2, and its stream has been reset.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn request(
        &mut self,
        limits: RequestLimits,
        websocket_key: impl FnOnce() -> String,
        head: &mut Vec<u8>,
        request: &mut Request,
        data: T,
    ) -> Result<Option<Opened>, Fault> {
        let BlockState::Whole(BlockOf::Request, id) = std::mem::take(&mut self.block.state) else {
            return Ok(None);
        };
        let is_end = self.block.is_end;
        let block = self.block.reader(&mut self.decoder, &self.limits);
        let read = head::read_request(block, limits, websocket_key, head, request)?;
        let (head, priority) = match read {
            Ok(priority) => (Ok(()), priority),
            Err(HeadFault::Malformed(fault)) => (Err(fault), Priority::default()),
            Err(HeadFault::Broken) => {
                self.note_fault(id);
                return Ok(None);
            }
        };
        let length = request.fields.content_length;
        if is_end && head.is_ok() && length.is_some_and(|length| length > 0) {
            self.note_fault(id);
            return Ok(None);
        }
        let state = if is_end { State::HalfClosedRemote } else { State::Open };
        let expected = length.filter(|_| head.is_ok());
        let key = self.streams.add(Stream { priority, ..self.stream(id, state, expected, data) });
        Ok(Some(Opened { key, is_end, head }))
    }

    /// Reads the head of a response that has just [come](Event::Response). It is interim, or the final one:
    /// then `answers_head` says that it has no content though it may have a length. Returns whether content
    /// may follow; none where the response breaks a rule, and its stream has been reset.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn response(
        &mut self,
        answers_head: bool,
        head: &mut Vec<u8>,
        response: &mut Response,
    ) -> Result<Option<bool>, Fault> {
        let BlockState::Whole(BlockOf::Response(key), id) = std::mem::take(&mut self.block.state) else {
            return Ok(None);
        };
        let is_end = self.block.is_end;
        let read = head::read_response(self.block.reader(&mut self.decoder, &self.limits), head, response)?;
        // The stream may have been reset here before the last frame of the block.
        let stream = self.streams.get_mut(key).filter(|stream| stream.state.may_receive());
        let Some(stream) = stream else { return Ok(None) };
        let is_final = response.status >= 200;
        let has_length = !answers_head && !matches!(response.status, 204 | 304);
        let length = response.fields.content_length.filter(|_| has_length);
        // An interim response does not end the stream (RFC 9113 section 8.1).
        let is_wrong = is_end && (!is_final || length.is_some_and(|length| length > 0));
        if read.is_err() || is_wrong {
            self.note_fault(id);
            return Ok(None);
        }
        if is_final {
            stream.has_head = true;
            stream.expected = if has_length { length } else { Some(0) };
        }
        if is_end {
            self.note_received_end(key);
        }
        Ok(Some(!is_end))
    }

    /// Reads trailers that have just [come](Event::Trailers), as lines. Returns false where they break a
    /// rule, and the stream has been reset.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn trailers(&mut self, lines: &mut Vec<u8>) -> Result<bool, Fault> {
        let BlockState::Whole(BlockOf::Trailers(key), id) = std::mem::take(&mut self.block.state) else {
            return Ok(false);
        };
        let read = head::read_trailers(self.block.reader(&mut self.decoder, &self.limits), lines)?;
        // The stream may have been reset here before the last frame of the block.
        let stream = self.streams.get(key).filter(|stream| stream.state.may_receive());
        let Some(stream) = stream else { return Ok(false) };
        if read.is_err() || !matches!(stream.expected, None | Some(0)) {
            self.note_fault(id);
            return Ok(false);
        }
        self.note_received_end(key);
        Ok(true)
    }

    /// Decodes a block that nobody reads, for the sake of the table. Returns the stream that is reset with
    /// it, if there is one.
    pub(super) fn drop_block(&mut self) -> Result<Option<Key>, Fault> {
        let BlockState::Whole(of, id) = self.block.state else { return Ok(None) };
        self.block.state = BlockState::None;
        let block = self.block.reader(&mut self.decoder, &self.limits);
        // The fields are of no interest; a block that breaks the table is.
        let _ = head::read_trailers(HeaderBlock { list_bytes_max: 0, ..block }, &mut Vec::new())?;
        let BlockOf::Nothing(Some(code)) = of else { return Ok(None) };
        let key = self.streams.find(id);
        match key {
            Some(key) => self.reset(key, code),
            // Its owner may have reset it before the last frame of the block.
            None if self.was_reset(id) => {}
            None => self.write_reset(id, code),
        }
        Ok(key)
    }

    /// Bytes beyond the window of a stream that the peer may send until it has acknowledged the settings (RFC
    /// 9113 section 6.9.3).
    fn window_surplus(&self) -> i64 {
        i64::from(WINDOW_BYTES_INITIAL.saturating_sub(self.limits.stream_window_bytes))
    }

    /// Notes that the peer knows this side's settings.
    pub(super) fn note_acknowledged(&mut self) {
        if std::mem::replace(&mut self.has_acknowledged, true) {
            return;
        }
        self.decoder.settings_acknowledged();
        let surplus = self.window_surplus();
        if surplus > 0 {
            for key in self.streams.open_above(0) {
                if let Some(stream) = self.streams.get_mut(key) {
                    stream.receive_window -= surplus;
                }
                self.renew_stream(key);
            }
        }
    }

    /// A stream in its first state.
    pub(super) fn stream(&self, id: u32, state: State, expected: Option<u64>, data: T) -> Stream<T> {
        let surplus = if self.has_acknowledged { 0 } else { self.window_surplus() };
        Stream {
            id,
            state,
            has_head: self.is_server,
            priority: Priority::default(),
            send_window: i64::from(self.peer.window_bytes),
            receive_window: i64::from(self.limits.stream_window_bytes) + surplus,
            receive_window_max: self.limits.stream_window_bytes,
            unread: 0,
            expected,
            data,
        }
    }

    /// Grants the peer as many bytes again as the owner has read of a stream.
    pub fn note_read(&mut self, key: Key, len: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let len = (len as u32).min(stream.unread);
        stream.unread -= len;
        let is_eager = stream.unread == 0 && stream.receive_window < i64::from(stream.receive_window_max / 2);
        if self.is_pressed {
            stream.receive_window_max = self.limits.stream_window_bytes;
        } else if is_eager {
            // The peer has sent all that it may before it was read.
            let max = self.limits.stream_window_bytes_max;
            stream.receive_window_max = stream.receive_window_max.saturating_mul(2).min(max);
        }
        self.unread -= len;
        self.renew_stream(key);
        self.renew_window();
    }

    /// Grants the peer content on a stream again, once half of its window is used.
    pub(super) fn renew_stream(&mut self, key: Key) {
        let coming = self.content.filter(|content| content.key == Some(key));
        let coming = coming.map_or(0, |content| signed(content.left));
        let Some(stream) = self.streams.get_mut(key) else { return };
        let window = i64::from(stream.receive_window_max);
        let grant = window - stream.receive_window - i64::from(stream.unread) - coming;
        if stream.state.may_receive() && grant >= (window / 2).max(1) {
            stream.receive_window += grant;
            let id = stream.id;
            frame::write(kind::WINDOW_UPDATE, 0, id, &grant_bytes(grant), &mut self.out);
        }
    }

    /// Grants the peer content on all streams again, once half of what may be granted is used. Content that
    /// waits to be read cannot be granted: a stream that is not read does not hold up the rest.
    pub(super) fn renew_window(&mut self) {
        let window = i64::from(self.limits.connection_window_bytes.max(WINDOW_BYTES_INITIAL));
        let coming = self.content.map_or(0, |content| signed(content.left));
        let free = window - i64::from(self.unread) - coming;
        let grant = free - self.receive_window;
        if grant >= (free / 2).max(1) {
            self.receive_window += grant;
            frame::write(kind::WINDOW_UPDATE, 0, 0, &grant_bytes(grant), &mut self.out);
        }
    }

    /// Lets a stream go, whatever its state: one that is not at its end is reset.
    pub fn release(&mut self, key: Key) -> Option<T> {
        let stream = self.streams.get(key)?;
        let (id, unread) = (stream.id, stream.unread);
        let code = match stream.state {
            State::Closed(_) => None,
            // The response is whole, and the rest of the request is not needed (RFC 9113 section 8.1).
            State::HalfClosedLocal if self.is_server => Some(Code::NO_ERROR),
            _ => Some(Code::CANCEL),
        };
        if let Some(code) = code {
            self.write_reset(id, code);
        }
        self.unread -= unread;
        if unread > 0 {
            self.renew_window();
        }
        self.streams.remove(key)
    }

    /// Resets a stream. Its owner still holds it.
    pub fn reset(&mut self, key: Key, code: Code) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.state.is_closed() {
            return;
        }
        stream.state = State::Closed(Some(Reset { by: Side::Us, code, is_unprocessed: false }));
        let id = stream.id;
        self.streams.note_closed(key);
        self.write_reset(id, code);
    }

    /// Notes the last frame of the peer on a stream.
    pub(super) fn note_received_end(&mut self, key: Key) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.state = stream.state.received_end();
            if stream.state.is_closed() {
                self.streams.note_closed(key);
            }
        }
    }

    /// Resets the stream on which the peer has broken a rule.
    pub(super) fn note_fault(&mut self, id: u32) {
        self.faults += 1;
        match self.streams.find(id) {
            Some(key) => self.reset(key, Code::PROTOCOL_ERROR),
            None => self.write_reset(id, Code::PROTOCOL_ERROR),
        }
    }

    pub(super) fn write_reset(&mut self, id: u32, code: Code) {
        if self.resets.len() >= RESETS_REMEMBERED_MIN.max(self.limits.streams_max as usize) {
            self.resets.remove(0);
        }
        self.resets.push(id);
        frame::write(kind::RST_STREAM, 0, id, &code.0.to_be_bytes(), &mut self.out);
    }

    /// Says that no more streams are taken, but those that are on the way.
    pub fn shut_down(&mut self) {
        if self.leave == Leave::No {
            self.leave = Leave::Announced;
            self.write_goaway(MAX_31_BITS, Code::NO_ERROR);
            frame::write(kind::PING, 0, 0, &PARTING, &mut self.out);
        }
    }

    /// Says that the connection ends now, for this reason.
    pub fn abort(&mut self, code: Code) {
        self.leave = Leave::After(self.last_received);
        self.write_goaway(self.last_received, code);
    }

    pub(super) fn write_goaway(&mut self, last: u32, code: Code) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&code.0.to_be_bytes());
        frame::write(kind::GOAWAY, 0, 0, &payload, &mut self.out);
    }

    /// Whether the peer has been told that no more streams are served, and all have ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.leave, Leave::After(_)) && self.streams.len() == 0
    }

    /// Asks the peer for an answer, which is [`Event::Pong`].
    pub fn ping(&mut self, payload: [u8; 8]) {
        frame::write(kind::PING, 0, 0, &payload, &mut self.out);
    }
}

/// The payload of a `WINDOW_UPDATE` frame, whose increment is never more than a window.
fn grant_bytes(grant: i64) -> [u8; 4] {
    u32::try_from(grant).unwrap_or(MAX_31_BITS).to_be_bytes()
}
