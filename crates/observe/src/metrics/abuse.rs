//! The metrics of clients with unusual behaviour.

use std::sync::atomic::Ordering;

use super::encode::{Page, labels};
use super::names;
use super::{Counter, Registry};

impl Registry {
    /// Sets the numbers of clients that are watched, slowed and refused for their behaviour, and the bytes of
    /// their records.
    pub fn set_abuse(&self, [watched, slowed, refused]: [u64; 3], bytes: u64) {
        for (cell, figure) in self.abuse.iter().zip([watched, slowed, refused, bytes]) {
            cell.store(figure, Ordering::Relaxed);
        }
    }

    /// Writes the metrics of clients with unusual behaviour.
    pub(super) fn encode_abuse(&self, page: &mut Page<'_>, count: impl Fn(Counter) -> u64) {
        let [clients @ .., bytes] = &self.abuse;
        page.family(&names::ABUSE_CLIENTS);
        for (state, figure) in ["watched", "slowed", "refused"].into_iter().zip(clients) {
            let labels = labels(&[("state", state)]);
            page.sample(names::ABUSE_CLIENTS.name, &labels, figure.load(Ordering::Relaxed));
        }
        page.family(&names::ABUSE_ACTIONS);
        for (action, mode, counter) in [
            ("slow", "enforce", Counter::AbuseSlowed),
            ("refuse", "enforce", Counter::AbuseRefused),
            ("close", "enforce", Counter::AbuseClosed),
            ("slow", "watch", Counter::AbuseWouldSlow),
            ("refuse", "watch", Counter::AbuseWouldRefuse),
            ("close", "watch", Counter::AbuseWouldClose),
        ] {
            let labels = labels(&[("action", action), ("mode", mode)]);
            page.sample(names::ABUSE_ACTIONS.name, &labels, count(counter));
        }
        page.family(&names::ABUSE_BYTES);
        page.sample(names::ABUSE_BYTES.name, "", bytes.load(Ordering::Relaxed));
    }
}
