//! A body in memory, or one that several requests read while it arrives there.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::shared::SharedReader;

/// A body that is read piece by piece.
pub(crate) struct Stored {
    pieces: Pieces,
    /// The part of the current piece that has not been used.
    pub(super) front: Bytes,
}

enum Pieces {
    /// The whole body is in memory; `left` bytes after the front are to be read, from piece `next` on.
    Here {
        pieces: Arc<[Bytes]>,
        next: usize,
        left: u64,
    },
    Coming(SharedReader),
}

impl Stored {
    /// A body of `len` bytes, from `first` on.
    pub(crate) fn here(pieces: &Arc<[Bytes]>, first: u64, len: u64) -> Self {
        let (mut next, mut skip) = (0, first);
        while let Some(piece) = pieces.get(next)
            && skip >= piece.len() as u64
        {
            skip -= piece.len() as u64;
            next += 1;
        }
        let mut front = pieces.get(next).map(|piece| piece.slice(skip as usize..)).unwrap_or_default();
        front.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        let left = len - front.len() as u64;
        Self { front, pieces: Pieces::Here { pieces: Arc::clone(pieces), next: next + 1, left } }
    }

    /// A whole body, in one piece.
    pub(crate) fn whole(front: Bytes) -> Self {
        Self { front, pieces: Pieces::Here { pieces: Arc::default(), next: 0, left: 0 } }
    }

    /// A body that arrives.
    pub(crate) fn coming(reader: SharedReader) -> Self {
        Self { front: Bytes::new(), pieces: Pieces::Coming(reader) }
    }

    /// Whether nothing follows the front.
    pub(super) fn is_front_last(&self) -> bool {
        match &self.pieces {
            Pieces::Here { left, .. } => *left == 0,
            Pieces::Coming(reader) => reader.is_done(),
        }
    }

    /// Waits for bytes at the front. False where the body has ended; an error where it has failed.
    pub(super) fn poll_front(&mut self, cx: &Context<'_>) -> Poll<Result<bool, ()>> {
        while self.front.is_empty() {
            let next = match &mut self.pieces {
                Pieces::Here { left: 0, .. } => None,
                Pieces::Here { pieces, next, left } => {
                    let mut piece = pieces.get(*next).cloned().unwrap_or_default();
                    piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *next += 1;
                    *left = if piece.is_empty() { 0 } else { *left - piece.len() as u64 };
                    Some(piece)
                }
                Pieces::Coming(reader) => std::task::ready!(reader.poll_next(cx))?,
            };
            match next {
                Some(piece) => self.front = piece,
                None => return Poll::Ready(Ok(false)),
            }
        }
        Poll::Ready(Ok(true))
    }

    /// The same for bytes that are available now. A caller that waits for more polls again.
    pub(super) fn front_now(&mut self) -> Poll<Result<bool, ()>> {
        self.poll_front(&Context::from_waker(Waker::noop()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_and_end_anywhere() {
        let pieces: Arc<[Bytes]> = ["abc", "de", "f"].map(Bytes::from).into();
        for first in 0..=6 {
            for last in first..=6 {
                let mut stored = Stored::here(&pieces, first, last - first);
                let mut read = Vec::new();
                while stored.front_now() == Poll::Ready(Ok(true)) {
                    read.extend(std::mem::take(&mut stored.front));
                }
                assert_eq!(read, &b"abcdef"[first as usize..last as usize]);
                assert!(stored.is_front_last());
            }
        }
    }
}
