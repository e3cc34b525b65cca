//! TCP as it comes: Redis behind a relay.
//!
//! Must not be in here: goals.

use anyhow::Result;

use super::Bench;
use crate::backend::Backend;
use crate::child::Program;
use crate::load::RedisBenchmark;
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Peer, Setup, Upstream};

/// About what redis-server and its benchmark do in a second on one CPU, with requests one by one and pipelined: the
/// benchmark is told a number, not a time.
const REQUESTS_PER_SECOND: u64 = 60_000;
const PIPELINED_REQUESTS_PER_SECOND: u64 = 500_000;

const WARM_UP_SHARE: u64 = 10;

impl Bench<'_> {
    /// `GET`s, so many of them in a row before a client waits.
    pub(crate) fn redis(&self, peer: Peer, pipelined: u32) -> Result<Figures> {
        let backend = Backend::start_redis(&self.cpus.load, self.folder, &self.interrupt)?;
        let upstreams = [backend.address];
        let setup = Setup { upstream: Upstream::Tcp, ..self.setup(&upstreams) };
        let running = peer.start(&setup, &self.interrupt)?;
        let per_second = if pipelined > 1 { PIPELINED_REQUESTS_PER_SECOND } else { REQUESTS_PER_SECOND };
        let requests = per_second * self.seconds.as_secs();
        let load = |requests| {
            let target = running.address;
            let load = RedisBenchmark { target, server: backend.address, pipelined, requests };
            load.run(&self.cpus.load, self.folder, &self.interrupt)
        };
        load(requests / WARM_UP_SHARE)?;
        let cpu = || running.program.as_ref().map(Program::cpu_time).transpose();
        let before = cpu()?;
        let seen = load(requests)?;
        let mut figures = Figures::from([
            (Figure::Rate, seen.rate),
            (Figure::P50, seen.p50.as_secs_f64() * 1e6),
            (Figure::P99, seen.p99.as_secs_f64() * 1e6),
        ]);
        if let (Some(before), Some(after)) = (before, cpu()?) {
            figures.extend(figures::of_cpu(after - before, requests));
        }
        Ok(figures)
    }
}
