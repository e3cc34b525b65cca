//! `cargo xtask fresh`: the two commands of the README on a machine that has nothing but the toolchains.
//!
//! The machine is a folder: a Debian of debootstrap, this machine's toolchains read-only, a clone of the last
//! commit, an empty home. A namespace of processes ends whatever runs in it, and one of mounts unmounts
//! everything, however this ends; then the folder goes. Must not be in here: what the commands need
//! (`testing/programs`).

mod machine;
mod readme;
mod root;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::inside;

use crate::child::{self, is_installed, wait_for};
use crate::interrupt::Interrupt;
use machine::Machine;

/// Options of `cargo xtask fresh`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the machine's folder is made, some 20 GB, and removed.
    #[arg(long, value_name = "FOLDER", default_value = "/var/tmp")]
    folder: PathBuf,
    /// Runs these commands in place of the README's.
    #[arg(long, value_name = "COMMAND")]
    run: Vec<String>,
    /// Shows this folder as the user's cache, so that build products in it are used again. The times are then
    /// not those of a fresh machine.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// The machine's folder, for the process in the namespaces.
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// Where the clone is, in the machine.
const CLONE: &str = "/root/forebay";
/// A step that was taken.
struct Step {
    name: String,
    time: Duration,
    /// CPU time of all its processes that were waited for.
    cpu: Duration,
    code: u8,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = child::root();
    if let Some(folder) = &arguments.inside {
        return inside(repository, folder, arguments);
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can make a machine in a folder: it takes mounts"
    );
    ensure!(is_installed("debootstrap"), "debootstrap is missing: apt-get install debootstrap");
    let folder = tempfile::Builder::new()
        .prefix("forebay-fresh-")
        .tempdir_in(&arguments.folder)
        .with_context(|| format!("cannot make a folder in {}", arguments.folder.display()))?;
    let mut again = vec!["fresh".into(), "--inside".into(), folder.path().to_owned()];
    again.extend(arguments.run.iter().flat_map(|command| ["--run".into(), command.into()]));
    if let Some(cache) = &arguments.cache {
        again.extend(["--cache".into(), std::path::absolute(cache)?]);
    }
    let code = inside::make_processes()?.run(again);
    remove(folder)?;
    code
}

/// Nothing is removed through a mount, whoever has made it.
fn remove(folder: tempfile::TempDir) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    if let Some(mount) = root::mount_below(&mounts, folder.path()) {
        let kept = folder.keep();
        anyhow::bail!("{} is still mounted, so that {} stays", mount.display(), kept.display());
    }
    Ok(folder.close()?)
}

fn inside(repository: &Path, folder: &Path, arguments: &Arguments) -> Result<ExitCode> {
    inside::prepare_mounts()?;
    let interrupt = Interrupt::install()?;
    let commands = match arguments.run.as_slice() {
        [] => readme::commands(&fs::read_to_string(repository.join("README.md"))?),
        given => given.to_vec(),
    };
    ensure!(!commands.is_empty(), "README.md names no command");
    let machine = Machine::look(repository)?;
    let mut steps = Vec::new();
    for command in machine.preparations(folder, repository) {
        let step = take(command, &interrupt)?;
        ensure!(step.code == 0, "{} failed", step.name);
        steps.push(step);
    }
    let environment = machine.move_in(folder, arguments.cache.as_deref())?;
    for text in commands {
        println!("fresh: {text}");
        let mut command = Command::new("sh");
        command.args(["-c", &text]).current_dir(CLONE).env_clear().envs(&environment);
        steps.push(Step { name: text, ..take(command, &interrupt)? });
    }
    print!("{}", report(&steps));
    let worst = steps.iter().map(|step| step.code).max().unwrap_or_default();
    Ok(ExitCode::from(worst))
}

/// Runs a command to its end.
fn take(mut command: Command, interrupt: &Interrupt) -> Result<Step> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (begun, before) = (Instant::now(), cpu_time_of_children()?);
    let status = wait_for(command.stdin(Stdio::null()), interrupt)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let cpu = cpu_time_of_children()?.saturating_sub(before);
    Ok(Step { name, time: begun.elapsed(), cpu, code: code.unwrap_or(u8::MAX) })
}

fn cpu_time_of_children() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let ticks = ticks_of_children(&stat).context("/proc/self/stat has another form")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Fields 16 and 17 of `proc_pid_stat(5)`, which are numbers 13 and 14 behind the program's name.
fn ticks_of_children(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(ticks(13)? + ticks(14)?)
}

/// A line for each step, and one for all.
fn report(steps: &[Step]) -> String {
    let line = |name: &str, time: Duration, cpu: Duration, end: String| {
        let (seconds, cpu) = (time.as_secs(), cpu.as_secs_f64() / 60.0);
        format!("  {name:<24} {:>4} min {:02} s  {cpu:>6.1} CPU minutes  {end}", seconds / 60, seconds % 60)
    };
    let mut text = "fresh: a machine with toolchains alone\n".to_owned();
    for step in steps {
        let end = if step.code == 0 { "passed".to_owned() } else { format!("FAILED ({})", step.code) };
        text += &(line(&step.name, step.time, step.cpu, end) + "\n");
    }
    let (time, cpu) = (steps.iter().map(|step| step.time).sum(), steps.iter().map(|step| step.cpu).sum());
    text + line("all of it", time, cpu, String::new()).trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_told_behind_the_name_of_the_program() {
        let stat = "7 (a program) R 1 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 100";
        assert_eq!(ticks_of_children(stat), Some(70));
        assert_eq!(ticks_of_children("7 (short) R 1"), None);
    }

    #[test]
    fn each_step_is_a_line_with_its_times() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes + 5);
        let step = |name: &str, code| Step { name: name.into(), time: minutes(2), cpu: minutes(3), code };
        let text = report(&[step("make demo", 0), step("make test", 2)]);
        let lines: Vec<_> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "make demo 2 min 05 s 3.1 CPU minutes passed",
                "make test 2 min 05 s 3.1 CPU minutes FAILED (2)",
                "all of it 4 min 10 s 6.2 CPU minutes",
            ]
        );
    }
}
