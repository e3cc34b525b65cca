//! The origin of a body.

use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use wire::h1::{BodyDecoder, Decoded, InvalidBody};

use super::begun::Begun;
use super::coded::Coded;
use super::file::FileBody;
use super::processed::Processed;
use super::sink::{Sink, append, write_last_chunk};
use super::splice::spliceable;
use super::stored::Stored;
use super::{BodyEvent, Framing, Incoming, Meter, Outgoing, RelayError};
use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::pace::Direction;
use crate::io::socket::Socket;
use crate::io::stream::Stream;
use crate::limits::{BULK_BUFFER_BYTES, LARGE_BUFFER_BYTES};

/// The origin of a body, by kind.
pub(crate) enum Source<'a> {
    Http1 {
        socket: &'a Socket,
        /// Bytes that have been read from the socket already.
        buffer: &'a mut Buffer,
        decoder: &'a mut BodyDecoder,
    },
    Stream(Frames<'a>),
    /// The whole body, in memory.
    Bytes(&'a [u8]),
    /// A shared body, in memory or arriving there.
    Stored(Stored),
    /// Another source, whose content passes a coder. On the heap, since most bodies pass none.
    Coded(Box<Coded<'a>>),
    /// Another source of which the beginning has been read.
    Begun(Box<Begun<'a>>),
    /// Another source, whose content passes an external processor.
    Processed(Box<Processed<'a>>),
    /// A body from an open file.
    File(&'a mut FileBody),
}

/// Content of a stream, frame by frame.
pub(crate) struct Frames<'a> {
    body: Stream<'a>,
    pub(super) frame: Bytes,
    trailers: Vec<u8>,
}

/// Appends the body's bytes in `buffer` to `out`, as far as they fit. True at the end of the body, where
/// `finish` gets the trailer lines and ends a chunked body.
pub(crate) fn transcode(
    buffer: &mut Buffer,
    decoder: &mut BodyDecoder,
    framing: Framing,
    meter: &Meter<'_>,
    out: &mut Buffer,
    finish: impl FnOnce(&[u8], &mut Buffer),
) -> Result<bool, RelayError> {
    loop {
        // A piece is counted when it is decoded, so that there must be room for it first.
        if out.len() + buffer.len() > LARGE_BUFFER_BYTES && !decoder.is_done() {
            return Ok(false);
        }
        match decoder.decode(buffer.data()).map_err(RelayError::Invalid)? {
            Decoded::Data { skip, len } => {
                meter.count(len)?;
                append(out, &buffer.data()[skip..skip + len], framing);
                buffer.consume(skip + len);
            }
            Decoded::More { skip } => {
                buffer.consume(skip);
                return Ok(false);
            }
            Decoded::End { skip, trailers } => {
                finish(&buffer.data()[trailers..skip], out);
                buffer.consume(skip);
                return Ok(true);
            }
        }
    }
}

/// As [`transcode`], for the content of a stream. Trailers are left to the relay.
pub(crate) fn take_frames(
    body: Stream<'_>,
    framing: Framing,
    meter: &Meter<'_>,
    out: &mut Buffer,
) -> Result<bool, RelayError> {
    while !body.is_end() {
        if out.len() > LARGE_BUFFER_BYTES {
            return Ok(false);
        }
        let Some(frame) = body.data_now() else { return Ok(false) };
        let frame = frame.map_err(|_| RelayError::Read)?;
        meter.count(frame.len())?;
        if !frame.is_empty() {
            append(out, &frame, framing);
        }
        body.release(frame.len());
    }
    if framing == Framing::Chunked {
        write_last_chunk(&[], out);
    }
    Ok(true)
}

/// Appends the available pieces of a body as chunks, as far as they fit. True at its end.
fn join_chunks(stored: &mut Stored, meter: &Meter<'_>, out: &mut Buffer) -> Result<bool, RelayError> {
    loop {
        match stored.front_now() {
            Poll::Ready(Ok(true)) if out.len() + stored.front.len() <= LARGE_BUFFER_BYTES => {
                meter.count(stored.front.len())?;
                append(out, &stored.front, Framing::Chunked);
                stored.front.clear();
            }
            Poll::Ready(Ok(false)) => {
                write_last_chunk(&[], out);
                return Ok(true);
            }
            // An error is found and reported by the relay.
            _ => return Ok(false),
        }
    }
}

// === impl Source ===

impl<'a> Source<'a> {
    pub(crate) fn stream(body: impl Into<Stream<'a>>) -> Self {
        let body = body.into();
        Self::Stream(Frames { body, frame: Bytes::new(), trailers: Vec::new() })
    }

    /// Whether no more content follows.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Http1 { decoder, .. } => decoder.is_done(),
            Self::Stream(frames) => frames.body.is_end(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Stored(stored) => stored.front.is_empty() && stored.is_front_last(),
            Self::Coded(coded) => coded.is_done(),
            Self::Begun(begun) => begun.is_done(),
            Self::Processed(processed) => processed.is_done(),
            Self::File(body) => body.is_read() && body.buffer.is_empty(),
        }
    }

    /// Whether the available bytes of a chunked body begin with a chunk, or with the part of one.
    pub(crate) fn begins_well(&self) -> bool {
        match self {
            Self::Http1 { buffer, decoder: BodyDecoder::Chunked(chunked), .. } => {
                BodyDecoder::Chunked(chunked.clone()).decode(buffer.data()).is_ok()
            }
            _ => true,
        }
    }

    /// Appends to a head the part of the body that can be sent with it. Returns the number of bytes at the
    /// front of the [source](Self::front) to write beside it, without copying, and whether that is all of
    /// the body.
    pub(crate) fn join(
        &mut self,
        framing: Framing,
        meter: &Meter<'_>,
        out: &mut Buffer,
    ) -> Result<(usize, bool), RelayError> {
        let beside = match self {
            Self::Http1 { buffer, decoder, .. } if framing == Framing::Chunked => {
                return Ok((0, transcode(buffer, decoder, framing, meter, out, write_last_chunk)?));
            }
            // The relay decodes chunks for an HTTP/1.0 client, and records.
            Self::Http1 { decoder: BodyDecoder::Chunked(_), .. } if !self.begins_well() => {
                return Err(RelayError::Invalid(InvalidBody::Chunk));
            }
            Self::Http1 { decoder: BodyDecoder::Chunked(_) | BodyDecoder::FastCgi(_), .. } => {
                return Ok((0, false));
            }
            Self::Http1 { buffer, decoder, .. } => {
                match decoder.decode(buffer.data()).map_err(RelayError::Invalid)? {
                    Decoded::Data { len, .. } => len,
                    Decoded::More { .. } | Decoded::End { .. } => 0,
                }
            }
            Self::Stream(frames) => return Ok((0, take_frames(frames.body, framing, meter, out)?)),
            Self::Bytes(bytes) => bytes.len(),
            Self::Stored(stored) if framing == Framing::Chunked => {
                return Ok((0, join_chunks(stored, meter, out)?));
            }
            Self::Stored(stored) => {
                let is_here = stored.front_now() == Poll::Ready(Ok(true));
                if is_here { stored.front.len() } else { 0 }
            }
            Self::Coded(coded) if framing == Framing::Chunked => return coded.join_chunk(meter, out),
            Self::Coded(coded) => coded.ready().len(),
            Self::Begun(begun) if framing == Framing::Chunked => return begun.join_chunk(meter, out),
            Self::Begun(begun) => begun.ready().len(),
            Self::Processed(processed) if framing == Framing::Chunked => {
                return processed.join_chunk(meter, out);
            }
            Self::Processed(processed) => processed.ready().len(),
            Self::File(_) => return Ok((0, self.is_done())),
        };
        meter.count(beside)?;
        if beside > out.room() {
            return Ok((beside, self.is_all_but(beside)));
        }
        // A small copy costs less than a system call with two slices.
        out.extend(self.front(beside));
        self.consume(beside);
        Ok((0, self.is_done()))
    }

    /// Hands the available content to a stream, if it is the last and the stream takes it at once. True if
    /// it has taken all.
    pub(crate) fn send_now(&mut self, to: Stream<'_>, meter: &Meter<'_>) -> Result<bool, RelayError> {
        let mut cx = Context::from_waker(Waker::noop());
        let (sent, before, after) = match self {
            Self::Bytes(bytes) => {
                let before = bytes.len();
                (to.poll_send(&mut cx, bytes, true), before, bytes.len())
            }
            Self::Stored(stored) => {
                if stored.front_now() != Poll::Ready(Ok(true)) || !stored.is_front_last() {
                    return Ok(false);
                }
                let before = stored.front.len();
                (to.poll_send(&mut cx, &mut stored.front, true), before, stored.front.len())
            }
            Self::Coded(coded) if coded.is_last() && !coded.ready().is_empty() => {
                let before = coded.ready().len();
                let mut left = coded.ready();
                let sent = to.poll_send(&mut cx, &mut left, true);
                let after = left.len();
                coded.consume(before - after);
                (sent, before, after)
            }
            Self::Http1 { buffer, decoder, .. } => {
                let before = buffer.len();
                if !matches!(decoder, BodyDecoder::Length(length) if *length == before as u64) {
                    return Ok(false);
                }
                let mut left = buffer.data();
                let sent = to.poll_send(&mut cx, &mut left, true);
                let after = left.len();
                buffer.consume(before - after);
                **decoder = BodyDecoder::Length(after as u64);
                (sent, before, after)
            }
            Self::Stream(frames) => {
                let Poll::Ready(Ok(room)) = to.poll_room(&mut cx) else { return Ok(false) };
                let Some(mut last) = frames.body.take_last(room) else { return Ok(false) };
                let before = last.len();
                let sent = to.poll_send(&mut cx, &mut last, true);
                frames.body.release(before);
                (sent, before, last.len())
            }
            _ => return Ok(false),
        };
        meter.count(before - after)?;
        match sent {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(_)) => Err(RelayError::Write),
            Poll::Pending => Ok(false),
        }
    }

    fn is_all_but(&self, len: usize) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.len() == len,
            Self::Stored(stored) => stored.front.len() == len && stored.is_front_last(),
            Self::Coded(coded) => coded.is_last(),
            Self::Begun(begun) => begun.is_all_ready(),
            Self::Processed(processed) => processed.is_last(),
            // The bytes at the front have been counted.
            _ => self.is_done(),
        }
    }

    /// The available content.
    pub(crate) fn front(&self, len: usize) -> &[u8] {
        match self {
            Self::Http1 { buffer, .. } => &buffer.data()[..len],
            Self::Stream(frames) => &frames.frame[..len],
            Self::Bytes(bytes) => &bytes[..len],
            Self::Stored(stored) => &stored.front[..len],
            Self::Coded(coded) => &coded.ready()[..len],
            Self::Begun(begun) => &begun.ready()[..len],
            Self::Processed(processed) => &processed.ready()[..len],
            Self::File(body) => &body.buffer.data()[..len],
        }
    }

    /// Removes bytes from the front.
    pub(crate) fn consume(&mut self, len: usize) {
        match self {
            Self::Http1 { buffer, .. } => buffer.consume(len),
            Self::Stream(frames) => {
                frames.body.release(frames.frame.len());
                frames.frame = Bytes::new();
            }
            Self::Bytes(bytes) => *bytes = &bytes[len..],
            Self::Stored(stored) => stored.front.advance(len),
            Self::Coded(coded) => coded.consume(len),
            Self::Begun(begun) => begun.consume(len),
            Self::Processed(processed) => processed.consume(len),
            Self::File(body) => {
                body.buffer.consume(len);
                body.buffer.release();
            }
        }
    }
}

