//! The peer's unidirectional streams (RFC 9114 section 6.2): control, and those of QPACK.

use std::time::Duration;

use super::code::{Code, Fault};
use super::frame::{self, Header, HeaderReader, kind};
use super::qpack::{Decoder, DecoderStream, Encoder, EncoderStream};
use super::settings::Settings;
use crate::h2::flood::Budget;
use crate::priority::Priority;
use crate::varint;

/// One side of a connection, beside its request streams.
#[derive(Debug)]
pub struct Connection {
    is_server: bool,
    /// The peer's settings; none before they have come.
    peer: Option<Settings>,
    /// The critical streams that the peer has opened.
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    /// The last identifier in a GOAWAY of the peer.
    goaway: Option<u64>,
    /// The last `MAX_PUSH_ID` of a client.
    push_id_max: Option<u64>,
    budget: Budget,
    /// For instructions on the streams of QPACK.
    instruction_budget: Budget,
    local: Settings,
    decoder: Decoder,
    encoder: Encoder,
}

/// A unidirectional stream of the peer.
#[derive(Debug)]
pub struct UniStream(State);

#[derive(Debug)]
enum State {
    /// Its kind has not come whole.
    New {
        bytes: [u8; varint::BYTES_MAX],
        len: u8,
    },
    Control {
        header: HeaderReader,
        frame: Option<Header>,
        payload: Vec<u8>,
    },
    Encoder(EncoderStream),
    Decoder(DecoderStream),
    /// A stream of a kind that is not known.
    Unknown,
}

/// A unidirectional stream of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnStream {
    /// Frames about the connection.
    Control,
    /// Instructions for the peer's table. It is opened when there are some.
    Encoder,
    /// Instructions about our table. It is opened when there are some.
    Decoder,
}

/// The use that the owner has for a stream's further bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamUse {
    /// They are given to the connection.
    Needed,
    /// The stream is of an unknown kind, and the peer is asked to send no more on it.
    Unknown,
}

/// A part of the conversation, as the peer has said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's settings have come.
    Settings,
    /// The peer takes, or opens, no requests from this identifier on.
    Goaway(u64),
    /// A client has changed the priority of the request on this stream (RFC 9218 section 7.2).
    Priority(u64, Priority),
}

/// Kinds of unidirectional streams.
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const QPACK_ENCODER: u64 = 0x2;
const QPACK_DECODER: u64 = 0x3;

/// The longest payload of a frame on the control stream that has a meaning.
const PAYLOAD_BYTES_MAX: u64 = 4096;

/// Instructions of QPACK that may accompany a request: a client may insert each of its fields.
const INSTRUCTIONS_PER_REQUEST: u32 = 64;
/// Instructions of ours that wait to be sent, in bytes. A client that takes none has to go.
const UNSENT_BYTES_MAX: usize = 16 << 10;

const FLOOD: Fault = Fault::of_connection(Code::EXCESSIVE_LOAD);
const UNEXPECTED: Fault = Fault::of_connection(Code::FRAME_UNEXPECTED);
const BROKEN: Fault = Fault::of_connection(Code::FRAME_ERROR);

impl UniStream {
    /// A stream that has begun.
    pub fn new() -> Self {
        Self(State::New { bytes: [0; varint::BYTES_MAX], len: 0 })
    }
}

impl Default for UniStream {
    fn default() -> Self {
        Self::new()
    }
}

impl Connection {
    /// The server's side with its settings. `now` is time on any clock that does not go back.
    pub fn server(local: Settings, now: Duration) -> Self {
        Self::new(true, local, now)
    }

    /// The client's side.
    pub fn client(local: Settings, now: Duration) -> Self {
        Self::new(false, local, now)
    }

    fn new(is_server: bool, local: Settings, now: Duration) -> Self {
        let table_bytes_max = usize::try_from(local.qpack_table_bytes_max).unwrap_or(usize::MAX);
        Self {
            is_server,
            peer: None,
            has_control: false,
            has_encoder: false,
            has_decoder: false,
            goaway: None,
            push_id_max: None,
            budget: Budget::new(now),
            instruction_budget: Budget::new(now),
            local,
            decoder: Decoder::new(table_bytes_max),
            encoder: Encoder::default(),
        }
    }

    /// Appends the beginning of a stream of this side: its kind, and SETTINGS on the control stream.
    pub fn begin(&self, stream: OwnStream, out: &mut Vec<u8>) {
        match stream {
            OwnStream::Control => {
                varint::write(CONTROL, out);
                self.local.write(out);
            }
            OwnStream::Encoder => varint::write(QPACK_ENCODER, out),
            OwnStream::Decoder => varint::write(QPACK_DECODER, out),
        }
    }

