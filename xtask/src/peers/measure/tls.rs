//! HTTPS: handshakes, requests on connections that stay, and what both do to each other.
//!
//! Must not be in here: goals.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bench::generator::{Outcome, Pace, Plan};
use bench::tls::{self, Tls, Version};

use super::{
    Bench, CLOSED_LOOP, IDLE_ANSWER_LIMIT, IDLE_CLIENTS, KILOBYTE, MEGABYTE, RATE_LARGE_PER_SECOND, WARM_UP,
    get_nothing,
};
use crate::backend::Backend;
use crate::child::on_cpus;
use crate::peers::certificate::Key;
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Clients, HOST, Peer, Running, Setup};

/// The suite of everything that is measured on connections that stay, so that no peer encrypts more cheaply.
const SUITE: &str = "TLS13_AES_256_GCM_SHA384";

/// How many clients make handshakes at once where the pace is theirs.
const HANDSHAKING_CLIENTS: usize = 64;
/// Few where each has a session of its own, whose first handshake is full.
const RESUMING_CLIENTS: usize = 16;
const FLOODED_CLIENTS: usize = 8;
const FLOODED_RATE_PER_SECOND: f64 = 1000.0;
/// The flood begins when those that it must not disturb have made their own handshakes.
const FLOOD_AFTER: Duration = Duration::from_millis(100);

/// Handshakes to measure.
pub(crate) struct Handshakes {
    pub(crate) key: Key,
    pub(crate) version: Version,
    pub(crate) suite: &'static str,
    pub(crate) resume: bool,
    /// What the slowest peer carries with ease.
    pub(crate) rate_per_second: f64,
}

