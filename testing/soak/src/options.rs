//! The program's options.
//!
//! Must not be in here: what they mean.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::parts::Parts;

/// The seed of `make test`: what failed once is tried again.
const SEED: u64 = 1;
/// The time of `make test`.
const TIME: Duration = Duration::from_mins(1);
/// The time that a client waits between two requests, on average.
const PAUSE: Duration = Duration::from_millis(55);
/// Changes of the configuration a second.
const CHANGES: u32 = 20;
const CHANGES_MAX: u32 = 1000;

/// The command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    /// The time that each client of the web waits between two requests, on average.
    pub(crate) pause: Duration,
    /// Changes of the configuration a second.
    pub(crate) changes: u32,
    /// The parts of the mixture.
    pub(crate) parts: Parts,
    /// Nothing is disturbed, nobody misbehaves and no endpoint fails, and the record of the run is judged by
    /// the doctor.
    pub(crate) is_quiet: bool,
    /// Where the report goes; a temporary folder without it.
    pub(crate) folder: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: SEED,
            time: TIME,
            pause: PAUSE,
            changes: CHANGES,
            parts: Parts::default(),
            is_quiet: false,
            folder: None,
        }
    }
}

impl Options {
    /// Other options of `cargo test` are ignored. None where a filter names other tests.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>> {
        let mut options = Options::default();
        let mut filters = Vec::new();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
            match argument.as_str() {
                "--seed" => options.seed = value()?.parse().context("--seed wants a number")?,
                "--time" => options.time = duration(&value()?)?,
                "--pause" => options.pause = pause(&value()?)?,
                "--changes" => options.changes = changes(&value()?)?,
                "--parts" => options.parts = Parts::parse(&value()?)?,
                "--undisturbed" => options.is_quiet = true,
                "--folder" => options.folder = Some(value()?.into()),
                "--list" => return Ok(None),
                name if !name.starts_with('-') => filters.push(name.to_owned()),
                _ => {}
            }
        }
        if options.is_quiet {
            options.parts = options.parts.undisturbed();
        }
        let is_meant = filters.is_empty() || filters.iter().any(|filter| "soak".contains(filter.as_str()));
        Ok(is_meant.then_some(options))
    }
}

/// A time such as 90s, 30m or 8h.
fn duration(text: &str) -> Result<Duration> {
    let number = |unit: char| text.strip_suffix(unit).and_then(|number| number.parse::<u32>().ok());
    let time = match (number('s'), number('m'), number('h')) {
        (Some(seconds), ..) => Duration::from_secs(1) * seconds,
        (_, Some(minutes), _) => Duration::from_mins(1) * minutes,
        (.., Some(hours)) => Duration::from_hours(1) * hours,
        _ => bail!("--time wants a time such as 90s, 30m or 8h, not {text:?}"),
    };
    if time < TIME {
        bail!("--time wants a minute at least: {text:?} is too short for all that happens");
    }
    Ok(time)
}

/// A pause such as 200ms.
fn pause(text: &str) -> Result<Duration> {
    let milliseconds = text.strip_suffix("ms").and_then(|number| number.parse::<u64>().ok());
    let milliseconds = milliseconds.filter(|number| (1..=10_000).contains(number));
    let milliseconds =
        milliseconds.with_context(|| format!("--pause wants a time from 1ms to 10000ms, not {text:?}"))?;
    Ok(Duration::from_millis(milliseconds))
}

/// A number of changes a second.
fn changes(text: &str) -> Result<u32> {
    let number = text.parse::<u32>().ok().filter(|number| (1..=CHANGES_MAX).contains(number));
    number.with_context(|| format!("--changes wants a number from 1 to {CHANGES_MAX}, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Part;

    fn parse(line: &str) -> Result<Option<Options>> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn time_and_seed_have_defaults_and_other_tests_are_not_ours() {
        let options = parse("").expect("no mistake").expect("ours");
        assert_eq!((options.seed, options.time), (SEED, TIME));
        let options = parse("--seed 9 --time 8h --quiet").expect("no mistake").expect("ours");
        assert_eq!((options.seed, options.time), (9, Duration::from_hours(8)));
        assert_eq!((options.pause, options.is_quiet), (PAUSE, false));
        let options = parse("--pause 200ms --undisturbed").expect("no mistake").expect("ours");
        assert_eq!((options.pause, options.is_quiet), (Duration::from_millis(200), true));
        assert!(!options.parts.has(Part::Rude) && options.parts.has(Part::Changes));
        let options = parse("--changes 200 --parts changes").expect("no mistake").expect("ours");
        assert_eq!((options.changes, options.parts.has(Part::Http1)), (200, false));
        assert!(parse("--changes 0").is_err() && parse("--parts none").is_err());
        assert!(parse("--pause 0ms").is_err() && parse("--pause 1s").is_err());
        assert_eq!(parse("oidc").expect("no mistake"), None);
        assert!(parse("--time 5s").is_err() && parse("--time later").is_err() && parse("--seed").is_err());
    }
}
