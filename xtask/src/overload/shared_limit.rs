//! Several replicas of Forebay, which keep one limit together.
//!
//! Must not be in here: limits of one replica.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::endpoint::{Endpoint, Work};
use super::load::{Plan, Stream};
use super::site::{HOST, Peer, Proxy, Setup, Site, write};
use crate::measured::Findings;

const REPLICAS: u8 = 3;
const ALLOWED: f64 = 1000.0;
/// The rate at each replica, while there are three.
const OFFERED: f64 = 600.0;
const WARM_UP: Duration = Duration::from_secs(2);
/// A capacity far above the limit.
const ROOMY: Work = Work { parallel: 128, service_us: 1000, burn_us: 0 };

pub(super) fn run(site: &Site, peers: &[Peer]) -> Result<Findings> {
    let peer = *peers.first().context("there is only Forebay for this")?;
    let endpoint = Endpoint::start(site, "endpoint", ROOMY)?;
    let mut replicas = start(site, peer, endpoint.address)?;
    let proxies: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
    let (death, end) = (WARM_UP + site.time / 2, WARM_UP + site.time);
    let plan = Plan { proxies, streams: streams(death, end), seed: 8 };
    let load = plan.start(&site.cpus.load)?;
    load.sleep_until(WARM_UP);
    check_that_they_hear(&replicas)?;
    load.sleep_until(death);
    replicas.pop().context("there are three")?.program.kill();
    let records = load.finish()?;
    site.interrupt.check()?;
    let mut findings = Findings::with(["admitted / s", "off by %"]);
    let mut of = |name: &str, from: Duration, until: Duration| {
        let admitted = records.between(from, until).good() as f64 / until.saturating_sub(from).as_secs_f64();
        let off = (admitted / ALLOWED - 1.0) * 100.0;
        findings.row(name, vec![format!("{admitted:.0}"), format!("{off:+.1}")]);
        off.abs()
    };
    of("three replicas", WARM_UP, death);
    of("two replicas", death, end);
    // Half of it before the death and half of it behind.
    let around = Duration::from_secs(5).min(site.time / 2);
    let off = of("around the death", death.saturating_sub(around), death + around);
    findings.goal("admitted within 5 % of 1,000/s over 10 s, the death of a replica included", off <= 5.0);
    Ok(findings)
}

/// Clients of the one that dies go to the others.
fn streams(death: Duration, end: Duration) -> Vec<Stream> {
    let at = |proxy: usize, rate: f64, from: Duration, until: Duration| Stream {
        rate,
        from,
        until,
        host: HOST.into(),
        path: "/".into(),
        clients: None,
        proxy,
    };
    vec![
        at(0, OFFERED, Duration::ZERO, end),
        at(1, OFFERED, Duration::ZERO, end),
        at(2, OFFERED, Duration::ZERO, death),
        at(0, OFFERED / 2.0, death, end),
        at(1, OFFERED / 2.0, death, end),
    ]
}

/// They are the endpoints of their Service, and find each other there.
fn start(site: &Site, peer: Peer, endpoint: SocketAddr) -> Result<Vec<Proxy>> {
    let ips = (1..=REPLICAS).map(|number| Ipv4Addr::new(127, 0, 1, number));
    let addresses: Vec<_> =
        ips.map(|ip| Ok(TcpListener::bind((ip, 0))?.local_addr()?)).collect::<Result<_>>()?;
    let secret = write(site, "replicas-secret", "a secret that the three replicas have, and nobody else")?;
    // Each has an address of its own, and so they can have the same port.
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let endpoints = [endpoint];
    let start = |(number, address): (usize, &SocketAddr)| {
        let annotations = [
            ("forebay.io/limit-requests", format!("{ALLOWED}/1s")),
            ("forebay.io/limit-key", "$host".into()),
            ("forebay.io/limit-shared", "true".into()),
        ];
        let annotations = annotations.map(|(name, value)| (name.to_owned(), value));
        let setup = Setup {
            hosts: [(HOST.to_owned(), annotations.into())].into(),
            settings: [("bind-address".to_owned(), address.ip().to_string())].into(),
            service: Some(("forebay", addresses.clone())),
            arguments: vec![
                "--replicas-service=default/forebay".into(),
                format!("--replicas-secret={}", secret.display()),
                format!("--replica-address={}", address.ip()),
                format!("--replicas-udp-port={port}"),
            ],
            ..Setup::to(&endpoints, ROOMY.parallel)
        };
        peer.start_as(site, &setup, &format!("forebay-{number}"), *address)
    };
    addresses.iter().enumerate().map(start).collect()
}

/// An error where one of them has heard of nobody.
fn check_that_they_hear(replicas: &[Proxy]) -> Result<()> {
    for (number, replica) in replicas.iter().enumerate() {
        let taken = replica.metric("forebay_limit_shared_datagrams_total{result=\"taken\"}")?;
        ensure!(taken > 0.0, "replica {number} hears of no other");
    }
    Ok(())
}
