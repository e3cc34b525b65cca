//! The state of a stream (RFC 9113 section 5.1), and the table of all streams of a connection.

use super::code::Code;
use crate::priority::Priority;

/// A stream of a connection, for as long as its owner holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    slot: u32,
    id: u32,
}

/// A side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that this program is.
    Us,
    /// The other side of the connection.
    Peer,
}

/// The early end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The side that ended it.
    pub by: Side,
    /// The code that it gave.
    pub code: Code,
    /// A GOAWAY of the peer says that it has not processed the request (RFC 9113 section 6.8).
    pub is_unprocessed: bool,
}

/// The states of RFC 9113 section 5.1, figure 2, that a stream in the table can have: an idle one is not in
/// it, and none is reserved, since nothing is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// The peer has sent all.
    HalfClosedRemote,
    /// This side has sent all.
    HalfClosedLocal,
    /// Both have sent all, or one has reset the stream.
    Closed(Option<Reset>),
}

impl State {
    /// The state once the peer has sent its last frame.
    pub(super) fn received_end(self) -> Self {
        match self {
            Self::Open => Self::HalfClosedRemote,
            Self::HalfClosedLocal => Self::Closed(None),
            ended => ended,
        }
    }

    /// The state once this side has sent its last frame.
    pub(super) fn sent_end(self) -> Self {
        match self {
            Self::Open => Self::HalfClosedLocal,
            Self::HalfClosedRemote => Self::Closed(None),
            ended => ended,
        }
    }

    /// Whether the peer may send content and trailers.
    pub(super) fn may_receive(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedLocal)
    }

    /// Whether this side may send content and trailers.
    pub(super) fn may_send(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedRemote)
    }

    pub(super) fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

/// A stream in the table.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) id: u32,
    pub(super) state: State,
    /// The final head of the peer has come.
    pub(super) has_head: bool,
    pub(super) priority: Priority,
    /// Bytes of content that this side may send; negative after the peer has made the window smaller.
    pub(super) send_window: i64,
    /// Bytes of content that the peer may send.
    pub(super) receive_window: i64,
    /// The size to which the receiving window is opened again.
    pub(super) receive_window_max: u32,
    /// Bytes of content that have come and have not been read.
    pub(super) unread: u32,
    /// Bytes of content that have to come, where the head says so.
    pub(super) expected: Option<u64>,
    pub(super) data: T,
}

/// The streams of a connection that are open, or that their owner still holds.
#[derive(Debug)]
pub(super) struct Streams<T> {
    slots: Vec<Option<Stream<T>>>,
    free: Vec<u32>,
    /// Identifier and slot of each stream that is not closed, in the order of identifiers.
    open: Vec<(u32, u32)>,
}

/// Slots that a connection without streams keeps, so that one request after the other takes no memory anew.
const SLOTS_KEPT: usize = 4;

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), open: Vec::new() }
    }
}

impl<T> Streams<T> {
    /// Adds an open stream, whose identifier is above all others.
    pub(super) fn add(&mut self, stream: Stream<T>) -> Key {
        let id = stream.id;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(stream);
        self.open.push((id, slot));
        Key { slot, id }
    }

    /// The stream of an owner.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Stream<T>> {
        self.slots.get(key.slot as usize)?.as_ref().filter(|stream| stream.id == key.id)
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Stream<T>> {
        self.slots.get_mut(key.slot as usize)?.as_mut().filter(|stream| stream.id == key.id)
    }

    /// The open stream of an identifier.
    pub(super) fn find(&self, id: u32) -> Option<Key> {
        // The newest one is asked for most often.
        match self.open.last() {
            Some(&(last, slot)) if last == id => Some(Key { slot, id }),
            _ => {
                let at = self.open.binary_search_by_key(&id, |&(id, _)| id).ok()?;
                Some(Key { slot: self.open[at].1, id })
            }
        }
    }

    /// Notes that a stream is closed. Its owner may still look at it.
    pub(super) fn note_closed(&mut self, key: Key) {
        if let Ok(at) = self.open.binary_search_by_key(&key.id, |&(id, _)| id) {
            self.open.remove(at);
        }
    }

    /// Removes a stream that is closed and that its owner lets go.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.note_closed(key);
        let stream = self.slots[key.slot as usize].take()?;
        self.free.push(key.slot);
        if self.free.len() == self.slots.len() && self.slots.len() > SLOTS_KEPT {
            // A connection that waits for its next request holds little.
            (self.slots, self.free, self.open) = (Vec::new(), Vec::new(), Vec::new());
        }
        Some(stream.data)
    }

    /// Number of streams that are not closed.
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Number of streams in the table.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The open streams with identifiers above `id`.
    pub(super) fn open_above(&self, id: u32) -> Vec<Key> {
        let above = self.open.iter().filter(|&&(one, _)| one > id);
        above.map(|&(id, slot)| Key { slot, id }).collect()
    }

    /// All streams in the table, to be changed.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.slots.iter_mut().flatten()
    }
}
