//! CPU time withheld by the quota of a cgroup: average use is low, and replies are late.

use std::cmp::Ordering;

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::read::cgroups::{self, Group};
use crate::read::processes;
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::text::{Text, say};
use crate::ticks::CpuTicks;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "cpu-throttled",
    category: "cpu",
    what: "a burst uses up its cgroup's CPU quota of a period (100 ms) and all its threads wait for the next, though the \
              average use is low",
    how: "nr_periods, nr_throttled and throttled time in cpu.stat against cpu.max (v2) or cpu.cfs_quota_us (v1), with --pods of every Pod; CPU time every 10 ms for bursts",
    severity: Verdict::Failure,
    remedy: "raise the limit (resources.limits.cpu), or remove it; a longer period only moves the wait",
    case: "E",
    look: cpu_throttled,
}];

/// Shares of periods that were throttled, in percent.
const WARNING_PERCENT: f64 = 1.0;
const FAILURE_PERCENT: f64 = 10.0;

/// Fewer throttled periods may be chance, or the start of a process.
const WARNING_PERIODS_MIN: u64 = 2;
const FAILURE_PERIODS_MIN: u64 = 3;

/// Share of the quota from which a period counts as spent: readings do not begin where the kernel's periods
/// do.
const SPENT: f64 = 0.9;

/// The throttling of a limited cgroup in the examined time.
struct Withheld<'a> {
    folder: &'a str,
    quota_cpus: f64,
    period_us: u64,
    periods: u64,
    throttled: u64,
    throttled_us: u64,
    /// CPUs used on average.
    average_cpus: Option<f64>,
    bursts: Option<Bursts>,
}

/// Figures from the readings every 10 ms, in CPUs: CPU time divided by time.
struct Bursts {
    /// In the busiest window of one period.
    busiest_period: f64,
    /// In the busiest 20 ms: the number of threads that ran at once.
    at_once: f64,
    /// Use of the longest series of spent periods, as if it had been used in one period.
    in_one_period: f64,
}

fn cpu_throttled(samples: &Samples) -> Result<Outcome, Unknown> {
    let last = samples.last()?;
    let folders = cgroups::folders(last)?;
    let ticks = samples.ticks().unwrap_or_default();
    let mut limited = Vec::new();
    for folder in &folders {
        if let Some(withheld) = withheld(samples, last, folder, &ticks.cpu)? {
            limited.push(withheld);
        }
    }
    let throttled = limited.iter().filter(|group| group.verdict() > Verdict::Ok).count();
    let Some(worst) =
        limited.iter().max_by(|a, b| a.badness().partial_cmp(&b.badness()).unwrap_or(Ordering::Equal))
    else {
        return Ok(Outcome::ok(say!("none of {} cgroups has a limit of CPU", folders.len())));
    };
    Ok(tell(worst, processes::online_cpus(last).map(|cpus| cpus.len() as f64))
        .with("limited_cgroups", limited.len() as u64)
        .with("throttled_cgroups", throttled as u64))
}

/// `None` if the group has no limit. With a single sample, the counters since the group's creation are used.
fn withheld<'a>(
    samples: &Samples,
    last: &Sample,
    folder: &'a str,
    ticks: &[CpuTicks],
) -> Result<Option<Withheld<'a>>, Unknown> {
    let now = cgroups::group(last, folder)?;
    let Some(quota_cpus) = now.quota_cpus else { return Ok(None) };
    let before = match samples.ends() {
        Ok((first, _)) => cgroups::group(first, folder).unwrap_or_default(),
        Err(_) => Group::default(),
    };
    let used_us = now.used_us.zip(before.used_us).map(|(now, before)| now.saturating_sub(before) as f64);
    let counted = used_us.zip(samples.seconds().ok()).map(|(used, seconds)| used / 1e6 / seconds);
    let readings = readings(last, folder, ticks);
    let average_cpus = counted.or_else(|| average(readings?));
    Ok(Some(Withheld {
        folder,
        quota_cpus,
        period_us: now.period_us,
        periods: now.periods.saturating_sub(before.periods),
        throttled: now.throttled.saturating_sub(before.throttled),
        throttled_us: now.throttled_us.saturating_sub(before.throttled_us),
        average_cpus,
        bursts: readings.and_then(|ticks| Bursts::of(ticks, now.period_us, quota_cpus)),
    }))
}

