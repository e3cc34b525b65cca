//! Processes: their descendants, and the sockets that they hold.

use std::collections::HashMap;
use std::fs;

use crate::sockets::Owner;

/// The process that holds each socket, by the socket's inode.
#[derive(Clone, Default)]
pub(super) struct Owners {
    by_inode: HashMap<u64, usize>,
    owners: Vec<Owner>,
}

/// All visible processes.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A process and its descendants. Only the process itself if it is gone.
pub(super) fn tree(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(&of) = tree.get(next) {
        tree.extend(parents.iter().filter(|(pid, parent)| *parent == of && *pid != of).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// Field 4 of `proc_pid_stat(5)`. The name before it is in parentheses and may contain any character.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

impl Owners {
    /// The sockets that these processes hold. The descriptors of other users' processes can be read only by
    /// root; such processes seem to hold none.
    pub(super) fn of(pids: &[u32]) -> Owners {
        let mut all = Owners::default();
        for &pid in pids {
            let inodes = inodes(pid);
            if inodes.is_empty() {
                continue;
            }
            for inode in inodes {
                // Workers share listeners with the process that opened them, which has a lower number.
                all.by_inode.entry(inode).or_insert(all.owners.len());
            }
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            all.owners.push(Owner { pid, name: name.trim_end().to_owned() });
        }
        all
    }

    /// These, and of other sockets those that `others` know.
    pub(super) fn or(mut self, others: &Self) -> Self {
        let offset = self.owners.len();
        self.owners.extend_from_slice(&others.owners);
        for (inode, owner) in &others.by_inode {
            self.by_inode.entry(*inode).or_insert(owner + offset);
        }
        self
    }

    pub(super) fn of_socket(&self, inode: u64) -> Option<&Owner> {
        self.by_inode.get(&inode).map(|&index| &self.owners[index])
    }
}

/// The inodes of the sockets that a process holds.
fn inodes(pid: u32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}
