//! Spare values, reused together with their memory, and moved as one pointer.

use std::cell::RefCell;

use crate::limits::SPARE_VALUES_MAX;

/// A worker's spare values of one type.
#[derive(Default)]
pub(crate) struct Spare<T>(RefCell<Vec<Box<T>>>);

impl<T: Default> Spare<T> {
    /// A spare value, with its last content, or a new one.
    #[expect(clippy::unnecessary_box_returns, reason = "what is taken is the box")]
    pub(crate) fn take(&self) -> Box<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns a value for reuse, if there are not too many.
    pub(crate) fn keep(&self, value: Box<T>) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < SPARE_VALUES_MAX {
            spare.push(value);
        }
    }
}
