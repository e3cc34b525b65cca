//! Where a body comes from.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use wire::h1::{BodyDecoder, Decoded};

use super::sink::{Sink, append, write_last_chunk};
use super::splice::spliceable;
use super::{BodyEvent, Framing, Incoming, Meter, Outgoing, RelayError};
use crate::buffer::Buffer;
use crate::deadline::{Deadline, Elapsed};
use crate::h2::{Body, Sender};
use crate::limits::LARGE_BUFFER_BYTES;
use crate::socket::Socket;

/// What a body is read from.
pub(crate) enum Source<'a> {
    Http1 {
        socket: &'a Socket,
        /// What has been read already.
        buffer: &'a mut Buffer,
        decoder: &'a mut BodyDecoder,
    },
    Http2(Frames<'a>),
    /// All of it is at hand.
    Bytes(&'a [u8]),
}

/// Content of a stream, frame by frame.
pub(crate) struct Frames<'a> {
    body: &'a Body,
    pub(super) frame: Bytes,
    trailers: Vec<u8>,
}

/// Appends to `out` what of the body has been read, as far as it fits. True at the end of the body.
pub(crate) fn transcode(
    buffer: &mut Buffer,
    decoder: &mut BodyDecoder,
    framing: Framing,
    meter: &Meter<'_>,
    out: &mut Buffer,
) -> Result<bool, RelayError> {
    loop {
        // A piece is counted off when it is decoded, so that there must be room for it first.
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
                if framing == Framing::Chunked {
                    write_last_chunk(&buffer.data()[trailers..skip], out);
                }
                buffer.consume(skip);
                return Ok(true);
            }
        }
    }
}

/// As [`transcode`], of the content of a stream. Trailers are left to the relay.
pub(crate) fn take_frames(
    body: &Body,
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

// === impl Source ===

impl<'a> Source<'a> {
    pub(crate) fn stream(body: &'a Body) -> Self {
        Self::Http2(Frames { body, frame: Bytes::new(), trailers: Vec::new() })
    }

    /// Whether nothing more comes.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Http1 { decoder, .. } => decoder.is_done(),
            Self::Http2(frames) => frames.body.is_end(),
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    /// Appends to a head what of the body can go with it. So many bytes at the front of the [source](Self::front) are to be written beside
    /// it, without being copied. True where that is all of the body.
    pub(crate) fn join(
        &mut self,
        framing: Framing,
        meter: &Meter<'_>,
        out: &mut Buffer,
    ) -> Result<(usize, bool), RelayError> {
        let beside = match self {
            Self::Http1 { buffer, decoder, .. } if framing == Framing::Chunked => {
                return Ok((0, transcode(buffer, decoder, framing, meter, out)?));
            }
            // Chunks that an HTTP/1.0 client cannot read are taken apart by the relay, and so are records.
            Self::Http1 { decoder: BodyDecoder::Chunked(_) | BodyDecoder::FastCgi(_), .. } => {
                return Ok((0, false));
            }
            Self::Http1 { buffer, decoder, .. } => {
                match decoder.decode(buffer.data()).map_err(RelayError::Invalid)? {
                    Decoded::Data { len, .. } => len,
                    Decoded::More { .. } | Decoded::End { .. } => 0,
                }
            }
            Self::Http2(frames) => return Ok((0, take_frames(frames.body, framing, meter, out)?)),
            Self::Bytes(bytes) => bytes.len(),
        };
        meter.count(beside)?;
        if beside > out.room() {
            return Ok((beside, self.is_all_but(beside)));
        }
        // To copy a little costs less than a system call with two slices.
        out.extend(self.front(beside));
        self.consume(beside);
        Ok((0, self.is_done()))
    }

    fn is_all_but(&self, len: usize) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.len() == len,
            // What is at the front has been counted off.
            _ => self.is_done(),
        }
    }

    /// What is at hand.
    pub(crate) fn front(&self, len: usize) -> &[u8] {
        match self {
            Self::Http1 { buffer, .. } => &buffer.data()[..len],
            Self::Http2(frames) => &frames.frame[..len],
            Self::Bytes(bytes) => &bytes[..len],
        }
    }

    /// Has done with what is at the front.
    pub(crate) fn consume(&mut self, len: usize) {
        match self {
            Self::Http1 { buffer, .. } => buffer.consume(len),
            Self::Http2(frames) => {
                frames.body.release(frames.frame.len());
                frames.frame = Bytes::new();
            }
            Self::Bytes(bytes) => *bytes = &bytes[len..],
        }
    }
}

