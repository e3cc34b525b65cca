//! Shares of a canary that grow over a time (`forebay.io/canary-steps`), and what stops it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use model::{Rollout, RolloutShare, RolloutStep, RolloutStop};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress as OfIngress;
use super::annotation::annotations;
use crate::objects::{Ingress, Sourced};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "canary-run", OfIngress, "", Supported(|s, v| set(&mut s.canary.rollout.run, run(v))),
        "Any text, such as a version: a change of it begins the steps of a canary anew.";
    "canary-steps", OfIngress, "", Supported(|s, v| set(&mut s.canary.rollout.steps, steps(v))),
        "Shares of a canary over a time, such as `5%/10m, 25%/10m, 100%`, in place of `canary-weight`.";
    "canary-stop", OfIngress, "errors 1%", Supported(|s, v| set(&mut s.canary.rollout.stop, stop(v))),
        "Bounds beyond which a canary with steps gets nothing any more: `errors 1%`, `p99 1.5`, `requests 50`; or `off`.";
}

/// Most steps of a canary.
const STEPS_MAX: usize = 20;
/// Range of the time of a step.
const TIME: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30 * 86_400);
/// Range of the factor between the 99th percentiles, in thousandths.
const P99_THOUSANDTHS: RangeInclusive<u32> = 1_000..=100_000;
/// Range of the number of requests before a canary is judged.
const REQUESTS: RangeInclusive<u32> = 1..=1_000_000;
/// Requests before a canary is judged, where the Ingress does not say.
const REQUESTS_DEFAULT: u32 = 20;
/// Longest text of `canary-run`.
const RUN_BYTES_MAX: usize = 100;

/// Settings of a canary with steps.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    steps: Box<[RolloutStep]>,
    stop: Option<RolloutStop>,
    run: Box<str>,
}

impl Default for Settings {
    fn default() -> Self {
        let errors = Some(RolloutShare::of_ten_thousand(100));
        let stop = RolloutStop { errors, p99_thousandths: None, requests_min: REQUESTS_DEFAULT };
        Self { steps: Box::default(), stop: Some(stop), run: Box::default() }
    }
}

impl Settings {
    /// The plan of a canary; none without steps.
    pub(super) fn plan(&self, ingress: &Sourced<Ingress>) -> Option<Arc<Rollout>> {
        if self.steps.is_empty() {
            return None;
        }
        let step = |step: &RolloutStep| match step.lasts {
            Some(lasts) => format!("{}/{}ms", step.share, lasts.as_millis()),
            None => step.share.to_string(),
        };
        let steps: Vec<_> = self.steps.iter().map(step).collect();
        let run = format!("{} {}", steps.join(","), self.run);
        let name = format!("{}/{}", ingress.namespace(), ingress.metadata.name);
        Some(Arc::new(Rollout {
            name: name.into(),
            run: run.trim_end().into(),
            steps: self.steps.clone(),
            stop: self.stop,
        }))
    }
}

/// Whether an annotation belongs to a canary with steps.
pub(super) fn counts(name: &str) -> bool {
    matches!(name, "canary-run" | "canary-steps" | "canary-stop")
}

fn run(text: &str) -> Parsed<Box<str>> {
    let text = text.trim();
    if text.len() > RUN_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not a line of at most {RUN_BYTES_MAX} bytes"));
    }
    Ok(text.into())
}

/// Parses steps: a share and a time each, the last one without a time.
fn steps(text: &str) -> Parsed<Box<[RolloutStep]>> {
    let parts = value::list(text);
    let last = parts.len().checked_sub(1).ok_or_else(|| format!("{text:?} has no step"))?;
    if parts.len() > STEPS_MAX {
        return Err(format!("{text:?} has more than {STEPS_MAX} steps"));
    }
    let step = |(number, part): (usize, &String)| {
        let (share, lasts) = match part.split_once('/') {
            Some((share, time)) => (share, Some(time_of(time.trim())?)),
            None => (part.as_str(), None),
        };
        match lasts {
            None if number < last => Err(format!("step {part:?} has no time, as in 5%/10m")),
            Some(_) if number == last => {
                Err(format!("step {part:?} is the last one, which has no time: it stays"))
            }
            _ => Ok(RolloutStep { share: share_of(share.trim())?, lasts }),
        }
    };
    let steps = parts.iter().enumerate().map(step).collect::<Parsed<Vec<_>>>()?;
    Ok(steps.into())
}

