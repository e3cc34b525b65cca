//! The state of a request stream: bytes that have come and are understood, and frames that wait to be
//! written.

use std::task::{Context, Waker};

use bytes::Bytes;
use clock::Moment;
use quinn_proto::{Chunks, Dir, ReadError, StreamId, VarInt, WriteError};
use wire::h3::{BlockReader, Code, Fault, Message, Part};

use crate::io::wakers::{remember, wake};

/// The state of a request stream.
pub(super) struct Slot {
    pub(super) message: Message,
    /// Bytes that have come and have not been understood.
    pub(super) unread: Bytes,
    /// Content that has been understood and not been taken.
    pub(super) content: Option<Bytes>,
    /// The header block that has come refers to entries of the table that have not.
    pub(super) waits_for_entries: bool,
    /// Trailers have come that are to be read.
    has_trailers: bool,
    /// Trailers that have come, as lines of HTTP/1.
    pub(super) trailers: Vec<u8>,
    /// No bytes follow.
    pub(super) has_end: bool,
    /// A task has the request.
    pub(super) is_served: bool,
    /// When the stream was opened.
    pub(super) since: Moment,
    /// Bytes of the head that have come.
    pub(super) head_bytes: usize,
    /// The head is longer than its bound.
    pub(super) is_head_too_large: bool,
    /// Frames, or fronts of them, that have to be written before any content.
    pub(super) out: Vec<u8>,
    /// The stream ends after them.
    pub(super) ends_after_out: bool,
    /// Its task is done with it; it is let go when the last frames have been written.
    pub(super) is_left: bool,
    /// Bytes of content that the last front has announced and that have not been written.
    pub(super) announced: usize,
    /// Our side has ended: nothing more may be written.
    pub(super) has_finished: bool,
    /// The client's windows, or our bound of unacknowledged bytes, have no room.
    pub(super) is_blocked: bool,
    /// The driver has to send what was written to the connection before.
    pub(super) awaits_sending: bool,
    /// The task that writes runs behind other work.
    is_late: bool,
    /// The side that has broken the stream off.
    pub(super) broken_by: Option<Side>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) watcher: Option<Waker>,
}

/// A side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Us,
    Peer,
}

/// Bytes that are taken from a stream at once.
pub(super) const READ_BYTES_MAX: usize = 16 << 10;

