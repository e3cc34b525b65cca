//! Bounds of the event loop.

/// Operations on ready sockets that a task may do in one turn, before the others have theirs.
pub const BUDGET: u32 = 128;
/// Tasks that run between two polls of the sockets, where there are always more. At 512 connections, a poll
/// after every 61 costs about a microsecond a request.
pub const TASKS_PER_POLL_MAX: usize = 4096;
/// Late tasks that run after a poll of the sockets, behind those that are not late, at least: where many
/// others are ready, half as many late ones run.
pub const LATE_PER_POLL_MIN: usize = 4;
/// Events that one poll takes from the kernel.
pub(crate) const EVENTS_MAX: usize = 1024;
/// Slots of the wheel of timers, of a millisecond each: a timer that is due later is looked at once a round.
pub(crate) const WHEEL_SLOTS: usize = 512;
/// Reactors of a process at a time.
pub(crate) const REACTORS_MAX: usize = (1 << 12) - 1;
/// Tasks of a reactor at a time.
pub(crate) const TASKS_MAX: usize = (1 << 24) - 1;
