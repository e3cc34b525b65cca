//! Stages between a body's source and its sink, where a route configures them: reading ahead of a slow
//! reader, and pacing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use clock::Moment;
use model::{Pace, ResponsePolicy};

use super::{BodyEvent, BodyStore, Incoming, Meter, Outgoing, RelayError, Sink, Source};
use crate::io::deadline::Deadline;
use crate::limits::{READ_AHEAD_BYTES_MAX, TICK};

/// The stages of a body.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    /// Bytes that may be read before they can be sent.
    read_ahead: usize,
    pace: Option<Pace>,
}

/// Bytes that have been read and not been sent.
struct Stock<'s> {
    store: &'s BodyStore,
    pieces: RefCell<VecDeque<Bytes>>,
    len: Cell<usize>,
    len_max: usize,
    /// Bytes reserved of the memory that all responses share.
    taken: Cell<usize>,
    /// All of that memory is reserved: nothing is read until all that has been read is sent.
    is_short: Cell<bool>,
    /// The end of the body: its trailers, or an error.
    end: RefCell<Option<Result<Vec<u8>, RelayError>>>,
    /// Count of changes; after each one both sides are polled again.
    changes: Cell<u64>,
}

impl Stages {
    /// The stages that a route configures; none where it configures none.
    pub(crate) fn of(policy: Option<&ResponsePolicy>) -> Option<Self> {
        let policy = policy.filter(|policy| policy.read_ahead_bytes > 0 || policy.pace.is_some())?;
        let read_ahead = usize::try_from(policy.read_ahead_bytes).unwrap_or(usize::MAX);
        Some(Self { read_ahead: read_ahead.clamp(1, READ_AHEAD_BYTES_MAX), pace: policy.pace })
    }

