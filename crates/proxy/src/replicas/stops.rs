//! Stops of canaries, told to the other replicas at once: otherwise they learn of one when the Lease is read.
//!
//! Only stops are told. One that is lost is in the Lease all the same.
//!
//! Never in here: the judgement on a canary, which is `balance::rollout`'s.

use std::rc::Rc;
use std::time::Duration;

use balance::{KeptRun, Stopped};

use super::mark::{Kind, add, part, parts};
use super::members::others;
use super::peers::ReplicaSecret;
use super::tell::Delivery;
use crate::limits::{REPLICA_MARK_BYTES_MAX, REPLICA_ORDER_TIME_MAX};
use crate::worker::Worker;

/// Parts of a message for each stop.
const PARTS: usize = 6;

/// Tells the other replicas which canaries are stopped, if one has been since the last call.
pub(crate) fn tell_stops(worker: &Rc<Worker>) {
    let Some(secret) = worker.peers.secret().filter(|_| worker.is_first()) else { return };
    let rollouts = worker.rollouts.all();
    let version = rollouts.version();
    if worker.peers.told_rollouts.replace(version) == version {
        return;
    }
    let stops: Vec<_> = rollouts.kept().into_iter().filter(|kept| kept.stopped.is_some()).collect();
    let requests: Rc<[Vec<u8>]> = requests(&stops, worker.clock.unix().as_secs(), secret).into();
    if requests.is_empty() {
        return;
    }
    for replica in others(worker, &worker.config()) {
        let delivery = Delivery {
            worker: Rc::clone(worker),
            replica: Rc::clone(replica),
            requests: Rc::clone(&requests),
        };
        reactor::spawn_detached(async move {
            if !delivery.send(REPLICA_ORDER_TIME_MAX).await {
                let replica = delivery.replica.address.ip();
                tracing::debug!(%replica, "the stop of a canary has not reached the replica");
            }
        });
    }
}

/// Requests that carry stops to another replica, each with as many as a mark takes.
fn requests(stops: &[KeptRun], now: u64, secret: &ReplicaSecret) -> Vec<Vec<u8>> {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: replica\r\nContent-Length: 0\r\n\r\n";
    let mut all: Vec<Vec<u8>> = Vec::new();
    for said in stops.iter().filter_map(write).filter(|said| said.len() <= REPLICA_MARK_BYTES_MAX) {
        match all.last_mut() {
            Some(last) if last.len() + said.len() <= REPLICA_MARK_BYTES_MAX => last.extend(said),
            _ => all.push(said),
        }
    }
    all.iter().filter_map(|said| add(HEAD, (Kind::Stops, now), said, secret.key())).collect()
}

fn write(run: &KeptRun) -> Option<Vec<u8>> {
    let Stopped { at, step, why } = run.stopped.as_ref()?;
    let [began, at] = [run.began, *at].map(|time| (time.as_nanos() as u64).to_be_bytes());
    let step = u32::try_from(*step).ok()?.to_be_bytes();
    let mut out = Vec::new();
    for one in [run.name.as_bytes(), run.run.as_bytes(), &began, &at, &step, why.as_bytes()] {
        part(one, &mut out);
    }
    Some(out)
}

/// Reads the stops of a message. None if one cannot be read: none of them counts then.
pub(crate) fn read_stops(said: &[u8]) -> Option<Vec<KeptRun>> {
    let text = |bytes: &[u8]| str::from_utf8(bytes).ok().map(Into::into);
    let time = |bytes: &[u8]| Some(Duration::from_nanos(u64::from_be_bytes(bytes.try_into().ok()?)));
    let stop = |stop: &[&[u8]]| {
        let [name, run, began, at, step, why] = stop else { return None };
        let step = u32::from_be_bytes((*step).try_into().ok()?) as usize;
        let stopped = Stopped { at: time(at)?, step, why: text(why)? };
        Some(KeptRun { name: text(name)?, run: text(run)?, began: time(began)?, stopped: Some(stopped) })
    };
    parts(said)?.chunks(PARTS).map(stop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(name: &str, why: &str) -> KeptRun {
        let stopped = Stopped { at: Duration::from_millis(1_800_000_060_500), step: 1, why: why.into() };
        KeptRun {
            name: name.into(),
            run: "5%,100% 1".into(),
            began: Duration::from_secs(1_800_000_000),
            stopped: Some(stopped),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let stops = [stop("a/web", "it fails"), stop("b/web", "")];
        let said: Vec<u8> = stops.iter().filter_map(write).flatten().collect();
        assert_eq!(read_stops(&said).as_deref(), Some(&stops[..]));
        assert_eq!(read_stops(&said[..said.len() - 1]), None);
        assert_eq!(write(&KeptRun { stopped: None, ..stop("a/web", "") }), None);
    }

    #[test]
    fn many_stops_take_several_requests() {
        let secret = ReplicaSecret::new(b"of all", None);
        let why = "x".repeat(REPLICA_MARK_BYTES_MAX / 3);
        let stops = [stop("a/1", &why), stop("a/2", &why), stop("a/3", &why)];
        assert_eq!(requests(&stops, 1, &secret).len(), 2);
        assert_eq!(requests(&[], 1, &secret).len(), 0);
        let long = stop("a/4", &"x".repeat(REPLICA_MARK_BYTES_MAX));
        assert_eq!(requests(&[long], 1, &secret).len(), 0);
    }
}
