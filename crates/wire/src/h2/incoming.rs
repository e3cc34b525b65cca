//! Frames from the peer (RFC 9113 section 6).

use std::time::Duration;

use super::code::Code;
use super::connection::{BlockOf, BlockState, Connection, Content, Event, Fault, Leave, PARTING, PREFACE};
use super::flood::Begun;
use super::frame::{
    self, HEADER_BYTES, Header, MAX_31_BITS, PAYLOAD_BYTES_MAX, flag, kind, signed, unpadded,
};
use super::settings::acknowledge;
use super::stream::{Key, Reset, Side, State};
use crate::priority::Priority;

/// The outcome of a look at the next bytes.
enum Step<'a> {
    Event(Event<'a>),
    /// There is more to look at.
    Next,
    /// More bytes have to come first.
    Short,
}

impl<'a> Step<'a> {
    fn of(event: Option<Event<'a>>) -> Self {
        event.map_or(Self::Next, Self::Event)
    }
}

impl<T> Connection<T> {
    /// Reads on in the bytes that have come, and removes from `input` those that have been read. Returns none
    /// once more have to come; the bytes that are left have to be at the front of the next call's. `now` is
    /// time on any clock that does not go back.
    ///
    /// # Errors
    /// The connection has to end; [`abort`](Self::abort) tells the peer.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8], now: Duration) -> Result<Option<Event<'a>>, Fault> {
        self.drop_block()?;
        loop {
            match self.step(input, now)? {
                Step::Event(event) => return Ok(Some(event)),
                Step::Next => {
                    if let Some(key) = self.drop_unwanted()? {
                        return Ok(Some(Event::Reset(key)));
                    }
                }
                Step::Short => break,
            }
        }
        let bytes = self.block.frame_bytes + input.len();
        let since = self.begun.map_or(now, |begun| begun.since);
        self.begun = (bytes > 0).then_some(Begun { since, bytes });
        Ok(None)
    }

    fn step<'a>(&mut self, input: &mut &'a [u8], now: Duration) -> Result<Step<'a>, Fault> {
        if let Some(content) = self.content {
            return Ok(self.content(content, input));
        }
        if !self.has_preface {
            let Some((preface, rest)) = input.split_at_checked(PREFACE.len()) else {
                return if PREFACE.starts_with(input) {
                    Ok(Step::Short)
                } else {
                    Err(Code::PROTOCOL_ERROR.into())
                };
            };
            if preface != PREFACE {
                return Err(Code::PROTOCOL_ERROR.into());
            }
            self.has_preface = true;
            *input = rest;
        }
        let Some(header) = Header::read(input) else { return Ok(Step::Short) };
        if header.len > PAYLOAD_BYTES_MAX {
            return Err(Code::FRAME_SIZE_ERROR.into());
        }
        self.check_order(header)?;
        if header.kind == kind::DATA {
            return self.begin_content(header, input, now);
        }
        let Some(payload) = input.get(HEADER_BYTES..HEADER_BYTES + header.len) else {
            return Ok(Step::Short);
        };
        *input = &input[HEADER_BYTES + header.len..];
        let event = self.frame(header, payload, now)?;
        if !matches!(self.block.state, BlockState::Begun(..)) {
            (self.begun, self.block.frame_bytes) = (None, 0);
        }
        Ok(Step::of(event))
    }

    /// Checks that a frame may come after the ones before it.
    fn check_order(&self, header: Header) -> Result<(), Fault> {
        let is_right = match self.block.state {
            BlockState::Begun(_, id) => header.kind == kind::CONTINUATION && header.stream == id,
            _ if !self.has_settings => header.kind == kind::SETTINGS && !header.has(flag::ACK),
            _ => header.kind != kind::CONTINUATION,
        };
        if is_right { Ok(()) } else { Err(Code::PROTOCOL_ERROR.into()) }
    }

    fn frame<'a>(
        &mut self,
        header: Header,
        payload: &'a [u8],
        now: Duration,
    ) -> Result<Option<Event<'a>>, Fault> {
        match header.kind {
            kind::HEADERS => {}
            _ => self.spend(now)?,
        }
        match header.kind {
            kind::HEADERS => {
                let event = self.headers(header, payload)?;
                if let BlockState::Begun(BlockOf::Nothing(_), _) | BlockState::Whole(BlockOf::Nothing(_), _) =
                    self.block.state
                {
                    self.spend(now)?;
                }
                Ok(event)
            }
            kind::CONTINUATION => self.continuation(header, payload),
            kind::PRIORITY => self.priority_frame(header, payload),
            kind::RST_STREAM => self.rst_stream(header, payload),
            kind::SETTINGS => self.settings(header, payload),
            kind::PUSH_PROMISE => Err(Code::PROTOCOL_ERROR.into()),
            kind::PING => self.answer_ping(header, payload),
            kind::GOAWAY => self.goaway(header, payload),
            kind::WINDOW_UPDATE => self.window_update(header, payload),
            kind::PRIORITY_UPDATE => self.priority_update(header, payload),
            _ => Ok(None),
        }
    }

    /// Takes a frame that serves no request from a client's budget.
    fn spend(&mut self, now: Duration) -> Result<(), Fault> {
        if self.is_server && !self.budget.spend(now) {
            return Err(Code::ENHANCE_YOUR_CALM.into());
        }
        Ok(())
    }

    // === Content ===

    fn begin_content<'a>(
        &mut self,
        header: Header,
        input: &mut &'a [u8],
        now: Duration,
    ) -> Result<Step<'a>, Fault> {
        let (is_padded, is_end) = (header.has(flag::PADDED), header.has(flag::END_STREAM));
        let padding = match input.get(HEADER_BYTES) {
            Some(&padding) if is_padded && header.len > 0 => usize::from(padding),
            None if is_padded && header.len > 0 => return Ok(Step::Short),
            _ if is_padded => return Err(Code::FRAME_SIZE_ERROR.into()),
            _ => 0,
        };
        let prefix = usize::from(is_padded);
        let Some(left) = header.len.checked_sub(prefix + padding) else {
            return Err(Code::PROTOCOL_ERROR.into());
        };
        if left == 0 && !is_end {
            self.spend(now)?;
        }
        *input = &input[HEADER_BYTES + prefix..];
        (self.begun, self.block.frame_bytes) = (None, 0);
        let frame_len = signed(header.len);
        self.receive_window -= frame_len;
        if self.receive_window < 0 {
            return Err(Code::FLOW_CONTROL_ERROR.into());
        }
        let mut content = Content { key: None, left, padding, is_end };
        let Some(key) = self.streams.find(header.stream) else {
            self.check_unopened(header.stream)?;
            if !self.was_reset(header.stream) && !self.is_left_out(header.stream) {
                self.write_reset(header.stream, Code::STREAM_CLOSED);
            }
            self.content = Some(content);
            return Ok(Step::Next);
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(Step::Next) };
        let len = left as u64;
        let code = if !stream.state.may_receive() {
            Some(Code::STREAM_CLOSED)
        } else if !stream.has_head {
            Some(Code::PROTOCOL_ERROR)
        } else if stream.receive_window < frame_len {
            Some(Code::FLOW_CONTROL_ERROR)
        } else if stream.expected.is_some_and(|expected| expected < len || is_end && expected > len) {
            Some(Code::PROTOCOL_ERROR)
        } else {
            None
        };
        if let Some(code) = code {
            self.content = Some(content);
            self.faults += 1;
            self.reset(key, code);
            return Ok(Step::Event(Event::Reset(key)));
        }
        stream.receive_window -= frame_len;
        content.key = Some(key);
        self.content = Some(content);
        // A frame without content is its own end.
        Ok(if left == 0 { self.content(content, input) } else { Step::Next })
    }

    /// Passes on the content of a frame that has come, as far as it has.
    fn content<'a>(&mut self, mut content: Content, input: &mut &'a [u8]) -> Step<'a> {
        if content.left == 0 && content.key.is_none() {
            return self.skip_padding(content, input);
        }
        let len = content.left.min(input.len());
        if len == 0 && content.left > 0 {
            return Step::Short;
        }
        let (bytes, rest) = input.split_at(len);
        *input = rest;
        content.left -= len;
        let key = if content.left == 0 { content.key.take() } else { content.key };
        self.content = Some(content);
        let is_end = content.left == 0 && content.is_end;
        if let Some(key) = key {
            return self.deliver(key, bytes, is_end);
        }
        self.renew_window();
        Step::Next
    }

    fn skip_padding<'a>(&mut self, mut content: Content, input: &mut &'a [u8]) -> Step<'a> {
        let len = content.padding.min(input.len());
        *input = &input[len..];
        content.padding -= len;
        self.content = (content.padding > 0).then_some(content);
        self.renew_window();
        if content.padding > 0 { Step::Short } else { Step::Next }
    }

    fn deliver<'a>(&mut self, key: Key, content: &'a [u8], is_end: bool) -> Step<'a> {
        let Some(stream) = self.streams.get_mut(key) else {
            self.renew_window();
            return Step::Next;
        };
        if !stream.state.may_receive() {
            self.renew_window();
            return Step::Next;
        }
        if let Some(expected) = &mut stream.expected {
            *expected = expected.saturating_sub(content.len() as u64);
        }
        stream.unread += content.len() as u32;
        self.unread += content.len() as u32;
        if is_end {
            self.note_received_end(key);
        } else if content.is_empty() {
            // Padding alone is nothing to read.
            self.renew_stream(key);
        }
        Step::Event(Event::Data { key, content, is_end })
    }

    // === Heads ===

    fn headers<'a>(&mut self, header: Header, payload: &'a [u8]) -> Result<Option<Event<'a>>, Fault> {
        let mut block = unpadded(header, payload).ok_or(Code::PROTOCOL_ERROR)?;
        let mut depends_on = None;
        if header.has(flag::PRIORITY) {
            let Some((&[a, b, c, d, _], rest)) = block.split_first_chunk() else {
                return Err(Code::FRAME_SIZE_ERROR.into());
            };
            depends_on = Some(frame::number([a, b, c, d]) & MAX_31_BITS);
            block = rest;
        }
        let mut of = self.purpose(header)?;
        if depends_on == Some(header.stream) {
            self.faults += 1;
            of = BlockOf::Nothing(Some(Code::PROTOCOL_ERROR));
        }
        self.block.bytes.clear();
        self.block.is_end = header.has(flag::END_STREAM);
        self.block.state = BlockState::Begun(of, header.stream);
        self.block.frame_bytes = 0;
        self.add_to_block(header, block)
    }

    /// The purpose of a header block on a stream, by the stream's state.
    fn purpose(&mut self, header: Header) -> Result<BlockOf, Fault> {
        let (id, is_end) = (header.stream, header.has(flag::END_STREAM));
        if let Some(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get(key)
        {
            let code = match stream.state.may_receive() {
                false => Code::STREAM_CLOSED,
                true if !stream.has_head => return Ok(BlockOf::Response(key)),
                true if is_end => return Ok(BlockOf::Trailers(key)),
                true => Code::PROTOCOL_ERROR,
            };
            self.faults += 1;
            return Ok(BlockOf::Nothing(Some(code)));
        }
        if !self.is_server || id % 2 == 0 {
            self.check_unopened(id)?;
            return Ok(BlockOf::Nothing(None));
        }
        if id <= self.last_received {
            return if self.was_reset(id) || self.is_left_out(id) {
                Ok(BlockOf::Nothing(None))
            } else {
                Err(Code::STREAM_CLOSED.into())
            };
        }
        self.last_received = id;
        if self.is_left_out(id) {
            return Ok(BlockOf::Nothing(None));
        }
        // Streams that have ended are held until their owners are done with them: who opens and resets them
        // faster than that is refused.
        let streams_max = self.limits.streams_max as usize;
        if self.streams.open_count() >= streams_max || self.streams.len() >= 2 * streams_max {
            return Ok(BlockOf::Nothing(Some(Code::REFUSED_STREAM)));
        }
        self.budget.note_request();
        Ok(BlockOf::Request)
    }

    fn continuation<'a>(&mut self, header: Header, payload: &'a [u8]) -> Result<Option<Event<'a>>, Fault> {
        self.add_to_block(header, payload)
    }

    fn add_to_block<'a>(&mut self, header: Header, part: &'a [u8]) -> Result<Option<Event<'a>>, Fault> {
        self.block.frame_bytes += HEADER_BYTES + header.len;
        self.block.bytes.extend_from_slice(part);
        // A field takes up to four times as many bytes in Huffman code as in plain text.
        if self.block.bytes.len() > 4 * self.limits.head_bytes_max as usize + PAYLOAD_BYTES_MAX {
            return Err(Code::ENHANCE_YOUR_CALM.into());
        }
        let BlockState::Begun(of, id) = self.block.state else { return Ok(None) };
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        self.block.state = BlockState::Whole(of, id);
        Ok(match of {
            BlockOf::Request => Some(Event::Request),
            BlockOf::Response(key) => Some(Event::Response(key)),
            BlockOf::Trailers(key) => Some(Event::Trailers(key)),
            BlockOf::Nothing(_) => None,
        })
    }

    /// Decodes a block that is for nobody. Returns the stream that is reset with it, if there is one.
    fn drop_unwanted(&mut self) -> Result<Option<Key>, Fault> {
        match self.block.state {
            BlockState::Whole(BlockOf::Nothing(_), _) => self.drop_block(),
            _ => Ok(None),
        }
    }

    // === All else ===

    fn priority_frame<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        if header.stream == 0 {
            return Err(Code::PROTOCOL_ERROR.into());
        }
        let &[a, b, c, d, _] = payload else {
            return Ok(self.fail(header.stream, Code::FRAME_SIZE_ERROR));
        };
        // The dependencies of RFC 7540 are obsolete and ignored, unless they make no sense.
        if frame::number([a, b, c, d]) & MAX_31_BITS == header.stream {
            return Ok(self.fail(header.stream, Code::PROTOCOL_ERROR));
        }
        Ok(None)
    }

    /// Resets a stream for a fault of the peer.
    fn fail<'a>(&mut self, id: u32, code: Code) -> Option<Event<'a>> {
        self.faults += 1;
        if let Some(key) = self.streams.find(id) {
            self.reset(key, code);
            return Some(Event::Reset(key));
        }
        self.write_reset(id, code);
        None
    }

    fn rst_stream<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        let &code = payload.as_array().ok_or(Code::FRAME_SIZE_ERROR)?;
        let Some(key) = self.streams.find(header.stream) else {
            self.check_unopened(header.stream)?;
            return Ok(None);
        };
        let code = Code(frame::number(code));
        self.end_by_peer(key, Reset { by: Side::Peer, code, is_unprocessed: false });
        Ok(Some(Event::Reset(key)))
    }

    fn end_by_peer(&mut self, key: Key, reset: Reset) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.state = State::Closed(Some(reset));
            self.streams.note_closed(key);
        }
    }

    fn settings<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        if header.stream != 0 {
            return Err(Code::PROTOCOL_ERROR.into());
        }
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Code::FRAME_SIZE_ERROR.into());
            }
            self.note_acknowledged();
            return Ok(None);
        }
        let before = i64::from(self.peer.window_bytes);
        let encoder = &mut self.encoder;
        self.peer.apply(payload, self.is_server, |bytes| encoder.set_peer_table_bytes(bytes as usize))?;
        self.has_settings = true;
        let more = i64::from(self.peer.window_bytes) - before;
        for stream in self.streams.all_mut().filter(|stream| !stream.state.is_closed()) {
            stream.send_window += more;
            if stream.send_window > i64::from(MAX_31_BITS) {
                return Err(Code::FLOW_CONTROL_ERROR.into());
            }
        }
        acknowledge(&mut self.out);
        Ok(Some(Event::RoomForAll))
    }

    fn answer_ping<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        if header.stream != 0 {
            return Err(Code::PROTOCOL_ERROR.into());
        }
        let &payload = payload.as_array().ok_or(Code::FRAME_SIZE_ERROR)?;
        if !header.has(flag::ACK) {
            frame::write(kind::PING, flag::ACK, 0, &payload, &mut self.out);
            return Ok(None);
        }
        if payload == PARTING && self.leave == Leave::Announced {
            self.leave = Leave::After(self.last_received);
            self.write_goaway(self.last_received, Code::NO_ERROR);
        }
        Ok(Some(Event::Pong(payload)))
    }

    fn goaway<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        if header.stream != 0 {
            return Err(Code::PROTOCOL_ERROR.into());
        }
        let Some((&[l0, l1, l2, l3, c0, c1, c2, c3], _)) = payload.split_first_chunk() else {
            return Err(Code::FRAME_SIZE_ERROR.into());
        };
        let last = frame::number([l0, l1, l2, l3]) & MAX_31_BITS;
        let code = Code(frame::number([c0, c1, c2, c3]));
        self.peer_leaves = true;
        if !self.is_server {
            for key in self.streams.open_above(last) {
                self.end_by_peer(key, Reset { by: Side::Peer, code, is_unprocessed: true });
            }
        }
        Ok(Some(Event::Goaway))
    }

    fn window_update<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        let &more = payload.as_array().ok_or(Code::FRAME_SIZE_ERROR)?;
        let more = i64::from(frame::number(more) & MAX_31_BITS);
        if header.stream == 0 {
            self.send_window += more;
            if more == 0 {
                return Err(Code::PROTOCOL_ERROR.into());
            }
            if self.send_window > i64::from(MAX_31_BITS) {
                return Err(Code::FLOW_CONTROL_ERROR.into());
            }
            return Ok(Some(Event::RoomForAll));
        }
        let found = self.streams.find(header.stream);
        let Some((key, stream)) = found.and_then(|key| Some((key, self.streams.get_mut(key)?))) else {
            self.check_unopened(header.stream)?;
            return Ok(None);
        };
        stream.send_window += more;
        if more == 0 {
            return Ok(self.fail(header.stream, Code::PROTOCOL_ERROR));
        }
        if stream.send_window > i64::from(MAX_31_BITS) {
            return Ok(self.fail(header.stream, Code::FLOW_CONTROL_ERROR));
        }
        Ok(Some(Event::Room(key)))
    }

    fn priority_update<'a>(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event<'a>>, Fault> {
        if header.stream != 0 || !self.is_server {
            return Err(Code::PROTOCOL_ERROR.into());
        }
        let Some((&id, value)) = payload.split_first_chunk() else {
            return Err(Code::FRAME_SIZE_ERROR.into());
        };
        let id = frame::number(id) & MAX_31_BITS;
        if id == 0 {
            return Err(Code::PROTOCOL_ERROR.into());
        }
        // One for a stream that has not begun may be ignored (RFC 9218 section 7.1).
        if let Some(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get_mut(key)
        {
            stream.priority = Priority::parse(value);
        }
        Ok(None)
    }

    /// Refuses a frame on a stream that nobody has opened; one of a stream that has ended may come.
    fn check_unopened(&self, id: u32) -> Result<(), Fault> {
        let is_peers = (id % 2 == 1) == self.is_server;
        let was_opened = if is_peers {
            self.is_server && id <= self.last_received
        } else {
            !self.is_server && id < self.next_id
        };
        if id != 0 && was_opened { Ok(()) } else { Err(Code::PROTOCOL_ERROR.into()) }
    }

    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.resets.contains(&id)
    }

    /// Whether a stream came after the last one that is served.
    fn is_left_out(&self, id: u32) -> bool {
        matches!(self.leave, Leave::After(last) if id > last)
    }
}
