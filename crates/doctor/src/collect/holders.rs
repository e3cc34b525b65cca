//! The owners of sockets for a collector that takes samples for ever: what was found out for one sample holds
//! for the next ones, so that only descriptors that may be new are looked at.
//!
//! Must not be in here: the list of sockets.

use std::collections::{HashMap, HashSet};
use std::fs;

use foldhash::fast::FixedState;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, statat};

use super::processes::{self, owner};
use crate::sockets::Owner;

/// All processes are searched anew after so many samples: descriptors may have been handed on.
const ANEW_EVERY: u32 = 60;

/// Descriptors of this process that are looked at for one sample, beside two for each new socket.
const DESCRIPTORS_MAX: usize = 1024;

/// Free numbers in a row after which no descriptor is expected, beside one for each new socket.
const DESCRIPTORS_APART: usize = 64;

/// The owners of the sockets that were listed last.
#[derive(Default)]
pub(super) struct Holders {
    sockets: HashMap<u64, Known, FixedState>,
    owners: Vec<Owner>,
    /// The inode of each socket of this process by its descriptor; 0 for other descriptors.
    descriptors: Vec<u64>,
    /// The number of the sample.
    sample: u32,
    /// Sockets of this sample, up to now.
    seen: usize,
    /// Whether all processes were searched for this sample, before its sockets were listed.
    is_anew: bool,
}

/// A listed socket was not there before: [`Holders::find`] looks for its owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewSocket;

/// Facts about a socket.
#[derive(Clone, Copy)]
struct Known {
    owner: Option<u32>,
    /// The last sample in whose list it was.
    sample: u32,
    /// Whether it was looked for among the processes that are not examined, too.
    is_sought_everywhere: bool,
}

/// The processes that are searched.
#[derive(Clone, Copy)]
pub(super) struct Search<'s> {
    /// The examined process and its descendants.
    pub(super) tree: &'s [u32],
    /// Whether all visible processes are searched too.
    pub(super) everywhere: bool,
}

impl Holders {
    /// Begins a sample. Sockets of processes that have ended are looked for again if all are searched.
    pub(super) fn begin(&mut self, search: Search<'_>) {
        self.is_anew = self.sample.is_multiple_of(ANEW_EVERY);
        self.seen = 0;
        if self.is_anew {
            self.sockets.clear();
            self.descriptors.clear();
            self.owners.clear();
            self.search_all(search.tree);
        } else if search.everywhere {
            let alive: HashSet<u32> = processes::all().into_iter().collect();
            let is_alive: Vec<bool> = self.owners.iter().map(|owner| alive.contains(&owner.pid)).collect();
            self.sockets.retain(|_, known| known.owner.is_none_or(|owner| is_alive[owner as usize]));
        }
        self.sample = self.sample.wrapping_add(1);
    }

    /// The owner of a listed socket as an index into [`owners`](Self::owners), which is none if it was not
    /// found. An error if the socket was not there before, and has to be looked for.
    pub(super) fn of_listed(&mut self, inode: u64, search: Search<'_>) -> Result<Option<u32>, NewSocket> {
        if inode == 0 {
            return Ok(None);
        }
        let Some(known) = self.sockets.get_mut(&inode) else {
            if self.is_anew {
                // It was opened since the search, or belongs to a process that cannot be seen.
                self.put(inode, None, false);
                return Ok(None);
            }
            return Err(NewSocket);
        };
        self.seen += usize::from(known.sample != self.sample);
        known.sample = self.sample;
        let is_to_be_sought = known.owner.is_none() && search.everywhere && !known.is_sought_everywhere;
        if is_to_be_sought && !self.is_anew { Err(NewSocket) } else { Ok(known.owner) }
    }