impl Bench<'_> {
    /// New connections, each for one request without a body.
    pub(crate) fn handshakes(&self, peer: Peer, kind: &Handshakes) -> Result<Figures> {
        if peer == Peer::Signing {
            return self.signing(kind.key);
        }
        let (_backend, running) = self.start_tls(peer, kind.key)?;
        let connections = if kind.resume { RESUMING_CLIENTS } else { HANDSHAKING_CLIENTS };
        let tls = Tls { version: kind.version, suite: Some(kind.suite.into()), resume: kind.resume, ..tls() };
        let plan = Plan {
            tls: Some(tls),
            connections,
            requests_per_connection: Some(1),
            ..self.plan(running.address, "/0", 0)
        };
        let pace = Pace::Open { rate_per_second: kind.rate_per_second };
        let mut figures = self.spent_on(&running, &Plan { pace, awake: true, ..plan.clone() })?;
        let fastest = self.generate(&Plan { duration: CLOSED_LOOP, ..plan })?;
        figures.insert(Figure::RateClosed, fastest.rate());
        Ok(figures)
    }

    /// What of a full handshake is the signature.
    fn signing(&self, key: Key) -> Result<Figures> {
        let key = &self.certificates.of(key).key;
        let time = on_cpus(&self.cpus.proxy, || tls::signature_time(key, self.seconds))??;
        Ok(Figures::from([(Figure::Cpu, time.as_secs_f64() * 1e6)]))
    }

    /// 1 KB on connections that stay.
    pub(crate) fn https_keepalive(&self, peer: Peer, connections: usize) -> Result<Figures> {
        let (_backend, running) = self.start_tls(peer, Key::Rsa2048)?;
        let plan = Plan { tls: Some(tls()), ..self.open_loop(running.address, connections) };
        let mut figures = self.spent_on(&running, &plan)?;
        figures.insert(Figure::RateMax, self.wrk("https", running.address, connections)?);
        Ok(figures)
    }

    /// 1 MB on connections that stay.
    pub(crate) fn https_large(&self, peer: Peer) -> Result<Figures> {
        let (_backend, running) = self.start_tls(peer, Key::Rsa2048)?;
        let pace = Pace::Open { rate_per_second: RATE_LARGE_PER_SECOND };
        let plan = Plan {
            tls: Some(tls()),
            connections: 16,
            pace,
            awake: true,
            ..self.plan(running.address, "/1m", MEGABYTE)
        };
        let figures = self.spent_on(&running, &plan)?;
        Ok(figures)
    }

    /// Memory for clients that made one request and stay.
    pub(crate) fn idle_tls(&self, peer: Peer) -> Result<Figures> {
        let (_backend, running) = self.start_tls(peer, Key::EcdsaP256)?;
        let warm_up = Plan {
            tls: Some(tls()),
            connections: 64,
            requests: Some(1000),
            ..self.plan(running.address, "/1k", KILOBYTE)
        };
        self.generate(&warm_up)?;
        let program = running.program.as_ref().context("nobody to measure")?;
        let secured = tls::Clients::new(&tls(), &[], 1)?;
        let before = program.resident_bytes()?;
        let clients: Vec<TcpStream> = (0..IDLE_CLIENTS)
            .map(|_| {
                self.interrupt.check()?;
                let socket = TcpStream::connect(running.address)?;
                socket.set_read_timeout(Some(IDLE_ANSWER_LIMIT))?;
                let mut stream = secured.blocking(0, socket)?;
                get_nothing(&mut stream)?;
                // What the client remembers is no concern of the proxy's: only the socket stays.
                Ok(stream.sock)
            })
            .collect::<Result<_>>()?;
        let grown = program.resident_bytes()?.saturating_sub(before);
        Ok(Figures::from([(Figure::IdleBytes, grown as f64 / clients.len() as f64)]))
    }

    /// Latency on connections that stay, without other clients and with others that make handshakes as fast as they can.
    pub(crate) fn handshake_flood(&self, peer: Peer) -> Result<Figures> {
        let (_backend, running) = self.start_tls(peer, Key::Rsa2048)?;
        let plan = Plan {
            tls: Some(tls()),
            connections: FLOODED_CLIENTS,
            pace: Pace::Open { rate_per_second: FLOODED_RATE_PER_SECOND },
            ..self.plan(running.address, "/1k", KILOBYTE)
        };
        self.generate(&Plan { duration: WARM_UP, ..plan.clone() })?;
        let quiet = figures::of_outcome(&self.generate(&plan)?);
        let (flooded, flood) = self.flooded(&plan)?;
        let flooded = figures::of_outcome(&flooded);
        Ok(Figures::from([
            (Figure::P50Quiet, quiet[&Figure::P50]),
            (Figure::P99Quiet, quiet[&Figure::P99]),
            (Figure::P50Flooded, flooded[&Figure::P50]),
            (Figure::P99Flooded, flooded[&Figure::P99]),
            (Figure::Handshakes, flood.rate()),
        ]))
    }

    /// Carries `plan` out while handshakes are made; what came of both.
    fn flooded(&self, plan: &Plan) -> Result<(Outcome, Outcome)> {
        let flood = Plan {
            connections: HANDSHAKING_CLIENTS,
            requests_per_connection: Some(1),
            pace: Pace::Closed,
            // Who measures latency shares the CPU with whoever floods, and must not wait for it.
            yielding: true,
            path: "/0".into(),
            expect: self.plan(plan.targets[0], "/0", 0).expect,
            ..plan.clone()
        };
        thread::scope(|scope| {
            let flooding = scope.spawn(|| {
                thread::sleep(FLOOD_AFTER);
                self.generate(&flood)
            });
            let measured = self.generate(plan);
            let flood = flooding.join().map_err(|_| anyhow!("the flood panicked"))?;
            Ok((measured?, flood.context("the flood")?))
        })
    }

    fn start_tls(&self, peer: Peer, key: Key) -> Result<(Backend, Running)> {
        let backend = Backend::start("payload", &self.cpus.load, self.folder, &self.interrupt)?;
        let clients = Clients::Tls(self.certificates.of(key));
        let upstreams = [backend.address];
        let running = peer.start(&Setup { clients, ..self.setup(&upstreams) }, &self.interrupt)?;
        Ok((backend, running))
    }
}

/// A client of connections that stay.
pub(super) fn tls() -> Tls {
    Tls { server_name: HOST.into(), suite: Some(SUITE.into()), ..Tls::default() }
}