    /// The bytes that wait to be sent on a stream of QPACK. The owner removes what it has sent.
    pub fn unsent_encoder(&mut self) -> &mut Vec<u8> {
        self.encoder.out()
    }

    /// The same of the decoder stream.
    pub fn unsent_decoder(&mut self) -> &mut Vec<u8> {
        self.decoder.out()
    }

    /// The decoder of the peer's header blocks.
    pub fn decoder(&mut self) -> &mut Decoder {
        &mut self.decoder
    }

    /// The encoder of this side's header blocks.
    pub fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// Checks that the peer takes what it is told.
    ///
    /// # Errors
    /// Too much waits to be sent.
    pub fn check_unsent(&mut self) -> Result<(), Fault> {
        if self.decoder.out().len() > UNSENT_BYTES_MAX { Err(FLOOD) } else { Ok(()) }
    }

    /// The peer's settings; the default ones before they have come.
    pub fn peer_settings(&self) -> Settings {
        self.peer.unwrap_or_default()
    }

    /// Whether the peer has sent more than half of the frames without a use, or of the instructions, with
    /// which its connection ends.
    pub fn is_costly(&self) -> bool {
        self.budget.is_low() || self.instruction_budget.is_low()
    }

    /// Adds the useless frames that may accompany a request.
    pub fn note_request(&mut self) {
        self.budget.note_request();
        self.instruction_budget.add(INSTRUCTIONS_PER_REQUEST);
    }

    /// Reads on in a unidirectional stream, until there is an event or `input` has been read. `now` is of the
    /// same clock as before.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn receive(
        &mut self,
        stream: &mut UniStream,
        input: &mut &[u8],
        now: Duration,
    ) -> Result<Option<Event>, Fault> {
        loop {
            match &mut stream.0 {
                State::New { bytes, len } => {
                    let Some((first, rest)) = input.split_first() else { return Ok(None) };
                    bytes[usize::from(*len)] = *first;
                    *len += 1;
                    *input = rest;
                    if let Some((kind, _)) = varint::read(&bytes[..usize::from(*len)]) {
                        stream.0 = self.open(kind)?;
                    }
                }
                State::Control { header, frame, payload } => {
                    let Some((header, payload)) = next_frame(header, frame, payload, input)? else {
                        return Ok(None);
                    };
                    if let Some(event) = self.frame(header.kind, &payload, now)? {
                        return Ok(Some(event));
                    }
                }
                State::Encoder(stream) => {
                    let budget = &mut self.instruction_budget;
                    return stream.receive(&mut self.decoder, input, || pay(budget, now)).map(|()| None);
                }
                State::Decoder(stream) => {
                    let budget = &mut self.instruction_budget;
                    return stream.receive(&mut self.encoder, input, || pay(budget, now)).map(|()| None);
                }
                State::Unknown => {
                    *input = &[];
                    return Ok(None);
                }
            }
        }
    }

    /// Whether a stream's bytes are of use.
    pub fn use_of(stream: &UniStream) -> StreamUse {
        if matches!(stream.0, State::Unknown) { StreamUse::Unknown } else { StreamUse::Needed }
    }

    /// Notes that a stream has ended or was reset.
    ///
    /// # Errors
    /// The connection needs it.
    pub fn end(stream: &UniStream) -> Result<(), Fault> {
        match stream.0 {
            // RFC 9114 section 6.2: a stream may end before its kind has come.
            State::New { .. } | State::Unknown => Ok(()),
            _ => Err(Fault::of_connection(Code::CLOSED_CRITICAL_STREAM)),
        }
    }

    fn open(&mut self, kind: u64) -> Result<State, Fault> {
        let (has_opened, state) = match kind {
            CONTROL => {
                let header = HeaderReader::default();
                (&mut self.has_control, State::Control { header, frame: None, payload: Vec::new() })
            }
            QPACK_ENCODER => (&mut self.has_encoder, State::Encoder(EncoderStream::default())),
            QPACK_DECODER => (&mut self.has_decoder, State::Decoder(DecoderStream::default())),
            // Only servers push, and only to clients that allow it, which ours do not.
            PUSH if self.is_server => return Err(Fault::of_connection(Code::STREAM_CREATION_ERROR)),
            PUSH => return Err(Fault::of_connection(Code::ID_ERROR)),
            _ => return Ok(State::Unknown),
        };
        if std::mem::replace(has_opened, true) {
            return Err(Fault::of_connection(Code::STREAM_CREATION_ERROR));
        }
        Ok(state)
    }

    /// Acts on a frame of the control stream.
    fn frame(&mut self, kind: u64, payload: &[u8], now: Duration) -> Result<Option<Event>, Fault> {
        if self.peer.is_none() {
            if kind != kind::SETTINGS {
                return Err(Fault::of_connection(Code::MISSING_SETTINGS));
            }
            let peer = Settings::read(payload)?;
            self.peer = Some(peer);
            self.encoder.set_peer_table_bytes(peer.qpack_table_bytes_max);
            return Ok(Some(Event::Settings));
        }
        if !self.budget.spend(now) {
            return Err(FLOOD);
        }
        match kind {
            kind::GOAWAY => {
                let id = only_integer(payload)?;
                // The identifier may only shrink; that of a server is one of a request stream.
                let is_wrong = self.goaway.is_some_and(|last| id > last) || !self.is_server && id % 4 != 0;
                if is_wrong {
                    return Err(Fault::of_connection(Code::ID_ERROR));
                }
                self.goaway = Some(id);
                Ok(Some(Event::Goaway(id)))
            }
            kind::MAX_PUSH_ID if self.is_server => {
                let id = only_integer(payload)?;
                if self.push_id_max.replace(id).is_some_and(|last| id < last) {
                    return Err(Fault::of_connection(Code::ID_ERROR));
                }
                Ok(None)
            }
            kind::CANCEL_PUSH => {
                let id = only_integer(payload)?;
                // Nothing has been pushed; a push that is not allowed cannot be cancelled.
                if self.push_id_max.is_none_or(|max| id > max) {
                    return Err(Fault::of_connection(Code::ID_ERROR));
                }
                Ok(None)
            }
            kind::PRIORITY_UPDATE if self.is_server => {
                let (id, len) = varint::read(payload).ok_or(BROKEN)?;
                if id % 4 != 0 {
                    return Err(Fault::of_connection(Code::ID_ERROR));
                }
                Ok(Some(Event::Priority(id, Priority::parse(&payload[len..]))))
            }
            kind::PRIORITY_UPDATE_OF_PUSH if self.is_server => Err(Fault::of_connection(Code::ID_ERROR)),
            kind::DATA
            | kind::HEADERS
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_OF_PUSH => Err(UNEXPECTED),
            kind if kind::is_of_http2(kind) => Err(UNEXPECTED),
            _ => Ok(None),
        }
    }
}

