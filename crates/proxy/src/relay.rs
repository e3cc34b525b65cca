//! Bodies on their way from one socket to another: small ones copied, large ones spliced.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use wire::Known;
use wire::h1::{BodyDecoder, Decoded, InvalidBody, chunk_head, write_chunk_head};

use crate::buffer::Buffer;
use crate::deadline::{Deadline, Elapsed};
use crate::limits::{LARGE_BUFFER_BYTES, SPLICE_BYTES_MIN};
use crate::pipe::Pipes;
use crate::socket::{Socket, Unwritten};

/// Where a body comes from.
pub(crate) struct Incoming<'a> {
    pub(crate) socket: &'a Socket,
    /// What has been read already.
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) decoder: &'a mut BodyDecoder,
    /// Between two reads.
    pub(crate) timeout: Duration,
}

/// Where a body goes.
pub(crate) struct Outgoing<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) framing: Framing,
    /// Between two writes.
    pub(crate) timeout: Duration,
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

/// Passes on the rest of a body, to its end.
pub(crate) async fn relay(
    mut incoming: Incoming<'_>,
    outgoing: Outgoing<'_>,
    meter: Meter<'_>,
    deadline: &Deadline,
    pipes: &Pipes,
) -> Result<(), Broken> {
    loop {
        match incoming.decoder.decode(incoming.buffer.data()).map_err(Broken::Invalid)? {
            Decoded::Data { skip, len } => {
                meter.count(len)?;
                outgoing.write(&incoming.buffer.data()[skip..skip + len], deadline).await?;
                incoming.buffer.consume(skip + len);
            }
            Decoded::More { skip } => {
                incoming.buffer.consume(skip);
                if let Some(length) = incoming.spliceable(&outgoing) {
                    splice(&incoming, &outgoing, length, &meter, deadline, pipes).await?;
                    *incoming.decoder = BodyDecoder::Length(0);
                } else if incoming.read(deadline).await? == 0 {
                    incoming.decoder.finish().map_err(Broken::Invalid)?;
                }
            }
            Decoded::End { skip, trailers } => {
                outgoing.finish(&incoming.buffer.data()[trailers..skip], deadline).await?;
                incoming.buffer.consume(skip);
                return Ok(());
            }
        }
    }
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

impl Incoming<'_> {
    /// Reads more; the buffer is held only while there is something to put into it.
    async fn read(&mut self, deadline: &Deadline) -> Result<usize, Broken> {
        self.buffer.release();
        let read = deadline.within(self.timeout, |cx| self.socket.poll_fill(cx, self.buffer)).await;
        read.map_err(|Elapsed| Broken::ReadTimeout)?.map_err(|_| Broken::Read)
    }

    /// How much of the body can pass without being looked at.
    fn spliceable(&self, outgoing: &Outgoing<'_>) -> Option<u64> {
        match &*self.decoder {
            BodyDecoder::Length(rest)
                if *rest >= SPLICE_BYTES_MIN
                    && self.buffer.is_empty()
                    && outgoing.framing == Framing::Raw =>
            {
                Some(*rest)
            }
            _ => None,
        }
    }
}

// === impl Outgoing ===

impl Outgoing<'_> {
    async fn write(&self, content: &[u8], deadline: &Deadline) -> Result<(), Broken> {
        if self.framing == Framing::Raw {
            return self.write_slices(&[content], deadline).await;
        }
        let (head, start) = chunk_head(content.len());
        self.write_slices(&[&head[start..], content, b"\r\n"], deadline).await
    }

    async fn finish(&self, trailers: &[u8], deadline: &Deadline) -> Result<(), Broken> {
        if self.framing == Framing::Raw {
            return Ok(());
        }
        let mut end = Vec::with_capacity(trailers.len() + 5);
        write_last_chunk_to(trailers, &mut |bytes| end.extend_from_slice(bytes));
        self.write_slices(&[&end], deadline).await
    }

    async fn write_slices(&self, slices: &[&[u8]], deadline: &Deadline) -> Result<(), Broken> {
        let mut unwritten = Unwritten::new(slices);
        let written =
            deadline.within(self.timeout, |cx| self.socket.poll_write_all(cx, &mut unwritten)).await;
        written.map_err(|Elapsed| Broken::WriteTimeout)?.map_err(|_| Broken::Write)
    }
}

fn append(out: &mut Buffer, content: &[u8], framing: Framing) {
    if framing == Framing::Raw {
        return out.extend(content);
    }
    let mut head = Vec::with_capacity(18);
    write_chunk_head(content.len(), &mut head);
    out.extend(&head);
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
    for line in trailers.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        if name.len() < line.len() && Known::of(name) == Known::Other {
            write(line);
        }
    }
    write(b"\r\n");
}

/// Moves `length` bytes from socket to socket inside the kernel.
async fn splice(
    incoming: &Incoming<'_>,
    outgoing: &Outgoing<'_>,
    mut length: u64,
    meter: &Meter<'_>,
    deadline: &Deadline,
    pipes: &Pipes,
) -> Result<(), Broken> {
    let pipe = pipes.take().map_err(|_| Broken::Read)?;
    while length > 0 {
        let fill = |stream: &TcpStream| pipe.fill(stream, length);
        let filled = deadline
            .within(incoming.timeout, |cx| incoming.socket.poll_io(cx, Interest::READABLE, fill))
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
                .within(outgoing.timeout, |cx| outgoing.socket.poll_io(cx, Interest::WRITABLE, drain))
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
