//! What Ingresses ask for beyond a backend: what a request costs with it, and what those who ask much of it do to others.
//!
//! Must not be in here: goals, and what each feature is.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bench::generator::{self, Expect, Outcome, Pace, Plan, Status};

use super::{Bench, KILOBYTE, WARM_UP, metric};
use crate::backend::Backend;
use crate::peers::feature::{CONDITIONAL, Case, Counted, Scene, UNCONDITIONAL, wrong_credentials};
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Clients, Peer, Running, Setup, other_host};

const CONNECTIONS: usize = 64;

/// Requests that need no password, and the clients with wrong ones.
const OTHERS: usize = 8;
const OTHERS_RATE_PER_SECOND: f64 = 1000.0;
/// More than may wait for a verification in Forebay, so that those that come later are answered too.
const WRONG: usize = 128;
const WRONG_RATE_PER_SECOND: f64 = 200.0;
const WRONG_PASSWORDS: u32 = 10_000;
/// For a number of requests, and for nginx, which answers what it has taken, one password after the other.
const LONG: Duration = Duration::from_secs(30);

/// The counter of copies that were not made.
const DROPPED: &str = "forebay_mirrors_dropped_total";

/// A case whose parts run.
pub(super) struct Stage {
    pub(super) running: Running,
    pub(super) backends: Vec<Backend>,
    services: Vec<Backend>,
}

