//! One request of a client on an HTTP/2 connection.

use std::cell::{OnceCell, RefCell};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Response, StatusCode};

use super::body::{Body, Sender, header_map};

/// A stream, as the request on it sees it.
pub(crate) struct Stream {
    /// Content of the request.
    pub(crate) body: Body,
    respond: RefCell<SendResponse<Bytes>>,
    sender: OnceCell<Sender>,
}

impl Stream {
    pub(crate) fn new(body: RecvStream, respond: SendResponse<Bytes>) -> Self {
        Self { body: Body::new(body), respond: RefCell::new(respond), sender: OnceCell::new() }
    }

    /// Sends an interim response.
    pub(crate) fn inform(&self, status: u16, head: &[u8]) -> Result<(), h2::Error> {
        self.respond.borrow_mut().send_informational(response(status, head))
    }

    /// Sends the final response's head; `end` where nothing follows it.
    pub(crate) fn respond(&self, status: u16, head: &[u8], end: bool) -> Result<(), h2::Error> {
        let stream = self.respond.borrow_mut().send_response(response(status, head), end)?;
        // The crate lets the head be sent once.
        let _ = self.sender.set(Sender::new(stream));
        Ok(())
    }

    /// Where the content of the response goes, once its head has been sent.
    pub(crate) fn sender(&self) -> &Sender {
        self.sender.get().expect("content follows a head")
    }

    /// Ready when the client has broken the stream off, or the connection has.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let reset = match self.sender.get() {
            Some(sender) => sender.poll_reset(cx),
            None => self.respond.borrow_mut().poll_reset(cx),
        };
        reset.map(|_| ())
    }

    /// Breaks the stream off.
    pub(crate) fn reset(&self, reason: Reason) {
        match self.sender.get() {
            Some(sender) => sender.reset(reason),
            None => self.respond.borrow_mut().send_reset(reason),
        }
    }
}

fn response(status: u16, head: &[u8]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = header_map(head);
    response
}
