//! Request streams whose heads have not come, counted with those of all connections of the worker.
//!
//! Each takes about a kilobyte, and a client may have some hundred of them. While the worker has very many,
//! a connection with many of its own has to end. Must not be in here: what is read from them.

use std::cell::Cell;
use std::rc::Rc;

use crate::limits::{HTTP3_HEADS_WAITING_MAX, HTTP3_HEADS_WAITING_SHARE};

/// The streams of all connections of a worker.
#[derive(Clone, Default)]
pub(crate) struct AllWaiting(Rc<Cell<usize>>);

/// The streams of one connection.
pub(super) struct Waiting {
    own: usize,
    all: AllWaiting,
}

impl Waiting {
    pub(super) fn new(all: AllWaiting) -> Self {
        Self { own: 0, all }
    }

    /// Counts another one. False where there are too many.
    pub(super) fn begin(&mut self) -> bool {
        self.own += 1;
        self.all.0.set(self.all.0.get() + 1);
        self.own <= HTTP3_HEADS_WAITING_SHARE || self.all.0.get() <= HTTP3_HEADS_WAITING_MAX
    }

    /// Counts one that waits no more.
    pub(super) fn end(&mut self) {
        self.own -= 1;
        self.all.0.set(self.all.0.get() - 1);
    }

    /// Counts none any more.
    pub(super) fn end_all(&mut self) {
        self.all.0.set(self.all.0.get() - self.own);
        self.own = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own == 0
    }

    /// Whether the connection has more of them than every one may have.
    pub(super) fn are_many(&self) -> bool {
        self.own > HTTP3_HEADS_WAITING_SHARE
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_with_many_end_while_there_are_very_many() {
        let all = AllWaiting::default();
        let (mut one, mut other) = (Waiting::new(all.clone()), Waiting::new(all.clone()));
        assert!((0..HTTP3_HEADS_WAITING_MAX).all(|_| one.begin()), "there is room");
        assert!(!one.begin());
        assert!((0..HTTP3_HEADS_WAITING_SHARE).all(|_| other.begin()), "each may have some");
        assert!(one.are_many() && !other.are_many());
        assert!(!other.begin() && other.are_many());
        drop(one);
        assert_eq!(all.0.get(), HTTP3_HEADS_WAITING_SHARE + 1);
        assert!(other.begin(), "there is room again");
        (0..HTTP3_HEADS_WAITING_SHARE + 2).for_each(|_| other.end());
        assert!(other.is_empty() && all.0.get() == 0);
    }
}