    /// Looks for the owners of new sockets, when all others have been listed.
    pub(super) fn find(&mut self, new: impl Iterator<Item = u64>, search: Search<'_>) {
        let mut missing: HashSet<u64, FixedState> = new.filter(|inode| *inode != 0).collect();
        let own = std::process::id();
        for pid in search.tree {
            if missing.is_empty() {
                return;
            }
            if *pid == own { self.find_own(&mut missing) } else { self.find_in(*pid, &mut missing) }
        }
        if search.everywhere {
            let others = processes::all().into_iter().filter(|pid| !search.tree.contains(pid));
            for pid in others {
                if missing.is_empty() {
                    return;
                }
                self.find_in(pid, &mut missing);
            }
        }
        for inode in missing {
            self.put(inode, None, search.everywhere);
        }
    }

    /// Ends a sample: sockets that are gone are forgotten.
    pub(super) fn end(&mut self) {
        // Not each time: the others are gone over for it.
        if self.sockets.len() > self.seen + self.seen / 4 + 64 {
            let sample = self.sample;
            self.sockets.retain(|_, known| known.sample == sample);
        }
    }

    pub(super) fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// The owners of all sockets that there are. A socket that several processes hold belongs to the one that
    /// comes first: the examined ones are before the others.
    fn search_all(&mut self, tree: &[u32]) {
        let own = std::process::id();
        let all = processes::all();
        for pid in tree.iter().chain(all.iter().filter(|pid| !tree.contains(pid))) {
            let inodes = if *pid == own { self.own_sockets() } else { processes::inodes(*pid) };
            if inodes.is_empty() {
                continue;
            }
            let owner = self.owner(*pid);
            for inode in inodes {
                // It counts as listed when it is.
                let known = Known { owner: Some(owner), sample: self.sample, is_sought_everywhere: true };
                self.sockets.entry(inode).or_insert(known);
            }
        }
    }

    /// Reads all descriptors of this process.
    fn own_sockets(&mut self) -> Vec<u64> {
        let Some(folder) = descriptors_of_self() else { return Vec::new() };
        let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<usize>().ok());
        let mut inodes = Vec::new();
        for number in numbers {
            inodes.extend(self.look_at(&folder, number));
        }
        inodes
    }

    /// Looks at the descriptors of this process that may be those of new sockets: numbers that had no socket
    /// before, or one that is not listed any more. The kernel gives the lowest number that is free.
    fn find_own(&mut self, missing: &mut HashSet<u64, FixedState>) {
        let Some(folder) = descriptors_of_self() else { return };
        let owner = self.owner(std::process::id());
        let apart = DESCRIPTORS_APART + missing.len();
        let mut left = DESCRIPTORS_MAX + missing.len() * 2;
        let mut number = 0;
        while number < self.descriptors.len() + apart && left > 0 && !missing.is_empty() {
            let before = self.descriptors.get(number).copied().unwrap_or(0);
            let is_listed = self.sockets.get(&before).is_some_and(|known| known.sample == self.sample);
            if !is_listed {
                left -= 1;
                let found = self.look_at(&folder, number);
                if let Some(inode) = found.filter(|inode| missing.remove(inode)) {
                    self.put(inode, Some(owner), true);
                }
            }
            number += 1;
        }
    }

    /// The inode of the socket that a descriptor of this process belongs to; none for other descriptors and
    /// those that are not open.
    fn look_at(&mut self, folder: &OwnedFd, number: usize) -> Option<u64> {
        let about = statat(folder, number.to_string(), AtFlags::empty()).ok();
        if self.descriptors.len() <= number && about.is_some() {
            self.descriptors.resize(number + 1, 0);
        }
        let sockets = about.filter(|about| FileType::from_raw_mode(about.st_mode) == FileType::Socket);
        let inode = sockets.map(|about| about.st_ino);
        if let Some(known) = self.descriptors.get_mut(number) {
            *known = inode.unwrap_or(0);
        }
        inode
    }

    /// Looks at all descriptors of another process.
    fn find_in(&mut self, pid: u32, missing: &mut HashSet<u64, FixedState>) {
        let found: Vec<u64> =
            processes::inodes(pid).into_iter().filter(|inode| missing.remove(inode)).collect();
        if found.is_empty() {
            return;
        }
        let owner = self.owner(pid);
        for inode in found {
            self.put(inode, Some(owner), true);
        }
    }

    fn put(&mut self, inode: u64, owner: Option<u32>, is_sought_everywhere: bool) {
        let known = Known { owner, sample: self.sample, is_sought_everywhere };
        let before = self.sockets.insert(inode, known);
        self.seen += usize::from(before.is_none_or(|before| before.sample != self.sample));
    }

    /// The index of a process among the owners.
    fn owner(&mut self, pid: u32) -> u32 {
        let known = self.owners.iter().position(|owner| owner.pid == pid);
        let index = known.unwrap_or_else(|| {
            self.owners.push(owner(pid));
            self.owners.len() - 1
        });
        index as u32
    }
}

