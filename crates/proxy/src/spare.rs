//! Values that are used again with the memory that they have, and moved as no more than a pointer.

use std::cell::RefCell;

use crate::limits::SPARE_VALUES_MAX;

/// A worker's spare values of a kind.
#[derive(Default)]
pub(crate) struct Spare<T>(RefCell<Vec<Box<T>>>);

impl<T: Default> Spare<T> {
    /// A value that holds whatever it held last.
    #[expect(clippy::unnecessary_box_returns, reason = "what is taken is the box")]
    pub(crate) fn take(&self) -> Box<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps a value for another time, if there are not too many.
    pub(crate) fn keep(&self, value: Box<T>) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < SPARE_VALUES_MAX {
            spare.push(value);
        }
    }
}
