//! One request of a client on an HTTP/2 connection.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Response, StatusCode};

use super::body::{Body, Sender, header_map};
use super::credit::Credit;

/// A stream, as the request on it sees it.
pub(crate) struct Stream {
    /// Content of the request.
    pub(crate) body: Body,
    respond: RefCell<SendResponse<Bytes>>,
    sender: OnceCell<Sender>,
    credit: Rc<Credit>,
    /// The side that reset the stream first, if any.
    broken_off: Cell<Option<By>>,
}

/// A side that resets a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Client,
    Us,
}

impl Stream {
    pub(crate) fn new(body: RecvStream, respond: SendResponse<Bytes>, credit: Rc<Credit>) -> Self {
        Self {
            body: Body::new(body),
            respond: RefCell::new(respond),
            sender: OnceCell::new(),
            credit,
            broken_off: Cell::new(None),
        }
    }

    /// Sends an interim response.
    pub(crate) fn inform(&self, status: u16, head: &[u8]) -> Result<(), h2::Error> {
        self.respond.borrow_mut().send_informational(response(status, head))
    }

    /// Sends the final response's head; `end` where nothing follows it.
    pub(crate) fn respond(&self, status: u16, head: &[u8], end: bool) -> Result<(), h2::Error> {
        let stream = self.respond.borrow_mut().send_response(response(status, head), end)?;
        // The crate allows the head to be sent once.
        let _ = self.sender.set(Sender::new(stream, Some(Rc::clone(&self.credit))));
        Ok(())
    }

    /// The sender of the response's content, once its head has been sent.
    pub(crate) fn sender(&self) -> &Sender {
        self.sender.get().expect("content follows a head")
    }

    /// Ready when the client has reset the stream, or the connection has ended.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let reset = match self.sender.get() {
            Some(sender) => sender.poll_reset(cx),
            None => self.respond.borrow_mut().poll_reset(cx),
        };
        reset.map(|_| self.note_broken_off(By::Client))
    }

    /// Whether the client has reset the stream before its response had ended.
    pub(crate) fn was_cancelled(&self) -> bool {
        // The check notes the reset.
        let _ = self.is_gone();
        self.broken_off.get() == Some(By::Client)
    }

    fn is_gone(&self) -> bool {
        self.poll_gone(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn note_broken_off(&self, by: By) {
        self.broken_off.set(self.broken_off.get().or(Some(by)));
    }

    /// Resets the stream.
    pub(crate) fn reset(&self, reason: Reason) {
        if !self.is_gone() {
            self.note_broken_off(By::Us);
        }
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
