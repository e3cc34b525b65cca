//! The stream that carries a conversation: messages in gRPC's frames, both ways.
//!
//! Never in here: what the messages say.

use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use deciders::grpc::{self, Deframer, Status};
use deciders::proto::processing::ProcessingRequest;
use wire::h1::Response;

use crate::io::buffer::Buffer;
use crate::io::h2::HeadFault;
use crate::upstream::{OpenStream, Slot};

/// A stream that has been opened, at an endpoint of the processor.
pub(crate) struct Opened {
    pub(crate) stream: OpenStream,
    /// The session has been used before, so that it may be dead.
    pub(crate) is_reused: bool,
    /// The slot at the endpoint, where the route has limits.
    pub(crate) _place: Option<Slot>,
    /// An empty buffer for the head of the response.
    pub(crate) head: Buffer,
}

/// A stream to a processor.
pub(super) struct Line {
    opened: Opened,
    /// Bytes for the processor that the stream has no room for yet.
    out: BytesMut,
    input: Deframer,
    has_head: bool,
    /// The status, where the head of the response has one already.
    status: Option<Status>,
}

/// An event of a stream.
pub(super) enum Read {
    Message(Vec<u8>),
    /// The processor has ended the stream without a fault.
    End,
    /// The stream has ended otherwise. `is_dead` says that the processor may not have seen it at all.
    Broken {
        is_dead: bool,
    },
}

impl Line {
    /// A stream on which `first` is sent.
    pub(super) fn new(opened: Opened, first: &[u8], message_bytes_max: usize) -> Self {
        let out = BytesMut::from(first);
        Self { opened, out, input: Deframer::new(message_bytes_max), has_head: false, status: None }
    }

    /// Whether nothing has come of the processor.
    pub(super) fn is_unheard(&self) -> bool {
        !self.has_head
    }

    /// Adds a message to what is sent. Returns its bytes.
    pub(super) fn write(&mut self, message: &ProcessingRequest) -> &[u8] {
        let mut framed = Vec::new();
        grpc::write(message, &mut framed);
        let start = self.out.len();
        self.out.extend_from_slice(&framed);
        &self.out[start..]
    }

    /// Sends what there is room for, and waits for the next message.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let stream = self.opened.stream.stream();
        if self.out.has_remaining()
            && let Poll::Ready(Err(_)) = stream.poll_send(cx, &mut self.out, false)
            && self.has_head
        {
            return Poll::Ready(Read::Broken { is_dead: false });
        }
        if !self.has_head {
            match self.poll_head(cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(read)) => return Poll::Ready(read),
                Poll::Pending => return Poll::Pending,
            }
        }
        loop {
            match self.input.next_message() {
                Ok(Some(message)) => return Poll::Ready(Read::Message(message)),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, "an external processor breaks gRPC");
                    return Poll::Ready(Read::Broken { is_dead: false });
                }
            }
            let stream = self.opened.stream.stream();
            match stream.poll_data(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => {
                    self.input.push(&bytes);
                    stream.release(bytes.len());
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Read::Broken { is_dead: false }),
                Poll::Ready(None) => return self.poll_end(cx),
            }
        }
    }

    /// Waits for the head of the response. None if messages follow.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let mut response = Response::default();
        loop {
            let Opened { stream, head, is_reused, .. } = &mut self.opened;
            match stream.stream().poll_head(cx, &mut response, head) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(fault)) => {
                    let is_dead = match fault {
                        HeadFault::Unprocessed => true,
                        HeadFault::Reset(code) => *is_reused && code.is_none(),
                        HeadFault::Malformed => false,
                    };
                    return Poll::Ready(Some(Read::Broken { is_dead }));
                }
                Poll::Ready(Ok(())) if response.is_interim() => {}
                Poll::Ready(Ok(())) => break,
            }
        }
        self.has_head = true;
        let head = self.opened.head.data();
        let value = |name: &[u8]| response.fields.find_name(head, name).map(|field| field.value(head));
        let status = value(b"grpc-status").map(|code| Status::of(code, value(b"grpc-message")));
        let is_grpc = value(b"content-type").is_some_and(|it| it.starts_with(grpc::CONTENT_TYPE.as_bytes()));
        if response.status != 200 || !is_grpc {
            tracing::debug!(status = response.status, "an external processor does not answer with gRPC");
            return Poll::Ready(Some(Read::Broken { is_dead: false }));
        }
        self.status = status;
        self.opened.head.clear();
        Poll::Ready(None)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let status = match (self.status.take(), self.opened.stream.stream().poll_trailers(cx)) {
            (Some(status), _) => Some(status),
            (None, Poll::Pending) => return Poll::Pending,
            (None, Poll::Ready(Err(_))) => None,
            (None, Poll::Ready(Ok(lines))) => {
                let value = |name: &str| {
                    let fields = lines.split(|&byte| byte == b'\n').filter_map(super::field);
                    fields.into_iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|it| it.value)
                };
                let message = value("grpc-message");
                value("grpc-status").map(|code| Status::of(&code, message.as_deref()))
            }
        };
        match status {
            Some(status) if status.is_ok() && self.input.is_empty() => Poll::Ready(Read::End),
            status => {
                let (code, message) = status.map(|it| (it.code, it.message)).unwrap_or_default();
                tracing::debug!(code, message, "an external processor has ended its stream with a fault");
                Poll::Ready(Read::Broken { is_dead: false })
            }
        }
    }
}

impl Drop for Line {
    /// Tells the processor that nothing follows. The stream is reset with its drop.
    fn drop(&mut self) {
        if !self.out.has_remaining() {
            // A stream that has ended needs no end.
            let _ = self.opened.stream.stream().finish(&[]);
        }
    }
}
