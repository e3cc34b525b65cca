//! The record of one client that was noticed, and the rules by which it is slowed and refused.

use super::counts::{Counts, HIDDEN, Rates, Signal};
use super::verdicts::Verdict;
use crate::limits::{ABUSE_FORGIVEN_AFTER, ABUSE_REFUSAL_TIME, ABUSE_REFUSAL_TIME_MAX};

/// Factor on a sum after each window: counts of 10 windows ago have about a third of their weight.
pub(super) const DECAY: f32 = 0.9;

/// Points of heat that a window with an offence adds; a window without one takes a point away.
const HEAT_OF_OFFENCE: u8 = 2;
/// Heat from which on a client is slowed: two windows in a row.
const HEAT_SLOWED: u8 = 4;
/// Heat from which on it is refused: five windows more.
const HEAT_REFUSED: u8 = 14;
/// Heat after a refusal: two windows more, and it is refused again.
const HEAT_AFTER_REFUSAL: u8 = 10;

/// How a client's requests are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It was noticed, and is served like any other.
    #[default]
    Watched,
    /// Its requests are delayed.
    Slowed,
    /// Its requests are refused.
    Refused,
}

/// The record of a client that was noticed. There may be a hundred thousand of them, so it is small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Counts that decay with each window.
    sums: Rates,
    /// Counts of the last window alone.
    last: [u16; HIDDEN + 1],
    heat: u8,
    /// Refusals that are not forgotten yet.
    pub(super) strikes: u8,
    /// The signals of its offences since it was last [`Treatment::Watched`], as a set of bits.
    pub(super) signals: u8,
    pub(super) treatment: Treatment,
    /// End of its refusal, in seconds since the clock's start.
    pub(super) until_s: u32,
    /// The second of its last offence, or when a refusal was last forgotten.
    quiet_since_s: u32,
}

impl Record {
    #[cfg(test)]
    pub(super) fn refused_until(until_s: u32) -> Self {
        Self { treatment: Treatment::Refused, until_s, ..Self::default() }
    }

    /// Ages the counts by a window.
    pub(super) fn decay(&mut self) {
        self.sums.iter_mut().for_each(|sum| *sum *= DECAY);
        self.last = Default::default();
    }

    /// Adds a worker's counts of the window.
    pub(super) fn add(&mut self, counts: &Counts) {
        for (at, &count) in counts.iter().enumerate() {
            self.sums[at] += count as f32;
            self.last[at] = self.last[at].saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
        }
    }

    /// The rate of a signal in a second, over the last windows.
    pub(super) fn rate(&self, signal: Signal) -> f32 {
        self.sums[signal as usize] * (1.0 - DECAY)
    }

    /// The highest rate of a signal in a second that may have gone uncounted before the client was noticed.
    pub(super) fn hidden_rate(&self, signal: Signal) -> f32 {
        // An error is a request, too.
        let points = signal.points().saturating_add(u16::from(signal == Signal::Errors));
        self.sums[HIDDEN] * (1.0 - DECAY) / f32::from(points)
    }

    /// The rate of a signal in a second, in the last window.
    pub(super) fn last_rate(&self, signal: Signal) -> f32 {
        f32::from(self.last[signal as usize])
    }

    /// Updates the treatment after a window, in which the client was far off the others by a set of signals.
    /// Returns whether its treatment has changed.
    pub(super) fn conclude(&mut self, offences: u8, now_s: u32) -> bool {
        let before = (self.treatment, self.until_s);
        if offences == 0 {
            self.heat = self.heat.saturating_sub(1);
        } else {
            self.heat = (self.heat + HEAT_OF_OFFENCE).min(HEAT_REFUSED);
            self.signals |= offences;
            self.quiet_since_s = now_s;
        }
        match self.treatment {
            Treatment::Refused if now_s < self.until_s => {}
            Treatment::Refused => {
                self.treatment = Treatment::Slowed;
                self.heat = HEAT_AFTER_REFUSAL;
                self.quiet_since_s = now_s;
            }
            _ if self.heat >= HEAT_REFUSED => {
                let time = ABUSE_REFUSAL_TIME * (1 << self.strikes.min(6));
                self.until_s = now_s + time.min(ABUSE_REFUSAL_TIME_MAX).as_secs() as u32;
                self.strikes = self.strikes.saturating_add(1).min(7);
                self.treatment = Treatment::Refused;
            }
            Treatment::Watched if self.heat >= HEAT_SLOWED => self.treatment = Treatment::Slowed,
            Treatment::Slowed if self.heat == 0 => {
                self.treatment = Treatment::Watched;
                self.signals = 0;
            }
            Treatment::Watched | Treatment::Slowed => {}
        }
        let quiet_s = u64::from(now_s - self.quiet_since_s.min(now_s));
        if self.treatment != Treatment::Refused
            && self.strikes > 0
            && quiet_s >= ABUSE_FORGIVEN_AFTER.as_secs()
        {
            self.strikes -= 1;
            self.quiet_since_s = now_s;
        }
        before != (self.treatment, self.until_s)
    }

