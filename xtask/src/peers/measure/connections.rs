//! Connections: the field cases A and D, workers that share them, and clients that stay.
//!
//! Must not be in here: goals.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail};
use bench::generator::{Expect, Pace, Plan, Status};
use bench::tls;

use super::{Bench, KILOBYTE};
use crate::backend::Accepted;
use crate::machine;
use crate::peers::certificate::Key;
use crate::peers::feature::HOST;
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Peer, Setup};

const RATE_FEW_PER_SECOND: f64 = 200.0;

const BURST_CLIENTS: usize = 1200;
const BURST_UPSTREAMS: usize = 5;
/// So long that every request of a burst is out at the same time.
const BURST_PATH: &str = "/delay/250";
const BURST_EVERY: Duration = Duration::from_millis(500);

const IDLE_CLIENTS: usize = 10_000;
const IDLE_ANSWER_LIMIT: Duration = Duration::from_secs(5);

impl Bench<'_> {
    /// Field case A: every request on a new client connection, before a backend that has little CPU.
    pub(super) fn case_a(&self, peer: Peer, clients: usize, percent: u32) -> Result<Figures> {
        let mut backend = self.nginx_backend()?;
        if let Err(error) = backend.hold(percent) {
            eprintln!("the backend has a whole CPU, not {percent} % of one: {error:#}");
        }
        let setup = Setup { keepalive: tuned_keepalive(peer), ..self.setup() };
        let stage = self.start_with(peer, setup, vec![backend])?;
        let plan = Plan {
            connections: clients,
            requests_per_connection: Some(1),
            ..self.plan(stage.target(), "/1k", KILOBYTE)
        };
        self.warm_up(&plan)?;
        let before = Accepted::now(&stage.backends)?;
        let outcome = self.generate(&plan)?;
        let opened = before.opened_since(&stage.backends)? as f64;
        let mut figures = figures::of_outcome(&outcome);
        figures.insert(Figure::OpenedPercent, 100.0 * opened / outcome.answered.max(1) as f64);
        Ok(figures)
    }

    /// Field case D: many clients at once, again and again, before several upstreams.
    pub(super) fn case_d(&self, peer: Peer, keepalive: Option<u32>) -> Result<Figures> {
        let names = (0..BURST_UPSTREAMS).map(|index| format!("payload-{index}"));
        let backends = names.map(|name| self.backend(&name)).collect::<Result<Vec<_>>>()?;
        let ports: Vec<_> = backends.iter().map(|backend| backend.address.port()).collect();
        let keepalive = keepalive.or(tuned_keepalive(peer));
        let stage = self.start_with(peer, Setup { keepalive, ..self.setup() }, backends)?;
        let bursts = Plan {
            connections: BURST_CLIENTS,
            pace: Pace::Bursts { every: BURST_EVERY },
            expect: Expect { status: Status::Is(200), body_bytes: None },
            ..self.plan(stage.target(), BURST_PATH, 0)
        };
        self.generate(&Plan { requests: Some(BURST_CLIENTS as u64), ..bursts.clone() })?;
        let before = Accepted::now(&stage.backends)?;
        let outcome = self.generate(&bursts)?;
        let waiting = machine::time_wait_towards(&ports)?;
        let mut figures = figures::of_outcome(&outcome);
        figures.insert(Figure::OpenedLater, before.opened_since(&stage.backends)? as f64);
        figures.insert(Figure::TimeWait, waiting as f64);
        if peer == Peer::Forebay {
            figures.insert(Figure::Regretted, stage.metric("forebay_upstream_connections_regretted_total")?);
        }
        Ok(figures)
    }

    /// Few requests: whether two workers share what one alone would reuse.
    pub(super) fn two_workers(&self, peer: Peer) -> Result<Figures> {
        let opened = |workers| -> Result<f64> {
            let stage = self.start(peer, Setup { workers, cpus: self.cpus.all(), ..self.setup() })?;
            let before = Accepted::now(&stage.backends)?;
            let pace = Pace::Open { rate_per_second: RATE_FEW_PER_SECOND };
            self.generate(&Plan { connections: 20, pace, ..self.plan(stage.target(), "/1k", KILOBYTE) })?;
            Ok(before.opened_since(&stage.backends)? as f64)
        };
        Ok(Figures::from([(Figure::OpenedByOne, opened(1)?), (Figure::OpenedByTwo, opened(2)?)]))
    }

    /// Memory for clients that made a request and stay, with TLS where there is a key.
    pub(super) fn idle(&self, peer: Peer, key: Option<Key>) -> Result<Figures> {
        let stage = self.start(peer, self.setup_for(key))?;
        let tls = key.map(|_| super::tls::tls());
        self.warm_up(&Plan {
            tls: tls.clone(),
            connections: 64,
            ..self.plan(stage.target(), "/1k", KILOBYTE)
        })?;
        let secured = tls.map(|tls| tls::Clients::new(&tls, &[], 1)).transpose()?;
        let program = stage.program()?;
        let before = program.resident_bytes()?;
        let clients = (0..IDLE_CLIENTS).map(|_| {
            self.interrupt.check()?;
            idle_client(stage.target(), secured.as_ref())
        });
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let grown = program.resident_bytes()?.saturating_sub(before);
        Ok(Figures::from([(Figure::IdleBytes, grown as f64 / clients.len() as f64)]))
    }
}

/// The caps that somebody who tunes nginx by hand for the cases A and D arrives at, for all peers that have
/// such a number; Forebay, `HAProxy` and Envoy are to do without.
fn tuned_keepalive(peer: Peer) -> Option<u32> {
    matches!(peer, Peer::Nginx | Peer::Caddy | Peer::Pingora).then_some(10_000)
}

/// A client that has its answer. Of TLS only the socket stays: what the client remembers is no concern of the
/// proxy's.
fn idle_client(target: SocketAddr, secured: Option<&tls::Clients>) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(target)?;
    socket.set_read_timeout(Some(IDLE_ANSWER_LIMIT))?;
    let Some(secured) = secured else {
        get_nothing(&mut socket)?;
        return Ok(socket);
    };
    let mut stream = secured.blocking(0, socket)?;
    get_nothing(&mut stream)?;
    Ok(stream.sock)
}

/// One request whose answer has no body.
fn get_nothing(stream: &mut (impl Read + Write)) -> Result<()> {
    write!(stream, "GET /0 HTTP/1.1\r\nHost: {HOST}\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        answer.extend_from_slice(&buffer[..count]);
        if count == 0 || !b"HTTP/1.1 200".iter().zip(&answer).all(|(expected, byte)| expected == byte) {
            bail!("an idle client was answered: {}", answer.escape_ascii());
        }
    }
    Ok(())
}