impl Bench<'_> {
    /// What a request costs at the case's rate.
    pub(crate) fn feature(&self, peer: Peer, case: &Case) -> Result<Figures> {
        let stage = self.stage(peer, case)?;
        let plan = self.plan_of(case, &stage.scene(peer))?;
        match case.warm_up {
            Some(requests) => {
                let all = Plan { requests: Some(requests), duration: LONG, ..plan.clone() };
                self.generate(&Plan { pace: Pace::Closed, ..all })?
            }
            None => self.generate(&Plan { duration: WARM_UP, ..plan.clone() })?,
        };
        let before = Counted::now(&stage.services)?;
        let (outcome, figures) = self.spent(&stage.running, &plan)?;
        check_besides(case, &before.since(&stage.services)?, &outcome)?;
        Ok(figures)
    }

    /// What a request costs with conditions and without, one after the other and the other way round: the same requests.
    pub(crate) fn conditions(&self, peer: Peer, case: &Case) -> Result<Figures> {
        let stage = self.stage(peer, case)?;
        let plan = self.plan_of(case, &stage.scene(peer))?;
        let to = |host: &str| Plan { host: host.into(), duration: plan.duration / 2, ..plan.clone() };
        let (with, without) = (to(CONDITIONAL), to(UNCONDITIONAL));
        self.generate(&Plan { duration: WARM_UP, ..with.clone() })?;
        let cost = |plan| Ok::<_, anyhow::Error>(self.spent(&stage.running, plan)?.1[&Figure::Cpu]);
        let costs = [cost(&with)?, cost(&without)?, cost(&without)?, cost(&with)?];
        Ok(Figures::from([
            (Figure::CpuConditional, f64::midpoint(costs[0], costs[3])),
            (Figure::CpuUnconditional, f64::midpoint(costs[1], costs[2])),
        ]))
    }

    /// Latency of requests that need no password, without and with others that have wrong ones.
    pub(crate) fn wrong_passwords(&self, peer: Peer, case: &Case) -> Result<Figures> {
        let stage = self.stage(peer, case)?;
        let plan = Plan {
            host: other_host(0),
            connections: OTHERS,
            pace: Pace::Open { rate_per_second: OTHERS_RATE_PER_SECOND },
            patience: LONG,
            ..self.plan(stage.running.address, "/1k", KILOBYTE)
        };
        let flood = Plan {
            connections: WRONG,
            pace: Pace::Open { rate_per_second: WRONG_RATE_PER_SECOND },
            headers: vec![("Authorization".into(), "{}".into())],
            variants: (0..WRONG_PASSWORDS).map(wrong_credentials).collect(),
            expect: Expect { status: Status::Is(401), body_bytes: None },
            patience: LONG,
            ..self.plan(stage.running.address, "/1k", KILOBYTE)
        };
        self.generate(&Plan { duration: WARM_UP, ..plan.clone() })?;
        let quiet = figures::of_outcome(&self.generate(&plan)?);
        let (others, wrong) = thread::scope(|scope| {
            let flooding = scope.spawn(|| generator::run(&flood));
            let measured = self.generate(&plan);
            let flood = flooding.join().map_err(|_| anyhow!("the flood panicked"))?;
            Ok::<_, anyhow::Error>((measured?, flood.context("the flood")?))
        })?;
        check_refused(&wrong)?;
        let flooded = figures::of_outcome(&others);
        Ok(Figures::from([
            (Figure::P50Quiet, quiet[&Figure::P50]),
            (Figure::P99Quiet, quiet[&Figure::P99]),
            (Figure::P50Flooded, flooded[&Figure::P50]),
            (Figure::P99Flooded, flooded[&Figure::P99]),
            (Figure::Refused, (wrong.answered + wrong.errors.status) as f64 / wrong.elapsed.as_secs_f64()),
        ]))
    }

    /// Latency and memory, of a host whose requests are not copied and of one whose copies nobody answers.
    pub(crate) fn mirror_hanging(&self, peer: Peer, case: &Case) -> Result<Figures> {
        let stage = self.stage(peer, case)?;
        let mirrored = self.plan_of(case, &stage.scene(peer))?;
        let quiet = Plan { host: other_host(0), ..mirrored.clone() };
        self.generate(&Plan { duration: WARM_UP, ..quiet.clone() })?;
        let quiet = figures::of_outcome(&self.generate(&quiet)?);
        let program = stage.running.program.as_ref().context("nobody to measure")?;
        let admin = stage.running.admin.context("nobody counts what is dropped")?;
        let (before, resident) = (Counted::now(&stage.services)?, program.resident_bytes()?);
        let outcome = self.generate(&mirrored)?;
        let grown = program.resident_bytes()?.saturating_sub(resident);
        check_besides(case, &before.since(&stage.services)?, &outcome)?;
        let mirrored = figures::of_outcome(&outcome);
        Ok(Figures::from([
            (Figure::Rate, mirrored[&Figure::Rate]),
            (Figure::P50Quiet, quiet[&Figure::P50]),
            (Figure::P99Quiet, quiet[&Figure::P99]),
            (Figure::P50Mirrored, mirrored[&Figure::P50]),
            (Figure::P99Mirrored, mirrored[&Figure::P99]),
            (Figure::Dropped, metric(admin, DROPPED)? / self.seconds.as_secs_f64()),
            (Figure::GrownMib, grown as f64 / f64::from(1 << 20)),
        ]))
    }

    /// Starts the case's parts, and sees that the feature is in force.
    pub(super) fn stage(&self, peer: Peer, case: &Case) -> Result<Stage> {
        let stage = self.stage_for(peer, case, Clients::Clear)?;
        (case.check)(&stage.scene(peer)).context("the feature is not in force")?;
        Ok(stage)
    }

    /// Starts the case's parts.
    pub(super) fn stage_for(&self, peer: Peer, case: &Case, clients: Clients<'_>) -> Result<Stage> {
        let backends = self.backends(case.endpoints)?;
        let upstreams: Vec<_> = backends.iter().map(|backend| backend.address).collect();
        let services = case.services.iter().map(|name| self.backend(name)).collect::<Result<Vec<_>>>()?;
        let addresses = services.iter().map(|backend| backend.address);
        let setup = Setup {
            clients,
            feature: case.feature.clone(),
            services: case.services.iter().copied().zip(addresses).collect(),
            ..self.setup(&upstreams)
        };
        Ok(Stage { running: peer.start(&setup, &self.interrupt)?, backends, services })
    }

    pub(super) fn plan_of(&self, case: &Case, scene: &Scene) -> Result<Plan> {
        Ok(Plan {
            connections: CONNECTIONS,
            pace: Pace::Open { rate_per_second: case.rate_per_second },
            headers: case.headers.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            variants: (case.variants)(scene)?.into(),
            awake: true,
            patience: LONG,
            ..self.plan(scene.address, case.path, KILOBYTE)
        })
    }
}

impl Stage {
    pub(super) fn scene(&self, peer: Peer) -> Scene<'_> {
        Scene { peer, address: self.running.address, backends: &self.backends }
    }
}

/// An error where other Services got more or fewer requests than the feature lets them have.
fn check_besides(case: &Case, asked: &[u64], outcome: &Outcome) -> Result<()> {
    let asked = asked.iter().sum::<u64>() as f64 / outcome.answered.max(1) as f64;
    let expected = &case.asked_besides;
    ensure!(
        expected.contains(&asked),
        "other Services got {asked:.4} requests for each that was answered, not {expected:?}"
    );
    Ok(())
}

/// Who has a wrong password is told so, or that there are too many; never let in.
fn check_refused(wrong: &Outcome) -> Result<()> {
    let let_in = wrong.statuses.keys().find(|status| **status < 400);
    ensure!(let_in.is_none(), "a wrong password was answered with {let_in:?}");
    Ok(())
}
