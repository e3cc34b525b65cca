//! A cgroup in which the memory of the proxy runs short: its limit is set little above what it uses.
//!
//! Must not be in here: what the proxy does about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use rustix::process::Pid;

/// Percent of the limit that are in use then: more than the first level of the guard, less than what would
/// have the kernel kill the process.
const PERCENT: u64 = 85;
/// The word for no limit, by version of cgroups.
const UNLIMITED_1: &str = "-1";
const UNLIMITED_2: &str = "max";

/// A cgroup of version 1 or 2, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    is_version_2: bool,
}

impl MemoryGroup {
    /// Makes one beside the others of this program; an error says why that is not permitted.
    pub(crate) fn make() -> Result<MemoryGroup> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let path = |controller: &str| {
            let mut lines = own.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
            lines.find_map(|fields| match fields[..] {
                [_, name, path] if name == controller => Some(path.trim_start_matches('/').to_owned()),
                _ => None,
            })
        };
        // Process ids are those of a namespace, in which this program is always the first one.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("soak-{:x}", now.as_nanos());
        let (base, is_version_2) = match path("memory") {
            Some(path) => (Path::new("/sys/fs/cgroup/memory").join(path), false),
            None => (Path::new("/sys/fs/cgroup").join(path("").context("no cgroup")?), true),
        };
        let folder = base.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let group = MemoryGroup { folder, is_version_2 };
        fs::metadata(group.limit_file()).context("the cgroup does not limit memory")?;
        Ok(group)
    }

    /// Puts the process inside, and sets the limit.
    pub(crate) fn squeeze(&self, pid: Pid) -> Result<()> {
        let resident = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
        let used = resident.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let used = used.and_then(|used| used.trim().trim_end_matches(" kB").parse::<u64>().ok());
        let limit = used.context("no resident memory")? * 1024 * 100 / PERCENT;
        self.write("cgroup.procs", &pid.as_raw_nonzero().to_string())?;
        fs::write(self.limit_file(), limit.to_string()).context("cannot limit memory")
    }

    /// Takes the limit away.
    pub(crate) fn release(&self) -> Result<()> {
        let unlimited = if self.is_version_2 { UNLIMITED_2 } else { UNLIMITED_1 };
        fs::write(self.limit_file(), unlimited).context("cannot take the limit away")
    }

    fn limit_file(&self) -> PathBuf {
        self.folder.join(if self.is_version_2 { "memory.max" } else { "memory.limit_in_bytes" })
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.folder.join(file), text).with_context(|| format!("cannot write {file}"))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Fails only while a process is in it, which ends with the namespace.
        let _ = fs::remove_dir(&self.folder);
    }
}