/// Parses the bounds; none where the canary is never stopped.
fn stop(text: &str) -> Parsed<Option<RolloutStop>> {
    if text.trim() == "off" {
        return Ok(None);
    }
    let mut stop = RolloutStop { errors: None, p99_thousandths: None, requests_min: REQUESTS_DEFAULT };
    for part in value::list(text) {
        let words: Vec<_> = part.split_ascii_whitespace().collect();
        match words[..] {
            ["errors", share] => stop.errors = Some(share_of(share)?),
            ["p99", factor] => stop.p99_thousandths = Some(thousandths(factor)?),
            ["requests", number] => {
                let number = value::number(number)?;
                if !REQUESTS.contains(&number) {
                    let (least, most) = REQUESTS.into_inner();
                    return Err(format!("{part:?}: the number is not from {least} to {most}"));
                }
                stop.requests_min = number;
            }
            _ => return Err(format!("{part:?} is none of errors 1%, p99 1.5, requests 50 and off")),
        }
    }
    if stop.errors.is_none() && stop.p99_thousandths.is_none() {
        return Err(format!("{text:?} has no bound: errors 1%, p99 1.5, or off"));
    }
    Ok(Some(stop))
}

fn time_of(text: &str) -> Parsed<Duration> {
    let time = value::duration(text)?;
    if TIME.contains(&time) { Ok(time) } else { Err(format!("{text:?} is not a time from 100ms to 30d")) }
}

/// Parses a percentage with up to two decimals.
fn share_of(text: &str) -> Parsed<RolloutShare> {
    let invalid = || format!("{text:?} is not a percentage such as 5% or 0.25%");
    let number = text.strip_suffix('%').ok_or_else(invalid)?;
    let parts = decimal(number, 2).ok_or_else(invalid)?;
    if parts > RolloutShare::WHOLE { Err(invalid()) } else { Ok(RolloutShare::of_ten_thousand(parts)) }
}

/// Parses a factor with up to three decimals.
fn thousandths(text: &str) -> Parsed<u32> {
    let (least, most) = P99_THOUSANDTHS.into_inner();
    decimal(text, 3)
        .filter(|factor| P99_THOUSANDTHS.contains(factor))
        .ok_or_else(|| format!("{text:?} is not a factor from {} to {}", least / 1000, most / 1000))
}

/// A decimal number as a whole number of its smallest parts.
fn decimal(text: &str, places: usize) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(part) || part.len() > places {
        return None;
    }
    format!("{whole}{part:0<places$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(ten_thousandths: u32) -> RolloutShare {
        RolloutShare::of_ten_thousand(ten_thousandths)
    }

    #[test]
    fn steps_have_shares_and_times() {
        let step = |parts, seconds: Option<u64>| RolloutStep {
            share: share(parts),
            lasts: seconds.map(Duration::from_secs),
        };
        let expected = [step(500, Some(600)), step(25, Some(5400)), step(10_000, None)];
        assert_eq!(steps("5%/10m, 0.25% / 1h30m,100%"), Ok(expected.into()));
        assert_eq!(steps("100%"), Ok([step(10_000, None)].into()));
        let many = format!("{}100%", "1%/1m,".repeat(STEPS_MAX));
        for text in
            ["", "5%", "5/10m, 100%", "5%, 100%", "5%/10m", "5%/0, 100%", "101%", "-1%", "1.234%", &many]
        {
            assert_eq!(steps(text).is_ok(), text == "5%", "{text}");
        }
    }

    #[test]
    fn bounds_are_named() {
        let bounds = |errors, p99_thousandths, requests_min| {
            Ok(Some(RolloutStop { errors, p99_thousandths, requests_min }))
        };
        assert_eq!(stop("errors 1%, p99 1.5"), bounds(Some(share(100)), Some(1500), 20));
        assert_eq!(stop("p99 2, requests 500"), bounds(None, Some(2000), 500));
        assert_eq!(stop("off"), Ok(None));
        for text in
            ["", "errors", "errors 1", "p99 0.5", "p99 x", "requests 5", "errors 1%, requests 0", "on"]
        {
            assert!(stop(text).is_err(), "{text}");
        }
    }

    #[test]
    fn another_run_begins_anew() {
        assert_eq!(run(" v1.2 "), Ok("v1.2".into()));
        assert!(run("a\nb").is_err() && run(&"a".repeat(101)).is_err());
    }
}
