//! Clients that matter more than others, or ask for more than others, or are slow.
//!
//! Must not be in here: endpoints that are worse than others.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{ENDPOINTS, WORK, addresses, at_most, capacity, milliseconds, percent, ratio, stream, times};
use crate::overload::Findings;
use crate::overload::endpoint::{Endpoint, Work};
use crate::overload::load::{Clients, Plan, Stream};
use crate::overload::records::Records;
use crate::overload::site::{HOST, Peer, Proxy, Setup, Site, believed};
use crate::overload::slow::SlowClients;

const WARM_UP: Duration = Duration::from_secs(1);
const QUIET: f64 = 0.5;

/// A time in which only some clients come, and one in which all do.
struct Halves {
    quiet_end: Duration,
    end: Duration,
}

impl Halves {
    fn of(site: &Site) -> Halves {
        let quiet_end = WARM_UP + site.time.div_f64(3.0).max(Duration::from_secs(2));
        Halves { quiet_end, end: quiet_end + site.time }
    }

    fn quiet(&self, records: &Records) -> Records {
        records.between(WARM_UP, self.quiet_end)
    }

    fn loud(&self, records: &Records) -> Records {
        records.between(self.quiet_end, self.end)
    }
}

fn run(site: &Site, proxy: &Proxy, streams: Vec<Stream>, seed: u64) -> Result<Records> {
    let plan = Plan { proxies: vec![proxy.address], streams, seed };
    let records = plan.start(&site.cpus.load)?.finish()?;
    site.interrupt.check()?;
    Ok(records)
}

pub(super) fn priorities(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const CRITICAL: &str = "critical.test.com";
    const SHEDDABLE: &str = "sheddable.test.com";
    let headings = [
        "critical refused",
        "critical p99 ms",
        "p99 / unloaded",
        "sheddable good / s",
        "sheddable refused %",
    ];
    let mut findings = Findings::with(&headings);
    for peer in peers {
        eprintln!("  {}", peer.name());
        let endpoints = Endpoint::start_many(site, ENDPOINTS, WORK)?;
        let addresses = addresses(&endpoints);
        let of = |priority: &str| vec![("forebay.io/priority", priority.to_owned())];
        let hosts = vec![(CRITICAL, of("critical")), (SHEDDABLE, of("sheddable"))];
        let proxy = peer.start(site, &Setup { hosts, ..Setup::to(&addresses, WORK.parallel) })?;
        let halves = Halves::of(site);
        let critical =
            Stream { host: CRITICAL.into(), ..stream(QUIET * capacity(), Duration::ZERO, halves.end) };
        let sheddable =
            Stream { host: SHEDDABLE.into(), ..stream(4.5 * capacity(), halves.quiet_end, halves.end) };
        let records = run(site, &proxy, vec![critical, sheddable], 4)?;
        let unloaded = halves.quiet(&records).of(0).p99_ms();
        let (critical, sheddable) = (halves.loud(&records).of(0), halves.loud(&records).of(1));
        let compared = ratio(critical.p99_ms(), unloaded);
        let good = sheddable.good() as f64 / site.time.as_secs_f64();
        let refused = sheddable.refused() as f64 / sheddable.len().max(1) as f64;
        findings.row(
            peer.name(),
            vec![
                critical.refused().to_string(),
                milliseconds(critical.p99_ms()),
                times(compared),
                format!("{good:.0}"),
                percent(refused),
            ],
        );
        if *peer == Peer::Forebay {
            let all_served = critical.refused() == 0 && critical.good() == critical.len();
            findings.goal("critical: 0 shed, and all answered well", all_served);
            findings.goal("critical: p99 at most 1.5 of the unloaded", at_most(compared, 1.5));
        }
    }
    Ok(findings)
}

pub(super) fn greedy(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const OTHERS: Clients = Clients { first: Ipv4Addr::new(10, 1, 0, 0), count: 1000 };
    const GREEDY: Clients = Clients { first: Ipv4Addr::new(10, 2, 0, 1), count: 1 };
    let of_others = 0.95 * capacity();
    let headings = ["others' p99 ms", "quiet p99 ms", "p99 / quiet", "others refused", "greedy refused %"];
    let mut findings = Findings::with(&headings);
    for peer in peers {
        eprintln!("  {}", peer.name());
        let endpoints = Endpoint::start_many(site, ENDPOINTS, WORK)?;
        let addresses = addresses(&endpoints);
        let proxy =
            peer.start(site, &Setup { settings: believed(), ..Setup::to(&addresses, WORK.parallel) })?;
        let halves = Halves::of(site);
        let others = Stream { clients: Some(OTHERS), ..stream(of_others, Duration::ZERO, halves.end) };
        let greedy = Stream {
            clients: Some(GREEDY),
            ..stream(100.0 * of_others / f64::from(OTHERS.count), halves.quiet_end, halves.end)
        };
        let records = run(site, &proxy, vec![others, greedy], 5)?;
        let quiet = halves.quiet(&records).p99_ms();
        let (others, greedy) = (halves.loud(&records).of(0), halves.loud(&records).of(1));
        let compared = ratio(others.p99_ms(), quiet);
        let refused = percent(greedy.refused() as f64 / greedy.len().max(1) as f64);
        findings.row(
            peer.name(),
            vec![
                milliseconds(others.p99_ms()),
                milliseconds(quiet),
                times(compared),
                others.refused().to_string(),
                refused,
            ],
        );
        if *peer == Peer::Forebay {
            findings.goal("the others' p99 at most 1.2 of quiet", at_most(compared, 1.2));
            findings.goal("0 of the others refused", others.refused() == 0);
        }
    }
    Ok(findings)
}

