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
/// Slots of the wheel of timers, of a millisecond each.
pub(crate) const WHEEL_SLOTS: usize = 512;
/// Slots for timers that are due later, of a round each: a timer that is due after all of them is looked at
/// once in as many rounds.
pub(crate) const WHEEL_ROUNDS: usize = 64;
/// Cancelled timers that a slot keeps beside as many as twice those that are live.
pub(crate) const CANCELLED_KEPT_MAX: usize = 64;
/// Reactors of a process at a time.
pub(crate) const REACTORS_MAX: usize = (1 << 12) - 1;
/// Tasks of a reactor at a time.
pub(crate) const TASKS_MAX: usize = (1 << 24) - 1;
