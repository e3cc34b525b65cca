//! Cgroups with a CPU controller, of version 1 (the kernel's `scheduler/sched-bwc.rst`) and 2
//! (`admin-guide/cgroup-v2.rst`).

use crate::sample::{Sample, Unknown};
use crate::text::{Text, say};

/// The mount point of the hierarchies.
const ROOT: &str = "sys/fs/cgroup";

/// Folder names of version 1's hierarchies: groups in them are not of version 2.
const V1_HIERARCHIES: &[&str] = &["cpu,cpuacct", "cpuacct,cpu", "cpu", "cpuacct"];

/// A CPU limit and the counters of its throttling.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    /// CPUs that may be used on average over a period; `None` for no limit.
    pub(crate) quota_cpus: Option<f64>,
    pub(crate) period_us: u64,
    /// Periods in which a thread ran.
    pub(crate) periods: u64,
    /// Periods in which the quota was used up before their end.
    pub(crate) throttled: u64,
    /// Time that was waited for the next period, in microseconds, summed over CPUs.
    pub(crate) throttled_us: u64,
    /// CPU time used, in microseconds; `None` if it was not captured.
    pub(crate) used_us: Option<u64>,
}

/// The folders of the groups in a sample.
pub(crate) fn folders(sample: &Sample) -> Result<Vec<&str>, Unknown> {
    let readable = |path: &str| sample.text(path).is_ok();
    let stats = sample.files().filter(|(path, _)| path.starts_with(ROOT) && path.ends_with("/cpu.stat"));
    let mut why = None;
    let mut folders = Vec::new();
    for (path, _) in stats {
        if readable(path) {
            folders.push(path.trim_end_matches("/cpu.stat"));
        } else if !sample.lacks(path) {
            why = why.or(sample.text(path).err());
        }
    }
    match (folders.is_empty(), why) {
        (true, Some(why)) => Err(why),
        (true, None) => Err(Unknown(say!("no cgroup's cpu.stat was captured"))),
        (false, _) => Ok(folders),
    }
}

/// Reads the files of a group.
pub(crate) fn group(sample: &Sample, folder: &str) -> Result<Group, Unknown> {
    let path = format!("{folder}/cpu.stat");
    let stat = sample.text(&path)?;
    let figure = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find_map(|(known, value)| if known == name { value.trim().parse::<u64>().ok() } else { None })
    };
    let (quota_cpus, period_us) = limit(sample, folder)?;
    Ok(Group {
        quota_cpus,
        period_us,
        periods: figure("nr_periods").unwrap_or(0),
        throttled: figure("nr_throttled").unwrap_or(0),
        throttled_us: figure("throttled_usec")
            .or(figure("throttled_time").map(|nanoseconds| nanoseconds / 1000))
            .unwrap_or(0),
        used_us: figure("usage_usec").or_else(|| v1_used_us(sample, folder)),
    })
}

/// The groups of a process, and their parents.
pub(crate) fn of_process(sample: &Sample, pid: u32) -> Result<Vec<&str>, Unknown> {
    let text = sample.text(&format!("proc/{pid}/cgroup"))?;
    Ok(folders(sample)?.into_iter().filter(|folder| holds(folder, text)).collect())
}

/// The CPUs that the most limited of a process's groups allows, and that group; `None` if none is limited.
pub(crate) fn quota_of_process(sample: &Sample, pid: u32) -> Result<Option<(f64, &str)>, Unknown> {
    let groups = of_process(sample, pid)?.into_iter();
    let limited = groups.filter_map(|folder| Some((group(sample, folder).ok()?.quota_cpus?, folder)));
    Ok(limited.min_by(|a, b| a.0.total_cmp(&b.0)))
}

/// A name for messages: a Pod and a container are named by the beginnings of their ids.
pub(crate) fn name(folder: &str) -> Text {
    let (_, path) = split(folder);
    let pod = path.split('/').find_map(pod_uid);
    let container = path.split('/').rev().find_map(container_id);
    match (pod, container) {
        (Some(pod), Some(id)) => say!("container {} of Pod {}", &id[..12], pod),
        (Some(pod), None) => say!("Pod {}", pod),
        (None, Some(id)) => say!("container {}", &id[..12]),
        (None, None) => say!("cgroup /{}", path),
    }
}

