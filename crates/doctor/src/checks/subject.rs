//! Assigns connections to the examined processes: the kernel's counters are those of a whole network
//! namespace.
//!
//! Must not be in here: verdicts.

use std::collections::{BTreeMap, BTreeSet};

use crate::sample::SampleOrigin;
use crate::sockets::{Direction, SocketGroup, State};
use crate::ticks::ConnectionTick;

/// If fewer of the open connections are at their first request, and none are in `TIME_WAIT`, hardly any
/// connections are opened.
const SETTLED: f64 = 0.05;

/// The examined processes, and the addresses that they connect to.
///
/// A connection that lives for a millisecond often has no known owner: it began after the descriptors of the
/// process were read. It counts as theirs if it goes to an address that they connect to.
pub(super) struct Subject<'a> {
    pids: &'a [u32],
    /// The addresses that they connect to; if new connections are opened all the time to some of them, only
    /// these.
    remotes: BTreeSet<String>,
    active: BTreeSet<String>,
    /// Processes that connect to the subject.
    clients: BTreeSet<u32>,
}

impl<'a> Subject<'a> {
    /// Finds them from readings: `rows` of open connections, and the sockets of all samples.
    pub(super) fn of(
        taken: &'a SampleOrigin,
        rows: &[&ConnectionTick],
        groups: &[SocketGroup],
    ) -> Subject<'a> {
        let pids = &taken.pids[..];
        let of_ticks = rows.iter().map(|row| (row.pid, &row.remote));
        let open = || groups.iter().filter(|group| is_open(group));
        let seen: Vec<(Option<u32>, &String)> =
            of_ticks.chain(open().map(|group| (pid(group), &group.remote))).collect();
        let is_theirs = |pid: Option<u32>| pid.is_some_and(|pid| pids.contains(&pid));
        let remotes_of = |choose: &dyn Fn(Option<u32>) -> bool| -> BTreeSet<String> {
            seen.iter().filter(|(pid, _)| choose(*pid)).map(|(_, remote)| (*remote).clone()).collect()
        };
        let is_own_listener =
            |remote: &str| listener(groups, remote).is_some_and(|listener| is_theirs(pid(listener)));
        let mut remotes = remotes_of(&is_theirs);
        if taken.pid.is_none() || remotes.is_empty() {
            // Connections without a known owner may be theirs, unless they go where another process connects
            // to or come from clients.
            let of_others = remotes_of(&|pid| pid.is_some() && !is_theirs(pid));
            let may_be_theirs = |remote: &String| !of_others.contains(remote) && !is_own_listener(remote);
            remotes.extend(remotes_of(&|pid| pid.is_none()).into_iter().filter(may_be_theirs));
        }
        let clients = open().filter(|group| is_own_listener(&group.remote)).filter_map(pid);
        let clients = clients.filter(|pid| !pids.contains(pid)).collect();
        let active = active(&remotes, groups);
        Subject { pids, remotes, active, clients }
    }

    /// Whether they have connections to this address.
    pub(super) fn goes_to(&self, remote: &str) -> bool {
        self.remotes.contains(remote)
    }

    /// Whether they open new connections to this address.
    pub(super) fn opens_to(&self, remote: &str) -> bool {
        self.active.is_empty() || self.active.contains(remote)
    }

    /// Whether an open connection is theirs and goes to an address that they open connections to.
    pub(super) fn holds(&self, pid: Option<u32>, remote: &str) -> bool {
        self.pids.is_empty()
            || (self.active.contains(remote) && pid.is_none_or(|pid| self.pids.contains(&pid)))
    }

    /// Their share of the connections opened in the namespace, and the share of connections without a known
    /// owner, estimated from the open connections that are at their first request. Connections of clients are
    /// left out if their number is known.
    pub(super) fn shares(&self, groups: &[SocketGroup], are_clients_counted: bool) -> (f64, f64) {
        let mut theirs = 0;
        let mut nobodys = 0;
        let mut of_others = 0;
        for group in groups.iter().filter(|group| is_open(group)) {
            match pid(group) {
                pid if self.holds(pid, &group.remote) => theirs += group.sent_once,
                None => nobodys += group.sent_once,
                Some(pid) if are_clients_counted && self.clients.contains(&pid) => {}
                Some(_) => of_others += group.sent_once,
            }
        }
        let rest = nobodys + of_others;
        if rest == 0 {
            return (1.0, 0.0);
        }
        let all = (theirs + rest) as f64;
        (theirs as f64 / all, nobodys as f64 / all)
    }

    /// The share of their open connections that `some` counts, among those of which the kernel gave the
    /// number of segments.
    pub(super) fn share_of_open(&self, groups: &[SocketGroup], some: fn(&SocketGroup) -> u64) -> Option<f64> {
        let counted = self.number_open(groups, |group| group.counted);
        (counted > 0).then(|| self.number_open(groups, some) as f64 / counted as f64)
    }

    /// How many of their open connections `some` counts.
    pub(super) fn number_open(&self, groups: &[SocketGroup], some: fn(&SocketGroup) -> u64) -> u64 {
        let open = groups.iter().filter(|group| is_open(group) && self.holds(pid(group), &group.remote));
        open.map(some).sum()
    }

    /// The most connections that one of the processes has open to one address.
    pub(super) fn largest(&self, groups: &[SocketGroup]) -> u64 {
        let open = groups.iter().filter(|group| is_open(group) && self.holds(pid(group), &group.remote));
        open.map(|group| group.count).max().unwrap_or(0)
    }

    /// The address to which most connections are opened, and its share of them.
    pub(super) fn main_remote(&self, rows: &[&ConnectionTick], groups: &[SocketGroup]) -> (String, f64) {
        let mut weights = BTreeMap::<&str, u64>::new();
        for group in groups.iter().filter(|group| group.direction == Direction::Outgoing) {
            if self.active.contains(&group.remote) {
                *weights.entry(&group.remote).or_insert(0) += opened(group);
            }
        }
        if weights.values().all(|weight| *weight == 0) {
            for row in rows {
                *weights.entry(&row.remote).or_insert(0) += row.established;
            }
        }
        let all: u64 = weights.values().sum();
        let main = weights.into_iter().max_by_key(|(_, weight)| *weight);
        main.map_or((String::new(), 0.0), |(remote, weight)| {
            (remote.to_owned(), weight as f64 / all.max(1) as f64)
        })
    }
}