pub(super) fn varint(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// The number of a stream, as HTTP/3 names it.
pub(super) fn number(id: StreamId) -> u64 {
    VarInt::from(id).into()
}

/// Opens a stream of ours, which goes before all responses.
pub(super) fn open_uni(quinn: &mut quinn_proto::Connection) -> Option<StreamId> {
    let id = quinn.streams().open(Dir::Uni)?;
    // It has just been opened, so that it is there.
    let _ = quinn.send_stream(id).set_priority(1);
    Some(id)
}

/// Writes what there is room for.
pub(super) fn write_stream(quinn: &mut quinn_proto::Connection, id: Option<StreamId>, out: &mut Vec<u8>) {
    if let Some(id) = id
        && !out.is_empty()
        && let Ok(len) = quinn.send_stream(id).write(out)
    {
        out.drain(..len);
    }
}

/// Why a head does not come.
pub(super) enum HeadEnd {
    /// The client has reset the stream.
    Reset,
    Fault(Fault),
}

impl Slot {
    pub(super) fn new(since: Moment, head_bytes_max: usize) -> Self {
        Self {
            message: Message::new(head_bytes_max),
            unread: Bytes::new(),
            content: None,
            waits_for_entries: false,
            has_trailers: false,
            trailers: Vec::new(),
            has_end: false,
            is_served: false,
            since,
            head_bytes: 0,
            is_head_too_large: false,
            out: Vec::new(),
            ends_after_out: false,
            is_left: false,
            announced: 0,
            has_finished: false,
            is_blocked: false,
            awaits_sending: false,
            is_late: false,
            broken_by: None,
            reader: None,
            writer: None,
            watcher: None,
        }
    }

    /// Notes that a task waits to write, and has it run behind other work where the driver does.
    pub(super) fn await_writing(&mut self, cx: &Context<'_>, is_late: bool) {
        remember(&mut self.writer, cx);
        if std::mem::replace(&mut self.is_late, is_late) || is_late {
            reactor::set_late(cx, is_late);
        }
    }

    pub(super) fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.writer, &mut self.watcher] {
            wake(waker);
        }
    }

    pub(super) fn wake_reader(&mut self) {
        wake(&mut self.reader);
    }

    /// Notes that the client has broken the stream off, or that the connection has ended.
    pub(super) fn note_broken_by_peer(&mut self) {
        if !self.has_finished {
            self.broken_by.get_or_insert(Side::Peer);
        }
        self.wake_all();
    }

    /// Reads the head. True once it has come.
    pub(super) fn read_head(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        id: StreamId,
    ) -> Result<bool, HeadEnd> {
        let mut recv = quinn.recv_stream(id);
        let Ok(mut chunks) = recv.read(true) else { return Ok(false) };
        loop {
            match chunks.next(READ_BYTES_MAX) {
                Ok(Some(chunk)) => {
                    let mut input = &chunk.bytes[..];
                    self.head_bytes += input.len();
                    match self.message.receive(&mut input).map_err(HeadEnd::Fault)? {
                        None => {}
                        Some(part) => {
                            self.is_head_too_large = part == Part::HeadTooLarge;
                            self.unread = chunk.bytes.slice_ref(input);
                            self.note_end_if_it_has_come(&mut chunks);
                            return Ok(true);
                        }
                    }
                }
                Ok(None) => {
                    self.has_end = true;
                    return self.message.end().map(|()| false).map_err(HeadEnd::Fault);
                }
                Err(ReadError::Blocked) => return Ok(false),
                Err(ReadError::Reset(_)) => return Err(HeadEnd::Reset),
            }
        }
    }

    /// A request without content nearly always ends together with its head.
    fn note_end_if_it_has_come(&mut self, chunks: &mut Chunks<'_>) {
        if !self.unread.is_empty() {
            return;
        }
        match chunks.next(READ_BYTES_MAX) {
            Ok(Some(chunk)) => self.unread = chunk.bytes,
            Ok(None) => self.has_end = true,
            Err(ReadError::Reset(_)) => self.broken_by = Some(Side::Peer),
            Err(ReadError::Blocked) => {}
        }
    }

    /// Whether all of the request has come and was understood, though its content may not have been taken.
    pub(super) fn is_whole(&self) -> bool {
        self.has_end && self.unread.is_empty() && !self.has_trailers && !self.is_head_too_large
    }

    /// Notes what follows a head that waits for entries of the table; false, as such a head has come before.
    pub(super) fn read_end(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        id: StreamId,
    ) -> Result<bool, HeadEnd> {
        if let Ok(mut chunks) = quinn.recv_stream(id).read(true)
            && !self.has_end
        {
            self.note_end_if_it_has_come(&mut chunks);
        }
        if self.broken_by.is_some() { Err(HeadEnd::Reset) } else { Ok(false) }
    }

    /// Understands content or trailers, as far as bytes have come. Returns whether there is content to take,
    /// or none while nothing has come.
    pub(super) fn read_content(
        &mut self,
        quinn: &mut quinn_proto::Connection,
        id: StreamId,
        mut reader: BlockReader<'_>,
    ) -> Result<Option<bool>, Fault> {
        loop {
            if self.content.is_some() {
                return Ok(Some(true));
            }
            if self.has_trailers {
                if self.waits_for_entries {
                    return Ok(None);
                }
                self.has_trailers = false;
                self.message.trailers(reader.again(), &mut self.trailers)?;
            }
            if !self.unread.is_empty() {
                let mut input = &self.unread[..];
                let part = self.message.receive(&mut input)?;
                let content = match part {
                    Some(Part::Content(piece)) if !piece.is_empty() => Some(self.unread.slice_ref(piece)),
                    _ => None,
                };
                self.has_trailers = part == Some(Part::Trailers);
                if part == Some(Part::HeadTooLarge) {
                    return Err(Fault::of_stream(Code::EXCESSIVE_LOAD));
                }
                self.unread = self.unread.slice_ref(input);
                self.content = content;
                if self.has_trailers {
                    self.waits_for_entries = self.message.is_blocked(reader.decoder, reader.stream)?;
                }
                if self.has_end && self.unread.is_empty() {
                    self.message.end()?;
                }
                continue;
            }
            if self.has_end {
                return Ok(Some(false));
            }
            if !self.read_bytes(quinn, id)? {
                return Ok(None);
            }
        }
    }

    /// Takes bytes of the stream. False while there are none.
    fn read_bytes(&mut self, quinn: &mut quinn_proto::Connection, id: StreamId) -> Result<bool, Fault> {
        let mut recv = quinn.recv_stream(id);
        // A stream that is not there any more was reset.
        let Ok(mut chunks) = recv.read(true) else {
            self.note_broken_by_peer();
            return Ok(false);
        };
        let mut read: Option<Bytes> = None;
        let mut gathered = Vec::new();
        loop {
            let left = READ_BYTES_MAX - gathered.len() - read.as_ref().map_or(0, Bytes::len);
            match chunks.next(left) {
                Ok(Some(chunk)) => match read.take() {
                    None if gathered.is_empty() => read = Some(chunk.bytes),
                    first => {
                        gathered.extend_from_slice(first.as_deref().unwrap_or_default());
                        gathered.extend_from_slice(&chunk.bytes);
                    }
                },
                Ok(None) => {
                    self.has_end = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => {
                    drop(chunks);
                    self.note_broken_by_peer();
                    return Ok(false);
                }
            }
            if gathered.len() + read.as_ref().map_or(0, Bytes::len) >= READ_BYTES_MAX {
                break;
            }
        }
        self.unread = read.unwrap_or_else(|| Bytes::from(gathered));
        if self.has_end && self.unread.is_empty() {
            self.message.end()?;
        }
        Ok(self.has_end || !self.unread.is_empty())
    }

    /// Writes what has to go before content, and the end of the stream if it comes after that.
    pub(super) fn flush(&mut self, quinn: &mut quinn_proto::Connection, id: StreamId) {
        while !self.out.is_empty() {
            match quinn.send_stream(id).write(&self.out) {
                Ok(len) => _ = self.out.drain(..len),
                Err(WriteError::Blocked) => {
                    self.is_blocked = true;
                    return;
                }
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    self.broken_by.get_or_insert(Side::Peer);
                    self.out.clear();
                    self.wake_all();
                    return;
                }
            }
        }
        if self.ends_after_out && !std::mem::replace(&mut self.has_finished, true) {
            // A stream that the client has stopped has ended before.
            let _ = quinn.send_stream(id).finish();
        }
    }
}