/// The folder with the descriptors of this process.
fn descriptors_of_self() -> Option<OwnedFd> {
    open("/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use rustix::fs::fstat;

    use super::*;

    /// No socket has this inode: the kernel's numbers have 32 bits.
    const NOBODYS: u64 = 1 << 40;

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").expect("a port")
    }

    fn inode(socket: &impl AsFd) -> u64 {
        fstat(socket).expect("it is open").st_ino
    }

    /// The owners of listed sockets after a sample, and whether they had to be looked for.
    fn sample(holders: &mut Holders, inodes: &[u64], everywhere: bool) -> Vec<(Option<u32>, bool)> {
        let own = [std::process::id()];
        let search = Search { tree: &own, everywhere };
        holders.begin(search);
        let listed: Vec<_> = inodes.iter().map(|inode| holders.of_listed(*inode, search)).collect();
        let is_new = |found: &Result<Option<u32>, NewSocket>| *found == Err(NewSocket);
        let new = inodes.iter().zip(&listed).filter(|(_, found)| is_new(found)).map(|(inode, _)| *inode);
        holders.find(new, search);
        let pid = |index: u32| holders.owners[index as usize].pid;
        let owner = |inode: &u64| holders.sockets.get(inode).and_then(|known| known.owner).map(pid);
        let found = inodes.iter().zip(&listed).map(|(inode, found)| (owner(inode), is_new(found))).collect();
        holders.end();
        found
    }

    #[test]
    fn only_new_sockets_are_looked_for() {
        let own = Some(std::process::id());
        let mut holders = Holders::default();
        let mut sockets: Vec<_> = (0..20).map(|_| listener()).collect();
        let inodes = |sockets: &[TcpListener]| sockets.iter().map(inode).collect::<Vec<_>>();
        let mut look = |sockets: &[TcpListener]| sample(&mut holders, &inodes(sockets), false);
        assert_eq!(look(&sockets), [(own, false); 20], "all are found at the begin");
        sockets.truncate(10);
        sockets.extend((0..40).map(|_| listener()));
        let found = look(&sockets);
        assert_eq!(found[..10], [(own, false); 10]);
        assert_eq!(found[10..], [(own, true); 40], "some have numbers of those that were closed");
        assert_eq!(look(&sockets), [(own, false); 50]);
    }

    #[test]
    fn an_owner_that_is_not_found_is_looked_for_once_more_among_all() {
        let mut holders = Holders::default();
        sample(&mut holders, &[], true);
        let mut look = |everywhere| sample(&mut holders, &[NOBODYS, 0], everywhere)[0];
        assert_eq!(look(false), (None, true));
        assert_eq!(look(false), (None, false));
        assert_eq!(look(true), (None, true));
        assert_eq!((look(true), look(false)), ((None, false), (None, false)));
    }

    #[test]
    fn sockets_that_are_gone_are_forgotten() {
        let mut holders = Holders::default();
        let many: Vec<u64> = (1..=1000).map(|at| NOBODYS + at).collect();
        sample(&mut holders, &many, false);
        assert!(holders.sockets.len() >= 1000);
        sample(&mut holders, &many[..10], false);
        assert!(holders.sockets.len() <= 10 + 64, "{}", holders.sockets.len());
    }
}
