//! Client connections that have had their last response and are still read from, as with nginx's
//! `lingering_close`: data that is unread when a socket is closed resets the connection, and the reset may
//! overtake the response.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::limits::LINGERING_CONNECTIONS_MAX;

/// The lingering connections of a worker.
#[derive(Default)]
pub(crate) struct Lingering {
    oldest_first: RefCell<VecDeque<Rc<Entry>>>,
}

struct Entry {
    /// It made room for a younger one.
    is_over: Cell<bool>,
    /// The place of its deadline.
    slot: usize,
}

/// A connection's place among those that linger, until this is dropped.
pub(crate) struct LingeringPlace<'a> {
    lingering: &'a Lingering,
    entry: Rc<Entry>,
}

impl Lingering {
    /// Adds a connection with this deadline. Returns the deadline of the oldest one, which has to end if
    /// there are too many.
    pub(crate) fn enter(&self, slot: usize) -> (LingeringPlace<'_>, Option<usize>) {
        let entry = Rc::new(Entry { is_over: Cell::new(false), slot });
        let mut oldest_first = self.oldest_first.borrow_mut();
        oldest_first.push_back(Rc::clone(&entry));
        let has_room = oldest_first.len() <= LINGERING_CONNECTIONS_MAX;
        let oldest = if has_room { None } else { oldest_first.pop_front() };
        let ended = oldest.map(|oldest| {
            oldest.is_over.set(true);
            oldest.slot
        });
        (LingeringPlace { lingering: self, entry }, ended)
    }
}

impl LingeringPlace<'_> {
    /// Whether the connection has made room for a younger one.
    pub(crate) fn is_over(&self) -> bool {
        self.entry.is_over.get()
    }
}

impl Drop for LingeringPlace<'_> {
    fn drop(&mut self) {
        self.lingering.oldest_first.borrow_mut().retain(|entry| !Rc::ptr_eq(entry, &self.entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let lingering = Lingering::default();
        let mut places: Vec<_> = (0..LINGERING_CONNECTIONS_MAX).map(|slot| lingering.enter(slot)).collect();
        assert!(places.iter().all(|(place, ended)| ended.is_none() && !place.is_over()));
        let (_place, ended) = lingering.enter(usize::MAX);
        assert_eq!(ended, Some(0));
        assert!(places[0].0.is_over() && !places[1].0.is_over());
        // A connection that ends by itself leaves its place.
        places.truncate(1);
        assert!(lingering.enter(0).1.is_none());
    }
}
