//! What is remembered of one client that was noticed, and how it comes to be slowed and refused.

use super::counts::{Counts, HIDDEN, Rates, Signal};
use super::verdicts::Verdict;
use crate::limits::{ABUSE_FORGIVEN_AFTER, ABUSE_REFUSAL_TIME, ABUSE_REFUSAL_TIME_MAX};

/// How much of a sum is left after a window: what was 10 windows ago counts for about a third.
pub(super) const DECAY: f32 = 0.9;

/// What an offence of one window adds to a client's heat, of which a window without one takes a point away.
const HEAT_OF_OFFENCE: u8 = 2;
/// Heat from which on a client is slowed: two windows in a row.
const HEAT_SLOWED: u8 = 4;
/// Heat from which on it is refused: five windows more.
const HEAT_REFUSED: u8 = 14;
/// Heat after a refusal: two windows more, and it is refused again.
const HEAT_AFTER_REFUSAL: u8 = 10;

/// What a client may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was noticed, and nothing is held against it.
    #[default]
    Watched,
    /// Its requests wait.
    Slowed,
    /// It is refused.
    Refused,
}

/// A client that was noticed. There may be a hundred thousand of them, so it is small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Sums that decay with each window.
    sums: Rates,
    /// The last window alone.
    last: [u16; HIDDEN + 1],
    heat: u8,
    /// Refusals that are not forgotten.
    pub(super) strikes: u8,
    /// What it was found guilty of since it was last watched, as a set of [`Signal`]s.
    pub(super) signals: u8,
    pub(super) standing: Standing,
    /// When its refusal ends.
    pub(super) until_s: u32,
    /// When it last gave offence, or a refusal of it was last forgotten.
    quiet_since_s: u32,
}

impl Record {
    #[cfg(test)]
    pub(super) fn refused_until(until_s: u32) -> Self {
        Self { standing: Standing::Refused, until_s, ..Self::default() }
    }

    /// A window has passed: what was counted before counts less.
    pub(super) fn decay(&mut self) {
        self.sums.iter_mut().for_each(|sum| *sum *= DECAY);
        self.last = Default::default();
    }

    /// Adds what a worker has counted in the window.
    pub(super) fn add(&mut self, counts: &Counts) {
        for (at, &count) in counts.iter().enumerate() {
            self.sums[at] += count as f32;
            self.last[at] = self.last[at].saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
        }
    }

    /// Of something in a second, over the last windows.
    pub(super) fn rate(&self, signal: Signal) -> f32 {
        self.sums[signal as usize] * (1.0 - DECAY)
    }

    /// The most that it may have had of something in a second, beside what was counted of it.
    pub(super) fn hidden_rate(&self, signal: Signal) -> f32 {
        // An error is a request, too.
        let points = signal.points().saturating_add(u16::from(signal == Signal::Errors));
        self.sums[HIDDEN] * (1.0 - DECAY) / f32::from(points)
    }

    /// Of something in a second, in the last window.
    pub(super) fn last_rate(&self, signal: Signal) -> f32 {
        f32::from(self.last[signal as usize])
    }

    /// Draws the conclusion from a window, in which it was far off the others by these signals, or by none. True where its standing
    /// has changed.
    pub(super) fn conclude(&mut self, offences: u8, now_s: u32) -> bool {
        let before = (self.standing, self.until_s);
        if offences == 0 {
            self.heat = self.heat.saturating_sub(1);
        } else {
            self.heat = (self.heat + HEAT_OF_OFFENCE).min(HEAT_REFUSED);
            self.signals |= offences;
            self.quiet_since_s = now_s;
        }
        match self.standing {
            Standing::Refused if now_s < self.until_s => {}
            Standing::Refused => {
                self.standing = Standing::Slowed;
                self.heat = HEAT_AFTER_REFUSAL;
                self.quiet_since_s = now_s;
            }
            _ if self.heat >= HEAT_REFUSED => {
                let time = ABUSE_REFUSAL_TIME * (1 << self.strikes.min(6));
                self.until_s = now_s + time.min(ABUSE_REFUSAL_TIME_MAX).as_secs() as u32;
                self.strikes = self.strikes.saturating_add(1).min(7);
                self.standing = Standing::Refused;
            }
            Standing::Watched if self.heat >= HEAT_SLOWED => self.standing = Standing::Slowed,
            Standing::Slowed if self.heat == 0 => {
                self.standing = Standing::Watched;
                self.signals = 0;
            }
            Standing::Watched | Standing::Slowed => {}
        }
        let quiet_s = u64::from(now_s - self.quiet_since_s.min(now_s));
        if self.standing != Standing::Refused && self.strikes > 0 && quiet_s >= ABUSE_FORGIVEN_AFTER.as_secs()
        {
            self.strikes -= 1;
            self.quiet_since_s = now_s;
        }
        before != (self.standing, self.until_s)
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        match self.standing {
            Standing::Watched => None,
            Standing::Slowed => Some(Verdict::Slow),
            Standing::Refused => Some(Verdict::Refuse {
                until_s: self.until_s,
                closes_connections: Signal::ALL
                    .iter()
                    .any(|signal| signal.is_of_connections() && self.signals & signal.bit() != 0),
            }),
        }
    }

