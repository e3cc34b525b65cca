//! Responses that are compressed: what that costs, and how much is left of them.
//!
//! Must not be in here: goals, and how it is configured.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use bench::generator::{Expect, Plan, Status};

use super::{Bench, WARM_UP};
use crate::backend::Backend;
use crate::peers::contents;
use crate::peers::feature::{Case, Scene};
use crate::peers::figures::{Figure, Figures};
use crate::peers::proxy::{Peer, Setup};

const CONNECTIONS: usize = 8;

impl Bench<'_> {
    /// All contents in turn, from files of a server behind the peer.
    pub(crate) fn compressed(&self, peer: Peer, case: &Case) -> Result<Figures> {
        let backends = [Backend::start_nginx(&self.cpus.load, self.folder, &self.interrupt)?];
        contents::write(&self.folder.join("backend"))?;
        let upstreams: Vec<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
        let setup = Setup { feature: case.feature.clone(), ..self.setup(&upstreams) };
        let running = peer.start(&setup, &self.interrupt)?;
        let scene = Scene { peer, address: running.address, backends: &backends };
        (case.check)(&scene).context("nothing is compressed")?;
        let expect = Expect { status: Status::Is(200), body_bytes: None };
        let plan = Plan { connections: CONNECTIONS, expect, ..self.plan_of(case, &scene)? };
        self.generate(&Plan { duration: WARM_UP, ..plan.clone() })?;
        let (outcome, mut figures) = self.spent(&running, &plan)?;
        let plain = outcome.answered.max(1) as f64 * contents::mean_bytes();
        figures.insert(Figure::LeftPercent, 100.0 * outcome.body_bytes as f64 / plain);
        Ok(figures)
    }
}
