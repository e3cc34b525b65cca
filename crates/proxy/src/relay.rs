//! Bodies on their way from one peer to another, whatever both speak: copied, or spliced where they are large and pass as they are.

use std::cell::Cell;
use std::io;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::Interest;
use tokio::net::TcpStream;
use wire::h1::{BodyDecoder, Decoded, InvalidBody, chunk_head};
use wire::hop_by_hop::may_trail;

use crate::buffer::Buffer;
use crate::deadline::{Deadline, Elapsed};
use crate::h2::{Body, Content, Sender};
use crate::limits::{LARGE_BUFFER_BYTES, SPLICE_BYTES_MIN};
use crate::pipe::Pipes;
use crate::socket::{Socket, Unwritten};

/// Where a body comes from.
pub(crate) struct Incoming<'a> {
    pub(crate) source: Source<'a>,
    /// Between two reads.
    pub(crate) timeout: Duration,
}

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
    frame: Bytes,
    trailers: Vec<u8>,
}

/// Where a body goes.
pub(crate) struct Outgoing<'a> {
    pub(crate) sink: Sink<'a>,
    /// Between two writes.
    pub(crate) timeout: Duration,
}

/// What a body is written to.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'a> {
    Http1 { socket: &'a Socket, framing: Framing },
    Http2(&'a Sender),
}

/// How the end of a body is told to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By a length in the head, or by the end of the connection.
    Raw,
    /// In chunks.
    Chunked,
}

/// What is counted and bounded while a body passes.
pub(crate) struct Meter<'a> {
    /// Bytes of content so far.
    pub(crate) content: &'a Cell<u64>,
    /// Most bytes of content that may pass.
    pub(crate) max: Option<u64>,
}

/// Why a body did not arrive.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Its sender went away.
    Read,
    /// Its sender was too slow.
    ReadTimeout,
    /// It is not what its framing says.
    Invalid(InvalidBody),
    /// It is longer than allowed.
    TooLarge,
    /// Its receiver went away.
    Write,
    /// Its receiver was too slow.
    WriteTimeout,
}

