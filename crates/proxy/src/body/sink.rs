//! The destination of a body.

use bytes::Buf;
use wire::fcgi::{self, RECORD_CONTENT_BYTES_MAX};
use wire::h1::chunk_head;
use wire::hop_by_hop::may_trail;

use super::{Framing, Outgoing, RelayError};
use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::socket::{Socket, Unwritten};
use crate::io::stream::Stream;

/// The destination of a body, by protocol.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'a> {
    Http1 { socket: &'a Socket, framing: Framing },
    Stream(Stream<'a>),
}

impl Outgoing<'_> {
    /// Writes content; after the last of it nothing follows.
    pub(crate) async fn write(
        &self,
        content: &[u8],
        is_last: bool,
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
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
            Sink::Http1 { socket, framing: Framing::Records } => {
                Box::pin(self.write_records(socket, content, is_last, deadline)).await
            }
            Sink::Stream(sender) => {
                let mut rest = content;
                self.send(sender, &mut rest, is_last, deadline).await
            }
        }
    }

    pub(super) async fn send(
        &self,
        sender: Stream<'_>,
        content: &mut impl Buf,
        is_last: bool,
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
        let sent = sender.send(content, is_last, self.timeout, deadline).await;
        sent.map_err(|Elapsed| RelayError::WriteTimeout)?.map_err(|_| RelayError::Write)
    }

    /// Ends the body, with trailer fields where there are any.
    pub(crate) async fn finish(&self, trailers: &[u8], deadline: &Deadline) -> Result<(), RelayError> {
        let passing = self.passing_trailers.map(|passing| passing(trailers));
        let trailers = passing.as_deref().unwrap_or(trailers);
        match self.sink {
            Sink::Http1 { framing: Framing::Raw, .. } => Ok(()),
            Sink::Http1 { socket, framing: Framing::Chunked } => {
                let mut end = Vec::with_capacity(trailers.len() + 5);
                write_last_chunk_to(trailers, &mut |bytes| end.extend_from_slice(bytes));
                self.write_slices(socket, &[&end], deadline).await
            }
            Sink::Http1 { socket, framing: Framing::Records } => {
                self.write_slices(socket, &[&fcgi::STDIN_END], deadline).await
            }
            Sink::Stream(sender) => {
                let mut kept = Vec::with_capacity(trailers.len());
                keep_trailers(trailers, &mut |bytes| kept.extend_from_slice(bytes));
                sender.finish(&kept).map_err(|_| RelayError::Write)
            }
        }
    }

    async fn write_records(
        &self,
        socket: &Socket,
        content: &[u8],
        is_last: bool,
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
        let mut records = content.chunks(RECORD_CONTENT_BYTES_MAX).peekable();
        while let Some(record) = records.next() {
            let end: &[u8] = if is_last && records.peek().is_none() { &fcgi::STDIN_END } else { &[] };
            self.write_slices(socket, &[&fcgi::stdin_header(record.len()), record, end], deadline).await?;
        }
        Ok(())
    }

    async fn write_slices(
        &self,
        socket: &Socket,
        slices: &[&[u8]],
        deadline: &Deadline,
    ) -> Result<(), RelayError> {
        let written = socket.write_all(&mut Unwritten::new(slices), self.timeout, deadline).await;
        written.map_err(|Elapsed| RelayError::WriteTimeout)?.map_err(|_| RelayError::Write)
    }
}

/// Appends content, which is not empty: an empty chunk ends a body.
pub(crate) fn append(out: &mut Buffer, content: &[u8], framing: Framing) {
    if framing != Framing::Chunked {
        return out.extend(content);
    }
    let (head, start) = chunk_head(content.len());
    out.extend(&head[start..]);
    out.extend(content);
    out.extend(b"\r\n");
}

/// Ends a chunked body, with those of the trailer fields that are allowed there.
pub(crate) fn write_last_chunk(trailers: &[u8], out: &mut Buffer) {
    write_last_chunk_to(trailers, &mut |bytes| out.extend(bytes));
}

/// The chunk that ends a body, with those of the trailer fields that are allowed there: fields for framing
/// or routing are not (RFC 9110 section 6.5.1).
fn write_last_chunk_to(trailers: &[u8], write: &mut dyn FnMut(&[u8])) {
    write(b"0\r\n");
    keep_trailers(trailers, write);
    write(b"\r\n");
}

/// The trailer fields that are allowed at the end of a body.
fn keep_trailers(trailers: &[u8], write: &mut dyn FnMut(&[u8])) {
    for line in trailers.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        if name.len() < line.len() && may_trail(name) {
            write(line);
        }
    }
}
