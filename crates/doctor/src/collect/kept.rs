//! Files that change so rarely that a collector that takes samples for ever reads them only now and then:
//! kernel parameters, limits, quotas, facts about devices; likewise the processes, and the sockets.
//!
//! Must not be in here: reading files.

use std::collections::{BTreeMap, BTreeSet};

use super::sockets::SocketReader;
use crate::sample::{Absence, Sample};

/// One in so many samples is read as a whole.
const WHOLE_EVERY: u32 = 6;

/// Names of files of processes, cgroups and devices that hardly change.
const STEADY: &[&str] = &[
    "cgroup",
    "comm",
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "cpu.max",
    "cpu.shares",
    "cpu.weight",
    "cpuset.cpus.effective",
    "limits",
    "mtu",
    "speed",
    "type",
    "uevent",
    "version",
];

/// Parameters that are figures.
const FIGURES: &[&str] = &["proc/sys/fs/file-nr", "proc/sys/net/netfilter/nf_conntrack_count"];

/// The memory of a collector.
#[derive(Default)]
pub(super) struct Kept {
    samples: u32,
    files: BTreeMap<String, Result<String, Absence>>,
    pub(super) sockets: SocketReader,
    /// The examined process and its descendants.
    pub(super) tree: Vec<u32>,
    /// Cgroups of Pods.
    pub(super) pods: BTreeSet<String>,
}

impl Kept {
    /// Begins a sample. Returns whether it is read as a whole: then nothing that was kept counts.
    pub(super) fn begin(&mut self) -> bool {
        let is_whole = self.samples.is_multiple_of(WHOLE_EVERY);
        self.samples = self.samples.wrapping_add(1);
        if is_whole {
            self.files.clear();
        }
        is_whole
    }

    /// The content of a file that hardly changes, as it was read before; none if it has to be read.
    pub(super) fn file(&self, path: &str) -> Option<&Result<String, Absence>> {
        self.files.get(path)
    }

    /// Keeps what hardly changes of a sample. What came in between is kept too.
    pub(super) fn note(&mut self, sample: &Sample) {
        for (path, content) in sample.files().filter(|(path, _)| is_steady(path)) {
            if !self.files.contains_key(path) {
                self.files.insert(path.to_owned(), content.clone());
            }
        }
    }
}

fn is_steady(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let own = path.strip_prefix("host/").unwrap_or(path);
    let is_parameter = own.starts_with("proc/sys/") && !FIGURES.contains(&own);
    is_parameter || STEADY.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_each_time_and_facts_now_and_then() {
        let mut kept = Kept::default();
        let mut sample = Sample::default();
        let steady = [
            "proc/sys/net/core/somaxconn",
            "host/proc/sys/net/core/somaxconn",
            "proc/7/limits",
            "sys/class/net/eth0/mtu",
        ];
        let figures = [
            "proc/sys/fs/file-nr",
            "proc/net/snmp",
            "host/proc/net/ip_vs",
            "proc/7/stat",
            "sys/fs/cgroup/cpu.stat",
        ];
        for path in steady.into_iter().chain(figures) {
            sample.put(path, Ok("1".to_owned()));
        }
        let mut wholes = 0;
        for _ in 0..WHOLE_EVERY * 2 {
            if kept.begin() {
                wholes += 1;
                assert!(kept.file(steady[0]).is_none());
            }
            kept.note(&sample);
            assert!(steady.iter().all(|path| kept.file(path).is_some()));
            assert!(figures.iter().all(|path| kept.file(path).is_none()));
        }
        assert_eq!(wholes, 2);
    }
}
