//! CPU quotas by a cgroup of version 1 or 2, where this user may create one.
//!
//! Must not be in here: affinity, which moves a process but does not make its CPU smaller.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const REMOVE_TRIES: u32 = 100;

/// A cgroup that is removed when this is dropped, which must be after its processes have ended.
#[derive(Debug)]
pub struct Quota {
    folder: PathBuf,
}

/// The effect of a quota since it was created (`cpu.stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the process ran.
    pub periods: u64,
    /// The periods in which the process used up its quota and had to wait.
    pub throttled: u64,
}

impl Quota {
    /// Limits the process `pid` to this CPU time in each period. An error says why that is not permitted
    /// here.
    pub fn hold(pid: u32, time: Duration, period: Duration) -> Result<Quota> {
        let quota = Quota::create()?;
        quota.set(time, period)?;
        quota.write("cgroup.procs", &pid.to_string())?;
        Ok(quota)
    }

    /// Whether this user may create one; an error says why not.
    pub fn is_possible() -> Result<()> {
        Quota::create().map(drop)
    }

    /// Changes the quota.
    pub fn set(&self, time: Duration, period: Duration) -> Result<()> {
        let (time, period) = (time.as_micros(), period.as_micros());
        if self.folder.join("cpu.max").exists() {
            return self.write("cpu.max", &format!("{time} {period}"));
        }
        self.write("cpu.cfs_period_us", &period.to_string())?;
        self.write("cpu.cfs_quota_us", &time.to_string())
    }

    /// The effect so far.
    pub fn throttling(&self) -> Result<Throttling> {
        let path = self.folder.join("cpu.stat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Throttling::parse(&text).with_context(|| format!("{} tells no throttling", path.display()))
    }

    fn create() -> Result<Quota> {
        // A process id is unique in its namespace only.
        let namespace = fs::metadata("/proc/self/ns/pid")?.ino();
        let folder = parent_folder()?.join(format!("forebay-{namespace}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let quota = Quota { folder };
        let can_limit = ["cpu.max", "cpu.cfs_quota_us"].iter().any(|file| quota.folder.join(file).exists());
        if can_limit { Ok(quota) } else { bail!("{} has no CPU controller", quota.folder.display()) }
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Throttling {
    fn parse(text: &str) -> Option<Throttling> {
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok())
        };
        Some(Throttling { periods: value("nr_periods")?, throttled: value("nr_throttled")? })
    }

    /// The increase since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Throttling) -> Throttling {
        Throttling { periods: self.periods - earlier.periods, throttled: self.throttled - earlier.throttled }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A cgroup is busy for a moment after its last process was waited for.
        for _ in 0..REMOVE_TRIES {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        eprintln!("warning: cannot remove {}", self.folder.display());
    }
}

/// The folder in which a cgroup with a CPU controller can be created: version 1's hierarchy, else beside this
/// process in version 2's.
fn parent_folder() -> Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").context("no cgroups")?;
    let own = |controller: &str| {
        let line = groups.lines().find(|line| line.split(':').nth(1) == Some(controller))?;
        line.splitn(3, ':').nth(2).map(|path| path.trim_start_matches('/').to_owned())
    };
    for (root, controller) in [("/sys/fs/cgroup/cpu", "cpu"), ("/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct")] {
        if let Some(path) = own(controller).filter(|_| Path::new(root).is_dir()) {
            return existing(root, &path);
        }
    }
    let path = own("").context("no cgroup with a CPU controller")?;
    let group = existing("/sys/fs/cgroup", &path)?;
    // Processes live in leaves only (cgroup v2's rule): the new cgroup is a sibling of ours.
    Ok(if path.is_empty() { group } else { group.parent().map(Path::to_path_buf).unwrap_or(group) })
}

/// In a container the path may be the host's while the mounted tree begins at our own group.
fn existing(root: &str, path: &str) -> Result<PathBuf> {
    let folder = Path::new(root).join(path);
    let folder = if folder.is_dir() { folder } else { PathBuf::from(root) };
    if folder.is_dir() { Ok(folder) } else { bail!("{root} is not there") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_throttling() {
        let expected = Some(Throttling { periods: 7, throttled: 3 });
        assert_eq!(Throttling::parse("nr_periods 7\nnr_throttled 3\nthrottled_time 9\n"), expected);
        let second = "usage_usec 1\nnr_periods 7\nnr_throttled 3\nthrottled_usec 9\nnr_bursts 0\n";
        assert_eq!(Throttling::parse(second), expected);
        assert_eq!(Throttling::parse("usage_usec 1\n"), None);
    }
}
