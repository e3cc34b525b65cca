//! Places of which a worker has so many, each taken while something is at work.

use std::cell::Cell;
use std::rc::Rc;

/// The places.
pub(crate) struct Places(Rc<Cell<usize>>);

/// One that is taken, until it is dropped.
pub(crate) struct Place(Rc<Cell<usize>>);

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self(Rc::new(Cell::new(count)))
    }

    /// Takes a place; none where all are taken.
    pub(crate) fn take(&self) -> Option<Place> {
        let left = self.0.get().checked_sub(1)?;
        self.0.set(left);
        Some(Place(Rc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_given_back() {
        let places = Places::new(2);
        let (first, _second) = (places.take().unwrap(), places.take().unwrap());
        assert!(places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
