//! The program's options.

use std::time::Duration;

use adversary::Options;
use anyhow::{Context, Result, bail};

/// The seed of `make test`: what failed once fails again.
const SEED: u64 = 10;

/// As in other measurements.
const RATE: u32 = 20_000;

/// The command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) options: Options,
    /// Beginnings of the names of attacks; all of them without one.
    pub(crate) only: Vec<String>,
    /// Print the result of each attack.
    pub(crate) verbose: bool,
    /// Only list the attacks.
    pub(crate) list: bool,
    /// Measure the attacks instead.
    pub(crate) measure: bool,
    /// Requests of others, a second, while it is measured.
    pub(crate) rate: u32,
    /// Puts what is measured into the page.
    pub(crate) write: bool,
}

impl Arguments {
    /// Other options of `cargo test` are ignored.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let options = Options { seed: SEED, duration: None, case: None };
        let (only, verbose, list, measure, write) = Default::default();
        let mut parsed = Self { options, only, verbose, list, measure, rate: RATE, write };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
            match argument.as_str() {
                "--seed" => parsed.options.seed = value()?.parse().context("--seed wants a number")?,
                "--case" => parsed.options.case = Some(value()?.parse().context("--case wants a number")?),
                "--duration" => parsed.options.duration = Some(duration(&value()?)?),
                "--rate" => parsed.rate = value()?.parse().context("--rate wants a number")?,
                "--measure" => parsed.measure = true,
                "--write" => parsed.write = true,
                "--only" => parsed.only.push(value()?),
                "--verbose" => parsed.verbose = true,
                "--list" => parsed.list = true,
                name if !name.starts_with('-') => parsed.only.push(name.to_owned()),
                _ => {}
            }
        }
        Ok(parsed)
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| name.starts_with(wanted.as_str()))
    }
}

/// `90s`, `10m`, `1h`.
fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => bail!("--duration wants a time such as 90s, 10m or 1h"),
    };
    let number: u64 = number.parse().context("--duration wants a time such as 90s, 10m or 1h")?;
    Ok(Duration::from_secs(number * seconds))
}
