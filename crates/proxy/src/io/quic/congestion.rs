//! Congestion control: CUBIC (RFC 9438), which gives way less to a loss that does not come from congestion.
//!
//! A lossy radio link drops packets although no queue is full. CUBIC takes each of these for congestion, so
//! that at 2 % loss it has a window of some ten packets whatever the link could carry. As TCP Veno does, this
//! controller looks for a queue first: the round trip is not longer than the shortest one by a quarter, and
//! few packets of the window are lost. Then the window shrinks to 0.9 and not to 0.7, and grows again by one
//! packet in each round trip. Where there is a queue, where many packets are lost, or where the network marks
//! packets (ECN), it is CUBIC.
//!
//! Never in here: pacing and detection of loss, which are `quinn-proto`'s.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::{Connection, RttEstimator};

/// Makes a controller for each path.
#[derive(Debug)]
pub(super) struct Congestion;

/// The state of a path.
#[derive(Clone, Debug)]
struct Path {
    /// Bytes that may be in flight.
    window: f64,
    /// The window from which on it grows slowly.
    threshold: f64,
    mtu: f64,
    /// When the window was last reduced: packets from before say nothing of the new one.
    reduced: Option<Instant>,
    /// The window before that, to which growth is fast and beyond which it is careful at first.
    peak: f64,
    /// The window that growth by one packet in a round trip has led to since then.
    linear: f64,
    /// The smoothed and the shortest round trip.
    round_trip: Duration,
    shortest: Duration,
    /// The number of the packet that was sent last, and the one up to which the client has acknowledged all
    /// that was not lost.
    sent: u64,
    acknowledged: u64,
}

/// Packets of the first window (RFC 9002 section 7.2).
const FIRST_WINDOW_BYTES: u64 = 14_720;
const LEAST_WINDOW_PACKETS: f64 = 2.0;
/// The share of the window that is left after congestion (RFC 9438 section 4.6), and after a loss without it.
const AFTER_CONGESTION: f64 = 0.7;
const AFTER_LOSS: f64 = 0.9;
/// CUBIC's constant, in packets and seconds (RFC 9438 section 5).
const CUBIC: f64 = 0.4;
/// The part of the shortest round trip by which the smoothed one is longer where there is a queue, and the
/// least such time: acknowledgements come late by so much anyway.
const QUEUE_PART: u32 = 4;
const QUEUE_TIME_MIN: Duration = Duration::from_millis(5);
/// The part of a window that is lost at once where there is congestion, and the least such number of packets.
const LIGHT_PART: f64 = 16.0;
const LIGHT_PACKETS: f64 = 2.0;

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, _: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Path {
            window: FIRST_WINDOW_BYTES as f64,
            threshold: f64::INFINITY,
            mtu: current_mtu.into(),
            reduced: None,
            peak: 0.0,
            linear: 0.0,
            round_trip: Duration::ZERO,
            shortest: Duration::ZERO,
            sent: 0,
            acknowledged: 0,
        })
    }
}

/// The number of the packet that was sent last on a connection.
pub(super) fn last_sent(quinn: &Connection) -> u64 {
    path(quinn).map_or(0, |path| path.sent)
}

/// Whether the client has acknowledged packets that were sent after one, and lacks none of what they carry.
pub(super) fn is_acknowledged_after(quinn: &Connection, number: u64) -> bool {
    path(quinn).is_some_and(|path| path.acknowledged > number) && !quinn.has_pending_retransmits()
}

/// A copy, since the connection does not give away more: it is for moments that are rare.
fn path(quinn: &Connection) -> Option<Box<Path>> {
    quinn.congestion_state().clone_box().into_any().downcast().ok()
}

impl Path {
    /// Whether packets wait in a queue of the network.
    fn has_queue(&self) -> bool {
        let most = self.shortest + (self.shortest / QUEUE_PART).max(QUEUE_TIME_MIN);
        self.round_trip > most
    }

    fn is_before_reduction(&self, sent: Instant) -> bool {
        self.reduced.is_some_and(|reduced| sent <= reduced)
    }

    fn least(&self) -> f64 {
        LEAST_WINDOW_PACKETS * self.mtu
    }

    /// The window that CUBIC has so long after a reduction (RFC 9438 section 4.2).
    fn cubic(&self, after: Duration) -> f64 {
        let packets = |bytes: f64| bytes / self.mtu;
        let k = (packets(self.peak - self.threshold).max(0.0) / CUBIC).cbrt();
        self.peak + CUBIC * (after.as_secs_f64() - k).powi(3) * self.mtu
    }
}

impl Controller for Path {
    fn on_sent(&mut self, _: Instant, _: u64, last_packet_number: u64) {
        self.sent = last_packet_number;
    }

