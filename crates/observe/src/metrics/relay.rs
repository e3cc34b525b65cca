//! The metrics of watches that replicas share.

use super::encode::Page;
use super::names;
use super::relay_figures::RelayFigures;
use super::{Registry, lock};

impl Registry {
    /// Sets the figures of shared watches.
    pub fn set_relay(&self, figures: RelayFigures) {
        *lock(&self.relay) = Some(figures);
    }

    /// Writes the metrics of shared watches; without values where watches are not shared.
    pub(super) fn encode_relay(&self, page: &mut Page<'_>) {
        let figures = *lock(&self.relay);
        let mut one = |metric: &names::Metric, value: fn(&RelayFigures) -> u64| {
            page.family(metric);
            if let Some(figures) = &figures {
                page.sample(metric.name, "", value(figures));
            }
        };
        one(&names::RELAY_FOLLOWS, |figures| u64::from(figures.follows));
        one(&names::RELAY_FOLLOWERS, |figures| figures.followers as u64);
        one(&names::RELAY_FALLBACKS, |figures| figures.fallbacks);
        one(&names::RELAY_CUT, |figures| figures.cut);
        one(&names::RELAY_SENT, |figures| figures.sent_bytes);
    }
}
