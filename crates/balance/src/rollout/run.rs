//! The run of one canary: its step, its state, and the counts by which it is judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use model::{CanaryWeight, Rollout, RolloutShare};

use super::judge::Judge;
use super::state::{KeptRun, RolloutNews, RolloutState, RolloutStatus, Stopped};
use super::tally::{Counts, RolloutOutcome, Side};

/// A run, as all workers share it.
#[derive(Debug)]
pub struct Run {
    /// The share at this moment, in ten-thousandths.
    share: AtomicU32,
    is_stopped: AtomicBool,
    mainline: Side,
    canary: Side,
}

/// A run with what the thread that judges it knows.
#[derive(Debug)]
pub(super) struct JudgedRun {
    pub(super) plan: Arc<Rollout>,
    pub(super) run: Arc<Run>,
    /// When it began, as time since 1970.
    pub(super) began: Duration,
    pub(super) stopped: Option<Stopped>,
    step: Option<usize>,
    judge: Judge,
    seen: [Counts; 2],
    /// The time of the last tick, since 1970.
    at: Duration,
}

impl Run {
    fn new() -> Self {
        Self {
            share: AtomicU32::new(0),
            is_stopped: AtomicBool::new(false),
            mainline: Side::default(),
            canary: Side::default(),
        }
    }

    /// The share of requests that the canary takes at this moment.
    pub fn weight(&self) -> CanaryWeight {
        self.share().weight()
    }

    /// The share at this moment.
    pub fn share(&self) -> RolloutShare {
        RolloutShare::of_ten_thousand(self.share.load(Ordering::Relaxed))
    }

    /// Whether the canary has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Counts a request to the mainline or the canary that has ended.
    pub fn note(&self, is_canary: bool, outcome: RolloutOutcome) {
        if is_canary { &self.canary } else { &self.mainline }.note(outcome);
    }
}

impl JudgedRun {
    /// A run that begins now, or goes on from what is known of it.
    pub(super) fn new(plan: Arc<Rollout>, kept: Option<&KeptRun>, now: Duration) -> Self {
        let kept = kept.filter(|kept| kept.run == plan.run);
        Self {
            run: Arc::new(Run::new()),
            began: kept.map_or(now, |kept| kept.began.min(now)),
            stopped: kept.and_then(|kept| kept.stopped.clone()),
            step: None,
            judge: Judge::default(),
            seen: [Counts::default(), Counts::default()],
            at: now,
            plan,
        }
    }

    /// Takes over what another process knows of the same run: the earlier begin and the earlier stop.
    pub(super) fn merge(&mut self, kept: &KeptRun) -> bool {
        if kept.run != self.plan.run {
            return false;
        }
        let mut has_changed = false;
        if kept.began < self.began {
            self.began = kept.began;
            has_changed = true;
        }
        if let Some(stopped) = &kept.stopped
            && self.stopped.as_ref().is_none_or(|known| stopped.at < known.at)
        {
            self.stopped = Some(stopped.clone());
            has_changed = true;
        }
        has_changed
    }

    /// The part of the run that other processes have to know.
    pub(super) fn kept(&self) -> KeptRun {
        KeptRun {
            name: Arc::clone(&self.plan.name),
            run: Arc::clone(&self.plan.run),
            began: self.began,
            stopped: self.stopped.clone(),
        }
    }

    /// Judges the requests since the last tick, and moves on to the step of this moment. Returns what is
    /// worth telling.
    pub(super) fn tick(&mut self, now: Duration, is_held: bool) -> Option<RolloutNews> {
        self.at = now;
        let counts = [self.run.mainline.counts(), self.run.canary.counts()];
        let mainline = counts[0].since(&self.seen[0]);
        let canary = counts[1].since(&self.seen[1]);
        self.seen = counts;
        let mut news = None;
        if self.stopped.is_none()
            && let Some(step) = self.step
            && let Some(stop) = &self.plan.stop
            && let Some(fault) = self.judge.look(&mainline, &canary, stop)
        {
            let stopped = Stopped { at: now, step, why: fault.to_string().into() };
            self.stopped = Some(stopped);
            news = Some(RolloutNews::Stopped);
        }
        let share = match &self.stopped {
            _ if is_held => RolloutShare::NONE,
            Some(_) => RolloutShare::NONE,
            None => self.enter_step(now, &mut news),
        };
        self.run.is_stopped.store(self.stopped.is_some(), Ordering::Relaxed);
        self.run.share.store(share.ten_thousandths(), Ordering::Relaxed);
        news
    }

    fn enter_step(&mut self, now: Duration, news: &mut Option<RolloutNews>) -> RolloutShare {
        let step = self.plan.step_after(now.saturating_sub(self.began));
        if self.step != Some(step) {
            // A process that joins in the middle of a run tells nothing of the step that it finds.
            let is_first = self.step.replace(step).is_none();
            self.judge.begin_step();
            if !is_first || step == 0 {
                *news = Some(RolloutNews::Step);
            }
        }
        self.plan.share_of(step)
    }

    /// The state at the last tick.
    pub(super) fn last_status(&self) -> RolloutStatus {
        self.status(self.at)
    }

    /// The state at this moment.
    pub(super) fn status(&self, now: Duration) -> RolloutStatus {
        let step = self.plan.step_after(now.saturating_sub(self.began));
        let is_last = step + 1 == self.plan.steps.len();
        let state = match &self.stopped {
            Some(_) => RolloutState::Stopped,
            None if is_last => RolloutState::Complete,
            None => RolloutState::Running,
        };
        let end = self.plan.end_of(step).filter(|_| state == RolloutState::Running);
        RolloutStatus {
            plan: Arc::clone(&self.plan),
            state,
            step: self.stopped.as_ref().map_or(step, |stopped| stopped.step),
            share: self.run.share(),
            began: self.began,
            next_step_at: end.map(|end| self.began.saturating_add(end)),
            stopped: self.stopped.clone(),
            requests: [self.seen[0].requests, self.seen[1].requests],
            errors: [self.seen[0].errors, self.seen[1].errors],
        }
    }
}
