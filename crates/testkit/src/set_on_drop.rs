//! The end of what threads of a scope do until a flag is set.
//!
//! Must not be in here: what the threads do.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, be it by a panic. A scope waits for its threads in both cases: a test that
/// fails would hang if it did not tell them.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
