//! Slots that bound how much of a kind of work a worker does at a time.

use std::cell::Cell;
use std::rc::Rc;

/// The free slots of one kind.
pub(crate) struct Permits(Rc<Cell<usize>>);

/// A slot that is taken until this is dropped.
pub(crate) struct Permit(Rc<Cell<usize>>);

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        Self(Rc::new(Cell::new(count)))
    }

    /// Takes a slot; none where all are taken.
    pub(crate) fn take(&self) -> Option<Permit> {
        let left = self.0.get().checked_sub(1)?;
        self.0.set(left);
        Some(Permit(Rc::clone(&self.0)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_given_back() {
        let places = Permits::new(2);
        let (first, _second) = (places.take().unwrap(), places.take().unwrap());
        assert!(places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