/// The readings of the group itself, or those of the examined processes if they are in it.
fn readings<'a>(sample: &Sample, folder: &str, ticks: &'a [CpuTicks]) -> Option<&'a CpuTicks> {
    let of = |name: &str| ticks.iter().find(|ticks| ticks.of == name && !ticks.at_ms.is_empty());
    of(folder).or_else(|| {
        let groups = cgroups::of_process(sample, sample.taken.pid?).ok()?;
        groups.contains(&folder).then(|| of("processes"))?
    })
}

fn average(ticks: &CpuTicks) -> Option<f64> {
    let milliseconds = ticks.at_ms.last()?.checked_sub(*ticks.at_ms.first()?).filter(|time| *time > 0)?;
    let used_us = ticks.used_us.last()?.saturating_sub(*ticks.used_us.first()?);
    Some(used_us as f64 / 1000.0 / milliseconds as f64)
}

fn tell(group: &Withheld<'_>, cpus: Option<f64>) -> Outcome {
    let name = cgroups::name(group.folder);
    let quota = group.quota_cpus;
    let use_of = group.tell_use();
    let message = if group.throttled == 0 {
        say!("no cgroup was throttled; {} has {} CPUs{}", name, format!("{quota:.2}"), use_of)
    } else {
        say!(
            "{} was throttled in {} of {} periods ({} %) and waited {} s in all; it has {} CPUs{}",
            name,
            group.throttled,
            group.periods,
            format!("{:.0}", group.share()),
            format!("{:.2}", group.throttled_us as f64 / 1e6),
            format!("{quota:.2}"),
            use_of
        )
    };
    let mut outcome = Outcome::new(group.verdict(), message)
        .with("cgroup", group.folder)
        .with("quota_cpus", quota)
        .with("period_ms", group.period_us as f64 / 1000.0)
        .with("periods", group.periods)
        .with("throttled_periods", group.throttled)
        .with("throttled_percent", group.share())
        .with("throttled_seconds", group.throttled_us as f64 / 1e6);
    if let Some(average) = group.average_cpus {
        outcome = outcome.with("average_cpus", average);
    }
    if let Some(bursts) = &group.bursts {
        outcome = outcome
            .with("busiest_period_cpus", bursts.busiest_period)
            .with("busiest_20_ms_cpus", bursts.at_once);
    }
    if outcome.verdict == Verdict::Ok {
        return outcome;
    }
    let millis = group.sufficient_millis(cpus);
    let remedy = remedy(group, &name, millis);
    outcome.with("sufficient_cpus", millis / 1000.0).remedy(remedy)
}

fn remedy(group: &Withheld<'_>, name: &Text, millis: f64) -> Text {
    let quota_us = millis * group.period_us as f64 / 1000.0;
    let Withheld { folder, period_us, .. } = group;
    let command = if cgroups::is_of_pod(folder) {
        say!("resources: {limits: {cpu: {}m}}  # of {}", millis, name)
    } else if [".service", ".slice", ".scope"].iter().any(|kind| folder.ends_with(kind)) {
        let unit = folder.rsplit('/').next().unwrap_or(folder);
        say!("systemctl set-property {} CPUQuota={}%  # {}m", unit, millis / 10.0, millis)
    } else if cgroups::is_v1(folder) {
        say!("echo {} > /{}/cpu.cfs_quota_us  # {}m", quota_us, folder, millis)
    } else {
        say!("echo '{} {}' > /{}/cpu.max  # {}m", quota_us, period_us, folder, millis)
    };
    let why = match &group.bursts {
        _ if millis < group.quota_cpus * 2000.0 => say!("all CPUs of this machine"),
        Some(bursts) if bursts.size() * 1000.0 > millis - 100.0 => {
            say!("as much as the largest burst would have used")
        }
        Some(_) => say!("twice the limit, of which no burst would have used more"),
        None => {
            say!("twice the limit, a guess: how large bursts are takes readings while the doctor watches")
        }
    };
    say!("{}: {}", command, why)
}

