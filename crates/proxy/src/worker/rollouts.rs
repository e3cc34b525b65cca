//! The canaries whose shares grow over a time, as a worker reaches them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use balance::{Rollouts, Run};
use model::Rollout;
use routing::Snapshot;

/// The runs that a worker has looked up. They are looked up again after a change of the configuration.
pub(crate) struct RolloutHandles {
    all: Arc<Rollouts>,
    /// By the address of the plan, which the entry keeps alive.
    known: RefCell<HashMap<usize, Known>>,
}

#[derive(Clone)]
struct Known {
    #[expect(dead_code, reason = "its address stays its own as long as it is alive")]
    plan: Arc<Rollout>,
    run: Arc<Run>,
}

impl RolloutHandles {
    pub(crate) fn new(all: Arc<Rollouts>) -> Self {
        Self { all, known: RefCell::default() }
    }

    /// All canaries, as all workers share them.
    pub(crate) fn all(&self) -> &Rollouts {
        &self.all
    }

    /// The run of a plan; none where the configuration in force does not have it.
    pub(crate) fn run(&self, plan: &Arc<Rollout>) -> Option<Arc<Run>> {
        let address = Arc::as_ptr(plan).addr();
        if let Some(known) = self.known.borrow().get(&address) {
            return Some(Arc::clone(&known.run));
        }
        let run = self.all.run(plan)?;
        let known = Known { plan: Arc::clone(plan), run: Arc::clone(&run) };
        self.known.borrow_mut().insert(address, known);
        Some(run)
    }

    /// The state of a plan in words.
    pub(crate) fn in_words(&self, plan: &Rollout) -> Option<String> {
        self.all.status_of(plan).map(|status| status.in_words())
    }

    /// Forgets what was looked up.
    pub(super) fn forget(&self) {
        self.known.borrow_mut().clear();
    }
}

/// The plans of all canaries of a configuration.
pub(crate) fn plans(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Rollout>> {
    snapshot.special_hosts().flat_map(|host| host.rollouts())
}