/// The addresses in `remotes` to which new connections are opened all the time; all of them, if there is
/// none.
fn active(remotes: &BTreeSet<String>, groups: &[SocketGroup]) -> BTreeSet<String> {
    let is_settled = |remote: &&String| {
        let theirs = || groups.iter().filter(|group| group.remote == **remote);
        let counted: u64 = theirs().map(|group| group.counted).sum();
        let opened: u64 = theirs().map(opened).sum();
        counted > 0 && opened as f64 <= SETTLED * counted as f64
    };
    let active: BTreeSet<String> = remotes.iter().filter(|remote| !is_settled(remote)).cloned().collect();
    if active.is_empty() { remotes.clone() } else { active }
}

/// Connections that were opened recently, as far as sockets show.
fn opened(group: &SocketGroup) -> u64 {
    if group.state == State::TimeWait { group.count } else { group.sent_once }
}

/// Whether these are outgoing connections that are open or being opened.
pub(super) fn is_open(group: &SocketGroup) -> bool {
    group.direction == Direction::Outgoing && matches!(group.state, State::Established | State::SynSent)
}

/// The process that holds them; none if it was not seen.
pub(super) fn pid(group: &SocketGroup) -> Option<u32> {
    group.owner.as_ref().map(|owner| owner.pid)
}

