//! The number of workers compared with the CPUs that they may use.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format;
use crate::read::cgroups;
use crate::read::processes::{self, Cpus};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::text::{Text, say};

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "workers-quota",
    category: "cpu",
    what: "more workers than the CPUs that the cgroup's quota and the affinity mask leave, which throttle one another; or \
               far fewer, so that CPUs are idle while workers are busy",
    how: "child processes named as their parent and threads named as numbered workers, against the cgroups' quota and \
              Cpus_allowed_list",
    severity: Verdict::Failure,
    remedy: "as many workers as CPUs: worker_processes (nginx), --workers (Forebay), GOMAXPROCS",
    case: "C, E",
    look: workers_quota,
}];

/// Share of its time that a busy worker runs.
const BUSY: f64 = 0.8;

/// Workers of one kind, and the CPUs that they share.
struct Workers {
    pid: u32,
    name: String,
    /// Their number, without helpers of the same name that hardly ever run, such as nginx's cache manager.
    count: usize,
    /// CPUs that they may use: the least of quota, mask and machine.
    cpus: f64,
    /// The bound on `cpus`, in words.
    bound: Text,
    /// CPU time used between the samples, as a number of fully busy workers; none if it is not known.
    busy: Option<f64>,
}

fn workers_quota(samples: &Samples) -> Result<Outcome, Unknown> {
    let last = samples.last()?;
    let pids = samples.pids()?;
    if !pids.iter().any(|pid| processes::parent(last, *pid).is_some()) {
        last.text(&format!("proc/{}/status", pids[0]))?;
    }
    let mut pools = Vec::new();
    for &pid in pids {
        for (name, members) in [children(last, pid), numbered_threads(last, pid)].into_iter().flatten() {
            pools.push(workers(samples, last, pid, name, &members)?);
        }
    }
    let idle = idle_cpus(samples);
    let outcomes = pools.iter().map(|pool| tell_workers(pool, idle));
    let worst = outcomes.max_by_key(|outcome| outcome.verdict);
    Ok(worst.unwrap_or_else(|| {
        Outcome::ok(say!("no process has workers that can be told from its other threads"))
    }))
}

/// Child processes with the same name as their parent.
fn children(sample: &Sample, pid: u32) -> Option<(String, Vec<String>)> {
    let name = processes::name(sample, pid)?;
    let is_worker = |other: &u32| {
        processes::parent(sample, *other) == Some(pid) && processes::name(sample, *other) == Some(name)
    };
    let found: Vec<u32> = sample.taken.pids.iter().copied().filter(is_worker).collect();
    let most = found.iter().filter_map(|pid| processes::used_ticks(sample, *pid).ok()).max().unwrap_or(0);
    let works = |pid: &&u32| processes::used_ticks(sample, **pid).is_ok_and(|used| used * 100 >= most);
    let workers: Vec<_> = found.iter().filter(works).map(|pid| format!("proc/{pid}")).collect();
    (!workers.is_empty()).then(|| (name.to_owned(), workers))
}

/// Threads with numbered names such as `worker 0`, `worker-1` or `wrk:worker_2`.
fn numbered_threads(sample: &Sample, pid: u32) -> Option<(String, Vec<String>)> {
    let is_worker = |folder: &String| {
        processes::thread_name(sample, folder)
            .is_some_and(|name| name.contains("worker") && name.ends_with(|last: char| last.is_ascii_digit()))
    };
    let workers: Vec<_> = processes::threads(sample, pid).into_iter().filter(is_worker).collect();
    (!workers.is_empty()).then(|| (processes::name(sample, pid).unwrap_or("?").to_owned(), workers))
}

fn workers(
    samples: &Samples,
    last: &Sample,
    pid: u32,
    name: String,
    members: &[String],
) -> Result<Workers, Unknown> {
    let allowed: Cpus = members
        .iter()
        .filter_map(|folder| processes::allowed_cpus(last, folder))
        .chain(processes::allowed_cpus(last, &format!("proc/{pid}")))
        .flatten()
        .collect();
    if allowed.is_empty() {
        return Err(Unknown(say!("/proc/{}/status has no Cpus_allowed_list", pid)));
    }
    let online = processes::online_cpus(last);
    let mask = online.map_or(allowed.len(), |online| allowed.intersection(&online).count().max(1));
    let quota = match cgroups::of_process(last, pid) {
        Ok(_) => cgroups::quota_of_process(last, pid)?,
        // A machine without CPU cgroups has no quota. If the file was not captured, the quota is not known.
        Err(why) if !last.lacks(&format!("proc/{pid}/cgroup")) => return Err(why),
        Err(_) => None,
    };
    let (cpus, bound) = match quota {
        Some((quota, folder)) if quota < mask as f64 => {
            (quota, say!("the quota of {} is {} CPUs", cgroups::name(folder), format!("{quota:.2}")))
        }
        _ => (mask as f64, say!("it may run on {}", format::cpus(mask))),
    };
    let busy =
        samples.seconds().ok().zip(used_between(samples, pid, members)).map(|(seconds, used)| used / seconds);
    Ok(Workers { pid, name, count: members.len(), cpus, bound, busy })
}

