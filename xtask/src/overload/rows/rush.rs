//! More is asked for than can be done, and then no more.
//!
//! Must not be in here: which client asks.

use std::time::Duration;

use anyhow::Result;

use super::{ENDPOINTS, WORK, addresses, at_most, capacity, milliseconds, percent, ratio, stream, times};
use crate::overload::Findings;
use crate::overload::endpoint::Endpoint;
use crate::overload::load::Plan;
use crate::overload::records::Records;
use crate::overload::site::{Peer, Setup, Site};

/// Time without load of note, before which nothing is measured, and after the rush.
const WARM_UP: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(10);
/// How often a request comes before and after, and in the rush.
const QUIET: f64 = 0.5;
const RUSH: f64 = 5.0;

/// What came of a rush through one proxy.
struct Rushed {
    records: Records,
    begin: Duration,
    end: Duration,
}

impl Rushed {
    fn unloaded_p99(&self) -> Option<f64> {
        self.records.between(WARM_UP, self.begin).p99_ms()
    }

    fn in_rush(&self) -> Records {
        self.records.between(self.begin, self.end)
    }
}

pub(super) fn rush(site: &Site, peers: &[Peer]) -> Result<Findings> {
    let headings = ["goodput / R", "refused %", "p99 ms", "unloaded p99 ms", "p99 / unloaded"];
    let mut findings = Findings::with(&headings);
    for peer in peers {
        let rushed = rush_of(site, *peer, site.time, Duration::ZERO)?;
        let (records, unloaded) = (rushed.in_rush(), rushed.unloaded_p99());
        let goodput =
            records.good() as f64 / rushed.end.saturating_sub(rushed.begin).as_secs_f64() / capacity();
        let compared = ratio(records.p99_ms(), unloaded);
        let refused = records.refused() as f64 / records.len().max(1) as f64;
        findings.row(
            peer.name(),
            vec![
                format!("{goodput:.2}"),
                percent(refused),
                milliseconds(records.p99_ms()),
                milliseconds(unloaded),
                times(compared),
            ],
        );
        if *peer == Peer::Forebay {
            findings.goal("goodput at least 0.95 R", goodput >= 0.95);
            findings.goal("p99 of what is answered well at most 2.5 of the unloaded", at_most(compared, 2.5));
        }
    }
    Ok(findings)
}

pub(super) fn after(site: &Site, peers: &[Peer]) -> Result<Findings> {
    let mut findings = Findings::with(&["seconds until well", "failed after %"]);
    for peer in peers {
        let rushed = rush_of(site, *peer, site.time.min(AFTER), AFTER)?;
        let end = rushed.end + AFTER;
        let limit = rushed.unloaded_p99().unwrap_or(0.0) * 1.3;
        let recovery = rushed.records.recovery(rushed.end, end, limit);
        let shown = recovery
            .map_or_else(|| format!("over {}", AFTER.as_secs()), |time| format!("{:.2}", time.as_secs_f64()));
        findings
            .row(peer.name(), vec![shown, percent(rushed.records.between(rushed.end, end).failed_share())]);
        if *peer == Peer::Forebay {
            let met = recovery.is_some_and(|time| time <= Duration::from_secs(1));
            findings.goal("p99 back within 1.3 of the unloaded after at most 1 s", met);
        }
    }
    Ok(findings)
}

fn rush_of(site: &Site, peer: Peer, time: Duration, after: Duration) -> Result<Rushed> {
    eprintln!("  {}", peer.name());
    let endpoints = Endpoint::start_many(site, ENDPOINTS, WORK)?;
    let addresses = addresses(&endpoints);
    let proxy = peer.start(site, &Setup::to(&addresses, WORK.parallel))?;
    let begin = WARM_UP + time.div_f64(3.0).max(Duration::from_secs(2));
    let end = begin + time;
    let streams = vec![
        stream(QUIET * capacity(), Duration::ZERO, end + after),
        stream((RUSH - QUIET) * capacity(), begin, end),
    ];
    let plan = Plan { proxies: vec![proxy.address], streams, seed: 1 };
    let records = plan.start(&site.cpus.load)?.finish()?;
    site.interrupt.check()?;
    Ok(Rushed { records, begin, end })
}