impl Withheld<'_> {
    fn share(&self) -> f64 {
        if self.periods == 0 { 0.0 } else { self.throttled as f64 * 100.0 / self.periods as f64 }
    }

    fn verdict(&self) -> Verdict {
        if self.share() > FAILURE_PERCENT && self.throttled >= FAILURE_PERIODS_MIN {
            Verdict::Failure
        } else if self.share() >= WARNING_PERCENT && self.throttled >= WARNING_PERIODS_MIN {
            Verdict::Warning
        } else {
            Verdict::Ok
        }
    }

    /// If a container and its Pod were throttled alike, the container ranks first, since it has the limit.
    fn badness(&self) -> (Verdict, f64, usize) {
        (self.verdict(), self.share(), self.folder.len())
    }

    fn tell_use(&self) -> Text {
        let average = self.average_cpus.map(|average| say!(", used {} on average", format!("{average:.2}")));
        let busiest = self.bursts.as_ref().map(|bursts| {
            let period_ms = self.period_us / 1000;
            say!(" and {} in the busiest {} ms", format!("{:.2}", bursts.busiest_period), period_ms)
        });
        average.into_iter().chain(busiest).collect()
    }

    /// An estimate of the limit that would suffice, in thousandths of a CPU.
    ///
    /// A throttled burst uses no more than its quota in any period. Without a limit it would have used at
    /// most what it used in consecutive spent periods, and at most what its threads use at once. The estimate
    /// is at least twice the quota, which is what solved case E, and at most the number of CPUs.
    fn sufficient_millis(&self, cpus: Option<f64>) -> f64 {
        const STEP: f64 = 100.0;
        let burst = self.bursts.as_ref().map_or(0.0, Bursts::size);
        let sufficient = burst.max(self.quota_cpus * 2.0).min(cpus.unwrap_or(f64::INFINITY));
        let sufficient = sufficient.max(self.quota_cpus);
        // So that 1200.0000001 becomes 1200.
        let steps = (sufficient * 1000.0 / STEP - 1e-6).ceil();
        steps * STEP
    }
}

impl Bursts {
    fn of(ticks: &CpuTicks, period_us: u64, quota_cpus: f64) -> Option<Bursts> {
        /// The time of two readings: within one reading, the time that the reading itself takes shows.
        const AT_ONCE_MS: u64 = 20;
        let period_ms = (period_us / 1000).max(1);
        let readings: Vec<(u64, u64)> =
            ticks.at_ms.iter().copied().zip(ticks.used_us.iter().copied()).collect();
        Some(Bursts {
            busiest_period: busiest(&readings, period_ms)?,
            at_once: busiest(&readings, AT_ONCE_MS)?,
            in_one_period: longest_burst(&readings, period_ms, quota_cpus),
        })
    }

    /// CPUs that the largest burst would have used in one period without a limit.
    fn size(&self) -> f64 {
        self.in_one_period.min(self.at_once)
    }
}

/// CPUs used in the busiest window of at least this length; `None` if there are too few readings.
fn busiest(readings: &[(u64, u64)], window_ms: u64) -> Option<f64> {
    let mut end = 0;
    let mut most: Option<f64> = None;
    for &(from_ms, used_before) in readings {
        while readings.get(end)?.0 < from_ms + window_ms {
            end += 1;
            if end == readings.len() {
                return most;
            }
        }
        let (to_ms, used_after) = readings[end];
        let cpus = used_after.saturating_sub(used_before) as f64 / 1000.0 / (to_ms - from_ms) as f64;
        most = Some(most.map_or(cpus, |most| most.max(cpus)));
    }
    most
}