/// Seconds of CPU that the workers used between the samples; for threads, that of their whole process.
fn used_between(samples: &Samples, pid: u32, members: &[String]) -> Option<f64> {
    let (first, last) = samples.ends().ok()?;
    let mut pids: Vec<u32> = members
        .iter()
        .map(|folder| folder.strip_prefix("proc/").and_then(|rest| rest.parse().ok()).unwrap_or(pid))
        .collect();
    pids.dedup();
    let used = pids.iter().map(|pid| {
        let (before, now) =
            (processes::used_ticks(first, *pid).ok()?, processes::used_ticks(last, *pid).ok()?);
        Some(now.saturating_sub(before) as f64 / 100.0)
    });
    used.sum()
}

/// CPUs of the machine that were idle between the samples.
fn idle_cpus(samples: &Samples) -> Option<f64> {
    let (first, last) = samples.ends().ok()?;
    let idle = processes::idle_ticks(last)?.saturating_sub(processes::idle_ticks(first)?);
    Some(idle as f64 / 100.0 / samples.seconds().ok()?)
}

fn tell_workers(workers: &Workers, idle: Option<f64>) -> Outcome {
    let Workers { pid, name, count, cpus, bound, busy } = workers;
    let room = cpus.ceil();
    let (has, wanted) = (say!("{} ({}) has {}", name, pid, format::workers(*count)), room.max(1.0));
    let count = *count as f64;
    let outcome = if count >= room * 2.0 {
        let verdict =
            if busy.is_some_and(|busy| busy >= cpus * BUSY) { Verdict::Failure } else { Verdict::Warning };
        Outcome::new(
            verdict,
            say!("{} and {}: {} of them share a CPU", has, bound, format!("{:.1}", count / cpus)),
        )
    } else if count > room {
        Outcome::warning(say!("{} and {}", has, bound))
    } else if room >= count * 2.0
        && busy.is_some_and(|busy| busy >= count * BUSY)
        && idle.is_some_and(|idle| idle >= 1.0)
    {
        Outcome::warning(say!(
            "{}, all busy, while {} CPUs were idle, and {}",
            has,
            format!("{:.1}", idle.unwrap_or_default()),
            bound
        ))
    } else {
        Outcome::ok(say!("{} and {}", has, bound))
    };
    let remedy = match &name[..] {
        "nginx" => say!("worker_processes {};", wanted),
        "forebay" => say!("--workers={}", wanted),
        _ => say!("{} workers", wanted),
    };
    let outcome = outcome
        .remedy(remedy)
        .with("pid", u64::from(*pid))
        .with("name", name.clone())
        .with("workers", count)
        .with("cpus", *cpus);
    match busy {
        Some(busy) => outcome.with("busy_cpus", *busy),
        None => outcome,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::testing::{Scene, scene};

    const ID: &str = "workers-quota";

    fn machine(cpus: u32, idle_before: u64, idle_after: u64) -> Scene {
        let stat = |idle| {
            let each = (0..cpus).map(|cpu| format!("cpu{cpu} 1 0 1 1\n")).collect::<Vec<_>>().concat();
            format!("cpu  10 0 10 {idle} 0 0 0\n{each}intr 1\n")
        };
        scene().grows("proc/stat", &stat(idle_before), &stat(idle_after))
    }

    /// A process whose CPU time grows from the first tick of the range to its end.
    fn process(scene: Scene, pid: u32, parent: u32, cpus: &str, ticks: Range<u64>) -> Scene {
        let stat =
            |used| format!("{pid} (nginx) S {parent} 1 1 0 -1 0 0 0 0 0 {used} 0 0 0 20 0 1 0 5 0 0\n");
        scene
            .file(&format!("proc/{pid}/comm"), "nginx\n")
            .file(
                &format!("proc/{pid}/status"),
                &format!("Name:\tnginx\nPPid:\t{parent}\nCpus_allowed_list:\t{cpus}\n"),
            )
            .file(&format!("proc/{pid}/cgroup"), "0::/web\n")
            .grows(&format!("proc/{pid}/stat"), &stat(ticks.start), &stat(ticks.end))
    }

    /// An nginx with so many workers, each with the same CPU time, and a cache manager.
    fn nginx(scene: Scene, workers: u32, cpus: &str, ticks: Range<u64>) -> Scene {
        let pids: Vec<u32> = (7..=8 + workers).collect();
        let master = process(scene.pids(&pids), 7, 1, cpus, 3..3);
        let helped = process(master, 8, 7, cpus, 0..0);
        (9..=8 + workers).fold(helped, |scene, pid| process(scene, pid, 7, cpus, ticks.clone()))
    }

    fn quota(scene: Scene, max: &str) -> Scene {
        scene
            .file("sys/fs/cgroup/web/cpu.max", max)
            .file("sys/fs/cgroup/web/cpu.stat", "usage_usec 1\nnr_periods 0\n")
    }

    #[test]
    fn more_workers_than_the_quota_has_cpus_are_found() {
        let finding = quota(nginx(machine(16, 0, 9000), 16, "0-15", 100..220), "200000 100000\n").finding(ID);
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "nginx (7) has 16 workers and the quota of cgroup /web is 2.00 CPUs: 8.0 of them share a CPU"
        );
        assert_eq!(finding.remedy, "worker_processes 2;");
        assert_eq!((finding.number("workers"), finding.number("cpus")), (16.0, 2.0));
        assert!(finding.tells("busy_cpus", 1.92), "{finding:?}");
        let idle = quota(nginx(machine(16, 0, 9000), 16, "0-15", 100..100), "200000 100000\n").finding(ID);
        assert_eq!(idle.verdict, Verdict::Warning);
    }

    #[test]
    fn more_workers_than_the_mask_has_cpus_are_found() {
        let finding = quota(nginx(machine(16, 0, 9000), 4, "0-2", 100..220), "max 100000\n").finding(ID);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.message, "nginx (7) has 4 workers and it may run on 3 CPUs");
    }

    #[test]
    fn far_fewer_busy_workers_than_idle_cpus_are_found() {
        let busy = quota(nginx(machine(16, 0, 14_000), 1, "0-15", 100..1090), "max 100000\n").finding(ID);
        assert_eq!(busy.verdict, Verdict::Warning);
        assert!(busy.message.contains("all busy, while 14.0 CPUs were idle"), "{}", busy.message);
        assert_eq!(busy.remedy, "worker_processes 16;");
        let lazy = quota(nginx(machine(16, 0, 14_000), 1, "0-15", 100..300), "max 100000\n").finding(ID);
        assert_eq!(lazy.verdict, Verdict::Ok);
        let crowded = quota(nginx(machine(16, 0, 0), 1, "0-15", 100..1090), "max 100000\n").finding(ID);
        assert_eq!(crowded.verdict, Verdict::Ok);
    }

    #[test]
    fn as_many_workers_as_cpus_are_fine_and_a_helper_is_none() {
        let finding = quota(nginx(machine(4, 0, 0), 4, "0-3", 100..900), "max 100000\n").finding(ID);
        assert_eq!((finding.verdict, finding.number("workers")), (Verdict::Ok, 4.0));
        // Each worker is pinned to its own CPU; together they may use all CPUs.
        let pinned = process(
            quota(nginx(machine(4, 0, 0), 1, "0", 9..9), "max 100000\n").pids(&[7, 9, 10]),
            10,
            7,
            "1",
            9..9,
        );
        assert!(pinned.finding(ID).tells("cpus", 2.0));
    }

    #[test]
    fn threads_are_workers_by_their_names() {
        let mut scene = quota(process(machine(4, 0, 0).pids(&[7]), 7, 1, "0-3", 0..0), "100000 100000\n");
        scene = scene.file("proc/7/comm", "forebay\n");
        for (thread, name) in [(7, "forebay"), (8, "worker 0"), (9, "worker 1"), (10, "ticker")] {
            let status = format!("Name:\t{name}\nCpus_allowed_list:\t0-3\n");
            scene = scene.file(&format!("proc/7/task/{thread}/status"), &status);
        }
        let finding = scene.finding(ID);
        assert_eq!((finding.verdict, finding.number("workers")), (Verdict::Warning, 2.0));
        assert_eq!(finding.remedy, "--workers=1");
    }

    #[test]
    fn without_workers_nothing_is_wrong_and_without_cgroups_it_is_unknown() {
        let alone =
            quota(process(machine(4, 0, 0).pids(&[7]), 7, 1, "0-3", 0..0), "max 100000\n").finding(ID);
        assert_eq!(alone.verdict, Verdict::Ok);
        let blind = nginx(machine(4, 0, 0), 4, "0-3", 0..9).finding(ID);
        assert_eq!(blind.verdict, Verdict::Unknown);
        assert!(blind.message.contains("cpu.stat"), "{}", blind.message);
        let gone = scene().pids(&[7]).lacks("proc/7/status").finding(ID);
        assert_eq!(gone.verdict, Verdict::Unknown);
    }
}
