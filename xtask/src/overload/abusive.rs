//! A Forebay with the table of clients and one without, under requests of very many clients.
//!
//! Must not be in here: situations of one proxy.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};

use super::endpoint::{Endpoint, Work};
use super::load::{Clients, Order, Plan, Stream};
use super::site::{Peer, Proxy, Setup, Site};
use super::situation::Situation;
use crate::child::free_address;
use crate::measured::Findings;

const WARM_UP: Duration = Duration::from_secs(1);
/// A shorter run only tries the situation.
const TRIED: Duration = Duration::from_secs(10);
const COUNT: u32 = 100_000;
/// So often in a row that a sketch notices the client.
const IN_A_ROW: u32 = 5;
const CLIENTS: Clients =
    Clients { first: Ipv4Addr::new(10, 64, 0, 0), count: COUNT, order: Order::InTurn(IN_A_ROW) };
const RATE: f64 = 5000.0;
const MODES: [&str; 2] = ["off", "enforce"];

/// Both Forebays get the same requests at the same time on the same CPU, so that what else the machine does
/// hits both alike.
pub(super) fn run(site: &Site, situation: &Situation, peers: &[Peer]) -> Result<Findings> {
    let peer = *peers.first().context("there is only Forebay for this")?;
    let work = Work::default();
    // As long as it takes all of them, unless it is only tried.
    let whole = f64::from(COUNT * IN_A_ROW) / RATE;
    let time = if site.time < TRIED { site.time } else { Duration::from_secs_f64(whole) };
    let endpoint = Endpoint::start(site, "endpoint", work)?;
    let start = |mode: &str| {
        let mut settings = situation.settings.clone();
        settings.insert("forebay-abuse".into(), mode.into());
        let setup = Setup { settings, ..Setup::to(&[endpoint.address], work.parallel) };
        peer.start_as(site, &setup, &format!("forebay-abuse-{mode}"), free_address()?)
    };
    let proxies = MODES.map(start).into_iter().collect::<Result<Vec<_>>>()?;
    // The host does not exist, so that nothing but Forebay costs anything.
    let absent = |proxy: usize, from: Duration, until: Duration, clients: Option<Clients>| Stream {
        host: "absent.test.com".into(),
        path: "/".into(),
        rate: RATE,
        from,
        until,
        clients,
        proxy,
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
    let mut findings = Findings::with(headings);
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
