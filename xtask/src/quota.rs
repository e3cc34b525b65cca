//! A share of one CPU for a process, by a cgroup of version 1 or 2, where this user may make one.
//!
//! Must not be in here: affinity, which moves a process but does not make its CPU smaller.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Short, so that a process that has used up its share waits milliseconds and not tenths of a second.
const PERIOD_MICROSECONDS: u32 = 20_000;

const REMOVE_TRIES: u32 = 100;

/// A cgroup that goes when this is dropped, which must be after its processes are.
pub(crate) struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// Holds the process `pid` to so much of one CPU. An error says why that is not permitted here.
    pub(crate) fn hold(pid: u32, percent: u32) -> Result<Quota> {
        let microseconds = PERIOD_MICROSECONDS * percent / 100;
        let quota = Quota::create()?;
        if quota.folder.join("cpu.max").exists() {
            quota.write("cpu.max", &format!("{microseconds} {PERIOD_MICROSECONDS}"))?;
        } else {
            quota.write("cpu.cfs_period_us", &PERIOD_MICROSECONDS.to_string())?;
            quota.write("cpu.cfs_quota_us", &microseconds.to_string())?;
        }
        quota.write("cgroup.procs", &pid.to_string())?;
        Ok(quota)
    }

    fn create() -> Result<Quota> {
        let folder = parent_folder()?.join(format!("forebay-{}", std::process::id()));
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

/// Where a cgroup with a CPU controller can be made: version 1's hierarchy, else beside this process in version 2's.
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
    // Processes live in leaves only (cgroup v2's rule), so that ours is made beside us.
    Ok(if path.is_empty() { group } else { group.parent().map(Path::to_path_buf).unwrap_or(group) })
}

/// In a container the path may be the host's, and what is mounted is already ours.
fn existing(root: &str, path: &str) -> Result<PathBuf> {
    let folder = Path::new(root).join(path);
    let folder = if folder.is_dir() { folder } else { PathBuf::from(root) };
    if folder.is_dir() { Ok(folder) } else { bail!("{root} is not there") }
}
