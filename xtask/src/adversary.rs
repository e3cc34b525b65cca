//! `cargo xtask adversary`: the attacks of testing/adversary, for as long as one likes, on the binary that
//! ships.
//!
//! Must not be in here: attacks.

use std::env;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::child::{cargo, root, succeed};
use crate::proxies::forebay_binary;

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

/// The words of the command line go on to the program with the attacks, which wants values as words of their
/// own.
pub(crate) fn run(_: &Arguments) -> Result<ExitCode> {
    let mut command = cargo();
    if env::var_os(BINARY).is_none() {
        succeed(cargo().current_dir(root()).args(["build", "--quiet", "--release", "--package", "forebay"]))?;
        command.env(BINARY, forebay_binary()?);
    }
    let test = "test --quiet --profile quick --package adversary --test adversary -- --verbose";
    command.current_dir(root()).args(test.split(' '));
    for word in env::args().skip(2) {
        match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => command.args([name, value]),
            _ => command.arg(word),
        };
    }
    let status = command.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