/// Appends to `out` what of the body has been read, as far as it fits. True at the end of the body.
pub(crate) fn transcode(
    buffer: &mut Buffer,
    decoder: &mut BodyDecoder,
    framing: Framing,
    meter: &Meter<'_>,
    out: &mut Buffer,
) -> Result<bool, Broken> {
    loop {
        // A piece is counted off when it is decoded, so that there must be room for it first.
        if out.len() + buffer.len() > LARGE_BUFFER_BYTES && !decoder.is_done() {
            return Ok(false);
        }
        match decoder.decode(buffer.data()).map_err(Broken::Invalid)? {
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
) -> Result<bool, Broken> {
    while !body.is_end() {
        if out.len() > LARGE_BUFFER_BYTES {
            return Ok(false);
        }
        let Some(frame) = body.data_now() else { return Ok(false) };
        let frame = frame.map_err(|_| Broken::Read)?;
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

/// Passes on the rest of a body, to its end.
pub(crate) async fn relay(
    mut incoming: Incoming<'_>,
    outgoing: Outgoing<'_>,
    meter: Meter<'_>,
    deadline: &Deadline,
    pipes: &Pipes,
) -> Result<(), Broken> {
    loop {
        match incoming.next(&outgoing, deadline).await? {
            Piece::Content { skip, len } => {
                meter.count(len)?;
                let is_last = incoming.is_last();
                match (&mut incoming.source, outgoing.sink) {
                    (Source::Http2(frames), Sink::Http2(sender)) if len > 0 => {
                        let mut frame = frames.frame.clone();
                        outgoing.send(sender, &mut frame, is_last, deadline).await?;
                    }
                    _ => outgoing.write(incoming.content(skip, len), is_last, deadline).await?,
                }
                incoming.source.consume(skip + len);
                if is_last {
                    return Ok(());
                }
            }
            Piece::Large { length } => {
                let Source::Http1 { socket, decoder, .. } = &mut incoming.source else { continue };
                let Sink::Http1 { socket: to, .. } = outgoing.sink else { continue };
                let passage = Passage { from: (socket, incoming.timeout), to: (to, outgoing.timeout) };
                splice(&passage, length, &meter, deadline, pipes).await?;
                **decoder = BodyDecoder::Length(0);
                return Ok(());
            }
            Piece::End { skip, trailers } => {
                outgoing.finish(incoming.content(trailers, skip - trailers), deadline).await?;
                incoming.source.consume(skip);
                return Ok(());
            }
        }
    }
}

/// What is next of a body.
enum Piece {
    /// `skip` bytes of framing, then `len` bytes of content.
    Content { skip: usize, len: usize },
    /// So many bytes that can pass without being looked at.
    Large { length: u64 },
    /// The end: `skip` bytes of framing, of which the trailer fields are the part from `trailers`.
    End { skip: usize, trailers: usize },
}

// === impl Meter ===

impl Meter<'_> {
    fn count(&self, len: usize) -> Result<(), Broken> {
        let content = self.content.get() + len as u64;
        self.content.set(content);
        if self.max.is_some_and(|max| content > max) { Err(Broken::TooLarge) } else { Ok(()) }
    }
}

// === impl Incoming ===

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
    ) -> Result<(usize, bool), Broken> {
        let beside = match self {
            Self::Http1 { buffer, decoder, .. } if framing == Framing::Chunked => {
                return Ok((0, transcode(buffer, decoder, framing, meter, out)?));
            }
            // Chunks that an HTTP/1.0 client cannot read are taken apart by the relay.
            Self::Http1 { decoder: BodyDecoder::Chunked(_), .. } => return Ok((0, false)),
            Self::Http1 { buffer, decoder, .. } => {
                match decoder.decode(buffer.data()).map_err(Broken::Invalid)? {
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

impl Incoming<'_> {
    async fn next(&mut self, outgoing: &Outgoing<'_>, deadline: &Deadline) -> Result<Piece, Broken> {
        let (socket, buffer, decoder) = match &mut self.source {
            Source::Http1 { socket, buffer, decoder } => (socket, buffer, decoder),
            Source::Http2(frames) => return frames.next(self.timeout, deadline).await,
            Source::Bytes(bytes) if bytes.is_empty() => return Ok(Piece::End { skip: 0, trailers: 0 }),
            Source::Bytes(bytes) => return Ok(Piece::Content { skip: 0, len: bytes.len() }),
        };
        loop {
            match decoder.decode(buffer.data()).map_err(Broken::Invalid)? {
                Decoded::Data { skip, len } => return Ok(Piece::Content { skip, len }),
                Decoded::End { skip, trailers } => return Ok(Piece::End { skip, trailers }),
                Decoded::More { skip } => buffer.consume(skip),
            }
            if buffer.is_empty()
                && let Some(length) = spliceable(socket, decoder, outgoing)
            {
                return Ok(Piece::Large { length });
            }
            // The buffer is held only while there is something to put into it.
            buffer.release();
            let read = match outgoing.sink {
                Sink::Http1 { .. } => {
                    let read = deadline.within(self.timeout, |cx| socket.poll_fill(cx, buffer)).await;
                    read.map_err(|Elapsed| Broken::ReadTimeout)?.map_err(|_| Broken::Read)?
                }
                Sink::Http2(sender) => {
                    let to = (sender, outgoing.timeout);
                    read_into_room((socket, self.timeout), buffer, to, deadline).await?
                }
            };
            if read == 0 {
                decoder.finish().map_err(Broken::Invalid)?;
            }
        }
    }

    fn content(&self, skip: usize, len: usize) -> &[u8] {
        match &self.source {
            Source::Http1 { buffer, .. } => &buffer.data()[skip..skip + len],
            Source::Http2(frames) if frames.frame.is_empty() => &frames.trailers[skip..skip + len],
            Source::Http2(frames) => &frames.frame[skip..skip + len],
            Source::Bytes(bytes) => &bytes[skip..skip + len],
        }
    }

    /// Whether nothing follows the content that came last, trailers included.
    fn is_last(&self) -> bool {
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
) -> Result<usize, Broken> {
    loop {
        let room = deadline.within(write_timeout, |cx| to.poll_room(cx)).await;
        room.map_err(|Elapsed| Broken::WriteTimeout)?.map_err(|_| Broken::Write)?;
        let read = deadline.within(read_timeout, |cx| {
            // Other streams may have taken the room while there was nothing to read.
            let Poll::Ready(Ok(room)) = to.poll_room(cx) else { return Poll::Ready(Ok(None)) };
            let read = from.poll_fill_up_to(cx, buffer, room);
            if read.is_pending() {
                to.give_back_room();
            }
            read.map_ok(Some)
        });
        if let Some(len) = read.await.map_err(|Elapsed| Broken::ReadTimeout)?.map_err(|_| Broken::Read)? {
            return Ok(len);
        }
    }
}

/// How much of a body can pass without being looked at.
fn spliceable(from: &Socket, decoder: &BodyDecoder, outgoing: &Outgoing<'_>) -> Option<u64> {
    let Sink::Http1 { socket: to, framing: Framing::Raw } = outgoing.sink else { return None };
    match decoder {
        BodyDecoder::Length(rest) if *rest >= SPLICE_BYTES_MIN && from.is_clear() && to.is_clear() => {
            Some(*rest)
        }
        _ => None,
    }
}

impl Frames<'_> {
    async fn next(&mut self, timeout: Duration, deadline: &Deadline) -> Result<Piece, Broken> {
        let next = deadline.within(timeout, |cx| self.body.poll_data(cx)).await;
        match next.map_err(|Elapsed| Broken::ReadTimeout)? {
            Some(Ok(frame)) => {
                let len = frame.len();
                self.frame = frame;
                Ok(Piece::Content { skip: 0, len })
            }
            Some(Err(_)) => Err(Broken::Read),
            None => {
                let trailers = deadline.within(timeout, |cx| self.body.poll_trailers(cx)).await;
                let trailers = trailers.map_err(|Elapsed| Broken::ReadTimeout)?.map_err(|_| Broken::Read)?;
                let skip = trailers.len();
                self.trailers = trailers;
                Ok(Piece::End { skip, trailers: 0 })
            }
        }
    }
}

// === impl Outgoing ===

impl Outgoing<'_> {
    /// Writes content; after the last of it nothing is to follow.
    pub(crate) async fn write(
        &self,
        content: &[u8],
        is_last: bool,
        deadline: &Deadline,
    ) -> Result<(), Broken> {
        match self.sink {
            _ if content.is_empty() => {
                if is_last {
                    self.finish(&[], deadline).await
                } else {
                    Ok(())
                }
            }
            Sink::Http1 { socket, framing: Framing::Raw } => {
                self.write_slices(socket, &[content], deadline).await
            }
            Sink::Http1 { socket, framing: Framing::Chunked } => {
                let (head, start) = chunk_head(content.len());
                let end: &[u8] = if is_last { b"\r\n0\r\n\r\n" } else { b"\r\n" };
                self.write_slices(socket, &[&head[start..], content, end], deadline).await
            }
            Sink::Http2(sender) => {
                let mut rest = content;
                self.send(sender, &mut rest, is_last, deadline).await
            }
        }
    }

    async fn send(
        &self,
        sender: &Sender,
        content: &mut impl Content,
        is_last: bool,
        deadline: &Deadline,
    ) -> Result<(), Broken> {
        let sent = sender.send(content, is_last, self.timeout, deadline).await;
        sent.map_err(|Elapsed| Broken::WriteTimeout)?.map_err(|_| Broken::Write)
    }

    /// Ends the body, with trailer fields where there are any.
    async fn finish(&self, trailers: &[u8], deadline: &Deadline) -> Result<(), Broken> {
        match self.sink {
            Sink::Http1 { framing: Framing::Raw, .. } => Ok(()),
            Sink::Http1 { socket, framing: Framing::Chunked } => {
                let mut end = Vec::with_capacity(trailers.len() + 5);
                write_last_chunk_to(trailers, &mut |bytes| end.extend_from_slice(bytes));
                self.write_slices(socket, &[&end], deadline).await
            }
            Sink::Http2(sender) => {
                let mut kept = Vec::with_capacity(trailers.len());
                keep_trailers(trailers, &mut |bytes| kept.extend_from_slice(bytes));
                sender.finish(&kept).map_err(|_| Broken::Write)
            }
        }
    }

    async fn write_slices(
        &self,
        socket: &Socket,
        slices: &[&[u8]],
        deadline: &Deadline,
    ) -> Result<(), Broken> {
        let written = socket.write_all(&mut Unwritten::new(slices), self.timeout, deadline).await;
        written.map_err(|Elapsed| Broken::WriteTimeout)?.map_err(|_| Broken::Write)
    }
}

fn append(out: &mut Buffer, content: &[u8], framing: Framing) {
    if framing == Framing::Raw {
        return out.extend(content);
    }
    let (head, start) = chunk_head(content.len());
    out.extend(&head[start..]);
    out.extend(content);
    out.extend(b"\r\n");
}

fn write_last_chunk(trailers: &[u8], out: &mut Buffer) {
    write_last_chunk_to(trailers, &mut |bytes| out.extend(bytes));
}

/// The chunk that ends a body, with those of the trailer fields that may stand there: what frames or routes a message may
/// not (RFC 9110 section 6.5.1).
fn write_last_chunk_to(trailers: &[u8], write: &mut dyn FnMut(&[u8])) {
    write(b"0\r\n");
    keep_trailers(trailers, write);
    write(b"\r\n");
}

/// The trailer fields that may stand at the end of a body.
fn keep_trailers(trailers: &[u8], write: &mut dyn FnMut(&[u8])) {
    for line in trailers.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        if name.len() < line.len() && may_trail(name) {
            write(line);
        }
    }
}

/// From one socket to another, with the time that each has.
struct Passage<'a> {
    from: (&'a Socket, Duration),
    to: (&'a Socket, Duration),
}

/// Moves `length` bytes from socket to socket inside the kernel.
async fn splice(
    passage: &Passage<'_>,
    mut length: u64,
    meter: &Meter<'_>,
    deadline: &Deadline,
    pipes: &Pipes,
) -> Result<(), Broken> {
    let ((from, read_timeout), (to, write_timeout)) = (passage.from, passage.to);
    let pipe = pipes.take().map_err(|_| Broken::Read)?;
    while length > 0 {
        let fill = |stream: &TcpStream| pipe.fill(stream, length);
        let filled = deadline
            .within(read_timeout, |cx| from.poll_io(cx, Interest::READABLE, fill))
            .await
            .map_err(|Elapsed| Broken::ReadTimeout)?;
        let mut held = match filled {
            Ok(0) => return Err(Broken::Invalid(InvalidBody::Truncated)),
            Ok(held) => held,
            Err(_) => return Err(Broken::Read),
        };
        length -= held as u64;
        while held > 0 {
            let drain = |stream: &TcpStream| pipe.drain(stream, held);
            let drained = deadline
                .within(write_timeout, |cx| to.poll_io(cx, Interest::WRITABLE, drain))
                .await
                .map_err(|Elapsed| Broken::WriteTimeout)?;
            let drained = drained.map_err(|_: io::Error| Broken::Write)?;
            meter.count(drained)?;
            held -= drained;
        }
    }
    pipes.put(pipe);
    Ok(())
}
