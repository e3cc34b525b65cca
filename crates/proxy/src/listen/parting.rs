//! Gradual closing of client connections before a proxy stops: one after the other while it still accepts. A
//! connection that is closed between two requests may be closed just when the next one arrives, which a
//! client must not repeat if it is a POST (RFC 9110 section 9.2.2); one that is closed with a response (RFC
//! 9112 section 9.6) loses nothing.
//!
//! Never in here: idle connections, which `worker` closes.

use std::time::Duration;

use clock::Moment;

/// State of the proxy's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    /// No shutdown is announced.
    No,
    /// The shutdown begins after this time.
    After(Duration),
    /// Another process accepts from now on, and the shutdown begins after this time.
    HandedOver(Duration),
    /// The shutdown has begun.
    Now,
    /// The worker of this number panics, as a test wants it.
    #[cfg(debug_assertions)]
    Panic(u32),
}

/// The time before the shutdown, over which connections are closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parting {
    begin: Moment,
    over: Duration,
}

impl Parting {
    /// Uses all but the last tenth of the time, which is left for a next request of connections that were
    /// idle when their turn came.
    pub(crate) fn new(now: Moment, end: Duration) -> Self {
        Self { begin: now, over: end.mul_f64(0.9) }
    }

    /// Whether a connection is to be closed with its present request. Multiples of the golden ratio spread
    /// serial numbers evenly over the time.
    pub(crate) fn includes(self, serial: u64, now: Moment) -> bool {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let share = (serial.wrapping_mul(GOLDEN) >> 32) as f64 / f64::from(u32::MAX);
        now.since(self.begin) >= self.over.mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Clock;

    #[test]
    fn connections_part_evenly_and_all_before_the_end() {
        let clock = Clock::new(Clock::begin());
        let parting = Parting::new(clock.now(), Duration::from_secs(10));
        let parted = || (0..1000).filter(|serial| parting.includes(*serial, clock.now())).count();
        for (advanced_to, least, most) in
            [(0, 0, 5), (1, 100, 125), (5, 545, 565), (9, 995, 1000), (10, 1000, 1000)]
        {
            let past = clock.now().since(parting.begin);
            clock.advance(Duration::from_secs(advanced_to).saturating_sub(past));
            let parted = parted();
            assert!((least..=most).contains(&parted), "after {advanced_to} s: {parted}");
        }
    }
}
