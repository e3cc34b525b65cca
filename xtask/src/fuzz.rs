//! `cargo xtask fuzz`: the fuzz targets of fuzz/, one after the other, each for as long as is asked for.
//!
//! Must not be in here: what a target checks, which is in `tests/smoke` of its crate.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::child::{cargo, output, root, succeed};

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs, such as 90s, 30m or 1h.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = seconds)]
    duration: u64,
    /// Only targets whose names begin so. May be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// Memory that a target may take, in MiB.
const MEMORY_MIB_MAX: u32 = 2048;
/// Time that one input may take, in seconds.
const INPUT_SECONDS_MAX: u32 = 20;

/// The coverage that libFuzzer is guided by, as cargo-fuzz asks for it. The stable compiler has these passes;
/// only sanitizers need another one, and find little in code without `unsafe`.
const FLAGS: &str = include_str!("../fuzz-flags.txt");

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let fuzz = root().join("fuzz");
    let wanted = targets(&fuzz, &arguments.only)?;
    ensure!(!wanted.is_empty(), "no target in {} has such a name", fuzz.display());
    let built = build(&fuzz, &wanted)?;
    for (number, name) in wanted.iter().enumerate() {
        println!("fuzz: {name} ({} of {})", number + 1, wanted.len());
        if !play(&fuzz, &built, name, arguments.duration)? {
            println!("fuzz: {name} FAILED; the input is in {}", fuzz.join("artifacts").join(name).display());
            println!("fuzz: {number} of {} targets ran before it without a find", wanted.len());
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("fuzz: no find in {}, {} s each", wanted.join(", "), arguments.duration);
    Ok(ExitCode::SUCCESS)
}

/// The names of the targets that are wanted.
fn targets(fuzz: &Path, only: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(fuzz.join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).context("a name in UTF-8")?.to_owned();
        if only.is_empty() || only.iter().any(|begin| name.starts_with(begin.as_str())) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Builds the targets, and returns the folder that they are in.
fn build(fuzz: &Path, names: &[String]) -> Result<PathBuf> {
    let host = host()?;
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| fuzz.join("target"), |all| Path::new(&all).join("fuzz"));
    // With a triple, programs that run while it is built are not instrumented.
    let mut command = cargo();
    command.current_dir(fuzz).args(["build", "--release", "--target", &host, "--target-dir"]).arg(&target);
    command.args(names.iter().flat_map(|name| ["--bin", name]));
    command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", FLAGS.trim_end().replace('\n', "\u{1f}"));
    succeed(&mut command)?;
    Ok(target.join(host).join("release"))
}

/// The triple of this machine.
fn host() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output(Command::new(rustc).arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV has no host")?.to_owned())
}

/// Runs a target; false if it has found something. New inputs are kept beside what is built, not in the
/// repository.
fn play(fuzz: &Path, built: &Path, name: &str, seconds: u64) -> Result<bool> {
    let (grown, artifacts) = (built.join("corpus").join(name), fuzz.join("artifacts").join(name));
    fs::create_dir_all(&grown)?;
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(built.join(name));
    command.current_dir(fuzz).arg(&grown).arg(fuzz.join("corpus").join(name));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
    command.arg(format!("-timeout={INPUT_SECONDS_MAX}")).arg("-print_final_stats=1").arg("-verbosity=0");
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    Ok(command.status().with_context(|| format!("cannot start {name}"))?.success())
}

fn seconds(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    seconds
        .filter(|&seconds| seconds > 0)
        .ok_or_else(|| format!("{text:?} is no time such as 90s, 30m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(["90s", "30m", "1h", "7"].map(seconds), [Ok(90), Ok(1800), Ok(3600), Ok(7)]);
        assert!(["", "0s", "m", "1d", "99999999999999999999h"].map(seconds).iter().all(Result::is_err));
    }
}