/// Whether a group is that of a Pod or below one.
pub(crate) fn is_of_pod(folder: &str) -> bool {
    folder.split('/').any(|part| pod_uid(part).is_some())
}

/// Whether a group is in a hierarchy of version 1.
pub(crate) fn is_v1(folder: &str) -> bool {
    split(folder).0.is_some()
}

/// The hierarchy of version 1, or none for version 2, and the path within it.
fn split(folder: &str) -> (Option<&str>, &str) {
    let path = folder.strip_prefix(ROOT).unwrap_or(folder).trim_start_matches('/');
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    if V1_HIERARCHIES.contains(&first) { (Some(first), rest) } else { (None, path) }
}

/// Whether a process is in this group or below it, by its `/proc/PID/cgroup` (cgroups(7)).
fn holds(folder: &str, process: &str) -> bool {
    let (hierarchy, path) = split(folder);
    process.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(of_process)) = (parts.next(), parts.next()) else { return false };
        let is_this = match hierarchy {
            Some(hierarchy) => controllers.split(',').any(|one| hierarchy.split(',').any(|two| one == two)),
            None => controllers.is_empty(),
        };
        let of_process = of_process.trim_start_matches('/').trim_start_matches("../");
        let is_below = of_process
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || path.is_empty() || rest.starts_with('/'));
        is_this && is_below
    })
}

/// The quota in CPUs, and the period. The root group of version 2 has neither.
fn limit(sample: &Sample, folder: &str) -> Result<(Option<f64>, u64), Unknown> {
    const DEFAULT_PERIOD_US: u64 = 100_000;
    let (quota, period) = if let Ok(max) = sample.text(&format!("{folder}/cpu.max")) {
        let (quota, period) = max.trim().split_once(' ').unwrap_or((max.trim(), ""));
        (quota.parse::<f64>().ok(), period.parse().unwrap_or(DEFAULT_PERIOD_US))
    } else if sample.lacks(&format!("{folder}/cpu.cfs_quota_us")) {
        (None, DEFAULT_PERIOD_US)
    } else if let Ok(quota) = sample.number::<f64>(&format!("{folder}/cpu.cfs_quota_us")) {
        let period = sample.number(&format!("{folder}/cpu.cfs_period_us")).unwrap_or(DEFAULT_PERIOD_US);
        ((quota > 0.0).then_some(quota), period)
    } else if split(folder).1.is_empty() {
        (None, DEFAULT_PERIOD_US)
    } else {
        return Err(Unknown(say!("/{} was captured without cpu.max or cpu.cfs_quota_us", folder)));
    };
    Ok((quota.map(|quota| quota / period as f64), period))
}

/// Version 1 counts CPU time in another controller, which may be mounted elsewhere.
fn v1_used_us(sample: &Sample, folder: &str) -> Option<u64> {
    let (hierarchy, path) = split(folder);
    let elsewhere = format!("{ROOT}/cpuacct/{path}");
    let folders = [folder, elsewhere.trim_end_matches('/')];
    let mut usage =
        folders.iter().filter_map(|folder| sample.number(&format!("{folder}/cpuacct.usage")).ok());
    hierarchy.and_then(|_| usage.next()).map(|nanoseconds: u64| nanoseconds / 1000)
}

/// The uid in `pod<uid>` (cgroupfs driver) or `kubepods-burstable-pod<uid>.slice` (systemd driver). The uid
/// of a static Pod has no dashes.
fn pod_uid(part: &str) -> Option<String> {
    let (before, uid) = part.trim_end_matches(".slice").rsplit_once("pod")?;
    let is_place = before.is_empty() || before.ends_with('-');
    let is_uid = uid.len() >= 32 && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-' || c == '_');
    (is_place && is_uid).then(|| uid[..8].to_owned())
}

