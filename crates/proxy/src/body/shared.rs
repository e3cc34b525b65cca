//! A body that several requests read while it arrives, each at its own pace and on its own worker.
//!
//! All pieces stay here until the body is [abandoned](SharedBody::abandon): from then on the pieces that all
//! readers have passed are dropped, and the source waits for the slowest reader, which has its client's
//! timeout.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::limits::SHARED_WINDOW_BYTES;

/// A body that arrives.
#[derive(Default)]
pub(crate) struct SharedBody(Mutex<State>);

#[derive(Default)]
struct State {
    pieces: VecDeque<Bytes>,
    /// Pieces that were dropped.
    gone: usize,
    /// Bytes of the pieces that are here.
    len: usize,
    end: Option<End>,
    is_kept: bool,
    /// By number: the piece that each reader reads next.
    readers: Vec<Option<Reader>>,
    source: Option<Waker>,
}

struct Reader {
    next: usize,
    waker: Option<Waker>,
}

/// How a body has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    BrokenOff,
}

/// A reader, which has its own position.
pub(crate) struct SharedReader {
    body: Arc<SharedBody>,
    number: usize,
}

impl SharedBody {
    /// A body without any piece.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { is_kept: true, ..State::default() })))
    }

    /// Appends a piece.
    pub(crate) fn push(&self, piece: Bytes) {
        let mut state = self.0.lock();
        state.len += piece.len();
        state.pieces.push_back(piece);
        state.wake_readers();
    }

    /// Ends the body: no more pieces follow.
    pub(crate) fn end(&self, end: End) {
        let mut state = self.0.lock();
        state.end.get_or_insert(end);
        state.wake_readers();
    }

    /// Drops the pieces that have been read, from now on. No reader can start after that.
    pub(crate) fn abandon(&self) {
        let mut state = self.0.lock();
        state.is_kept = false;
        state.drop_read();
    }

    /// All pieces, once the body is complete.
    pub(crate) fn pieces(&self) -> Vec<Bytes> {
        self.0.lock().pieces.iter().cloned().collect()
    }

    /// Ready when there is room for another piece: always while all pieces stay.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.is_kept || state.len < SHARED_WINDOW_BYTES || state.has_no_reader() {
            return Poll::Ready(());
        }
        state.source = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether there are readers.
    pub(crate) fn has_readers(&self) -> bool {
        !self.0.lock().has_no_reader()
    }

    /// A reader from the start; none if that has been dropped.
    pub(crate) fn reader(self: &Arc<Self>) -> Option<SharedReader> {
        let mut state = self.0.lock();
        if !state.is_kept {
            return None;
        }
        let reader = Some(Reader { next: 0, waker: None });
        let number = state.readers.iter().position(Option::is_none).unwrap_or(state.readers.len());
        if number == state.readers.len() {
            state.readers.push(reader);
        } else {
            state.readers[number] = reader;
        }
        Some(SharedReader { body: Arc::clone(self), number })
    }
}

impl State {
    fn wake_readers(&mut self) {
        for reader in self.readers.iter_mut().flatten() {
            if let Some(waker) = reader.waker.take() {
                waker.wake();
            }
        }
    }

    fn has_no_reader(&self) -> bool {
        self.readers.iter().all(Option::is_none)
    }

    /// Drops the pieces that all readers have passed.
    fn drop_read(&mut self) {
        if self.is_kept {
            return;
        }
        let slowest = self.readers.iter().flatten().map(|reader| reader.next).min();
        let slowest = slowest.unwrap_or(self.gone + self.pieces.len());
        while self.gone < slowest
            && let Some(piece) = self.pieces.pop_front()
        {
            self.gone += 1;
            self.len -= piece.len();
        }
        if self.len < SHARED_WINDOW_BYTES
            && let Some(source) = self.source.take()
        {
            source.wake();
        }
    }
}

impl SharedReader {
    /// The next piece; none at the end of the body.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, ()>> {
        let mut state = self.body.0.lock();
        if let Some(next) = state.next_of(self.number) {
            return Poll::Ready(next);
        }
        if let Some(reader) = &mut state.readers[self.number] {
            reader.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Whether all pieces have been read.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.body.0.lock();
        let next = state.readers[self.number].as_ref().map_or(0, |reader| reader.next);
        state.end == Some(End::Whole) && next == state.gone + state.pieces.len()
    }
}

impl State {
    fn next_of(&mut self, number: usize) -> Option<Result<Option<Bytes>, ()>> {
        let reader = self.readers[number].as_mut().expect("it reads until it is dropped");
        if let Some(piece) = self.pieces.get(reader.next - self.gone) {
            let piece = piece.clone();
            reader.next += 1;
            self.drop_read();
            return Some(Ok(Some(piece)));
        }
        match self.end {
            Some(End::Whole) => Some(Ok(None)),
            Some(End::BrokenOff) => Some(Err(())),
            None => None,
        }
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        let mut state = self.body.0.lock();
        state.readers[self.number] = None;
        state.drop_read();
        if state.has_no_reader()
            && let Some(source) = state.source.take()
        {
            source.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &SharedReader) -> Poll<Result<Option<Bytes>, ()>> {
        reader.poll_next(&Context::from_waker(Waker::noop()))
    }

    fn room(body: &SharedBody) -> Poll<()> {
        body.poll_room(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn each_reads_all_of_it() {
        let body = SharedBody::new();
        let early = body.reader().unwrap();
        assert!(read(&early).is_pending());
        body.push(Bytes::from_static(b"ab"));
        assert_eq!(read(&early), Poll::Ready(Ok(Some(Bytes::from_static(b"ab")))));
        let late = body.reader().unwrap();
        body.push(Bytes::from_static(b"c"));
        body.end(End::Whole);
        body.end(End::BrokenOff);
        for expected in ["ab", "c"] {
            assert_eq!(read(&late), Poll::Ready(Ok(Some(Bytes::from(expected)))));
        }
        assert!(late.is_done() && !early.is_done());
        assert_eq!(read(&late), Poll::Ready(Ok(None)));
    }

    #[test]
    fn what_is_not_kept_waits_for_the_slowest() {
        let body = SharedBody::new();
        let (fast, slow) = (body.reader().unwrap(), body.reader().unwrap());
        body.push(Bytes::from(vec![0; SHARED_WINDOW_BYTES]));
        assert!(room(&body).is_ready(), "all is kept");
        body.abandon();
        assert!(body.reader().is_none() && room(&body).is_pending());
        assert!(read(&fast).is_ready() && room(&body).is_pending());
        assert!(read(&slow).is_ready() && room(&body).is_ready());
        body.push(Bytes::from(vec![0; SHARED_WINDOW_BYTES]));
        drop(fast);
        assert!(room(&body).is_pending());
        drop(slow);
        assert!(room(&body).is_ready() && !body.has_readers());
    }

    #[test]
    fn what_breaks_off_is_told_after_what_came() {
        let body = SharedBody::new();
        let reader = body.reader().unwrap();
        body.push(Bytes::from_static(b"a"));
        body.end(End::BrokenOff);
        assert!(matches!(read(&reader), Poll::Ready(Ok(Some(_)))));
        assert_eq!(read(&reader), Poll::Ready(Err(())));
    }
}