    fn on_end_acks(&mut self, _: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        if in_flight == 0 {
            self.acknowledged = self.sent;
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.round_trip = rtt.get();
        self.shortest = rtt.min();
        if app_limited || self.is_before_reduction(sent) {
            return;
        }
        let bytes = bytes as f64;
        if self.window < self.threshold {
            self.window += bytes;
            return;
        }
        let reduced = *self.reduced.get_or_insert(now);
        self.linear += self.mtu * bytes / self.window;
        let cubic = self.cubic(now.saturating_duration_since(reduced) + self.round_trip);
        // Never by more than half a window in a round trip (RFC 9438 section 4.4).
        let growth = (cubic - self.window).clamp(0.0, self.window / 2.0) * bytes / self.window;
        self.window = (self.window + growth).max(self.linear);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        if self.is_before_reduction(sent) {
            return;
        }
        let light = (self.window / LIGHT_PART).max(LIGHT_PACKETS * self.mtu);
        // Marks of the network come without a loss.
        let is_congested = lost_bytes == 0 || lost_bytes as f64 > light || self.has_queue();
        let share = if is_congested { AFTER_CONGESTION } else { AFTER_LOSS };
        // A flow whose window shrinks leaves more to others (RFC 9438 section 4.7).
        let is_shrinking = is_congested && self.window < self.peak;
        self.peak = if is_shrinking { self.window * (1.0 + AFTER_CONGESTION) / 2.0 } else { self.window };
        self.threshold = (self.window * share).max(self.least());
        self.window = self.threshold;
        self.linear = self.window;
        self.reduced = Some(now);
        if is_persistent {
            self.window = self.least();
            self.linear = self.window;
            self.reduced = None;
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.window = self.window.max(self.least());
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
    fn window(&self) -> u64 {
        self.window as u64
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        FIRST_WINDOW_BYTES
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: f64 = 1200.0;

    /// A path with a window of so many packets, of which the round trip takes so many milliseconds.
    fn path(packets: f64, round_trip: u64, shortest: u64) -> Path {
        Path {
            window: packets * MTU,
            threshold: packets * MTU,
            mtu: MTU,
            reduced: None,
            peak: 0.0,
            linear: 0.0,
            round_trip: Duration::from_millis(round_trip),
            shortest: Duration::from_millis(shortest),
            sent: 0,
            acknowledged: 0,
        }
    }

    /// A number of bytes in packets, with one decimal.
    fn packets(bytes: f64) -> String {
        format!("{:.1}", bytes / MTU)
    }

    /// The window after the loss of so many packets.
    fn after_loss(mut path: Path, lost: u64) -> String {
        let now = clock::instant();
        path.on_congestion_event(now, now, false, lost * 1200);
        packets(path.window)
    }

    #[test]
    fn what_was_sent_is_acknowledged_once_nothing_is_in_flight() {
        let (mut path, now) = (path(10.0, 10, 10), clock::instant());
        path.on_sent(now, 1200, 7);
        path.on_end_acks(now, 1200, true, Some(6));
        assert_eq!(path.acknowledged, 0);
        path.on_end_acks(now, 0, true, Some(7));
        assert_eq!(path.acknowledged, 7);
        path.on_sent(now, 1200, 8);
        assert_eq!(path.acknowledged, 7, "the next one is not");
    }

    #[test]
    fn a_loss_without_a_queue_costs_a_tenth() {
        assert_eq!(after_loss(path(100.0, 50, 50), 1), "90.0");
        assert_eq!(after_loss(path(100.0, 60, 50), 6), "90.0");
        assert_eq!(after_loss(path(10.0, 50, 50), 2), "9.0");
    }

    #[test]
    fn congestion_costs_what_cubic_says() {
        assert_eq!(after_loss(path(100.0, 80, 50), 1), "70.0", "there is a queue");
        assert_eq!(after_loss(path(100.0, 50, 50), 10), "70.0", "many are lost");
        assert_eq!(after_loss(path(100.0, 50, 50), 0), "70.0", "the network marks packets");
        assert_eq!(after_loss(path(2.0, 80, 50), 1), "2.0", "two packets are always allowed");
    }

    #[test]
    fn what_was_sent_before_a_reduction_does_not_count_again() {
        let (mut path, begin) = (path(100.0, 80, 50), clock::instant());
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        path.on_congestion_event(at(10), at(0), false, 1200);
        path.on_congestion_event(at(20), at(5), false, 1200);
        assert_eq!(packets(path.window), "70.0");
        path.on_congestion_event(at(30), at(20), false, 1200);
        assert_eq!(packets(path.window), "49.0");
    }

    #[test]
    fn a_long_silence_begins_again_with_two_packets_and_grows_fast() {
        let (mut path, now) = (path(100.0, 50, 50), clock::instant());
        path.on_congestion_event(now, now, true, 1200);
        assert_eq!(packets(path.window), "2.0");
        assert!(path.window < path.threshold);
    }

    #[test]
    fn cubic_comes_back_to_its_peak_and_then_goes_on_carefully() {
        let (mut path, begin) = (path(100.0, 80, 50), clock::instant());
        path.on_congestion_event(begin, begin, false, 1200);
        // RFC 9438 section 4.2: K is the cube root of 30 / 0.4 s.
        let k = Duration::from_secs_f64(75_f64.cbrt());
        assert_eq!(packets(path.cubic(Duration::ZERO)), "70.0");
        assert_eq!(packets(path.cubic(k)), "100.0");
        assert_eq!(packets(path.cubic(k + Duration::from_secs(1))), "100.4");
    }
}
