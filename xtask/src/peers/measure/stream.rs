//! Redis behind a relay of TCP.
//!
//! Must not be in here: goals.

use anyhow::Result;

use super::Bench;
use crate::backend::Backend;
use crate::child::Program;
use crate::load::RedisBenchmark;
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Peer, Setup, Upstream};
use crate::peers::workload::Redis;

const WARM_UP_SHARE: u64 = 10;

impl Bench<'_> {
    /// `GET`s by redis-benchmark in a closed loop.
    pub(super) fn redis(&self, peer: Peer, redis: &Redis) -> Result<Figures> {
        let backend = Backend::start_redis(&self.cpus.load, self.folder, &self.interrupt)?;
        let server = backend.address;
        let stage =
            self.start_with(peer, Setup { upstream: Upstream::Tcp, ..self.setup() }, vec![backend])?;
        let requests = redis.requests_per_second * self.seconds.as_secs();
        let load = |requests| {
            let load =
                RedisBenchmark { target: stage.target(), server, pipelined: redis.pipelined, requests };
            load.run(&self.cpus.load, self.folder, &self.interrupt)
        };
        load(requests / WARM_UP_SHARE)?;
        let cpu = || stage.running.program.as_ref().map(Program::cpu_time).transpose();
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
