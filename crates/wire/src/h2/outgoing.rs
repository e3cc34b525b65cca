//! Frames to the peer.

use super::connection::{Connection, Leave};
use super::frame::{HEADER_BYTES, Header, MAX_31_BITS, flag, kind, signed};
use super::hpack::Encoder;
use super::stream::{Key, State};
use crate::field::Known;
use crate::head::lines;

/// The stream or the connection has ended: nothing more can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream has ended")]
pub struct Gone;

/// The pseudo-header fields of a request that is sent (RFC 9113 section 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The field `:method`.
    pub method: &'a [u8],
    /// The field `:scheme` is `https`.
    pub is_https: bool,
    /// The field `:authority`.
    pub authority: &'a [u8],
    /// The field `:path`.
    pub path: &'a [u8],
}

impl<'a> RequestHead<'a> {
    /// The pseudo-header fields of a head in the form of HTTP/1; none if HTTP/2 cannot express it.
    pub fn of(head: &'a [u8], is_https: bool) -> Option<Self> {
        let line = &head[..memchr::memchr(b'\r', head)?];
        let mut words = line.split(|&b| b == b' ');
        let (method, path) = (words.next()?, words.next()?);
        let (_, _, authority) = lines(head).find(|(known, ..)| *known == Known::Host)?;
        (!path.is_empty()).then_some(Self { method, is_https, authority, path })
    }
}

impl<T> Connection<T> {
    /// The frames that are to be written.
    pub fn unwritten(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// Removes frames that have been written.
    pub fn note_written(&mut self, len: usize) {
        self.written += len;
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > OUT_BYTES_KEPT {
                self.out = Vec::new();
            }
        } else if self.written >= OUT_BYTES_DROPPED_MIN && self.written >= self.out.len() / 2 {
            // A peer that is slow may never take all of it.
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Bytes of content that a stream may send now.
    pub fn room(&self, key: Key) -> usize {
        let Some(stream) = self.streams.get(key) else { return 0 };
        let window = usize::try_from(stream.send_window.min(self.send_window)).unwrap_or(0);
        window.min(self.limits.unwritten_bytes_max.saturating_sub(self.unwritten().len()))
    }

    /// Whether there is room among the frames to be written.
    pub fn has_room(&self) -> bool {
        self.unwritten().len() < self.limits.unwritten_bytes_max
    }

    /// Whether a stream is open in the direction to the peer.
    pub fn may_send(&self, key: Key) -> bool {
        self.streams.get(key).is_some_and(|stream| stream.state.may_send())
    }

    /// Whether a stream waits for the peer: its windows have no room.
    pub fn is_held_by_peer(&self, key: Key) -> bool {
        self.streams.get(key).is_some_and(|stream| stream.send_window.min(self.send_window) <= 0)
    }

    /// Sends the head of a response, which is interim below 200; with `is_end` nothing follows it. `fields`
    /// are names and values without those of HTTP/1 alone.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn respond<'f>(
        &mut self,
        key: Key,
        status: u16,
        fields: impl Iterator<Item = (Known, &'f [u8], &'f [u8])>,
        is_end: bool,
    ) -> Result<(), Gone> {
        self.streams.get(key).filter(|stream| stream.state.may_send()).ok_or(Gone)?;
        self.write_block(key, is_end, |encoder, out| {
            encoder.status(status, out);
            for (known, name, value) in fields {
                encoder.usual_field(known, name, value, out);
            }
        });
        Ok(())
    }

    /// Opens a stream with a request. `takes_trailers` is said by the field `te`.
    ///
    /// # Errors
    /// The peer takes no more streams.
    pub fn open<'f>(
        &mut self,
        head: RequestHead<'_>,
        fields: impl Iterator<Item = (Known, &'f [u8], &'f [u8])>,
        takes_trailers: bool,
        is_end: bool,
        data: T,
    ) -> Result<Key, Gone> {
        let is_leaving = self.peer_leaves || self.leave != Leave::No;
        if self.is_server || self.next_id > MAX_31_BITS || is_leaving {
            return Err(Gone);
        }
        let id = self.next_id;
        self.next_id += 2;
        let key = self.streams.add(self.stream(id, State::Open, None, data));
        self.write_block(key, is_end, |encoder, out| {
            encoder.method(head.method, out);
            encoder.scheme(head.is_https, out);
            encoder.authority(head.authority, out);
            encoder.path(head.path, out);
            for (known, name, value) in fields {
                encoder.usual_field(known, name, value, out);
            }
            if takes_trailers {
                encoder.usual_field(Known::Te, b"te", b"trailers", out);
            }
        });
        Ok(key)
    }

