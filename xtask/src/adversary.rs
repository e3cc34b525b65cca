//! `cargo xtask adversary`: the attacks of testing/adversary, for as long as one likes, on the binary that ships.
//!
//! Must not be in here: attacks.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::peers::forebay_binary;

/// Options of `cargo xtask adversary`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number from which everything random comes [default: the one of `make test`].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long each generator goes on, such as 90s, 10m or 1h [default: as many cases as in `make test`].
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Only attacks whose names begin so. May be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The one case that is to be repeated.
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// Tell which attacks there are.
    #[arg(long)]
    list: bool,
    /// Measure what others notice of the attacks that make load, instead of looking for faults.
    #[arg(long)]
    measure: bool,
    /// Requests of others, a second, while it is measured [default: 20000].
    #[arg(long, value_name = "N", requires = "measure")]
    rate: Option<u64>,
    /// Put the figures into docs/figures.md.
    #[arg(long, requires = "measure")]
    write: bool,
}

/// Variable that names the binary to attack; without it, it is the one that ships, built first.
const BINARY: &str = "FOREBAY_BINARY";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's folder")?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    if env::var_os(BINARY).is_none() {
        let build = ["build", "--quiet", "--release", "--package", "forebay"];
        let status =
            Command::new(&cargo).current_dir(root).args(build).status().context("cannot start cargo")?;
        ensure!(status.success(), "cargo build failed");
        command.env(BINARY, forebay_binary()?);
    }
    command.current_dir(root).args([
        "test",
        "--quiet",
        "--profile",
        "xtask",
        "--package",
        "adversary",
        "--test",
        "adversary",
        "--",
    ]);
    let status = command.args(arguments.to_words()).status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Arguments {
    /// As the program with the attacks understands them.
    fn to_words(&self) -> Vec<String> {
        let mut words = vec!["--verbose".to_owned()];
        let values = [
            ("--seed", self.seed.map(|seed| seed.to_string())),
            ("--duration", self.duration.clone()),
            ("--case", self.case.map(|case| case.to_string())),
            ("--rate", self.rate.map(|rate| rate.to_string())),
        ];
        for (name, value) in values {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        }
        words.extend(self.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
        for (name, is_given) in [("--list", self.list), ("--measure", self.measure), ("--write", self.write)]
        {
            words.extend(is_given.then(|| name.to_owned()));
        }
        words
    }
}
