//! Notes on a request while it is served: times, numbers of bytes, the status, and the endpoints that were
//! tried.
//!
//! Never in here: how far it has come, which is `progress`'s.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;

use clock::Moment;
use observe::Reason;
use observe::access::Try;
use smallvec::SmallVec;

/// Numbers for the metrics and the access log; they decide nothing. Cells, since the body goes up while the
/// response comes down.
pub(crate) struct Report {
    /// When its first byte was seen.
    pub(crate) begin: Moment,
    /// Bytes of its head. A head has less than 4 GB, and a narrow number finds room beside other ones.
    received_head: u32,
    /// Bytes of its body.
    pub(crate) received_body: Cell<u64>,
    /// Status sent to the client.
    pub(crate) status: Cell<u16>,
    /// Bytes of the response's head, which has less than 4 GB too.
    sent_head: Cell<u32>,
    pub(crate) sent_body: Cell<u64>,
    /// Head of the response, where the log's format asks for its fields.
    pub(crate) response_head: RefCell<Vec<u8>>,
    /// Body of the request, where the log's format asks for it.
    pub(crate) request_body: OnceCell<Box<[u8]>>,
    pub(crate) tries: RefCell<SmallVec<[Try; 1]>>,
    try_begin: Cell<Moment>,
    sent_before_try: Cell<u64>,
    /// Whether it is written to the access log though no route takes it.
    pub(crate) is_logged: Cell<bool>,
    /// Why it was refused or broken off; none where it was not.
    pub(crate) reason: Cell<Option<Reason>>,
    /// Why its refusal tells nothing of its client; none where it does.
    pub(crate) excuse: Cell<Option<Excuse>>,
}

/// Why a refusal is held against nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// There was no room.
    NoRoom,
    /// It is for what the client has done before.
    KnownAbuse,
}

impl Report {
    pub(crate) fn new(begin: Moment, received_head: u64) -> Self {
        Self {
            begin,
            received_head: u32::try_from(received_head).unwrap_or(u32::MAX),
            received_body: Cell::new(0),
            status: Cell::new(0),
            sent_head: Cell::new(0),
            sent_body: Cell::new(0),
            response_head: RefCell::default(),
            request_body: OnceCell::new(),
            tries: RefCell::default(),
            try_begin: Cell::new(begin),
            sent_before_try: Cell::new(0),
            is_logged: Cell::new(true),
            reason: Cell::new(None),
            excuse: Cell::new(None),
        }
    }

    pub(crate) fn note_sent_head(&self, len: usize) {
        self.sent_head.set(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Notes a fault. The first one is the cause of those that follow.
    pub(crate) fn note_reason(&self, reason: Reason) {
        self.reason.set(self.reason.get().or(Some(reason)));
    }

    pub(crate) fn begin_try(&self, address: SocketAddr, now: Moment) {
        self.try_begin.set(now);
        self.sent_before_try.set(self.sent_body.get());
        self.tries.borrow_mut().push(Try {
            address,
            status: None,
            response_bytes: 0,
            connect_time: None,
            header_time: None,
            response_time: None,
        });
    }

    pub(crate) fn note_connected(&self, took: Duration) {
        self.with_try(|one| one.connect_time = Some(took));
    }

    /// Returns how long the endpoint took for the head.
    pub(crate) fn note_header(&self, status: u16, now: Moment) -> Duration {
        let took = now.since(self.try_begin.get());
        self.with_try(|one| {
            one.status = Some(status);
            one.header_time = Some(took);
        });
        took
    }

    /// "A server cannot be contacted": nginx has the status of what the client would be told as that of the
    /// endpoint, if none came.
    pub(crate) fn note_failed_try(&self, status: u16) {
        if matches!(status, 502 | 504) {
            self.with_try(|one| one.status = one.status.or(Some(status)));
        }
    }

    pub(crate) fn end_try(&self, now: Moment) {
        let took = now.since(self.try_begin.get());
        let bytes = self.sent_body.get() - self.sent_before_try.get();
        self.with_try(|one| {
            one.response_time = Some(took);
            one.response_bytes = bytes;
        });
    }

    /// Time since the try was begun; none once the head of its response has come.
    pub(crate) fn time_without_head(&self, now: Moment) -> Option<Duration> {
        let has_head = self.tries.borrow().last().is_none_or(|one| one.header_time.is_some());
        (!has_head).then(|| now.since(self.try_begin.get()))
    }

    /// Time since the try was begun.
    pub(crate) fn try_time(&self, now: Moment) -> Duration {
        now.since(self.try_begin.get())
    }

    pub(crate) fn was_tried(&self, address: SocketAddr) -> bool {
        self.tries.borrow().iter().any(|one| one.address == address)
    }

    pub(crate) fn tries_len(&self) -> usize {
        self.tries.borrow().len()
    }

    fn with_try(&self, note: impl FnOnce(&mut Try)) {
        if let Some(last) = self.tries.borrow_mut().last_mut() {
            note(last);
        }
    }

    pub(crate) fn request_bytes(&self) -> u64 {
        u64::from(self.received_head) + self.received_body.get()
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        u64::from(self.sent_head.get()) + self.sent_body.get()
    }
}
