//! Reports about endpoints between replicas, so that each endpoint is checked by one of them: their encoding
//! in a mark, and the task that sends them.
//!
//! A report is 21 bytes: the identity of the endpoint, a byte of flags, and for how many milliseconds its
//! checks have passed. Each replica reports in each interval all endpoints that it checks, so a report that
//! is lost, late or repeated does no harm.
//!
//! Never in here: what follows from a report, which is `upstream::checks`'s.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use clock::Moment;

use super::mark::{Kind, add};
use super::members::others;
use super::peers::ReplicaSecret;
use super::tell::Delivery;
use crate::limits::{HEALTH_REPORT_TIME_MAX, REPLICA_MARK_BYTES_MAX};
use crate::upstream::checks::{CheckId, Members, Report, Together};
use crate::worker::{Worker, WorkerConfig};

const ID_BYTES: usize = 16;
const REPORT_BYTES: usize = ID_BYTES + 1 + 4;

/// The endpoint fails its checks.
const OUT: u8 = 1;
/// Its last checks have passed; the time follows.
const PASSING: u8 = 2;
/// It has failed a check of a replica that does not check it for all.
const DOUBT: u8 = 4;

/// The replicas of a configuration, this one included; none where nothing is shared.
pub(crate) fn members(worker: &Worker, config: &WorkerConfig) -> Members {
    let Some(replicas) = config.settings().replicas.as_ref().filter(|_| worker.peers.secret().is_some())
    else {
        return Members::default();
    };
    let mut all: Vec<_> = others(worker, config).map(|other| other.address.ip()).collect();
    all.push(replicas.own);
    all.sort_unstable();
    all.dedup();
    Members { own: Some(replicas.own), all: all.into() }
}

/// Sends reports about endpoints to the other replicas, until this is dropped.
pub(crate) async fn report_checks(worker: Rc<Worker>) {
    if !worker.is_first() || worker.peers.secret().is_none() {
        return;
    }
    // A replica that is slow gets the reports of its next turn.
    let busy: Rc<RefCell<HashSet<IpAddr>>> = Rc::default();
    loop {
        await_due(&worker.pool.board().together, || worker.clock.now()).await;
        let Some(secret) = worker.peers.secret() else { return };
        let reports = worker.pool.board().together.take();
        let requests: Rc<[Vec<u8>]> = requests(&reports, worker.clock.unix().as_secs(), secret).into();
        for replica in others(&worker, &worker.config()) {
            let address = replica.address.ip();
            if !busy.borrow_mut().insert(address) {
                continue;
            }
            let delivery = Delivery {
                worker: Rc::clone(&worker),
                replica: Rc::clone(replica),
                requests: Rc::clone(&requests),
            };
            let busy = Rc::clone(&busy);
            reactor::spawn_detached(async move {
                if !delivery.send(HEALTH_REPORT_TIME_MAX).await {
                    tracing::debug!(replica = %address, "reports about endpoints have not arrived");
                }
                busy.borrow_mut().remove(&address);
            });
        }
    }
}

/// Waits until reports have to be sent.
async fn await_due(together: &Together, now: impl Fn() -> Moment) {
    loop {
        let Some(due) = together.due() else {
            together.changed().await;
            continue;
        };
        let pause = due.since(now());
        if pause.is_zero() {
            return;
        }
        tokio::select! {
            () = together.changed() => {}
            () = reactor::sleep(pause) => {}
        }
    }
}

/// Requests that carry reports to another replica, each with as many as a mark takes.
fn requests(reports: &[(CheckId, Report)], now: u64, secret: &ReplicaSecret) -> Vec<Vec<u8>> {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: replica\r\nContent-Length: 0\r\n\r\n";
    let pieces = reports.chunks(REPLICA_MARK_BYTES_MAX / REPORT_BYTES);
    let request = |piece: &[(CheckId, Report)]| {
        let said: Vec<u8> = piece.iter().flat_map(|(id, report)| write(*id, *report)).collect();
        add(HEAD, (Kind::Checks, now), &said, secret.key())
    };
    pieces.filter_map(request).collect()
}

fn write(id: CheckId, report: Report) -> [u8; REPORT_BYTES] {
    let (flags, millis) = match report {
        Report::State { is_out, passing } => {
            let millis = passing.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
            (u8::from(is_out) * OUT + u8::from(millis.is_some()) * PASSING, millis.unwrap_or(0))
        }
        Report::Doubt => (DOUBT, 0),
    };
    let mut out = [0; REPORT_BYTES];
    out[..ID_BYTES].copy_from_slice(&id.0.to_be_bytes());
    out[ID_BYTES] = flags;
    out[ID_BYTES + 1..].copy_from_slice(&millis.to_be_bytes());
    out
}

/// Reads the reports of a message. None if one cannot be read: none of them counts then.
pub(crate) fn read_reports(said: &[u8]) -> Option<Vec<(CheckId, Report)>> {
    let (reports, []) = said.as_chunks::<REPORT_BYTES>() else { return None };
    reports.iter().map(read).collect()
}

fn read(bytes: &[u8; REPORT_BYTES]) -> Option<(CheckId, Report)> {
    let (id, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
    let (&flags, millis) = rest.split_first()?;
    let millis = u32::from_be_bytes(millis.try_into().ok()?);
    let report = match flags {
        DOUBT => Report::Doubt,
        0..=3 => {
            let passing = (flags & PASSING > 0).then(|| Duration::from_millis(u64::from(millis)));
            Report::State { is_out: flags & OUT > 0, passing }
        }
        _ => return None,
    };
    Some((CheckId(u128::from_be_bytes(*id)), report))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports() -> Vec<(CheckId, Report)> {
        let passing = Some(Duration::from_millis(12_345));
        [
            Report::State { is_out: false, passing },
            Report::State { is_out: true, passing: None },
            Report::State { is_out: true, passing },
            Report::Doubt,
        ]
        .into_iter()
        .enumerate()
        .map(|(number, report)| (CheckId(u128::MAX - number as u128), report))
        .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let said: Vec<u8> = reports().iter().flat_map(|(id, report)| write(*id, *report)).collect();
        assert_eq!(read_reports(&said), Some(reports()));
        assert_eq!(read_reports(&said[..said.len() - 1]), None);
        assert_eq!(read_reports(&[]), Some(Vec::new()));
        let (id, report) = reports()[0];
        let mut unknown = write(id, report);
        unknown[ID_BYTES] = 8;
        assert_eq!(read_reports(&unknown), None);
    }

    #[test]
    fn a_thousand_reports_take_some_requests() {
        let secret = ReplicaSecret::new(b"of all", None);
        let many: Vec<_> = (0..1000).map(|number| (CheckId(number), Report::Doubt)).collect();
        let requests = requests(&many, 1, &secret);
        assert_eq!(requests.len(), 1000_usize.div_ceil(REPLICA_MARK_BYTES_MAX / REPORT_BYTES));
        assert!(requests.iter().all(|request| request.len() < 2 * REPLICA_MARK_BYTES_MAX));
    }
}