// === impl Incoming ===

impl Incoming<'_> {
    /// Waits for what is next. `to` is where it goes at once, if it does: then no more is read than there is room for, and what is large
    /// is left to the kernel.
    pub(super) async fn next(
        &mut self,
        to: Option<&Outgoing<'_>>,
        deadline: &Deadline,
    ) -> Result<BodyEvent, RelayError> {
        let (socket, buffer, decoder) = match &mut self.source {
            Source::Http1 { socket, buffer, decoder } => (socket, buffer, decoder),
            Source::Http2(frames) => return frames.next(self.timeout, deadline).await,
            Source::Bytes([]) => return Ok(BodyEvent::End { skip: 0, trailers: 0 }),
            Source::Bytes(bytes) => return Ok(BodyEvent::Content { skip: 0, len: bytes.len() }),
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
            // The buffer is held only while there is something to put into it.
            buffer.release();
            let read = if let Some(&Outgoing { sink: Sink::Http2(sender), timeout }) = to {
                read_into_room((socket, self.timeout), buffer, (sender, timeout), deadline).await?
            } else {
                let read = deadline.within(self.timeout, |cx| socket.poll_fill(cx, buffer)).await;
                read.map_err(|Elapsed| RelayError::ReadTimeout)?.map_err(|_| RelayError::Read)?
            };
            if read == 0 {
                decoder.finish().map_err(RelayError::Invalid)?;
            }
        }
    }

    pub(super) fn content(&self, skip: usize, len: usize) -> &[u8] {
        match &self.source {
            Source::Http1 { buffer, .. } => &buffer.data()[skip..skip + len],
            Source::Http2(frames) if frames.frame.is_empty() => &frames.trailers[skip..skip + len],
            Source::Http2(frames) => &frames.frame[skip..skip + len],
            Source::Bytes(bytes) => &bytes[skip..skip + len],
        }
    }

    /// Whether nothing follows the content that came last, trailers included.
    pub(super) fn is_last(&self) -> bool {
        match &self.source {
            Source::Http1 { decoder, .. } => matches!(decoder, BodyDecoder::Length(0)),
            Source::Http2(frames) => frames.body.is_end(),
            Source::Bytes(_) => true,
        }
    }
}

/// Reads as much as the stream that it goes to takes at once: content that waits for a slow reader waits in the endpoint's socket.
async fn read_into_room(
    (from, read_timeout): (&Socket, Duration),
    buffer: &mut Buffer,
    (to, write_timeout): (&Sender, Duration),
    deadline: &Deadline,
) -> Result<usize, RelayError> {
    loop {
        let room = deadline.within(write_timeout, |cx| to.poll_room(cx)).await;
        room.map_err(|Elapsed| RelayError::WriteTimeout)?.map_err(|_| RelayError::Write)?;
        let read = deadline.within(read_timeout, |cx| {
            // Other streams may have taken the room while there was nothing to read.
            let Poll::Ready(Ok(room)) = to.poll_room(cx) else { return Poll::Ready(Ok(None)) };
            let read = from.poll_fill_up_to(cx, buffer, room);
            if read.is_pending() {
                to.give_back_room();
            }
            read.map_ok(Some)
        });
        if let Some(len) =
            read.await.map_err(|Elapsed| RelayError::ReadTimeout)?.map_err(|_| RelayError::Read)?
        {
            return Ok(len);
        }
    }
}

impl Frames<'_> {
    pub(super) async fn next(
        &mut self,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<BodyEvent, RelayError> {
        let next = deadline.within(timeout, |cx| self.body.poll_data(cx)).await;
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
