//! The shares of a canary that grow over a time, and what stops them.
//!
//! Never in here: a clock, and the figures by which a canary is judged.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::canary_weight::CanaryWeight;

/// Shares of a canary over a time, and the bounds within which it has to stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rollout {
    /// Namespace and name of the object that describes it, with a slash in between. It is unique among the
    /// objects of a configuration.
    pub name: Arc<str>,
    /// Identity of the run: the steps, and a text of the object's author. A change begins it anew.
    pub run: Arc<str>,
    /// The steps in turn; at least one.
    pub steps: Box<[RolloutStep]>,
    /// The bounds; none for a canary that is never stopped.
    pub stop: Option<RolloutStop>,
}

/// A share, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RolloutStep {
    /// The share of the requests that no other rule of the canary decides.
    pub share: RolloutShare,
    /// Time until the next step; none for the last one.
    pub lasts: Option<Duration>,
}

/// A share of requests, in ten-thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RolloutShare(u32);

/// The bounds of a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RolloutStop {
    /// The share of failed requests may be above the mainline's by this much; none where errors do not
    /// count.
    pub errors: Option<RolloutShare>,
    /// The 99th percentile of response times may be the mainline's times this, in thousandths; none where
    /// times do not count.
    pub p99_thousandths: Option<u32>,
    /// Requests to the canary in a step before it is judged.
    pub requests_min: u32,
}

impl RolloutShare {
    /// Ten-thousandths in a whole.
    pub const WHOLE: u32 = 10_000;
    /// The share of a canary that takes all requests.
    pub const ALL: Self = Self(Self::WHOLE);
    /// The share of a canary that takes no request.
    pub const NONE: Self = Self(0);

    /// This many ten-thousandths; more than a whole counts as a whole.
    pub const fn of_ten_thousand(parts: u32) -> Self {
        Self(if parts > Self::WHOLE { Self::WHOLE } else { parts })
    }

    /// The share in ten-thousandths.
    pub fn ten_thousandths(self) -> u32 {
        self.0
    }

    /// The share as a weight.
    pub fn weight(self) -> CanaryWeight {
        CanaryWeight::new(self.0.into(), Self::WHOLE.into())
    }

    /// The share from 0 to 1.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }
}

impl std::fmt::Display for RolloutShare {
    /// In per cent, as in `2.5%`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, part) = (self.0 / 100, self.0 % 100);
        match part {
            0 => write!(f, "{whole}%"),
            tenths if tenths % 10 == 0 => write!(f, "{whole}.{}%", tenths / 10),
            hundredths => write!(f, "{whole}.{hundredths:02}%"),
        }
    }
}

impl Rollout {
    /// The step after this time, counted from 0.
    pub fn step_after(&self, time: Duration) -> usize {
        let mut begin = Duration::ZERO;
        for (number, step) in self.steps.iter().enumerate() {
            let Some(lasts) = step.lasts else { return number };
            begin = begin.saturating_add(lasts);
            if time < begin {
                return number;
            }
        }
        self.steps.len().saturating_sub(1)
    }

    /// The time from the begin to the end of a step; none for the last one.
    pub fn end_of(&self, step: usize) -> Option<Duration> {
        let steps = self.steps.get(..=step)?;
        steps.iter().try_fold(Duration::ZERO, |sum, step| Some(sum.saturating_add(step.lasts?)))
    }

    /// The share of a step.
    pub fn share_of(&self, step: usize) -> RolloutShare {
        self.steps.get(step).map(|step| step.share).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout() -> Rollout {
        let step = |percent: u32, minutes: Option<u64>| RolloutStep {
            share: RolloutShare::of_ten_thousand(percent * 100),
            lasts: minutes.map(|minutes: u64| Duration::from_secs(60 * minutes)),
        };
        Rollout {
            name: "default/web".into(),
            run: "1".into(),
            steps: [step(5, Some(10)), step(25, Some(10)), step(100, None)].into(),
            stop: None,
        }
    }

    #[test]
    fn a_step_lasts_its_time() {
        let (rollout, minutes) = (rollout(), |minutes: u64| Duration::from_secs(60 * minutes));
        let steps = [0, 9, 10, 19, 20, 1_000_000].map(|after| rollout.step_after(minutes(after)));
        assert_eq!(steps, [0, 0, 1, 1, 2, 2]);
        assert_eq!((rollout.end_of(0), rollout.end_of(1)), (Some(minutes(10)), Some(minutes(20))));
        assert_eq!((rollout.end_of(2), rollout.end_of(3)), (None, None));
        assert_eq!(
            (rollout.share_of(1), rollout.share_of(3)),
            (RolloutShare::of_ten_thousand(2500), RolloutShare::NONE)
        );
    }

    #[test]
    fn a_share_reads_as_per_cent() {
        let texts = [0, 1, 10, 250, 500, 10_000, 20_000]
            .map(|parts| RolloutShare::of_ten_thousand(parts).to_string());
        assert_eq!(texts, ["0%", "0.01%", "0.1%", "2.5%", "5%", "100%", "100%"]);
        assert_eq!(RolloutShare::of_ten_thousand(500).weight().share(), (500, 10_000));
    }
}
