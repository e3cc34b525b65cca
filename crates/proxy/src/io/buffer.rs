//! Buffers, from a pool that belongs to the worker. An idle connection holds none.

use std::cell::RefCell;
use std::rc::Rc;

use crate::limits::{BUFFER_BYTES_KEPT_MAX, BULK_BUFFER_BYTES, LARGE_BUFFER_BYTES, SMALL_BUFFER_BYTES};

/// The memory for a worker's buffers. The one used last is given out first: it is in the CPU's cache.
#[derive(Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Box<[u8]>>>,
    large: RefCell<Vec<Box<[u8]>>>,
    bulk: RefCell<Vec<Box<[u8]>>>,
}

/// A queue of bytes: written at its end, read from its start.
pub(crate) struct Buffer {
    pool: Rc<Buffers>,
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffers {
    /// The pool of buffers of this length, if there is one.
    #[inline]
    fn class(&self, len: usize) -> Option<&RefCell<Vec<Box<[u8]>>>> {
        match len {
            SMALL_BUFFER_BYTES => Some(&self.small),
            LARGE_BUFFER_BYTES => Some(&self.large),
            BULK_BUFFER_BYTES => Some(&self.bulk),
            _ => None,
        }
    }

    #[inline]
    fn take(&self, len: usize) -> Box<[u8]> {
        let kept = self.class(len).and_then(|class| class.borrow_mut().pop());
        kept.unwrap_or_else(|| allocate(len))
    }

    fn put(&self, bytes: Box<[u8]>) {
        let Some(class) = self.class(bytes.len()) else { return };
        let mut kept = class.borrow_mut();
        if kept.len() * bytes.len() < BUFFER_BYTES_KEPT_MAX {
            kept.push(bytes);
        }
    }
}

#[cold]
fn allocate(len: usize) -> Box<[u8]> {
    vec![0; len].into()
}

impl Buffer {
    /// A buffer without memory, until something is written to it.
    pub(crate) fn empty(pool: &Rc<Buffers>) -> Self {
        Self { pool: Rc::clone(pool), bytes: Box::default(), start: 0, end: 0 }
    }

    pub(crate) fn small(pool: &Rc<Buffers>) -> Self {
        Self { pool: Rc::clone(pool), bytes: pool.take(SMALL_BUFFER_BYTES), start: 0, end: 0 }
    }

    pub(crate) fn large(pool: &Rc<Buffers>) -> Self {
        Self { pool: Rc::clone(pool), bytes: pool.take(LARGE_BUFFER_BYTES), start: 0, end: 0 }
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Room at the end.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// The room at the end, to be read into; [`filled`](Self::filled) adds the bytes that were read.
    pub(crate) fn free(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    pub(crate) fn filled(&mut self, len: usize) {
        assert!(len <= self.room(), "no more can be read than there was room for");
        self.end += len;
    }

    /// Takes bytes from the start.
    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "no more can be taken than there is");
        self.start += len;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Takes bytes from the end.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    /// Writes bytes, making room for them where there is none.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Inserts a byte within the buffered bytes.
    #[cold]
    pub(crate) fn insert(&mut self, at: usize, byte: u8) {
        self.extend(&[byte]);
        self.bytes[self.start + at..self.end].rotate_right(1);
    }

    /// Makes room for at least `len` more bytes.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.room() < len {
            self.make_room(len);
        }
    }

    /// Makes room for a read of, most likely, a head and little more.
    pub(crate) fn reserve_small(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = self.pool.take(SMALL_BUFFER_BYTES);
        }
        self.reserve(SMALL_BUFFER_BYTES / 2);
    }

    /// Makes room for a read of a body.
    pub(crate) fn reserve_large(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = self.pool.take(LARGE_BUFFER_BYTES);
        }
        self.reserve(LARGE_BUFFER_BYTES / 4);
    }

    /// Makes room for a read of the rest of a long body.
    pub(crate) fn reserve_bulk(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = self.pool.take(BULK_BUFFER_BYTES);
        }
        self.reserve(LARGE_BUFFER_BYTES / 4);
    }

    #[cold]
    fn make_room(&mut self, len: usize) {
        let used = self.len();
        if self.bytes.len() >= used + len {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            let classes = [SMALL_BUFFER_BYTES, LARGE_BUFFER_BYTES];
            let class = classes.into_iter().find(|&size| size >= used + len);
            let size = class.unwrap_or_else(|| (used + len).next_power_of_two());
            let mut larger = self.pool.take(size);
            larger[..used].copy_from_slice(self.data());
            self.pool.put(std::mem::replace(&mut self.bytes, larger));
        }
        self.start = 0;
        self.end = used;
    }

    /// Returns the memory to the pool if the buffer is empty.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }

    /// Drops the bytes and returns the memory to the pool.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.bytes.is_empty() {
            self.pool.put(std::mem::take(&mut self.bytes));
        }
        self.start = 0;
        self.end = 0;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let pool = Rc::new(Buffers::default());
        let mut buffer = Buffer::empty(&pool);
        buffer.extend(b"hello world");
        buffer.consume(6);
        buffer.extend(&[b'x'; SMALL_BUFFER_BYTES]);
        assert_eq!(buffer.len(), 5 + SMALL_BUFFER_BYTES);
        assert!(buffer.data().starts_with(b"worldxxx"));
        buffer.truncate(5);
        assert_eq!(buffer.data(), b"world");
    }

    #[test]
    fn memory_goes_back_to_the_pool() {
        let pool = Rc::new(Buffers::default());
        drop(Buffer::small(&pool));
        assert_eq!(pool.small.borrow().len(), 1);
        let mut buffer = Buffer::small(&pool);
        assert_eq!(pool.small.borrow().len(), 0);
        buffer.release();
        assert_eq!((pool.small.borrow().len(), buffer.room()), (1, 0));
    }
}
