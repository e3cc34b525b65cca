//! Changes a report for listeners whose ports cannot be opened.
//!
//! Never in here: the detection of these ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ListenerId;

use super::conditions::PROGRAMMED;
use super::report::{Condition, GatewayReport, ListenerStatus};

impl GatewayReport {
    /// Reports listeners whose ports cannot be opened as not served, and also Gateways and `ListenerSet`s
    /// that have no other listeners. `closed` has the reasons.
    pub fn note_closed(&mut self, closed: &BTreeMap<ListenerId, String>) {
        for gateway in &mut self.gateways {
            if gateway.listeners.iter().any(|listener| listener.closed(closed).is_some()) {
                let gateway = Arc::make_mut(gateway);
                if let Some(why) = note_closed(&mut gateway.listeners, closed) {
                    not_programmed(&mut gateway.conditions, &why);
                }
            }
        }
        for set in &mut self.listener_sets {
            if set.listeners.iter().any(|listener| listener.closed(closed).is_some()) {
                let set = Arc::make_mut(set);
                if let Some(why) = note_closed(&mut set.listeners, closed) {
                    not_programmed(&mut set.conditions, &why);
                }
            }
        }
    }
}

/// Returns the reason if none of the listeners is served.
fn note_closed(listeners: &mut [ListenerStatus], closed: &BTreeMap<ListenerId, String>) -> Option<String> {
    let mut first = None;
    for listener in listeners.iter_mut() {
        if let Some(why) = listener.closed(closed) {
            not_programmed(&mut listener.conditions, &why);
            first.get_or_insert(why);
        }
    }
    let is_served = |one: &ListenerStatus| !one.places.is_empty() && one.closed(closed).is_none();
    first.filter(|_| !listeners.iter().any(is_served))
}

fn not_programmed(conditions: &mut [Condition], why: &str) {
    let programmed = conditions.iter_mut().find(|it| it.kind == PROGRAMMED && it.is_true);
    if let Some(programmed) = programmed {
        *programmed = Condition::no(PROGRAMMED, "Pending", why);
    }
}

impl ListenerStatus {
    fn closed(&self, closed: &BTreeMap<ListenerId, String>) -> Option<String> {
        let (id, why) = self.places.iter().find_map(|id| closed.get_key_value(id))?;
        Some(format!("port {} cannot be listened at: {why}; it is tried again", id.port))
    }
}
