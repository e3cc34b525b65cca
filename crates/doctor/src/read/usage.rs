//! Resources that a process uses, compared with its limits, from the files of its cgroups and its own limits.

use super::{cgroups, ports};
use crate::sample::Sample;

/// Files of cgroups that tell of memory, in versions 2 and 1.
pub(crate) const OF_MEMORY: &[&str] =
    &["memory.current", "memory.max", "memory.stat", "memory.limit_in_bytes", "memory.usage_in_bytes"];

/// Version 1 has a number for no limit: the greatest one that is a whole number of pages.
const V1_UNLIMITED_FROM: u64 = 1 << 60;

/// Resources that a process uses, compared with its limits. Shares are of 1, and none where there is no limit
/// or no source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// When that was, in seconds since the reader was made.
    pub seconds: f64,
    /// Periods of each cgroup with a quota, and those in which it was used up.
    throttling: Vec<(String, u64, u64)>,
    /// Microseconds in which a thread of its own cgroup waited for a CPU.
    stalled_us: Option<u64>,
    /// Memory that cannot be given back, of the limit that is nearest.
    pub memory: Option<f64>,
    /// Share of the limit on open files.
    pub descriptors: Option<f64>,
    /// The fullest queue of connections that wait to be accepted.
    pub accept_queue: Option<f64>,
    /// Local ports that there are towards one endpoint.
    pub port_range: Option<u64>,
}

impl Usage {
    pub(crate) fn of(sample: &Sample, pid: u32, of_memory: &[String]) -> Usage {
        let groups = cgroups::of_process(sample, pid).unwrap_or_default();
        let throttling = groups.iter().filter_map(|folder| {
            let group = cgroups::group(sample, folder).ok()?;
            group.quota_cpus?;
            Some(((*folder).to_owned(), group.periods, group.throttled))
        });
        // The innermost one is its own.
        let own = groups.iter().max_by_key(|folder| folder.len());
        let memory = of_memory.iter().filter_map(|folder| memory(sample, folder));
        Usage {
            throttling: throttling.collect(),
            stalled_us: own.and_then(|folder| stalled_us(sample, folder)),
            memory: memory.max_by(f64::total_cmp),
            port_range: ports::range(sample).ok().map(|range| range.size),
            ..Usage::default()
        }
    }

    /// The share of periods in which a quota was used up, of those since an earlier usage.
    pub fn throttled_since(&self, before: &Usage) -> Option<f64> {
        let shares = self.throttling.iter().filter_map(|(folder, periods, throttled)| {
            let (_, periods_before, throttled_before) =
                before.throttling.iter().find(|one| one.0 == *folder)?;
            let periods = periods.saturating_sub(*periods_before);
            let throttled = throttled.saturating_sub(*throttled_before);
            Some(throttled as f64 / periods.max(1) as f64)
        });
        shares.max_by(f64::total_cmp).map(|share| share.min(1.0))
    }

    /// The share of the time since an earlier usage in which a thread waited for a CPU.
    pub fn stalled_since(&self, before: &Usage) -> Option<f64> {
        let stalled = self.stalled_us?.saturating_sub(before.stalled_us?) as f64 / 1e6;
        let seconds = self.seconds - before.seconds;
        (seconds > 0.0).then(|| (stalled / seconds).min(1.0))
    }
}

/// The time of `some` in `cpu.pressure` (the kernel's `accounting/psi.rst`). The root of all groups is the
/// machine, and no group of this process; unlike others it has no `cpu.max`.
fn stalled_us(sample: &Sample, folder: &str) -> Option<u64> {
    sample.text(&format!("{folder}/cpu.max")).ok()?;
    let text = sample.text(&format!("{folder}/cpu.pressure")).ok()?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

/// The memory of a group, of its limit. Pages of files that nobody has asked for lately are given back before
/// anything fails, as kubelet counts too.
fn memory(sample: &Sample, folder: &str) -> Option<f64> {
    let number = |file: &str| sample.number::<u64>(&format!("{folder}/{file}")).ok();
    let (used, max, inactive) = if let Some(used) = number("memory.current") {
        (used, number("memory.max")?, "inactive_file")
    } else {
        (number("memory.usage_in_bytes")?, number("memory.limit_in_bytes")?, "total_inactive_file")
    };
    if max == 0 || max >= V1_UNLIMITED_FROM {
        return None;
    }
    let stat = sample.text(&format!("{folder}/memory.stat")).unwrap_or_default();
    let given_back = stat.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse().ok());
    Some(used.saturating_sub(given_back.unwrap_or(0)) as f64 / max as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(files: &[(&str, &str)]) -> Sample {
        let mut sample = Sample::default();
        for (path, text) in files {
            sample.put(*path, Ok((*text).to_owned()));
        }
        sample
    }

    fn usage(seconds: f64, stat: &str, pressure: &str) -> Usage {
        let sample = sample(&[
            ("proc/7/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/cpu.stat", stat),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\n"),
            ("sys/fs/cgroup/a/b/cpu.pressure", pressure),
        ]);
        Usage { seconds, ..Usage::of(&sample, 7, &[]) }
    }

    #[test]
    fn throttling_and_stalls_are_what_came_in_between() {
        let psi = |total| {
            format!("some avg10=1.00 avg60=0.50 avg300=0.10 total={total}\nfull avg10=0.00 total=1\n")
        };
        let before = usage(1.0, "nr_periods 100\nnr_throttled 50\n", &psi(1_000_000));
        let after = usage(3.0, "nr_periods 120\nnr_throttled 65\n", &psi(1_500_000));
        assert_eq!((after.throttled_since(&before), after.stalled_since(&before)), (Some(0.75), Some(0.25)));
        assert_eq!((after.throttled_since(&after), after.stalled_since(&after)), (Some(0.0), None));
        let silent = usage(3.0, "nr_periods 120\nnr_throttled 65\n", "");
        assert_eq!(silent.stalled_since(&before), None);
        assert_eq!(silent.throttled_since(&Usage::default()), None);
    }

    #[test]
    fn memory_is_what_cannot_be_given_back_of_the_nearest_limit() {
        let sample = sample(&[
            ("sys/fs/cgroup/a/memory.current", "900\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 400\nactive_file 1\n"),
            ("sys/fs/cgroup/a/b/memory.current", "900\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("v1/memory.usage_in_bytes", "900\n"),
            ("v1/memory.limit_in_bytes", "1000\n"),
            ("v1/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"),
            ("v1/free/memory.usage_in_bytes", "900\n"),
            ("v1/free/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let of = |folders: &[&str]| {
            let folders: Vec<_> = folders.iter().map(|folder| (*folder).to_owned()).collect();
            Usage::of(&sample, 7, &folders).memory
        };
        assert_eq!(of(&["sys/fs/cgroup/a", "sys/fs/cgroup/a/b"]), Some(0.5));
        assert_eq!(of(&["v1", "v1/free"]), Some(0.8));
        assert_eq!(of(&["sys/fs/cgroup/a/b", "v1/free", "nowhere"]), None);
    }
}
