//! The values by which others see a run: its state, its events, and the part that outlives a process.

use std::sync::Arc;
use std::time::Duration;

use model::{Rollout, RolloutShare};

/// The part of a run that outlives a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRun {
    /// Namespace and name of the canary's object.
    pub name: Arc<str>,
    /// Identity of the run.
    pub run: Arc<str>,
    /// When it began, as time since 1970.
    pub began: Duration,
    /// The stop; none for a run that was not stopped.
    pub stopped: Option<Stopped>,
}

/// The stop of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// When, as time since 1970.
    pub at: Duration,
    /// The step in which it was, counted from 0.
    pub step: usize,
    /// The fault, in words.
    pub why: Arc<str>,
}

/// An event in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutNews {
    /// A step has begun.
    Step,
    /// The canary was stopped.
    Stopped,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// A step with an end.
    Running,
    /// The last step.
    Complete,
    /// Stopped for a fault: the canary gets nothing.
    Stopped,
}

/// The state of a run at one moment.
#[derive(Clone, Debug)]
pub struct RolloutStatus {
    /// The canary's steps and bounds.
    pub plan: Arc<Rollout>,
    /// Whether it goes on.
    pub state: RolloutState,
    /// The step, counted from 0; that of the stop where it was stopped.
    pub step: usize,
    /// The share at this moment.
    pub share: RolloutShare,
    /// When it began, as time since 1970.
    pub began: Duration,
    /// When the next step begins; none where there is none.
    pub next_step_at: Option<Duration>,
    /// The stop, where it was stopped.
    pub stopped: Option<Stopped>,
    /// Requests that this process has sent to the mainline and to the canary.
    pub requests: [u64; 2],
    /// The failed ones among them.
    pub errors: [u64; 2],
}

impl RolloutNews {
    /// Its name in Events.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Step => "CanaryStep",
            Self::Stopped => "CanaryStopped",
        }
    }
}

impl RolloutState {
    /// Its name in answers of programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Stopped => "stopped",
        }
    }
}

impl RolloutStatus {
    /// The status in a sentence.
    pub fn in_words(&self) -> String {
        let step = self.step + 1;
        let of = self.plan.steps.len();
        let share = self.share;
        match &self.stopped {
            Some(stopped) => format!("stopped in step {step} of {of}: {}", stopped.why),
            None if self.state == RolloutState::Complete => {
                format!("step {step} of {of}, the last one: the canary takes {share}")
            }
            None => format!("step {step} of {of}: the canary takes {share}"),
        }
    }
}
