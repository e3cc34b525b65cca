//! One of several endpoints is worse than the others.
//!
//! Must not be in here: more load than the others can take.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{ENDPOINTS, WORK, addresses, at_most, capacity, milliseconds, percent, ratio, stream, times};
use crate::overload::Findings;
use crate::overload::endpoint::{Endpoint, Work, share, taken};
use crate::overload::load::Plan;
use crate::overload::site::{Peer, Setup, Site};

const WARM_UP: Duration = Duration::from_secs(2);
/// Time in which a proxy finds out.
const GRACE: Duration = Duration::from_secs(2);
/// Time in which the endpoint has to be back, and how often that is looked at.
const BACK_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);

pub(super) fn slow_one(site: &Site, peers: &[Peer]) -> Result<Findings> {
    one_is_worse(site, peers, |endpoint| endpoint.be_slow(20))
}

pub(super) fn failing_one(site: &Site, peers: &[Peer]) -> Result<Findings> {
    one_is_worse(site, peers, Endpoint::fail)
}

fn one_is_worse(site: &Site, peers: &[Peer], worsen: fn(&Endpoint) -> Result<()>) -> Result<Findings> {
    let mut findings =
        Findings::with(&["its share after 2 s %", "failed requests %", "p99 ms", "back after s"]);
    for peer in peers {
        eprintln!("  {}", peer.name());
        let endpoints = Endpoint::start_many(site, ENDPOINTS, WORK)?;
        let proxy = peer.start(site, &Setup::to(&addresses(&endpoints), WORK.parallel))?;
        let well = WARM_UP + GRACE + site.time;
        let end = well + BACK_MAX;
        let streams = vec![stream(0.5 * capacity(), Duration::ZERO, end)];
        let plan = Plan { proxies: vec![proxy.address], streams, seed: 2 };
        let load = plan.start(&site.cpus.load)?;
        load.sleep_until(WARM_UP);
        worsen(&endpoints[0])?;
        load.sleep_until(WARM_UP + GRACE);
        let before = taken(&endpoints)?;
        load.sleep_until(well);
        let its_share = share(&before, &taken(&endpoints)?, 0);
        endpoints[0].be_well()?;
        let back = await_share(site, &endpoints)?;
        let records = load.finish()?;
        // From the moment on at which it became worse: what is lost until that is found out counts.
        let worse = records.between(WARM_UP, well);
        let shown = back.map_or_else(|| "-".into(), |time| format!("{:.1}", time.as_secs_f64()));
        let failed = worse.failed_share();
        findings
            .row(peer.name(), vec![percent(its_share), percent(failed), milliseconds(worse.p99_ms()), shown]);
        if *peer == Peer::Forebay {
            findings.goal("after 2 s it has at most 3 % of requests", its_share <= 0.03);
            findings.goal("failed requests at most 0.5 %", failed <= 0.005);
            findings.goal("it returns within 10 s of being well", back.is_some());
        }
    }
    Ok(findings)
}

/// The time until the first endpoint has at least half of its part again; none where that takes too long.
fn await_share(site: &Site, endpoints: &[Endpoint]) -> Result<Option<Duration>> {
    let begin = Instant::now();
    let mut before = taken(endpoints)?;
    while begin.elapsed() < BACK_MAX {
        site.interrupt.check()?;
        thread::sleep(LOOK);
        let after = taken(endpoints)?;
        if share(&before, &after, 0) >= 0.5 / endpoints.len() as f64 {
            return Ok(Some(begin.elapsed()));
        }
        before = after;
    }
    Ok(None)
}

pub(super) fn throttled(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const BURNING: Work = Work { parallel: 64, service_us: 1000, burn_us: 2000 };
    const RATE: f64 = 190.0;
    let mut findings =
        Findings::with(&["p99 ms", "its share %", "failed %", "p99 / round robin without limits"]);
    let mut without_limits = None;
    for peer in peers {
        eprintln!("  {}", peer.name());
        let mut endpoints = Endpoint::start_many(site, ENDPOINTS, BURNING)?;
        endpoints[0]
            .hold(Duration::from_millis(10), Duration::from_millis(100))
            .context("no cgroup can be made for an endpoint")?;
        let addresses = addresses(&endpoints);
        let mut setup = Setup::to(&addresses, BURNING.parallel);
        if *peer == Peer::ForebayOff {
            setup.settings.push(("load-balance", "round_robin".into()));
        }
        let proxy = peer.start(site, &setup)?;
        let end = WARM_UP + GRACE + site.time;
        let streams = vec![stream(RATE, Duration::ZERO, end)];
        let plan = Plan { proxies: vec![proxy.address], streams, seed: 3 };
        let load = plan.start(&site.cpus.load)?;
        load.sleep_until(WARM_UP + GRACE);
        let before = taken(&endpoints)?;
        let records = load.finish()?.between(WARM_UP + GRACE, end);
        let its_share = share(&before, &taken(&endpoints)?, 0);
        let p99 = records.p99_ms();
        if *peer == Peer::ForebayOff {
            without_limits = p99;
        }
        let compared = ratio(p99, without_limits);
        let failed = percent(records.failed_share());
        findings.row(peer.name(), vec![milliseconds(p99), percent(its_share), failed, times(compared)]);
        if *peer == Peer::Forebay {
            let goal = "p99 at most half of what round robin without limits gives";
            findings.goal(goal, at_most(compared, 0.5) && records.failed_share() <= 0.005);
        }
    }
    Ok(findings)
}
