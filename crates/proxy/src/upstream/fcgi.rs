//! `FastCGI` towards endpoints: one request per connection. Request head and body are taken in the form of
//! HTTP/1, and the response head is returned in it; the response body stays in the application's records,
//! which [`BodyDecoder`] decodes.

use std::cell::RefCell;
use std::net::SocketAddr;

use observe::Reason;
use wire::fcgi::{self, Content, HeadEnd, Piece, Records, Stderr};
use wire::h1::{Body, BodyDecoder, Response};

use super::timer::{HeadLimits, ResponseTimer};
use crate::io::buffer::Buffer;
use crate::io::connection::Connection;
use crate::io::deadline::Elapsed;
use crate::io::socket::Socket;
use crate::upstream::fault::Fault;

/// A request to an application.
pub(crate) struct Call {
    connection: Connection,
    address: SocketAddr,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    records: Records,
    /// Bytes of the body in the record that the head ended in.
    begun: usize,
    stderr: Stderr,
}

/// The records of a request: its parameters with those of `params`, and the available part of its body;
/// `is_whole` if that is all of it.
pub(super) fn records((head, body): (&[u8], &[u8]), params: &[u8], is_whole: bool) -> Vec<u8> {
    let mut params = params.to_vec();
    fcgi::write_fields(head, &mut params);
    let mut out = Vec::with_capacity(params.len() + body.len() + 8 * fcgi::HEADER_BYTES);
    fcgi::write_begin(&params, &mut out);
    fcgi::write_stdin(body, is_whole, &mut out);
    out
}

impl Call {
    pub(super) fn new(connection: Connection, address: SocketAddr) -> Self {
        Self { connection, address, state: RefCell::default() }
    }

    pub(super) fn socket(&self) -> &Socket {
        self.connection.socket()
    }

    /// Waits for the response head, which is written to the front of `buffer` as HTTP/1, and parsed into
    /// `response`.
    pub(super) async fn head(
        &self,
        response: &mut Response,
        buffer: &mut Buffer,
        limits: HeadLimits,
        timer: &ResponseTimer<'_>,
    ) -> Result<(), Fault> {
        let (mut head, mut end) = (Vec::new(), HeadEnd::default());
        let len = loop {
            if let Some(len) = self.take_head(buffer, (&mut head, &mut end), limits.bytes_max)? {
                break len;
            }
            let read = timer.within(|cx| {
                let socket = self.socket();
                if limits.is_eager {
                    socket.poll_fill(cx, buffer)
                } else {
                    socket.poll_fill_small(cx, buffer)
                }
            });
            match read.await {
                Err(Elapsed) => return Err(Fault::sent(Reason::UpstreamReadTimeout)),
                Ok(Ok(0) | Err(_)) => return Err(Fault::sent(Reason::UpstreamReset)),
                Ok(Ok(_)) => {}
            }
        };
        let mut written = Vec::with_capacity(len + 64);
        let is_whole = fcgi::write_response_head(&head[..len], &mut written).is_ok()
            && response.parse(&written) == Ok(true);
        if !is_whole {
            return Err(Fault::sent(Reason::UpstreamBadResponse));
        }
        let begun = &head[len..];
        self.state.borrow_mut().begun = begun.len();
        let rest = buffer.data().to_vec();
        buffer.clear();
        for part in [&written, begun, &rest] {
            buffer.extend(part);
        }
        Ok(())
    }

    /// Moves the bytes of the head out of the buffer. Returns the head's length once it is complete; the
    /// bytes in `head` after that belong to the body.
    fn take_head(
        &self,
        buffer: &mut Buffer,
        (head, end): (&mut Vec<u8>, &mut HeadEnd),
        bytes_max: usize,
    ) -> Result<Option<usize>, Fault> {
        let State { records, stderr, .. } = &mut *self.state.borrow_mut();
        loop {
            let piece = records.decode(buffer.data());
            match piece.map_err(|_| Fault::sent(Reason::UpstreamBadResponse))? {
                Piece::Stdout { skip, len } => {
                    head.extend_from_slice(&buffer.data()[skip..skip + len]);
                    buffer.consume(skip + len);
                    let len = end.find(head);
                    if len.unwrap_or(head.len()) > bytes_max {
                        return Err(Fault::sent(Reason::UpstreamHeadTooLarge));
                    }
                    if len.is_some() {
                        return Ok(len);
                    }
                }
                Piece::Stderr { skip, len } => {
                    stderr.push(&buffer.data()[skip..skip + len]);
                    buffer.consume(skip + len);
                }
                Piece::More { skip } => {
                    buffer.consume(skip);
                    return Ok(None);
                }
                Piece::End { is_overloaded: true, .. } => return Err(Fault::unsent(Reason::UpstreamReset)),
                Piece::End { .. } => return Err(Fault::sent(Reason::UpstreamBadResponse)),
            }
        }
    }

    /// The decoder of the response's body, whose framing is `body`.
    pub(super) fn decoder(&self, body: Body) -> BodyDecoder {
        let length = match body {
            Body::Empty => return BodyDecoder::new(Body::Empty),
            Body::Length(length) => Some(length),
            Body::Chunked | Body::UntilClose => None,
        };
        let State { records, begun, stderr } = self.state.take();
        BodyDecoder::FastCgi(Box::new(Content::new(records, begun, length, stderr)))
    }

    /// Takes back the application's errors that arrived with the body.
    pub(super) fn take_back(&self, decoder: BodyDecoder) {
        if let BodyDecoder::FastCgi(content) = decoder {
            self.state.borrow_mut().stderr = content.stderr;
        }
    }
}

/// Logs the application's errors at the end: one line for each response, of bounded length.
impl Drop for Call {
    fn drop(&mut self) {
        if let Some(text) = self.state.get_mut().stderr.take() {
            let endpoint = self.address;
            tracing::warn!(%endpoint, ?text, "a FastCGI application reports errors");
        }
    }
}
