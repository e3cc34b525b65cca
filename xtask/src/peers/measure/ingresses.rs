//! Few Ingresses and many: what a request costs, and how long a start takes.
//!
//! Must not be in here: goals.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use crate::peers::feature::Case;
use crate::peers::figures::{Figure, Figures};
use crate::peers::proxy::{Peer, Setup};
use crate::peers::workload::Load;

const FEW: usize = 5;

/// A peer with a number of Ingresses.
struct Cost {
    /// CPU microseconds per request.
    cpu: f64,
    ready: Duration,
    resident_bytes: u64,
}

impl Bench<'_> {
    /// The same requests, with few Ingresses and with many.
    pub(super) fn routing(&self, peer: Peer) -> Result<Figures> {
        let cpu = |count| Ok::<_, anyhow::Error>(self.with_ingresses(peer, count)?.cpu);
        Ok(Figures::from([(Figure::CpuFew, cpu(FEW)?), (Figure::CpuMany, cpu(5_000)?)]))
    }

    /// The same with very many hosts, and how long they take at the start.
    pub(super) fn hosts(&self, peer: Peer) -> Result<Figures> {
        let few = self.with_ingresses(peer, FEW)?;
        let most = self.with_ingresses(peer, 100_000)?;
        Ok(Figures::from([
            (Figure::CpuFew, few.cpu),
            (Figure::CpuMost, most.cpu),
            (Figure::ReadyMillis, most.ready.as_secs_f64() * 1000.0),
            (Figure::ResidentMib, most.resident_bytes as f64 / f64::from(1 << 20)),
        ]))
    }

    fn with_ingresses(&self, peer: Peer, count: usize) -> Result<Cost> {
        let backend = self.backend("payload-0")?;
        let load = Load::default();
        let setup = Setup { other_ingresses: count - 1, ..self.setup() };
        let begun = Instant::now();
        let stage = self.start_with(peer, setup, vec![backend])?;
        let ready = begun.elapsed();
        let resident_bytes = stage.program()?.resident_bytes()?;
        let cpu = self.spent_on(&stage, &self.plan_of(&load, &Case::default(), &stage)?)?[&Figure::Cpu];
        Ok(Cost { cpu, ready, resident_bytes })
    }
}