/// The socket that listens at an address: at exactly that address, or at all addresses if it is one of this
/// namespace.
pub(super) fn listener<'a>(groups: &'a [SocketGroup], address: &str) -> Option<&'a SocketGroup> {
    let listeners = || groups.iter().filter(|group| group.direction == Direction::Listening);
    if let Some(exact) = listeners().find(|group| group.local == address) {
        return Some(exact);
    }
    let (_, port) = address.rsplit_once(':')?;
    let is_here = address.starts_with("127.")
        || groups.iter().any(|group| group.direction == Direction::Incoming && group.local == address);
    listeners()
        .filter(|_| is_here)
        .find(|group| group.local.strip_suffix(port).is_some_and(|any| any == "0.0.0.0:" || any == "[::]:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{incoming, listening, outgoing};

    const CLIENT: u32 = 1;
    const FRONT: u32 = 2;
    const HOP: u32 = 3;
    const BACKEND: u32 = 4;

    /// A client, a proxy that keeps connections alive, a second proxy behind it that does not, and a backend,
    /// all in one namespace. The connections of the second proxy are too young to have a known owner.
    fn everybody() -> Vec<SocketGroup> {
        let established = State::Established;
        vec![
            listening("0.0.0.0:80").of(FRONT, "front"),
            listening("127.0.0.1:81").of(HOP, "hop"),
            listening("127.0.0.1:82").of(BACKEND, "web"),
            incoming(established, "127.0.0.1:80", 30).of(FRONT, "front").once(0),
            outgoing(established, "127.0.0.1:80", 30).of(CLIENT, "wrk").once(3),
            outgoing(established, "127.0.0.1:81", 30).of(FRONT, "front").once(1),
            outgoing(established, "127.0.0.1:82", 9).once(9),
        ]
    }

    fn taken(pids: &[u32], pid: Option<u32>) -> SampleOrigin {
        SampleOrigin { pids: pids.to_vec(), pid, ..SampleOrigin::default() }
    }

    #[test]
    fn who_keeps_connections_is_not_taken_for_who_opens_them() {
        let groups = everybody();
        let taken = taken(&[FRONT], Some(FRONT));
        let subject = Subject::of(&taken, &[], &groups);
        assert_eq!(subject.main_remote(&[], &groups).0, "127.0.0.1:81");
        assert!(subject.shares(&groups, false).0 < 0.1);
        assert!(subject.share_of_open(&groups, |group| group.sent_once).unwrap() < 0.05);
    }

    #[test]
    fn connections_without_an_owner_are_those_of_who_has_no_others() {
        let groups = everybody();
        let taken = taken(&[HOP], Some(HOP));
        let subject = Subject::of(&taken, &[], &groups);
        assert_eq!(subject.main_remote(&[], &groups), ("127.0.0.1:82".into(), 1.0));
        assert!((subject.shares(&groups, false).0 - 9.0 / 13.0).abs() < 0.01);
        assert_eq!(subject.share_of_open(&groups, |group| group.sent_once), Some(1.0));
        assert!(!subject.goes_to("127.0.0.1:80"));
    }

    #[test]
    fn of_all_that_listen_who_opens_connections_to_one_of_them_has_to_be_seen() {
        let groups = everybody();
        let taken = taken(&[FRONT, HOP, BACKEND], None);
        let subject = Subject::of(&taken, &[], &groups);
        assert!(subject.goes_to("127.0.0.1:81") && !subject.goes_to("127.0.0.1:82"));
        let (theirs, nobodys) = subject.shares(&groups, true);
        assert!(theirs < 0.11 && nobodys > 0.89, "{theirs} {nobodys}");
        assert!(subject.shares(&groups, false).1 < nobodys, "the client's are known");
    }

    #[test]
    fn an_address_that_is_kept_to_is_not_the_one_that_is_opened_to() {
        let mut groups = everybody();
        groups[6] = outgoing(State::Established, "10.0.0.2:82", 9).of(FRONT, "front").once(9);
        let taken = taken(&[FRONT], Some(FRONT));
        let subject = Subject::of(&taken, &[], &groups);
        assert_eq!(subject.main_remote(&[], &groups), ("10.0.0.2:82".into(), 1.0));
        assert!(subject.goes_to("127.0.0.1:81") && !subject.opens_to("127.0.0.1:81"));
    }
}