// === impl Incoming ===

impl Incoming<'_> {
    /// Waits for the next event. `to` is the sink if the content goes there at once: then no more is read
    /// than the sink has room for, and large content is left to the kernel.
    pub(crate) async fn next(
        &mut self,
        to: Option<&Outgoing<'_>>,
        deadline: &Deadline,
    ) -> Result<BodyEvent, RelayError> {
        let (socket, buffer, decoder) = match &mut self.source {
            Source::Http1 { socket, buffer, decoder } => (socket, buffer, decoder),
            Source::Stream(frames) => return frames.next(self.timeout, deadline).await,
            Source::File(body) => return body.next(self.timeout, to, deadline).await,
            Source::Stored(stored) => {
                let next = deadline.within(self.timeout, |cx| stored.poll_front(cx)).await;
                let is_there =
                    next.map_err(|Elapsed| RelayError::ReadTimeout)?.map_err(|()| RelayError::Read)?;
                return Ok(if is_there {
                    BodyEvent::Content { skip: 0, len: stored.front.len() }
                } else {
                    BodyEvent::End { skip: 0, trailers: 0 }
                });
            }
            Source::Bytes([]) => return Ok(BodyEvent::End { skip: 0, trailers: 0 }),
            Source::Bytes(bytes) => return Ok(BodyEvent::Content { skip: 0, len: bytes.len() }),
            // Boxed, since it calls this function for its own source.
            Source::Coded(coded) => return Box::pin(coded.next(deadline)).await,
            Source::Begun(begun) => return Box::pin(begun.next(deadline)).await,
            Source::Processed(processed) => return Box::pin(processed.next(deadline)).await,
        };
        loop {
            match decoder.decode(buffer.data()).map_err(RelayError::Invalid)? {
                Decoded::Data { skip, len } => return Ok(BodyEvent::Content { skip, len }),
                Decoded::End { skip, trailers } => return Ok(BodyEvent::End { skip, trailers }),
                Decoded::More { skip } => buffer.consume(skip),
            }
            if buffer.is_empty()
                && let Some(length) = to.and_then(|to| spliceable(socket, decoder, to))
            {
                return Ok(BodyEvent::Large { length });
            }
            // The buffer is held only while it has bytes.
            buffer.release();
            let read = if let Some(&Outgoing { sink: Sink::Stream(sender), timeout, .. }) = to {
                read_into_room((socket, self.timeout), buffer, (sender, timeout), deadline).await?
            } else {
                let is_long =
                    matches!(decoder, BodyDecoder::Length(left) if *left >= BULK_BUFFER_BYTES as u64);
                let read = deadline.within_paced(
                    Direction::Read,
                    self.timeout,
                    |cx| {
                        if is_long { socket.poll_fill_bulk(cx, buffer) } else { socket.poll_fill(cx, buffer) }
                    },
                    |read| *read.as_ref().unwrap_or(&0),
                );
                read.await.map_err(|Elapsed| RelayError::ReadTimeout)?.map_err(|_| RelayError::Read)?
            };
            if read == 0 {
                decoder.finish().map_err(RelayError::Invalid)?;
            }
        }
    }

    pub(crate) fn content(&self, skip: usize, len: usize) -> &[u8] {
        match &self.source {
            Source::Http1 { buffer, .. } => &buffer.data()[skip..skip + len],
            Source::Stream(frames) if frames.frame.is_empty() => &frames.trailers[skip..skip + len],
            Source::Stream(frames) => &frames.frame[skip..skip + len],
            Source::Bytes(bytes) => &bytes[skip..skip + len],
            Source::Stored(stored) => &stored.front[skip..skip + len],
            Source::Coded(coded) if coded.ready().is_empty() => &coded.trailers()[skip..skip + len],
            Source::Coded(coded) => &coded.ready()[skip..skip + len],
            Source::Begun(begun) => begun.content(skip, len),
            Source::Processed(processed) if processed.ready().is_empty() => {
                &processed.trailers()[skip..skip + len]
            }
            Source::Processed(processed) => &processed.ready()[skip..skip + len],
            Source::File(body) => &body.buffer.data()[skip..skip + len],
        }
    }

    /// Whether nothing follows the latest content, trailers included.
    pub(crate) fn is_last(&self) -> bool {
        match &self.source {
            Source::Http1 { decoder, .. } => matches!(decoder, BodyDecoder::Length(0)),
            Source::Stream(frames) => frames.body.is_end(),
            Source::Bytes(_) => true,
            Source::Stored(stored) => stored.is_front_last(),
            Source::Coded(coded) => coded.is_last(),
            Source::Begun(begun) => begun.is_last(),
            Source::Processed(processed) => processed.is_last(),
            Source::File(body) => body.is_read(),
        }
    }
}

