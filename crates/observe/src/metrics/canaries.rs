//! The metrics of canaries whose shares grow over a time.

use super::canary_figures::CanaryFigures;
use super::encode::{Page, labels};
use super::names;
use super::{Registry, lock};

/// Most canaries that have series of their own.
const CANARIES_MAX: usize = 1000;

impl Registry {
    /// Sets the states of all canaries.
    pub fn set_canaries(&self, mut all: Vec<CanaryFigures>) {
        all.truncate(CANARIES_MAX);
        *lock(&self.canaries) = all;
    }

    /// Writes the metrics that others set as a whole.
    pub(super) fn encode_sign_ins_and_canaries(&self, page: &mut Page<'_>) {
        self.encode_sign_ins(page);
        self.encode_canaries(page);
        self.encode_relay(page);
    }

    fn encode_canaries(&self, page: &mut Page<'_>) {
        let all = lock(&self.canaries);
        let of = |one: &CanaryFigures| labels(&[("namespace", &one.namespace), ("ingress", &one.ingress)]);
        page.family(&names::CANARY_SHARE);
        for one in all.iter() {
            page.sample(names::CANARY_SHARE.name, &of(one), one.share);
        }
        page.family(&names::CANARY_STEP);
        for one in all.iter() {
            page.sample(names::CANARY_STEP.name, &of(one), one.step);
        }
        page.family(&names::CANARY_STOPPED);
        for one in all.iter() {
            page.sample(names::CANARY_STOPPED.name, &of(one), u64::from(one.is_stopped));
        }
    }
}
