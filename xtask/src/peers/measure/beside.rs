//! CPU, latency and memory of requests in comparison: with conditions and without, quiet and beside a flood.
//!
//! Must not be in here: goals, and what each feature is.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bench::generator::{self, Expect, Outcome, Pace, Plan, Status};

use super::{Bench, KILOBYTE, LONG, Stage, check_besides, tls};
use crate::peers::certificate::Key;
use crate::peers::feature::{Counted, Feature};
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Peer, other_host};
use crate::peers::workload::Load;

/// Clients whose latency is measured.
const OTHERS: usize = 8;
const OTHERS_RATE_PER_SECOND: f64 = 1000.0;
/// More than may wait for a verification in Forebay, so that those that come later are answered too.
const WRONG: usize = 128;
const WRONG_RATE_PER_SECOND: f64 = 200.0;
const WRONG_PASSWORDS: u32 = 10_000;
/// The flood begins when those that it must not disturb have made their own handshakes.
const FLOOD_AFTER: Duration = Duration::from_millis(100);

/// Hosts of a route with conditions, and of one without.
const CONDITIONAL: &str = "conditional.bench.test";
const UNCONDITIONAL: &str = "unconditional.bench.test";

/// The counter of copies that were not made.
const DROPPED: &str = "forebay_mirrors_dropped_total";

