//! Numbers of tasks, as wakers carry them.

/// Bits for the number of the reactor, the slot of the task and its generation: a pointer has room for all.
const REACTOR_BITS: u32 = 12;
const SLOT_BITS: u32 = 24;
const GENERATION_BITS: u32 = 28;
const _: () = assert!(REACTOR_BITS + SLOT_BITS + GENERATION_BITS == usize::BITS);

/// The slot of the future that [`Reactor::run`](crate::Reactor::run) was given.
pub(crate) const ROOT: u32 = (1 << SLOT_BITS) - 1;

/// A task among those of all reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) reactor: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    /// A generation as far as there are bits for it. After a whole round a stale waker may wake a task that
    /// is not its own, which is allowed to happen at any time.
    pub(crate) fn generation(count: u32) -> u32 {
        count & ((1 << GENERATION_BITS) - 1)
    }

    pub(crate) fn to_bits(self) -> usize {
        let reactor = (self.reactor as usize) << (SLOT_BITS + GENERATION_BITS);
        reactor | ((self.slot as usize) << GENERATION_BITS) | Self::generation(self.generation) as usize
    }

    pub(crate) fn from_bits(bits: usize) -> Self {
        Self {
            reactor: (bits >> (SLOT_BITS + GENERATION_BITS)) as u32,
            slot: (bits >> GENERATION_BITS) as u32 & ROOT,
            generation: Self::generation(bits as u32),
        }
    }
}