    /// The verdict that follows from its treatment.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        match self.treatment {
            Treatment::Watched => None,
            Treatment::Slowed => Some(Verdict::Slow),
            Treatment::Refused => Some(Verdict::Refuse {
                until_s: self.until_s,
                closes_connections: Signal::ALL
                    .iter()
                    .any(|signal| signal.is_of_connections() && self.signals & signal.bit() != 0),
            }),
        }
    }

    /// Whether it is under a verdict, or was refused recently.
    pub(super) fn is_held(&self) -> bool {
        self.treatment != Treatment::Watched || self.strikes > 0
    }

    /// Whether nothing is left that is worth its memory.
    pub(super) fn is_spent(&self) -> bool {
        !self.is_held() && self.heat == 0 && self.weight() < 1.0
    }

    /// Its weight, by which clients are sorted and evicted: verdicts first, then points.
    pub(super) fn weight(&self) -> f32 {
        let sums =
            Signal::ALL.iter().map(|signal| self.sums[*signal as usize] * f32::from(signal.points().min(50)));
        let held = match (self.treatment, self.strikes) {
            (Treatment::Refused, _) => 1e12,
            (Treatment::Slowed, _) | (_, 1..) => 1e9,
            (Treatment::Watched, 0) => 0.0,
        };
        sums.sum::<f32>() + held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u8 = 1;

    /// Passes so many seconds, with offences in some. Returns the seconds for which the client was slowed,
    /// and refused.
    fn pass(record: &mut Record, now_s: &mut u32, seconds: u32, offends: impl Fn(u32) -> bool) -> (u32, u32) {
        let mut times = (0, 0);
        for second in 0..seconds {
            *now_s += 1;
            record.conclude(if offends(second) { RATE } else { 0 }, *now_s);
            times.0 += u32::from(record.treatment == Treatment::Slowed);
            times.1 += u32::from(record.treatment == Treatment::Refused);
        }
        times
    }

    #[test]
    fn refusals_double_while_a_client_goes_on_and_are_forgotten_one_by_one() {
        let (mut record, mut now_s) = (Record::default(), 0);
        assert_eq!(pass(&mut record, &mut now_s, 1, |_| true), (0, 0), "one offence has no consequence");
        assert_eq!(pass(&mut record, &mut now_s, 5, |_| true), (5, 0));
        let mut refused = Vec::new();
        for _ in 0..9 {
            while record.treatment != Treatment::Refused {
                pass(&mut record, &mut now_s, 1, |_| true);
            }
            refused.push(record.until_s - now_s);
            while record.treatment == Treatment::Refused {
                pass(&mut record, &mut now_s, 1, |_| true);
            }
        }
        assert_eq!(refused, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        assert_eq!((record.strikes, record.treatment), (7, Treatment::Slowed));
        // Slowed for as long as its heat lasts; then one refusal is forgotten each minute.
        assert_eq!(pass(&mut record, &mut now_s, 60, |_| false), (9, 0));
        assert_eq!((record.strikes, record.treatment), (6, Treatment::Watched));
        pass(&mut record, &mut now_s, 120, |_| false);
        assert_eq!(record.strikes, 4);
        pass(&mut record, &mut now_s, 240, |_| false);
        assert!(record.is_spent());
    }

    #[test]
    fn a_client_that_stops_while_it_is_refused_is_not_refused_again() {
        let (mut record, mut now_s) = (Record::default(), 0);
        let (_, refused) = pass(&mut record, &mut now_s, 60, |second| second < 8);
        assert_eq!((refused, record.treatment, record.strikes), (10, Treatment::Watched, 1));
    }

    #[test]
    fn a_client_that_pauses_is_refused_later_and_one_with_few_offences_never() {
        let refused_with = |every: u32| {
            let (mut record, mut now_s) = (Record::default(), 0);
            pass(&mut record, &mut now_s, 120, |second| second % every == 0).1 > 0
        };
        assert!(refused_with(2), "one second on, one off");
        assert!(!refused_with(3) && !refused_with(10));
    }
}
