//! What the program is asked for.

use std::time::Duration;

use adversary::Options;
use anyhow::{Context, Result};

/// The seed of `make test`: what failed once fails again.
const SEED: u64 = 10;

/// The command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) options: Options,
    /// Beginnings of the names of attacks; all of them without one.
    pub(crate) only: Vec<String>,
    /// Tells how each attack went.
    pub(crate) verbose: bool,
    /// Only tells which there are.
    pub(crate) list: bool,
}

impl Arguments {
    /// What `cargo test` may be given besides is nothing to us.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let options = Options { seed: SEED, duration: None, case: None };
        let mut parsed = Self { options, only: Vec::new(), verbose: false, list: false };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
            match argument.as_str() {
                "--seed" => parsed.options.seed = value()?.parse().context("--seed wants a number")?,
                "--case" => parsed.options.case = Some(value()?.parse().context("--case wants a number")?),
                "--seconds" => {
                    let seconds = value()?.parse().context("--seconds wants a number")?;
                    parsed.options.duration = Some(Duration::from_secs(seconds));
                }
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
