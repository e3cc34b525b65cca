//! Processes: their descendants, and the sockets that they hold.

use std::collections::HashMap;
use std::fs;

use crate::sockets::Owner;

/// The process that holds each socket, by the socket's inode.
#[derive(Default)]
pub(super) struct Owners {
    by_inode: HashMap<u64, u32>,
    owners: Vec<Owner>,
}

/// All visible processes.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A process and its descendants. Only the process itself if it is gone.
pub(super) fn tree(pid: u32) -> Vec<u32> {
    let mut parents = None;
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(&of) = tree.get(next) {
        let children = children(of).unwrap_or_else(|| {
            let parents = parents.get_or_insert_with(parents_of_all);
            parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid).collect()
        });
        tree.extend(children.into_iter().filter(|pid| *pid != of));
        next += 1;
    }
    tree
}

/// The children of a process's threads (`proc_tid_children(5)`). None where the kernel was built without
/// these files; a process that is gone has none.
fn children(pid: u32) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => children.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // A thread that has ended has no folder.
            Err(_) if thread.path().join("stat").exists() => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

fn parents_of_all() -> Vec<(u32, u32)> {
    all().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect()
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
            let index = all.owners.len() as u32;
            for inode in inodes {
                // Workers share listeners with the process that opened them, which has a lower number.
                all.by_inode.entry(inode).or_insert(index);
            }
            all.owners.push(owner(pid));
        }
        all
    }

    /// The owner of a socket, as an index into [`all`](Self::all).
    pub(super) fn of_socket(&self, inode: u64) -> Option<u32> {
        self.by_inode.get(&inode).copied()
    }

    pub(super) fn all(&self) -> &[Owner] {
        &self.owners
    }
}

/// A process by its number, with its name.
pub(super) fn owner(pid: u32) -> Owner {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Owner { pid, name: name.trim_end().to_owned() }
}

/// The inodes of the sockets that a process holds.
pub(super) fn inodes(pid: u32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}