    /// Relays the rest of a body, to its end. If it ends early, the bytes read before are still sent.
    pub(crate) async fn relay(
        self,
        incoming: Incoming<'_>,
        outgoing: Outgoing<'_>,
        meter: Meter<'_>,
        deadline: &Deadline,
        store: &BodyStore,
    ) -> Result<(), RelayError> {
        let stock = Stock::new(self.read_ahead, store);
        let own_deadline = deadline.another();
        let mut reading = pin!(stock.fill(incoming, &own_deadline));
        let mut writing = pin!(stock.drain(outgoing, meter, deadline, self.pace));
        let mut is_read = false;
        poll_fn(|cx| {
            loop {
                let before = stock.changes.get();
                is_read = is_read || reading.as_mut().poll(cx).is_ready();
                if let Poll::Ready(result) = writing.as_mut().poll(cx) {
                    return Poll::Ready(result);
                }
                if stock.changes.get() == before {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

impl Drop for Stock<'_> {
    fn drop(&mut self) {
        self.store.give_back_ahead(self.taken.get());
    }
}

impl<'s> Stock<'s> {
    fn new(len_max: usize, store: &'s BodyStore) -> Self {
        Self {
            store,
            pieces: RefCell::default(),
            len: Cell::new(0),
            len_max,
            taken: Cell::new(0),
            is_short: Cell::new(false),
            end: RefCell::default(),
            changes: Cell::new(0),
        }
    }

    /// Whether more may be read: while bytes wait to be sent, only as far as there is room; once none wait,
    /// whatever is available.
    fn may_read(&self) -> bool {
        self.len.get() == 0 || self.len.get() < self.len_max && !self.is_short.get()
    }

    fn note_read(&self, len: usize) {
        let is_taken = self.store.take_ahead(len);
        if is_taken {
            self.taken.set(self.taken.get() + len);
        }
        self.is_short.set(!is_taken);
        self.len.set(self.len.get() + len);
        self.note_change();
    }

    fn note_sent(&self, len: usize) {
        let given_back = len.min(self.taken.get());
        self.taken.set(self.taken.get() - given_back);
        self.store.give_back_ahead(given_back);
        self.len.set(self.len.get() - len);
        self.note_change();
    }

    fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    async fn fill(&self, incoming: Incoming<'_>, deadline: &Deadline) {
        let end = self.read(incoming, deadline).await;
        self.end.replace(Some(end));
        self.note_change();
    }

    /// Reads to the end of the body; returns its trailers.
    async fn read(&self, mut incoming: Incoming<'_>, deadline: &Deadline) -> Result<Vec<u8>, RelayError> {
        loop {
            poll_fn(|_| if self.may_read() { Poll::Ready(()) } else { Poll::Pending }).await;
            match incoming.next(None, deadline).await? {
                BodyEvent::Content { skip, len } => {
                    let piece = match &incoming.source {
                        Source::Stream(frames) if len > 0 => frames.frame.clone(),
                        Source::Stored(stored) => stored.front.clone(),
                        _ => Bytes::copy_from_slice(incoming.content(skip, len)),
                    };
                    let is_last = incoming.is_last();
                    incoming.source.consume(skip + len);
                    self.pieces.borrow_mut().push_back(piece);
                    self.note_read(len);
                    if is_last {
                        return Ok(Vec::new());
                    }
                }
                BodyEvent::End { skip, trailers } => {
                    let trailers = incoming.content(trailers, skip - trailers).to_vec();
                    incoming.source.consume(skip);
                    return Ok(trailers);
                }
                BodyEvent::Large { .. } => {
                    unreachable!("only what goes to a socket passes without being looked at")
                }
            }
        }
    }

    async fn drain(
        &self,
        outgoing: Outgoing<'_>,
        meter: Meter<'_>,
        deadline: &Deadline,
        pace: Option<Pace>,
    ) -> Result<(), RelayError> {
        let begin = deadline.now();
        loop {
            // Both sides are polled after every change.
            let Some(mut piece) = poll_fn(|_| self.poll_next()).await else {
                let trailers = self.end.take().expect("the body has ended")?;
                return outgoing.finish(&trailers, deadline).await;
            };
            while !piece.is_empty() {
                let allowed = allowance(pace, begin, deadline, meter.content.get()).await;
                let mut now = piece.split_to(piece.len().min(allowed));
                let len = now.len();
                meter.count(len)?;
                match outgoing.sink {
                    Sink::Stream(sender) => outgoing.send(sender, &mut now, false, deadline).await?,
                    Sink::Http1 { .. } => outgoing.write(&now, false, deadline).await?,
                }
                self.note_sent(len);
            }
        }
    }

    /// The next piece; none at the end.
    fn poll_next(&self) -> Poll<Option<Bytes>> {
        match self.pieces.borrow_mut().pop_front() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if self.end.borrow().is_some() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Waits until more may be sent; returns how much.
async fn allowance(pace: Option<Pace>, begin: Moment, deadline: &Deadline, sent: u64) -> usize {
    let Some(pace) = pace else { return usize::MAX };
    loop {
        let elapsed_ms = deadline.now().since(begin).as_millis() as u64;
        let left = allowed(pace, elapsed_ms).saturating_sub(sent);
        if left > 0 {
            return usize::try_from(left).unwrap_or(usize::MAX);
        }
        // Always ends by running out of time.
        let _ = deadline.within(TICK, |_| Poll::<()>::Pending).await;
    }
}

/// Bytes that may have been sent at this time: those of one second more than has passed, as with nginx.
fn allowed(pace: Pace, elapsed_ms: u64) -> u64 {
    let Pace { bytes_per_second, after_bytes } = pace;
    let by_time = u128::from(bytes_per_second) * u128::from(elapsed_ms + 1000) / 1000;
    after_bytes.saturating_add(u64::try_from(by_time).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::READ_AHEAD_TOTAL_BYTES_MAX;

    #[test]
    fn what_may_be_sent_grows_with_time() {
        let pace = Pace { bytes_per_second: 1024, after_bytes: 10 };
        assert_eq!([0, 500, 1000, 10_000].map(|ms| allowed(pace, ms)), [1034, 1546, 2058, 11_274]);
        assert_eq!(allowed(Pace { bytes_per_second: u64::MAX, after_bytes: 1 }, u64::MAX / 2), u64::MAX);
    }

    #[test]
    fn responses_share_the_room_in_which_they_are_read_ahead() {
        let store = BodyStore::new(None);
        let all: Vec<_> = (0..READ_AHEAD_TOTAL_BYTES_MAX / READ_AHEAD_BYTES_MAX)
            .map(|_| Stock::new(READ_AHEAD_BYTES_MAX, &store))
            .collect();
        for stock in &all {
            stock.note_read(READ_AHEAD_BYTES_MAX - 1);
            assert!(stock.may_read());
            stock.note_read(1);
            assert!(!stock.may_read(), "it has its share");
        }
        let late = Stock::new(READ_AHEAD_BYTES_MAX, &store);
        assert!(late.may_read());
        late.note_read(10);
        assert!(!late.may_read(), "there is no more room");
        late.note_sent(10);
        assert!(late.may_read(), "each goes on with what is sent at once");
        late.note_read(10);
        drop(all);
        assert!(!late.may_read());
        late.note_sent(10);
        late.note_read(10);
        assert!(late.may_read());
        drop(late);
        assert!(store.take_ahead(READ_AHEAD_TOTAL_BYTES_MAX) && !store.take_ahead(1));
    }

    #[test]
    fn a_route_that_asks_for_nothing_has_none() {
        assert!(Stages::of(None).is_none() && Stages::of(Some(&ResponsePolicy::default())).is_none());
        let policy = ResponsePolicy { read_ahead_bytes: u64::MAX, ..ResponsePolicy::default() };
        assert_eq!(Stages::of(Some(&policy)).unwrap().read_ahead, READ_AHEAD_BYTES_MAX);
    }
}
