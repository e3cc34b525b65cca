//! The replica that checks an endpoint for all of them, as this one sees it.
//!
//! Each endpoint has a home among the replicas by rendezvous hashing, so that a replica that comes or goes
//! moves only its own share. A home that has reported nothing for too long is passed over until it reports
//! again; the next one in the order of the hash takes its place.
//!
//! Must not be in here: a clock, sockets, and what a check does.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::Moment;
use wire::rendezvous;

use super::key::CheckId;
use super::verdict::Heard;

/// The replicas, this one included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// The address of this replica; none where nothing is shared.
    pub(crate) own: Option<IpAddr>,
    /// The addresses of all.
    pub(crate) all: Arc<[IpAddr]>,
}

/// The duty to check one endpoint.
#[derive(Debug)]
pub(super) struct Duty {
    id: CheckId,
    /// The replica that has the duty, and the time since which it has; none where that is this one.
    owner: Option<(IpAddr, Moment)>,
    /// Replicas that were silent while they had the duty, each with the time of that finding.
    silent: Vec<(IpAddr, Moment)>,
}

/// The replica whose turn it is to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// This replica checks.
    Own,
    /// Another one, unless it is silent until this time.
    Other(Moment),
}

impl Duty {
    pub(super) fn new(id: CheckId) -> Self {
        Self { id, owner: None, silent: Vec::new() }
    }

    /// The replica whose turn it is at present. A replica is silent if it reports nothing for `silence`.
    pub(super) fn turn(
        &mut self,
        members: &Members,
        heard: Option<Heard>,
        silence: Duration,
        now: Moment,
    ) -> Turn {
        let has_reported =
            |replica: IpAddr, since| heard.is_some_and(|heard| heard.from == replica && heard.at > since);
        self.silent
            .retain(|(replica, since)| members.all.contains(replica) && !has_reported(*replica, *since));
        loop {
            let is_silent = |replica: &IpAddr| self.silent.iter().any(|(silent, _)| silent == replica);
            let speaking = members.all.iter().copied().filter(|replica| !is_silent(replica));
            let home = rendezvous::home(&self.id.0.to_be_bytes(), speaking);
            let Some(home) = home.filter(|home| Some(*home) != members.own) else {
                self.owner = None;
                return Turn::Own;
            };
            let since = match self.owner {
                Some((owner, since)) if owner == home => since,
                _ => now,
            };
            self.owner = Some((home, since));
            let until = heard.map_or(since, |heard| heard.at.max(since)).after(silence);
            if until > now {
                return Turn::Other(until);
            }
            self.silent.push((home, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn members(own: u8, all: &[u8]) -> Members {
        Members { own: Some(address(own)), all: all.iter().copied().map(address).collect() }
    }

    fn at(seconds: u64) -> Moment {
        Moment::BEGIN.after(Duration::from_secs(seconds))
    }

    fn heard(from: u8, seconds: u64) -> Heard {
        Heard { from: address(from), at: at(seconds), is_out: false }
    }

    /// The replicas in the order in which they get the duty for an endpoint.
    fn order(id: CheckId, all: &[u8]) -> Vec<u8> {
        let mut left = all.to_vec();
        let mut order = Vec::new();
        while let Some(home) = rendezvous::home(&id.0.to_be_bytes(), left.iter().copied().map(address)) {
            let last = left.iter().position(|last| address(*last) == home).unwrap();
            order.push(left.remove(last));
        }
        order
    }

    #[test]
    fn each_endpoint_has_one_checker_among_all() {
        let all = [1, 2, 3];
        let mut shares = [0; 4];
        for number in 0..300 {
            let owners: Vec<_> = all
                .into_iter()
                .filter(|own| {
                    let mut duty = Duty::new(CheckId(number));
                    duty.turn(&members(*own, &all), None, SILENCE, at(100)) == Turn::Own
                })
                .collect();
            assert_eq!(owners.len(), 1, "{number}");
            shares[owners[0] as usize] += 1;
        }
        assert!(shares[1..].iter().all(|share| *share > 60), "{shares:?}");
    }

    #[test]
    fn without_other_replicas_it_is_always_this_one() {
        for members in [Members::default(), members(1, &[1])] {
            assert_eq!(Duty::new(CheckId(7)).turn(&members, None, SILENCE, at(1)), Turn::Own);
        }
    }

    #[test]
    fn a_silent_replica_is_passed_over_until_it_reports_again() {
        let id = CheckId(42);
        let [first, second, third] = order(id, &[1, 2, 3])[..] else { panic!("three") };
        // As the third sees it.
        let (members, mut duty) = (members(third, &[1, 2, 3]), Duty::new(id));
        let mut turn = |heard, now| duty.turn(&members, heard, SILENCE, at(now));
        assert_eq!(turn(None, 100), Turn::Other(at(110)));
        assert_eq!(turn(Some(heard(first, 105)), 105), Turn::Other(at(115)));
        assert_eq!(turn(Some(heard(first, 105)), 114), Turn::Other(at(115)));
        // The second one has its own time from now on.
        assert_eq!(turn(Some(heard(first, 105)), 115), Turn::Other(at(125)));
        assert_eq!(turn(Some(heard(second, 116)), 124), Turn::Other(at(126)));
        assert_eq!(turn(Some(heard(second, 116)), 126), Turn::Own);
        assert_eq!(turn(Some(heard(second, 116)), 200), Turn::Own);
        // The first one is back.
        assert_eq!(turn(Some(heard(first, 201)), 201), Turn::Other(at(211)));
        // A replica that has gone is not waited for.
        let alone = Members { all: [address(third)].into(), ..members.clone() };
        assert_eq!(duty.turn(&alone, Some(heard(first, 201)), SILENCE, at(202)), Turn::Own);
    }
}