impl Bench<'_> {
    /// CPU per request with conditions and without, for the same requests, in the order with, without,
    /// without, with.
    pub(super) fn conditions(&self, peer: Peer, load: &Load) -> Result<Figures> {
        let (stage, case) = self.start_for(peer, load, None)?;
        let plan = self.plan_of(load, &case, &stage)?;
        let to = |host: &str| Plan { host: host.into(), duration: plan.duration / 2, ..plan.clone() };
        let (with, without) = (to(CONDITIONAL), to(UNCONDITIONAL));
        self.warm_up(&with)?;
        let cost = |plan| Ok::<_, anyhow::Error>(self.spent(&stage, plan)?.1[&Figure::Cpu]);
        let costs = [cost(&with)?, cost(&without)?, cost(&without)?, cost(&with)?];
        Ok(Figures::from([
            (Figure::CpuConditional, f64::midpoint(costs[0], costs[3])),
            (Figure::CpuUnconditional, f64::midpoint(costs[1], costs[2])),
        ]))
    }

    /// Latency of requests that need no password, without and with others that have wrong ones.
    pub(super) fn wrong_passwords(&self, peer: Peer) -> Result<Figures> {
        let load = Load { feature: Some(Feature::named("basic-bcrypt")), ..Load::default() };
        let (stage, _) = self.start_for(peer, &load, None)?;
        let plan = Plan { host: other_host(0), patience: LONG, ..self.others(&stage) };
        let flood = Plan {
            connections: WRONG,
            pace: Pace::Open { rate_per_second: WRONG_RATE_PER_SECOND },
            headers: vec![("Authorization".into(), "{}".into())],
            variants: (0..WRONG_PASSWORDS).map(wrong_credentials).collect(),
            expect: Expect { status: Status::Is(401), body_bytes: None },
            patience: LONG,
            ..self.plan(stage.target(), "/1k", KILOBYTE)
        };
        let (mut figures, wrong) = self.flooded(&plan, || generator::run(&flood))?;
        // A wrong password is answered as such, or that there are too many; never let in.
        let let_in = wrong.statuses.keys().find(|status| **status < 400);
        ensure!(let_in.is_none(), "a wrong password was answered with {let_in:?}");
        let refused = wrong.answered + wrong.errors.status;
        figures.insert(Figure::Refused, refused as f64 / wrong.elapsed.as_secs_f64());
        Ok(figures)
    }

    /// Latency on connections that stay, without other clients and with others that make handshakes as fast
    /// as they can.
    pub(super) fn handshake_flood(&self, peer: Peer) -> Result<Figures> {
        let stage = self.start(peer, self.setup_for(Some(Key::Rsa2048)))?;
        let plan = Plan { tls: Some(tls::tls()), ..self.others(&stage) };
        let flood = Plan {
            connections: tls::HANDSHAKING_CLIENTS,
            requests_per_connection: Some(1),
            pace: Pace::Closed,
            // The generator whose latency is measured shares the CPU with the flood, and must not wait for
            // it.
            yielding: true,
            path: "/0".into(),
            expect: Expect { body_bytes: Some(0), ..plan.expect },
            ..plan.clone()
        };
        let (mut figures, flood) = self.flooded(&plan, || {
            thread::sleep(FLOOD_AFTER);
            self.generate(&flood)
        })?;
        figures.insert(Figure::Handshakes, flood.rate());
        Ok(figures)
    }

    /// Latency and memory, of a host whose requests are not copied and of one whose copies nobody answers.
    pub(super) fn mirror_hanging(&self, peer: Peer, load: &Load) -> Result<Figures> {
        let (stage, case) = self.start_for(peer, load, None)?;
        let mirrored = self.plan_of(load, &case, &stage)?;
        let quiet = Plan { host: other_host(0), ..mirrored.clone() };
        self.warm_up(&quiet)?;
        let quiet = figures::of_outcome(&self.generate(&quiet)?);
        let program = stage.program()?;
        let (before, resident) = (Counted::now(&stage.services)?, program.resident_bytes()?);
        let outcome = self.generate(&mirrored)?;
        let grown = program.resident_bytes()?.saturating_sub(resident);
        check_besides(&case, &before.since(&stage.services)?, &outcome)?;
        let mirrored = figures::of_outcome(&outcome);
        Ok(Figures::from([
            (Figure::Rate, mirrored[&Figure::Rate]),
            (Figure::P50Quiet, quiet[&Figure::P50]),
            (Figure::P99Quiet, quiet[&Figure::P99]),
            (Figure::P50Mirrored, mirrored[&Figure::P50]),
            (Figure::P99Mirrored, mirrored[&Figure::P99]),
            (Figure::Dropped, stage.metric(DROPPED)? / self.seconds.as_secs_f64()),
            (Figure::GrownMib, grown as f64 / f64::from(1 << 20)),
        ]))
    }

    /// The requests whose latency is measured.
    fn others(&self, stage: &Stage) -> Plan {
        Plan {
            connections: OTHERS,
            pace: Pace::Open { rate_per_second: OTHERS_RATE_PER_SECOND },
            ..self.plan(stage.target(), "/1k", KILOBYTE)
        }
    }

    /// The latency of a plan, alone and beside a flood, and what came of the flood.
    fn flooded<E: Into<anyhow::Error> + Send>(
        &self,
        plan: &Plan,
        flood: impl FnOnce() -> Result<Outcome, E> + Send,
    ) -> Result<(Figures, Outcome)> {
        self.warm_up(plan)?;
        let quiet = figures::of_outcome(&self.generate(plan)?);
        let (measured, flood) = thread::scope(|scope| {
            let flooding = scope.spawn(flood);
            let measured = self.generate(plan);
            let flood = flooding.join().map_err(|_| anyhow!("the flood panicked"))?;
            Ok::<_, anyhow::Error>((measured?, flood.map_err(Into::into).context("the flood")?))
        })?;
        let flooded = figures::of_outcome(&measured);
        let figures = Figures::from([
            (Figure::P50Quiet, quiet[&Figure::P50]),
            (Figure::P99Quiet, quiet[&Figure::P99]),
            (Figure::P50Flooded, flooded[&Figure::P50]),
            (Figure::P99Flooded, flooded[&Figure::P99]),
        ]);
        Ok((figures, flood))
    }
}

/// Credentials that no request had before.
fn wrong_credentials(number: u32) -> String {
    format!("Basic {}", STANDARD.encode(format!("alice:wrong-{number}")))
}
