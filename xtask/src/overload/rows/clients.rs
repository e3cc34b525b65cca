//! Clients that matter more than others, or ask for more than others, or are slow.
//!
//! Must not be in here: endpoints that are worse than others.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{ENDPOINTS, WORK, addresses, at_most, capacity, milliseconds, percent, ratio, stream, times};
use crate::child::free_address;
use crate::machine::connections_at;
use crate::overload::Findings;
use crate::overload::endpoint::{Endpoint, Work};
use crate::overload::load::{Clients, Order, Plan, Stream};
use crate::overload::records::Records;
use crate::overload::site::{HOST, Peer, Proxy, Setup, Site, believed};
use crate::overload::slow;

const WARM_UP: Duration = Duration::from_secs(1);
const QUIET: f64 = 0.5;
/// What is shorter than that is only tried.
const TRIED: Duration = Duration::from_secs(10);

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
    const OTHERS: Clients =
        Clients { first: Ipv4Addr::new(10, 1, 0, 0), count: 1000, order: Order::AtRandom };
    const GREEDY: Clients = Clients { first: Ipv4Addr::new(10, 2, 0, 1), count: 1, order: Order::AtRandom };
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

/// Both Forebays get the same requests at the same time on the same CPU, so that what else the machine does hits both alike.
pub(super) fn abusive(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const COUNT: u32 = 100_000;
    /// So often in a row that a sketch notices who asks.
    const IN_A_ROW: u32 = 5;
    const CLIENTS: Clients =
        Clients { first: Ipv4Addr::new(10, 64, 0, 0), count: COUNT, order: Order::InTurn(IN_A_ROW) };
    const RATE: f64 = 5000.0;
    const MODES: [&str; 2] = ["off", "enforce"];
    let peer = *peers.first().context("there is only Forebay for this")?;
    // As long as it takes all of them, unless it is only tried.
    let whole = f64::from(COUNT * IN_A_ROW) / RATE;
    let time = if site.time < TRIED { site.time } else { Duration::from_secs_f64(whole) };
    let endpoint = Endpoint::start(site, "endpoint", WORK)?;
    let addresses = [endpoint.address];
    let start = |mode: &str| {
        let mut settings = believed();
        settings.push(("forebay-abuse", mode.into()));
        let setup = Setup { settings, ..Setup::to(&addresses, WORK.parallel) };
        peer.start_as(site, &setup, &format!("forebay-abuse-{mode}"), free_address()?)
    };
    let proxies = MODES.map(start).into_iter().collect::<Result<Vec<_>>>()?;
    // What is asked for is not there, so that nothing but Forebay costs anything.
    let absent = |proxy: usize, from: Duration, until: Duration, clients: Option<Clients>| Stream {
        host: "absent.test.com".into(),
        clients,
        proxy,
        ..stream(RATE, from, until)
    };
    let end = WARM_UP + time;
    let streams = (0..MODES.len()).flat_map(|proxy| {
        [absent(proxy, Duration::ZERO, WARM_UP, None), absent(proxy, WARM_UP, end, Some(CLIENTS))]
    });
    let asked = proxies.iter().map(|proxy| proxy.address).collect();
    let load = Plan { proxies: asked, streams: streams.collect(), seed: 6 }.start(&site.cpus.load)?;
    load.sleep_until(WARM_UP);
    let before = proxies.iter().map(cpu_used).collect::<Result<Vec<_>>>()?;
    load.sleep_until(end);
    let after = proxies.iter().map(cpu_used).collect::<Result<Vec<_>>>()?;
    let mut tables = Vec::new();
    for proxy in &proxies {
        let figures = ["forebay_abuse_clients", "forebay_abuse_table_bytes"].map(|name| proxy.metric(name));
        tables.push(figures.into_iter().collect::<Result<Vec<_>>>()?);
    }
    let records = load.finish()?;
    site.interrupt.check()?;
    let headings = ["requests", "CPU us / request", "clients in the table", "table MB", "resident MB"];
    let mut findings = Findings::with(&headings);
    let mut costs = Vec::new();
    for (number, proxy) in proxies.iter().enumerate() {
        let requests = records.of(2 * number + 1).len();
        let cost = after[number].saturating_sub(before[number]).as_secs_f64() * 1e6 / requests.max(1) as f64;
        let resident = proxy.program.resident_bytes()? as f64;
        let [clients, table] = tables[number][..] else { unreachable!("two figures") };
        costs.push(cost);
        findings.row(
            format!("forebay-abuse: {}", MODES[number]),
            vec![
                requests.to_string(),
                format!("{cost:.1}"),
                format!("{clients:.0}"),
                megabytes(table),
                megabytes(resident),
            ],
        );
    }
    let (clients, table) = (tables[1][0], tables[1][1]);
    findings.goal("a table with clients in it takes at most 16 MB", clients > 0.0 && table <= 16e6);
    findings.goal("a request costs at most 3 % more", costs[1] <= 1.03 * costs[0]);
    Ok(findings)
}

fn cpu_used(proxy: &Proxy) -> Result<Duration> {
    let cpu = proxy.program.cpu_time()?;
    Ok(cpu.user() + cpu.system())
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

pub(super) fn slow_clients(site: &Site, peers: &[Peer]) -> Result<Findings> {
    const MANY: usize = 10_000;
    /// Where a situation is only tried.
    const SOME: usize = 1000;
    /// Requests of slow clients, too, are answered: that is not to be what others wait for.
    const ROOMY: Work = Work { parallel: 512, service_us: 20_000, burn_us: 0 };
    let count = if site.time < TRIED { SOME } else { MANY };
    let opening = slow::opening(count);
    let mut findings = Findings::with(&[
        "others' p99 ms",
        "quiet p99 ms",
        "p99 / quiet",
        "others failed %",
        "memory MB",
        "connections then",
        "at the end",
    ]);
    for peer in peers {
        eprintln!("  {}", peer.name());
        let endpoints = Endpoint::start_many(site, ENDPOINTS, ROOMY)?;
        let addresses = addresses(&endpoints);
        let proxy = peer.start(site, &Setup::to(&addresses, ROOMY.parallel))?;
        let halves = Halves::of(site);
        let end = halves.end + opening;
        let streams = vec![stream(QUIET * capacity(), Duration::ZERO, end)];
        let plan = Plan { proxies: vec![proxy.address], streams, seed: 7 };
        let load = plan.start(&site.cpus.load)?;
        load.sleep_until(halves.quiet_end);
        let slow = slow::start(site, proxy.address, HOST, count)?;
        load.sleep_until(halves.quiet_end + opening);
        let opened = connections_at(proxy.address.port())?;
        load.sleep_until(end);
        let memory = proxy.program.resident_bytes()? as f64 / f64::from(1 << 20);
        let left = connections_at(proxy.address.port())?;
        let records = load.finish()?;
        drop(slow);
        site.interrupt.check()?;
        let (quiet, loud) = (halves.quiet(&records), records.between(halves.quiet_end + opening, end));
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
                left.to_string(),
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