    /// Sends as much of the content as there is [room](Self::room) for, and returns its length. With `is_end`
    /// the stream ends with the last of it.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send(&mut self, key: Key, content: &[u8], is_end: bool) -> Result<usize, Gone> {
        let len = content.len().min(self.room(key));
        let payload_bytes_max = self.peer.payload_bytes_max;
        let stream = self.streams.get_mut(key).filter(|stream| stream.state.may_send()).ok_or(Gone)?;
        let id = stream.id;
        stream.send_window -= signed(len);
        self.send_window -= signed(len);
        let ends = is_end && len == content.len();
        if len == 0 && !ends {
            return Ok(0);
        }
        self.out.reserve(len + (len / payload_bytes_max + 1) * HEADER_BYTES);
        let mut rest = &content[..len];
        loop {
            let (payload, after) = rest.split_at(rest.len().min(payload_bytes_max));
            let flags = if ends && after.is_empty() { flag::END_STREAM } else { 0 };
            let header = Header { len: payload.len(), kind: kind::DATA, flags, stream: id };
            self.out.extend_from_slice(&header.bytes());
            self.out.extend_from_slice(payload);
            self.budget.note_sent_data();
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        if ends {
            self.note_sent_end(key);
        }
        Ok(len)
    }

    /// Ends a stream with trailers.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send_trailers<'f>(
        &mut self,
        key: Key,
        fields: impl Iterator<Item = (Known, &'f [u8], &'f [u8])>,
    ) -> Result<(), Gone> {
        self.streams.get(key).filter(|stream| stream.state.may_send()).ok_or(Gone)?;
        self.write_block(key, true, |encoder, out| {
            for (known, name, value) in fields {
                encoder.usual_field(known, name, value, out);
            }
        });
        Ok(())
    }

    fn note_sent_end(&mut self, key: Key) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.state = stream.state.sent_end();
            if stream.state.is_closed() {
                self.streams.note_closed(key);
            }
        }
    }

    /// Writes a header block in as many frames as it takes.
    fn write_block(&mut self, key: Key, is_end: bool, encode: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        let Some(id) = self.streams.get(key).map(|stream| stream.id) else { return };
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(&mut self.out);
        encode(&mut self.encoder, &mut self.out);
        let len = self.out.len() - start - HEADER_BYTES;
        let end_flag = if is_end { flag::END_STREAM } else { 0 };
        if len <= self.peer.payload_bytes_max {
            let flags = end_flag | flag::END_HEADERS;
            let header = Header { len, kind: kind::HEADERS, flags, stream: id };
            self.out[start..start + HEADER_BYTES].copy_from_slice(&header.bytes());
        } else {
            self.split_block(start, id, end_flag);
        }
        if is_end {
            self.note_sent_end(key);
        }
    }

    #[cold]
    fn split_block(&mut self, start: usize, id: u32, end_flag: u8) {
        let block = self.out.split_off(start);
        let mut pieces = block[HEADER_BYTES..].chunks(self.peer.payload_bytes_max).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, end_flag);
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            super::frame::write(kind, flags, id, piece, &mut self.out);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }
}

/// The longest memory for frames that a connection keeps while it has none.
const OUT_BYTES_KEPT: usize = 4096;
/// The least number of written bytes that are removed while others wait. At least as many are removed as are
/// moved.
const OUT_BYTES_DROPPED_MIN: usize = 16 << 10;