/// CPUs that one period would have needed to hold the longest series of periods in which the quota was spent,
/// together with the periods before and after it, in which the burst began and ended.
fn longest_burst(readings: &[(u64, u64)], period_ms: u64, quota_cpus: f64) -> f64 {
    let mut periods = Vec::new();
    let mut from = readings.first().copied().unwrap_or_default();
    for &(at_ms, used) in readings {
        if at_ms >= from.0 + period_ms {
            periods.push(used.saturating_sub(from.1) as f64 / 1000.0 / (at_ms - from.0) as f64);
            from = (at_ms, used);
        }
    }
    let is_spent = |cpus: &f64| *cpus >= quota_cpus * SPENT;
    let (mut longest, mut row) = (0.0_f64, 0.0);
    for (index, cpus) in periods.iter().enumerate() {
        if is_spent(cpus) {
            if row == 0.0 && index > 0 {
                row += periods[index - 1];
            }
            row += cpus;
            longest =
                longest.max(row + periods.get(index + 1).filter(|next| !is_spent(next)).unwrap_or(&0.0));
        } else {
            row = 0.0;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticks;
    use crate::testing::{Scene, scene};

    const ID: &str = "cpu-throttled";
    const POD: &str = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_4000_8000_000000000001.slice";

    fn v2(scene: Scene, folder: &str, max: &str, first: [u64; 4], last: [u64; 4]) -> Scene {
        let stat = |[used, periods, throttled, time]: [u64; 4]| {
            format!(
                "usage_usec {used}\nuser_usec {used}\nsystem_usec 0\ncore_sched.force_idle_usec 0\nnr_periods {periods}\n\
                 nr_throttled {throttled}\nthrottled_usec {time}\nnr_bursts 0\nburst_usec 0\n"
            )
        };
        scene.file(&format!("{folder}/cpu.max"), max).grows(
            &format!("{folder}/cpu.stat"),
            &stat(first),
            &stat(last),
        )
    }

    /// Readings every 10 ms, from the CPU time used in each interval.
    fn ticks(of: &str, used_us: impl IntoIterator<Item = u64>) -> Ticks {
        let mut ticks = CpuTicks { of: of.into(), at_ms: vec![0], used_us: vec![7] };
        let mut sum = 7;
        for (index, used) in used_us.into_iter().enumerate() {
            sum += used;
            ticks.at_ms.push((index as u64 + 1) * 10);
            ticks.used_us.push(sum);
        }
        Ticks { cpu: vec![ticks], ..Ticks::default() }
    }

    #[test]
    fn a_container_that_bursts_is_found_though_its_average_is_low() {
        let folder = format!("{POD}/cri-containerd-{}.scope", "0a1b2c3d".repeat(8));
        // Each second has 120 ms of work for two threads, with a quota of 50 ms in 100 ms: 25 ms run, 75 ms
        // wait, the same again, 10 ms run.
        let second = [20_000, 20_000, 10_000, 0, 0, 0, 0, 0, 0, 0].repeat(2).into_iter();
        let second: Vec<u64> = second.chain([20_000]).chain([0; 79]).collect();
        let scene = v2(scene(), &folder, "50000 100000\n", [0, 10, 0, 0], [1_200_000, 40, 20, 3_000_000])
            .file("proc/stat", "cpu 1 2\ncpu0 1 2\ncpu1 1 2\ncpu2 1 2\ncpu3 1 2\nintr 7\n")
            .ticks(&ticks(&folder, second.repeat(10)));
        let finding = scene.finding(ID);
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "container 0a1b2c3d0a1b of Pod 1b2c3d4e was throttled in 20 of 30 periods (67 %) and waited 3.00 s in all; it has \
             0.50 CPUs, used 0.12 on average and 0.50 in the busiest 100 ms"
        );
        // All of the 120 ms would be in one period.
        assert!(finding.tells("sufficient_cpus", 1.2), "{finding:?}");
        assert!(finding.remedy.contains("limits: {cpu: 1200m}"), "{}", finding.remedy);
        assert!(finding.tells("busiest_20_ms_cpus", 2.0));
    }

    #[test]
    fn version_1_is_judged_alike() {
        let folder = "sys/fs/cgroup/cpu,cpuacct/redis";
        let stat = |periods, throttled| {
            format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time 2500000000\n")
        };
        let group = |first: &str, last: &str| {
            scene()
                .file(&format!("{folder}/cpu.cfs_quota_us"), "200000\n")
                .file(&format!("{folder}/cpu.cfs_period_us"), "100000\n")
                .grows(&format!("{folder}/cpuacct.usage"), "0\n", "4000000000\n")
                .grows(&format!("{folder}/cpu.stat"), first, last)
                .finding(ID)
        };
        let some = group(&stat(0, 0), &stat(100, 4));
        assert_eq!((some.verdict, some.number("throttled_percent")), (Verdict::Warning, 4.0));
        assert!(some.remedy.starts_with(&format!(
            "echo 400000 > /{folder}/cpu.cfs_quota_us  # 4000m: twice the limit, a guess"
        )));
        assert!(some.tells("average_cpus", 0.4));
        assert_eq!(group(&stat(7, 3), &stat(107, 3)).verdict, Verdict::Ok);
        assert_eq!(group(&stat(7, 3), &stat(17, 4)).verdict, Verdict::Ok);
        assert_eq!(group(&stat(0, 0), &stat(20, 15)).verdict, Verdict::Failure);
    }

    #[test]
    fn no_limit_is_fine_and_no_cgroup_is_unknown() {
        let unlimited = v2(scene(), "sys/fs/cgroup/a", "max 100000\n", [0; 4], [1, 0, 0, 0]).finding(ID);
        assert_eq!(unlimited.verdict, Verdict::Ok);
        assert_eq!(unlimited.message, "none of 1 cgroups has a limit of CPU");
        assert_eq!(scene().finding(ID).verdict, Verdict::Unknown);
        let hidden = scene().forbids("sys/fs/cgroup/a/cpu.stat").finding(ID);
        assert!(hidden.message.contains("permission denied"), "{}", hidden.message);
        let half = scene().file("sys/fs/cgroup/a/cpu.stat", "nr_periods 9\n").finding(ID);
        assert_eq!(half.verdict, Verdict::Unknown, "{}", half.message);
    }

    #[test]
    fn of_a_pod_and_its_container_the_container_is_told() {
        let inner = format!("{POD}/x");
        let outer = v2(scene(), POD, "50000 100000\n", [0; 4], [0, 100, 50, 1]);
        let finding = v2(outer, &inner, "50000 100000\n", [0; 4], [0, 100, 50, 1]).finding(ID);
        assert_eq!(finding.text("cgroup"), inner);
        assert!(finding.tells("throttled_cgroups", 2.0));
    }

    #[test]
    fn the_counters_of_a_single_sample_tell() {
        let mut samples = v2(scene(), "sys/fs/cgroup/a", "50000 100000\n", [0; 4], [9, 100, 50, 1]).samples();
        samples.all.remove(0);
        assert_eq!(cpu_throttled(&samples).map(|outcome| outcome.verdict), Ok(Verdict::Failure));
    }

    #[test]
    fn a_saturated_thread_is_not_given_a_hundred_cpus() {
        let folder = "sys/fs/cgroup/a";
        let scene = v2(scene(), folder, "50000 100000\n", [0; 4], [5_000_000, 100, 100, 5_000_000])
            .ticks(&ticks(folder, [10_000, 10_000, 10_000, 10_000, 10_000, 0, 0, 0, 0, 0].repeat(100)));
        let finding = scene.finding(ID);
        assert!(finding.tells("sufficient_cpus", 1.0));
        let remedy = "echo '100000 100000' > /sys/fs/cgroup/a/cpu.max  # 1000m: as much as the largest burst";
        assert!(finding.remedy.starts_with(remedy), "{}", finding.remedy);
    }

    #[test]
    fn the_processes_readings_serve_for_their_cgroup() {
        // The group itself could not be read, as with version 1 if it counts in another hierarchy.
        let none = vec![CpuTicks { of: "sys/fs/cgroup/a".into(), ..CpuTicks::default() }];
        let scene = v2(scene(), "sys/fs/cgroup/a", "100000 100000\n", [0; 4], [9, 100, 0, 0])
            .pids(&[7])
            .file("proc/7/cgroup", "0::/a\n")
            .ticks(&Ticks { cpu: [none, ticks("processes", [1_000; 50]).cpu].concat(), ..Ticks::default() });
        let finding = scene.finding(ID);
        assert_eq!(finding.verdict, Verdict::Ok);
        assert!(finding.tells("busiest_period_cpus", 0.1), "{finding:?}");
    }

    #[test]
    fn windows_need_enough_readings() {
        assert_eq!(busiest(&[(0, 0), (10, 5_000)], 100), None);
        assert_eq!(busiest(&[], 100), None);
        assert_eq!(busiest(&[(0, 0), (50, 10_000), (100, 60_000), (150, 60_000)], 100), Some(0.6));
    }
}