    /// Whether anything is held against it, be it that it was refused before.
    pub(super) fn is_held(&self) -> bool {
        self.standing != Standing::Watched || self.strikes > 0
    }

    /// Whether nothing worth remembering is left.
    pub(super) fn is_spent(&self) -> bool {
        !self.is_held() && self.heat == 0 && self.weight() < 1.0
    }

    /// How much it does, with what is held against it before all.
    pub(super) fn weight(&self) -> f32 {
        let sums =
            Signal::ALL.iter().map(|signal| self.sums[*signal as usize] * f32::from(signal.points().min(50)));
        let held = match (self.standing, self.strikes) {
            (Standing::Refused, _) => 1e12,
            (Standing::Slowed, _) | (_, 1..) => 1e9,
            (Standing::Watched, 0) => 0.0,
        };
        sums.sum::<f32>() + held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u8 = 1;

    /// Goes on for so many seconds, giving offence or not. Returns how long it was slowed, and refused.
    fn pass(record: &mut Record, now_s: &mut u32, seconds: u32, offends: impl Fn(u32) -> bool) -> (u32, u32) {
        let mut times = (0, 0);
        for second in 0..seconds {
            *now_s += 1;
            record.conclude(if offends(second) { RATE } else { 0 }, *now_s);
            times.0 += u32::from(record.standing == Standing::Slowed);
            times.1 += u32::from(record.standing == Standing::Refused);
        }
        times
    }

    #[test]
    fn refusals_double_while_a_client_goes_on_and_are_forgotten_one_by_one() {
        let (mut record, mut now_s) = (Record::default(), 0);
        assert_eq!(pass(&mut record, &mut now_s, 1, |_| true), (0, 0), "once is nothing");
        assert_eq!(pass(&mut record, &mut now_s, 5, |_| true), (5, 0));
        let mut refused = Vec::new();
        for _ in 0..9 {
            while record.standing != Standing::Refused {
                pass(&mut record, &mut now_s, 1, |_| true);
            }
            refused.push(record.until_s - now_s);
            while record.standing == Standing::Refused {
                pass(&mut record, &mut now_s, 1, |_| true);
            }
        }
        assert_eq!(refused, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        assert_eq!((record.strikes, record.standing), (7, Standing::Slowed));
        // Slowed for as long as its heat lasts, and then one refusal forgotten a minute.
        assert_eq!(pass(&mut record, &mut now_s, 60, |_| false), (9, 0));
        assert_eq!((record.strikes, record.standing), (6, Standing::Watched));
        pass(&mut record, &mut now_s, 120, |_| false);
        assert_eq!(record.strikes, 4);
        pass(&mut record, &mut now_s, 240, |_| false);
        assert!(record.is_spent());
    }

    #[test]
    fn who_stops_while_it_is_refused_is_not_refused_again() {
        let (mut record, mut now_s) = (Record::default(), 0);
        let (_, refused) = pass(&mut record, &mut now_s, 60, |second| second < 8);
        assert_eq!((refused, record.standing, record.strikes), (10, Standing::Watched, 1));
    }

    #[test]
    fn a_client_that_pauses_gets_there_later_and_one_that_seldom_offends_never() {
        let refused_with = |every: u32| {
            let (mut record, mut now_s) = (Record::default(), 0);
            pass(&mut record, &mut now_s, 120, |second| second % every == 0).1 > 0
        };
        assert!(refused_with(2), "one second on, one off");
        assert!(!refused_with(3) && !refused_with(10));
    }
}
