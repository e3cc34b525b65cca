//! New TLS connections: what a handshake costs, and its signature alone.
//!
//! Must not be in here: goals.

use anyhow::Result;
use bench::generator::{Pace, Plan};
use bench::tls::{self, Tls};

use super::{Bench, CLOSED_LOOP};
use crate::child::on_cpus;
use crate::peers::certificate::Key;
use crate::peers::feature::HOST;
use crate::peers::figures::{Figure, Figures};
use crate::peers::proxy::Peer;
use crate::peers::workload::Handshakes;

/// The suite of everything that is measured on connections that stay, so that no peer encrypts more cheaply.
const SUITE: &str = "TLS13_AES_256_GCM_SHA384";

/// How many clients make handshakes at once where the pace is theirs.
pub(super) const HANDSHAKING_CLIENTS: usize = 64;
/// Few where each has a session of its own, whose first handshake is full.
const RESUMING_CLIENTS: usize = 16;

impl Bench<'_> {
    /// New connections, each for one request without a body.
    pub(super) fn handshakes(&self, peer: Peer, kind: &Handshakes) -> Result<Figures> {
        if peer == Peer::Signing {
            return self.signing(kind.key);
        }
        let stage = self.start(peer, self.setup_for(Some(kind.key)))?;
        let connections = if kind.resume { RESUMING_CLIENTS } else { HANDSHAKING_CLIENTS };
        let tls =
            Tls { version: kind.version, suite: Some(kind.suite.clone()), resume: kind.resume, ..tls() };
        let plan = Plan {
            tls: Some(tls),
            connections,
            requests_per_connection: Some(1),
            ..self.plan(stage.target(), "/0", 0)
        };
        let pace = Pace::Open { rate_per_second: kind.rate };
        let mut figures = self.spent_on(&stage, &Plan { pace, awake: true, ..plan.clone() })?;
        let fastest = self.generate(&Plan { duration: CLOSED_LOOP, ..plan })?;
        figures.insert(Figure::RateClosed, fastest.rate());
        Ok(figures)
    }

    /// The time of a full handshake's signature alone.
    fn signing(&self, key: Key) -> Result<Figures> {
        let key = &self.certificates.of(key).key;
        let time = on_cpus(&self.cpus.proxy, || tls::signature_time(key, self.seconds))??;
        Ok(Figures::from([(Figure::Cpu, time.as_secs_f64() * 1e6)]))
    }
}

/// A client of connections that stay.
pub(super) fn tls() -> Tls {
    Tls { server_name: HOST.into(), suite: Some(SUITE.into()), ..Tls::default() }
}