/// The id in `<id>`, `docker-<id>.scope` and the like.
fn container_id(part: &str) -> Option<&str> {
    let id = part.trim_end_matches(".scope").rsplit(['-', ':']).next()?;
    (id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Absence;

    const ID: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9";

    fn sample(files: &[(&str, &str)]) -> Sample {
        let mut sample = Sample::default();
        for (path, text) in files {
            sample.put(*path, Ok((*text).to_owned()));
        }
        sample
    }

    #[test]
    fn version_2_is_read() {
        let sample = sample(&[
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\n"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            (
                "sys/fs/cgroup/a/cpu.stat",
                "usage_usec 7000000\nuser_usec 6000000\nsystem_usec 1000000\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2500000\nnr_bursts 0\nburst_usec 0\n",
            ),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 7000000\n"),
            ("proc/7/cgroup", "0::/a/b\n"),
            ("proc/8/cgroup", "0::/ab\n"),
        ]);
        let read = group(&sample, "sys/fs/cgroup/a").expect("it is whole");
        let expected = Group {
            quota_cpus: Some(0.5),
            period_us: 100_000,
            periods: 100,
            throttled: 40,
            throttled_us: 2_500_000,
            used_us: Some(7_000_000),
        };
        assert_eq!(read, expected);
        let root = group(&sample, "sys/fs/cgroup").expect("it has no limit");
        assert_eq!((root.quota_cpus, root.used_us), (None, Some(9)));
        assert_eq!(of_process(&sample, 7).expect("three").len(), 3);
        assert_eq!(quota_of_process(&sample, 7), Ok(Some((0.5, "sys/fs/cgroup/a"))));
        assert_eq!(of_process(&sample, 8), Ok(vec!["sys/fs/cgroup"]));
    }

    #[test]
    fn version_1_is_read() {
        let folder = "sys/fs/cgroup/cpu/kubepods/x";
        let sample = sample(&[
            ("sys/fs/cgroup/cpu/kubepods/x/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu/kubepods/x/cpu.cfs_period_us", "50000\n"),
            (
                "sys/fs/cgroup/cpu/kubepods/x/cpu.stat",
                "nr_periods 10\nnr_throttled 4\nthrottled_time 123456789\n",
            ),
            ("sys/fs/cgroup/cpuacct/kubepods/x/cpuacct.usage", "5000000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
            ("proc/7/cgroup", "5:memory:/y\n4:cpu,cpuacct:/kubepods/x\n0::/z\n"),
        ]);
        let read = group(&sample, folder).expect("it is whole");
        assert_eq!((read.quota_cpus, read.throttled_us, read.used_us), (Some(3.0), 123_456, Some(5_000)));
        assert_eq!(group(&sample, "sys/fs/cgroup/cpu").expect("the root").quota_cpus, None);
        assert_eq!(of_process(&sample, 7), Ok(vec!["sys/fs/cgroup/cpu", folder]));
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut sample = sample(&[("sys/fs/cgroup/a/cpu.max", "50000 100000\n")]);
        assert!(folders(&sample).is_err_and(|why| why.to_string().contains("no cgroup's cpu.stat")));
        sample.put("sys/fs/cgroup/a/cpu.stat", Err(Absence::Unreadable("permission denied".into())));
        assert!(folders(&sample).is_err_and(|why| why.to_string().contains("permission denied")));
    }

    #[test]
    fn pods_and_containers_are_named() {
        let name = |folder: &str| name(folder).english();
        let cgroupfs =
            format!("sys/fs/cgroup/cpu/kubepods/burstable/pod1b2c3d4e-0000-4000-8000-000000000001/{ID}");
        assert_eq!(name(&cgroupfs), "container 0a1b2c3d4e5f of Pod 1b2c3d4e");
        let systemd = format!(
            "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_4000_8000_000000000001.slice/cri-containerd-{ID}.scope"
        );
        assert_eq!(name(&systemd), "container 0a1b2c3d4e5f of Pod 1b2c3d4e");
        assert_eq!(name("sys/fs/cgroup/kubepods/pod0123456789abcdef0123456789abcdef"), "Pod 01234567");
        assert_eq!(name(&format!("sys/fs/cgroup/docker/{ID}")), "container 0a1b2c3d4e5f");
        assert_eq!(name("sys/fs/cgroup/cpu/system.slice/x.service"), "cgroup /system.slice/x.service");
        assert!(is_of_pod(&systemd) && !is_of_pod("sys/fs/cgroup/kubepods.slice"));
    }
}