/// Takes an instruction of QPACK from the budget.
fn pay(budget: &mut Budget, now: Duration) -> Result<(), Fault> {
    if budget.spend(now) { Ok(()) } else { Err(FLOOD) }
}

/// Reads on in the control stream up to the end of a frame; the payload of an unknown one is left out.
fn next_frame(
    header: &mut HeaderReader,
    frame: &mut Option<Header>,
    payload: &mut Vec<u8>,
    input: &mut &[u8],
) -> Result<Option<(Header, Vec<u8>)>, Fault> {
    let begun = if let Some(begun) = frame {
        begun
    } else {
        let Some(next) = header.read(input) else { return Ok(None) };
        if is_read(next.kind) && next.len > PAYLOAD_BYTES_MAX {
            return Err(FLOOD);
        }
        payload.clear();
        frame.insert(next)
    };
    let len = usize::try_from(begun.len).unwrap_or(usize::MAX).min(input.len());
    let (piece, rest) = input.split_at(len);
    *input = rest;
    begun.len -= len as u64;
    if is_read(begun.kind) {
        payload.extend_from_slice(piece);
    }
    if begun.len > 0 {
        return Ok(None);
    }
    Ok(frame.take().map(|frame| (frame, std::mem::take(payload))))
}

/// Whether the payload of a frame on the control stream has a meaning.
fn is_read(kind: u64) -> bool {
    matches!(
        kind,
        kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH | kind::PRIORITY_UPDATE
    )
}

/// The integer that is all of a payload.
fn only_integer(payload: &[u8]) -> Result<u64, Fault> {
    varint::read(payload).filter(|(_, len)| *len == payload.len()).map(|(id, _)| id).ok_or(BROKEN)
}

/// Appends a GOAWAY frame for the control stream: requests from this identifier on are not served.
pub fn write_goaway(id: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    varint::write(id, &mut payload);
    frame::write(kind::GOAWAY, &payload, out);
}
