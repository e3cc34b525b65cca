//! The bytes that a connection may have written and that its client has not acknowledged, all of which are in
//! memory.
//!
//! A connection may write twice what congestion control lets it have in flight: more would only wait here
//! instead of with the endpoint. Beyond a least window, the windows of a worker's connections share a bound:
//! one that sends alone may have an eighth of it, and each of a thousand less than a thousandth. A connection
//! whose window is short for that is one of many that download at once: it is served behind other work of the
//! worker.
//!
//! Must not be in here: what is written.

use std::cell::Cell;
use std::rc::Rc;

use crate::limits::{
    QUIC_SEND_WINDOW_MIN, QUIC_SEND_WINDOW_PART, QUIC_SEND_WINDOW_SHORT, QUIC_SEND_WINDOWS_MAX,
    QUIC_UNACKNOWLEDGED_BYTES_MAX,
};

/// The windows of all connections of a worker.
#[derive(Clone, Default)]
pub(crate) struct AllSendWindows(Rc<Totals>);

#[derive(Default)]
struct Totals {
    /// Bytes beyond the least windows.
    extra: Cell<u64>,
    /// Connections that want some.
    wanting: Cell<u64>,
}

/// The window of one connection.
pub(super) struct SendWindow {
    all: AllSendWindows,
    /// Its bytes beyond the least window.
    extra: Cell<u64>,
    wants_extra: Cell<bool>,
    is_short: Cell<bool>,
}

impl SendWindow {
    pub(super) fn new(all: AllSendWindows) -> Self {
        Self { all, extra: Cell::new(0), wants_extra: Cell::new(false), is_short: Cell::new(false) }
    }

    /// Follows the window of congestion control, while there are bytes that are not acknowledged. Returns the
    /// new size if it has changed.
    pub(super) fn follow(&self, congestion_window: u64, is_sending: bool) -> Option<u64> {
        let wanted = if is_sending {
            let window = congestion_window.saturating_mul(2);
            window.clamp(QUIC_SEND_WINDOW_MIN, QUIC_UNACKNOWLEDGED_BYTES_MAX) - QUIC_SEND_WINDOW_MIN
        } else {
            0
        };
        self.count(wanted > 0);
        let Totals { extra: all, wanting } = &*self.all.0;
        let before = self.extra.get();
        let of_others = all.get() - before;
        let share = QUIC_SEND_WINDOWS_MAX / (wanting.get() + QUIC_SEND_WINDOW_PART - 1);
        // Others that have more than their share give it back when they are followed.
        let extra = wanted.min(share).min(QUIC_SEND_WINDOWS_MAX.saturating_sub(of_others));
        self.is_short.set(extra < wanted && extra < QUIC_SEND_WINDOW_SHORT);
        self.extra.set(extra);
        all.set(of_others + extra);
        (extra != before).then_some(QUIC_SEND_WINDOW_MIN + extra)
    }

    fn count(&self, wants_extra: bool) {
        let wanting = &self.all.0.wanting;
        match (self.wants_extra.replace(wants_extra), wants_extra) {
            (false, true) => wanting.set(wanting.get() + 1),
            (true, false) => wanting.set(wanting.get() - 1),
            (false, false) | (true, true) => {}
        }
    }

    /// Whether the connection is one of many that would send more.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.get()
    }
}

impl Drop for SendWindow {
    fn drop(&mut self) {
        self.count(false);
        let all = &self.all.0.extra;
        all.set(all.get() - self.extra.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u64 = 4 << 20;

    /// So many connections that download, after two rounds of each.
    fn downloads(all: &AllSendWindows, count: usize) -> Vec<SendWindow> {
        let windows: Vec<SendWindow> = (0..count).map(|_| SendWindow::new(all.clone())).collect();
        for _ in 0..2 {
            for window in &windows {
                let _ = window.follow(LARGE, true);
            }
        }
        windows
    }

    #[test]
    fn a_window_is_twice_that_of_congestion_control() {
        let window = SendWindow::new(AllSendWindows::default());
        assert_eq!(window.follow(1000, true), None, "the least window is enough");
        assert_eq!(window.follow(100_000, true), Some(200_000));
        assert_eq!(window.follow(100_000, true), None, "it is the same");
        assert_eq!(window.follow(LARGE, true), Some(QUIC_UNACKNOWLEDGED_BYTES_MAX));
        assert!(!window.is_short());
        assert_eq!(window.follow(LARGE, false), Some(QUIC_SEND_WINDOW_MIN));
        assert_eq!(window.all.0.extra.get(), 0);
    }

    #[test]
    fn windows_of_many_stay_within_the_bound_and_are_alike() {
        let all = AllSendWindows::default();
        let windows = downloads(&all, 1000);
        assert!(all.0.extra.get() <= QUIC_SEND_WINDOWS_MAX);
        let extra = windows.iter().map(|window| window.extra.get());
        let (least, most) = (extra.clone().min(), extra.max());
        assert_eq!(least, most);
        assert!(windows.iter().all(SendWindow::is_short), "others are served first");
        drop(windows);
        assert_eq!((all.0.extra.get(), all.0.wanting.get()), (0, 0));
    }

    #[test]
    fn some_downloads_are_served_as_all_others_are() {
        let all = AllSendWindows::default();
        let windows = downloads(&all, 16);
        assert!(windows.iter().all(|window| !window.is_short()));
        assert!(windows.iter().all(|window| window.extra.get() >= 256 << 10));
    }

    #[test]
    fn one_that_sends_little_is_not_short_beside_many() {
        let all = AllSendWindows::default();
        let _windows = downloads(&all, 1000);
        let small = SendWindow::new(all.clone());
        assert_eq!(small.follow(QUIC_SEND_WINDOW_MIN / 2, true), None);
        assert!(!small.is_short());
    }
}
