//! A lock that a thread that panicked has not spoilt.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic: what is behind these locks is whole at any moment.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
