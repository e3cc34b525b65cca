//! Reads files of a process and its threads: `stat`, `status` and `sched` (`proc_pid_stat(5)`,
//! `proc_pid_status(5)`).

use std::collections::BTreeSet;

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// Numbers of CPUs.
pub(crate) type Cpus = BTreeSet<u32>;

/// How often a thread left a CPU, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Switches {
    /// Voluntary context switches: to wait for something.
    pub(crate) voluntary: u64,
    /// Involuntary context switches: another thread was given the CPU.
    pub(crate) involuntary: u64,
    /// Migrations to another CPU; `None` if the kernel was built without `CONFIG_SCHED_DEBUG`.
    pub(crate) migrations: Option<u64>,
}

/// The CPUs that are online, from `/proc/stat`.
pub(crate) fn online_cpus(sample: &Sample) -> Option<Cpus> {
    let text = sample.text("proc/stat").ok()?;
    let cpus: Cpus =
        text.lines().filter_map(|line| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok()).collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// Idle time of the machine since its start, summed over CPUs, in ticks of 10 ms.
pub(crate) fn idle_ticks(sample: &Sample) -> Option<u64> {
    let line = sample.text("proc/stat").ok()?.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(fields.get(3)? + fields.get(4).unwrap_or(&0))
}

/// The name of a process, at most 15 bytes.
pub(crate) fn name(sample: &Sample, pid: u32) -> Option<&str> {
    Some(sample.text(&format!("proc/{pid}/comm")).ok()?.trim_end())
}

/// The parent's number.
pub(crate) fn parent(sample: &Sample, pid: u32) -> Option<u32> {
    field(sample.text(&format!("proc/{pid}/status")).ok()?, "PPid")?.parse().ok()
}

/// CPU time of a process and its threads, in ticks of 10 ms (`USER_HZ` is 100 on all relevant architectures).
pub(crate) fn used_ticks(sample: &Sample, pid: u32) -> Result<u64, Unknown> {
    let path = format!("proc/{pid}/stat");
    let text = sample.text(&path)?;
    // The name before the fields is in parentheses and may contain any character.
    let fields = text.rsplit_once(") ").map(|(_, fields)| fields.split(' ').collect::<Vec<_>>());
    let field = |number: usize| fields.as_ref()?.get(number - 3)?.parse::<u64>().ok();
    field(14)
        .zip(field(15))
        .map(|(user, system)| user + system)
        .ok_or(Unknown(say!("/{} is not whole", path)))
}

/// The folders of the captured threads of a process.
pub(crate) fn threads(sample: &Sample, pid: u32) -> Vec<String> {
    let prefix = format!("proc/{pid}/task/");
    let status = sample.under(&prefix).filter_map(|(path, _)| path.strip_suffix("/status"));
    status.map(ToOwned::to_owned).collect()
}

/// A thread's name.
pub(crate) fn thread_name<'a>(sample: &'a Sample, folder: &str) -> Option<&'a str> {
    field(sample.text(&format!("{folder}/status")).ok()?, "Name")
}

/// The CPUs that a process or a thread may use, from `/proc/PID` or `/proc/PID/task/TID`.
pub(crate) fn allowed_cpus(sample: &Sample, folder: &str) -> Option<Cpus> {
    cpu_list(field(sample.text(&format!("{folder}/status")).ok()?, "Cpus_allowed_list")?)
}

/// How often a thread has left its CPU so far.
pub(crate) fn switches(sample: &Sample, folder: &str) -> Option<Switches> {
    let status = sample.text(&format!("{folder}/status")).ok()?;
    let migrations = sample.text(&format!("{folder}/sched")).ok().and_then(migrations);
    Some(Switches {
        voluntary: field(status, "voluntary_ctxt_switches")?.parse().ok()?,
        involuntary: field(status, "nonvoluntary_ctxt_switches")?.parse().ok()?,
        migrations,
    })
}

/// Migrations in `/proc/PID/task/TID/sched`: `se.nr_migrations` or, in old kernels,
/// `se.statistics.nr_migrations`.
fn migrations(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim_end().rsplit('.').next() == Some("nr_migrations"))?;
    value.trim().parse().ok()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Parses a list such as `0-3,8` (cpuset(7), "List format").
fn cpu_list(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    #[test]
    fn a_process_and_its_threads_are_read() {
        let samples = scene()
            .file("proc/7/comm", "nginx\n")
            .file("proc/7/stat", "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 0 0\n")
            .file("proc/7/status", "Name:\tnginx\nPPid:\t1\nCpus_allowed_list:\t0-2,8\n")
            .file(
                "proc/7/task/9/status",
                "Name:\tworker 0\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n",
            )
            .file(
                "proc/7/task/9/sched",
                "worker 0 (9, #threads: 2)\n---------\nse.exec_start                                :      32067407.557032\n\
                 se.nr_migrations                             :                   42\nnr_switches                                  :                   15\n",
            )
            .file("proc/stat", "cpu  1 2 3 40 5 0\ncpu0 1 2\ncpu3 1 2\nintr 9\n")
            .samples();
        let sample = samples.last().expect("one");
        assert_eq!(
            (name(sample, 7), parent(sample, 7), used_ticks(sample, 7)),
            (Some("nginx"), Some(1), Ok(300))
        );
        assert_eq!(threads(sample, 7), ["proc/7/task/9"]);
        assert_eq!(thread_name(sample, "proc/7/task/9"), Some("worker 0"));
        let expected = Switches { voluntary: 12, involuntary: 3, migrations: Some(42) };
        assert_eq!(switches(sample, "proc/7/task/9"), Some(expected));
        assert_eq!(allowed_cpus(sample, "proc/7"), Some(Cpus::from([0, 1, 2, 8])));
        assert_eq!((online_cpus(sample), idle_ticks(sample)), (Some(Cpus::from([0, 3])), Some(45)));
    }

    #[test]
    fn kernels_write_migrations_differently() {
        assert_eq!(migrations("se.statistics.nr_migrations        :         7\n"), Some(7));
        assert_eq!(migrations("nr_migrations : 8\n"), Some(8));
        assert_eq!(migrations("se.statistics.nr_migrations_cold : 9\n"), None);
    }
}
