//! Canaries whose shares grow over a time: the step of each, and the stop of one that is worse than its
//! mainline.
//!
//! ```text
//! tally  requests to mainline and canary, counted by all workers
//! judge  whether the canary is worse by more than its bound
//! run    the step and the state of one canary
//! state  the values by which others see a run
//! ```
//!
//! States of several processes are merged: the earliest begin of a run and its earliest stop hold for all.
//! The order and the number of merges do not matter, so states may come by any way.
//!
//! Must not be in here: a clock, files, the API server, sockets.

mod judge;
mod run;
mod state;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::Rollout;
use parking_lot::{Mutex, MutexGuard};

use crate::limits::{ROLLOUT_NEWS_MAX, ROLLOUTS_HELD_MAX, ROLLOUTS_REMEMBERED_MAX};
use run::JudgedRun;
pub use run::Run;
pub use state::{KeptRun, RolloutNews, RolloutState, RolloutStatus, Stopped};
pub use tally::RolloutOutcome;

/// The runs of all canaries of a configuration.
#[derive(Debug, Default)]
pub struct Rollouts {
    known: Mutex<Known>,
    /// Grows with each begin, stop and end of a run: what is kept elsewhere has to be written again.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    runs: HashMap<Arc<str>, JudgedRun>,
    /// Runs that were heard of and are not part of the configuration yet.
    remembered: HashMap<Arc<str>, KeptRun>,
    news: Vec<(RolloutNews, RolloutStatus)>,
    /// Canaries get nothing until the states of before have been read, or this time is over.
    held: Option<Held>,
}

/// The time for which canaries are held back.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Set at the first tick.
    until: Option<Duration>,
}

impl Rollouts {
    /// Runs whose states of before are merged before they begin, by [`merge`](Self::merge).
    pub fn held() -> Self {
        let known = Known { held: Some(Held { until: None }), ..Known::default() };
        Self { known: Mutex::new(known), version: AtomicU64::default() }
    }

    /// Follows the canaries of a configuration. A run whose object is unchanged goes on; one that is new, or
    /// has another identity, begins.
    pub fn follow<'r>(&self, plans: impl Iterator<Item = &'r Arc<Rollout>>, now: Duration) {
        let mut known = self.lock();
        let mut before = std::mem::take(&mut known.runs);
        let mut has_changed = false;
        for plan in plans {
            if known.runs.contains_key(&plan.name) {
                continue;
            }
            let run = match before.remove(&plan.name) {
                Some(mut run) if run.plan.run == plan.run => {
                    run.plan = Arc::clone(plan);
                    run
                }
                _ => {
                    has_changed = true;
                    let kept = known.remembered.remove(&plan.name);
                    JudgedRun::new(Arc::clone(plan), kept.as_ref(), now)
                }
            };
            known.runs.insert(Arc::clone(&plan.name), run);
        }
        if has_changed || !before.is_empty() {
            self.changed();
        }
        drop(known);
        if has_changed {
            self.tick(now);
        }
    }

    /// The run of a canary; none before the configuration is followed.
    pub fn run(&self, plan: &Rollout) -> Option<Arc<Run>> {
        let known = self.lock();
        known.runs.get(&plan.name).filter(|run| run.plan.run == plan.run).map(|run| Arc::clone(&run.run))
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.lock().runs.is_empty()
    }

    /// Judges all runs and moves them on, ten times a second. `now` is the time since 1970.
    pub fn tick(&self, now: Duration) {
        let mut known = self.lock();
        let Known { runs, news, held, .. } = &mut *known;
        if runs.is_empty() {
            return;
        }
        if let Some(hold) = held {
            let until = *hold.until.get_or_insert(now.saturating_add(ROLLOUTS_HELD_MAX));
            if now >= until {
                *held = None;
            }
        }
        for run in runs.values_mut() {
            let Some(what) = run.tick(now, held.is_some()) else { continue };
            if held.is_none() && news.len() < ROLLOUT_NEWS_MAX {
                news.push((what, run.status(now)));
            }
            if what == RolloutNews::Stopped {
                self.changed();
            }
        }
    }

    /// Takes over the states that another process or an earlier one has kept, and lets canaries begin that
    /// were held back for it.
    pub fn merge(&self, kept: impl IntoIterator<Item = KeptRun>, now: Duration) {
        let mut known = self.lock();
        let is_first = known.held.take().is_some();
        let mut has_changed = false;
        let Known { runs, remembered, news, .. } = &mut *known;
        for kept in kept {
            match runs.get_mut(&kept.name) {
                Some(run) => {
                    let was_stopped = run.stopped.is_some();
                    has_changed |= run.merge(&kept);
                    // A stop of before the start of this process has been told then.
                    let is_news = !is_first && !was_stopped && run.stopped.is_some();
                    if is_news && news.len() < ROLLOUT_NEWS_MAX {
                        news.push((RolloutNews::Stopped, run.status(now)));
                    }
                }
                None if remembered.len() < ROLLOUTS_REMEMBERED_MAX => {
                    remembered.insert(Arc::clone(&kept.name), kept);
                }
                None => {}
            }
        }
        if has_changed {
            self.changed();
        }
        drop(known);
        if has_changed || is_first {
            self.tick(now);
        }
    }

    /// Takes over the stops of another process. It does not let canaries begin that are held back, and knows
    /// nothing of canaries that are not followed.
    pub fn hear(&self, stops: impl IntoIterator<Item = KeptRun>, now: Duration) {
        let mut known = self.lock();
        let Known { runs, news, .. } = &mut *known;
        let mut has_changed = false;
        for stop in stops.into_iter().filter(|stop| stop.stopped.is_some()) {
            let Some(run) = runs.get_mut(&stop.name).filter(|run| run.stopped.is_none()) else { continue };
            has_changed |= run.merge(&stop);
            if run.stopped.is_some() && news.len() < ROLLOUT_NEWS_MAX {
                news.push((RolloutNews::Stopped, run.status(now)));
            }
        }
        if has_changed {
            // Before the events can be taken.
            self.changed();
        }
        drop(known);
        if has_changed {
            self.tick(now);
        }
    }

    /// The states to keep, by name.
    pub fn kept(&self) -> Vec<KeptRun> {
        let known = self.lock();
        let mut kept: Vec<_> = known.runs.values().map(JudgedRun::kept).collect();
        kept.sort_by(|one, other| one.name.cmp(&other.name));
        kept
    }

    /// A number that grows with each change of what [`kept`](Self::kept) returns.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The states of all runs, by name.
    pub fn status(&self, now: Duration) -> Vec<RolloutStatus> {
        let known = self.lock();
        let mut all: Vec<_> = known.runs.values().map(|run| run.status(now)).collect();
        all.sort_by(|one, other| one.plan.name.cmp(&other.plan.name));
        all
    }

    /// The state of a canary at the last tick; none where there is no such run.
    pub fn status_of(&self, plan: &Rollout) -> Option<RolloutStatus> {
        let known = self.lock();
        known.runs.get(&plan.name).filter(|run| run.plan.run == plan.run).map(JudgedRun::last_status)
    }

    /// The events since the last call.
    pub fn take_news(&self) -> Vec<(RolloutNews, RolloutStatus)> {
        std::mem::take(&mut self.lock().news)
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

#[cfg(test)]
mod tests;