pub(super) fn abusive(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const CLIENTS: Clients = Clients { first: Ipv4Addr::new(10, 64, 0, 0), count: 100_000 };
    const RATE: f64 = 4000.0;
    let mut findings = Findings::with(&["CPU us / request", "memory grew MB", "requests"]);
    let peer = *peers.first().context("there is only Forebay for this")?;
    let mut figures = Vec::new();
    for mode in ["off", "watch"] {
        eprintln!("  forebay-abuse: {mode}");
        let endpoint = Endpoint::start(site, "endpoint", WORK)?;
        let mut setup = Setup { settings: believed(), ..Setup::to(&[], WORK.parallel) };
        let addresses = [endpoint.address];
        setup.endpoints = &addresses;
        setup.settings.push(("forebay-abuse", mode.into()));
        let proxy = peer.start(site, &setup)?;
        // What is asked for is not there, so that nothing but Forebay costs anything.
        let absent = Stream {
            host: "absent.test.com".into(),
            clients: Some(CLIENTS),
            ..stream(RATE, Duration::ZERO, site.time)
        };
        let warm = Stream { until: WARM_UP, clients: None, ..absent.clone() };
        run(site, &proxy, vec![warm], 6)?;
        let (cpu, memory) = (proxy.program.cpu_time()?, proxy.program.resident_bytes()?);
        let records = run(site, &proxy, vec![absent], 6)?;
        let used = proxy.program.cpu_time()? - cpu;
        let used = (used.user() + used.system()).as_secs_f64() * 1e6 / records.len().max(1) as f64;
        let grew = proxy.program.resident_bytes()?.saturating_sub(memory) as f64 / f64::from(1 << 20);
        figures.push((used, grew));
        findings.row(
            format!("forebay-abuse: {mode}"),
            vec![format!("{used:.1}"), format!("{grew:.1}"), records.len().to_string()],
        );
    }
    let [(cpu_off, memory_off), (cpu_on, memory_on)] = figures[..] else { return Ok(findings) };
    findings.goal("the table takes at most 16 MB", memory_on - memory_off <= 16.0);
    findings.goal("a request costs at most 3 % more", cpu_on <= 1.03 * cpu_off);
    Ok(findings)
}

pub(super) fn slow_clients(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const MANY: usize = 10_000;
    /// Where a situation is only tried.
    const SOME: usize = 1000;
    /// Requests of slow clients, too, are answered: that is not to be what others wait for.
    const ROOMY: Work = Work { parallel: 512, service_us: 20_000, burn_us: 0 };
    const OPENING: Duration = Duration::from_secs(4);
    let count = if site.time < Duration::from_secs(10) { SOME } else { MANY };
    let mut findings = Findings::with(&[
        "others' p99 ms",
        "quiet p99 ms",
        "p99 / quiet",
        "others failed %",
        "memory MB",
        "slow connections",
    ]);
    for peer in peers {
        eprintln!("  {}", peer.name());
        let endpoints = Endpoint::start_many(site, ENDPOINTS, ROOMY)?;
        let addresses = addresses(&endpoints);
        let proxy = peer.start(site, &Setup::to(&addresses, ROOMY.parallel))?;
        let halves = Halves::of(site);
        let end = halves.end + OPENING;
        let streams = vec![stream(QUIET * capacity(), Duration::ZERO, end)];
        let plan = Plan { proxies: vec![proxy.address], streams, seed: 7 };
        let load = plan.start(&site.cpus.load)?;
        load.sleep_until(halves.quiet_end);
        let slow = SlowClients::start(proxy.address, HOST, count, &site.cpus.load)?;
        load.sleep_until(end);
        let memory = proxy.program.resident_bytes()? as f64 / f64::from(1 << 20);
        let opened = slow.finish()?;
        let records = load.finish()?;
        site.interrupt.check()?;
        let (quiet, loud) = (halves.quiet(&records), records.between(halves.quiet_end + OPENING, end));
        let compared = ratio(loud.p99_ms(), quiet.p99_ms());
        findings.row(
            peer.name(),
            vec![
                milliseconds(loud.p99_ms()),
                milliseconds(quiet.p99_ms()),
                times(compared),
                percent(loud.failed_share()),
                format!("{memory:.0}"),
                opened.to_string(),
            ],
        );
        if *peer == Peer::Forebay {
            findings.goal("the others' p99 at most 1.2 of quiet", at_most(compared, 1.2));
            findings.goal("memory at most 512 MB", memory <= 512.0);
        }
        // What the slow ones have left behind is not the next one's.
        drop(proxy);
        thread::sleep(WARM_UP);
    }
    Ok(findings)
}