/// Reads as much as the receiving stream takes at once: content for a slow reader waits in the endpoint's
/// socket.
async fn read_into_room(
    (from, read_timeout): (&Socket, Duration),
    buffer: &mut Buffer,
    (to, write_timeout): (Stream<'_>, Duration),
    deadline: &Deadline,
) -> Result<usize, RelayError> {
    loop {
        let poll = |cx: &mut Context<'_>| to.poll_room(cx);
        let room = deadline.within_paced(Direction::Write, write_timeout, poll, |_| 0).await;
        room.map_err(|Elapsed| RelayError::WriteTimeout)?.map_err(|_| RelayError::Write)?;
        let poll = |cx: &mut Context<'_>| {
            // Other streams may have used the room while there was nothing to read.
            let Poll::Ready(Ok(room)) = to.poll_room(cx) else { return Poll::Ready(Ok(None)) };
            from.poll_fill_up_to(cx, buffer, room).map_ok(Some)
        };
        let bytes = |read: &io::Result<Option<usize>>| read.as_ref().ok().copied().flatten().unwrap_or(0);
        if let Some(len) = deadline
            .within_paced(Direction::Read, read_timeout, poll, bytes)
            .await
            .map_err(|Elapsed| RelayError::ReadTimeout)?
            .map_err(|_| RelayError::Read)?
        {
            return Ok(len);
        }
    }
}

impl Frames<'_> {
    /// The latest frame.
    pub(crate) fn frame(&self) -> &Bytes {
        &self.frame
    }

    pub(super) async fn next(
        &mut self,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<BodyEvent, RelayError> {
        let bytes = |next: &Option<Result<Bytes, _>>| {
            next.as_ref().and_then(|frame| frame.as_ref().ok()).map_or(0, Bytes::len)
        };
        let poll = |cx: &mut Context<'_>| self.body.poll_data(cx);
        let next = deadline.within_paced(Direction::Read, timeout, poll, bytes).await;
        match next.map_err(|Elapsed| RelayError::ReadTimeout)? {
            Some(Ok(frame)) => {
                let len = frame.len();
                self.frame = frame;
                Ok(BodyEvent::Content { skip: 0, len })
            }
            Some(Err(_)) => Err(RelayError::Read),
            None => {
                let trailers = deadline.within(timeout, |cx| self.body.poll_trailers(cx)).await;
                let trailers =
                    trailers.map_err(|Elapsed| RelayError::ReadTimeout)?.map_err(|_| RelayError::Read)?;
                let skip = trailers.len();
                self.trailers = trailers;
                Ok(BodyEvent::End { skip, trailers: 0 })
            }
        }
    }
}
