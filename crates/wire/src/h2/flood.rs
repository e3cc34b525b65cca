//! Detection of floods: frames that cost more to handle than to send, counted apart from useful traffic.
//!
//! PING, SETTINGS, PRIORITY, `WINDOW_UPDATE`, `RST_STREAM`, CONTINUATION, empty DATA and unknown frames are
//! answered or ignored one by one. A connection has a budget for them, which grows with time and with the
//! requests and data that they may belong to.

use std::time::Duration;

/// A frame or header block that has begun and not ended. Content is left out, because its reader has a time
/// limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Time of arrival of its first byte.
    pub since: Duration,
    /// Number of its bytes that have arrived, including the headers of its frames.
    pub bytes: usize,
}

/// Useless frames that a connection may still send.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    frames: u32,
    /// The last time at which the budget grew with time.
    refilled: Duration,
}

/// Useless frames that a connection may send at once.
const BURST_FRAMES: u32 = 1000;
/// Useless frames for each second: keep-alive and round-trip measurements need a few.
const FRAMES_PER_SECOND: u32 = 100;
/// Frames that may accompany each request.
const FRAMES_PER_REQUEST: u32 = 8;
/// Frames that may answer each sent DATA frame: window updates for stream and connection, and a PING that
/// measures.
const FRAMES_PER_DATA: u32 = 4;

impl Budget {
    pub(crate) fn new(now: Duration) -> Self {
        Self { frames: BURST_FRAMES, refilled: now }
    }

    /// Adds the frames that may accompany a request.
    pub(crate) fn note_request(&mut self) {
        self.add(FRAMES_PER_REQUEST);
    }

    /// Adds frames that something useful has paid for.
    pub(crate) fn add(&mut self, frames: u32) {
        self.frames = (self.frames + frames).min(BURST_FRAMES);
    }

    /// Adds the frames that may answer content.
    pub(crate) fn note_sent_data(&mut self) {
        self.add(FRAMES_PER_DATA);
    }

    /// Whether more than half of the frames that may come at once have come.
    pub(crate) fn is_low(&self) -> bool {
        self.frames < BURST_FRAMES / 2
    }

    /// Takes a useless frame from the budget. Returns false where it is used up.
    pub(crate) fn spend(&mut self, now: Duration) -> bool {
        if self.frames == 0 {
            let seconds = now.saturating_sub(self.refilled).as_secs();
            let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(FRAMES_PER_SECOND);
            self.frames = more.min(BURST_FRAMES);
            self.refilled += Duration::from_secs(seconds);
        }
        let is_left = self.frames > 0;
        self.frames = self.frames.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_requests_and_sent_data_pay_for_frames() {
        let mut budget = Budget::new(Duration::ZERO);
        for second in 0..100 {
            for _ in 0..FRAMES_PER_SECOND {
                assert!(budget.spend(Duration::from_secs(second)), "{second}");
            }
        }
        let mut budget = Budget::new(Duration::ZERO);
        for _ in 0..10 * BURST_FRAMES {
            budget.note_request();
            assert!(budget.spend(Duration::ZERO));
            budget.note_sent_data();
            assert!(budget.spend(Duration::ZERO));
        }
    }

    #[test]
    fn a_burst_has_an_end() {
        let mut budget = Budget::new(Duration::ZERO);
        assert_eq!((0..2 * BURST_FRAMES).filter(|_| budget.spend(Duration::ZERO)).count(), 1000);
        assert!(budget.spend(Duration::from_secs(1)));
    }
}
