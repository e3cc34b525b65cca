//! What a status is to say, from what translation reports and what the status says now.
//!
//! Never in here: IO, or a clock.

use serde_json::{Map, Value, json};

use super::features::FEATURES;
use crate::objects::IngressPoint;
use crate::objects::gateway_api::{GROUP, RouteGroupKind};
use crate::translate::gateway::report::{
    AncestorStatus, CONTROLLER, Condition, GatewayStatus, ListenerStatus, ParentStatus,
};

use super::Entry;

/// Most entries that the specification allows in `ancestors`.
const ANCESTORS_MAX: usize = 16;

/// The fields of a status, as a merge patch of what it says `now`: what others have written stays.
pub(super) fn status(entry: &Entry, addresses: &[IngressPoint], now: &Value, time: &str) -> Value {
    let writer = Writer { generation: entry.subject().generation, time };
    match entry {
        Entry::Class(class) => json!({
            "conditions": writer.conditions(&class.conditions, &now["conditions"]),
            "supportedFeatures": FEATURES.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        }),
        Entry::Gateway(gateway) => writer.gateway(gateway, addresses, now),
        Entry::ListenerSet(set) => json!({
            "conditions": writer.conditions(&set.conditions, &now["conditions"]),
            "listeners": writer.listeners(&set.listeners, &now["listeners"]),
        }),
        Entry::Route(route) => json!({"parents": writer.parents(&route.parents, &now["parents"])}),
        Entry::Policy(policy) => json!({"ancestors": writer.ancestors(&policy.ancestors, &now["ancestors"])}),
    }
}

/// What is left of `parents` or `ancestors` when this controller has nothing to do with an object any more; none if it had nothing before.
pub(super) fn without_ours(entries: &Value) -> Option<Vec<Value>> {
    let all = entries.as_array()?;
    let left: Vec<_> = all.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    (left.len() < all.len()).then_some(left)
}

struct Writer<'a> {
    generation: i64,
    time: &'a str,
}

impl Writer<'_> {
    fn gateway(&self, gateway: &GatewayStatus, published: &[IngressPoint], now: &Value) -> Value {
        let addresses: Vec<Value> = match &gateway.addresses {
            Some(own) => {
                own.iter().map(|own| json!({"type": own.kind.as_str(), "value": own.value})).collect()
            }
            None => published.iter().filter_map(address).collect(),
        };
        let mut conditions = gateway.conditions.clone();
        let programmed = conditions.iter_mut().find(|condition| condition.kind == "Programmed");
        if let Some(programmed) = programmed.filter(|programmed| programmed.is_true && addresses.is_empty()) {
            *programmed = Condition::no(
                "Programmed",
                "AddressNotAssigned",
                "no address is known where clients reach it",
            );
        }
        json!({
            "addresses": addresses,
            "conditions": self.conditions(&conditions, &now["conditions"]),
            "listeners": self.listeners(&gateway.listeners, &now["listeners"]),
            "attachedListenerSets": gateway.attached_listener_sets,
        })
    }

    fn listeners(&self, listeners: &[ListenerStatus], now: &Value) -> Vec<Value> {
        let listener = |listener: &ListenerStatus| {
            let same = |old: &&Value| old["name"] == *listener.name;
            let old = now.as_array().and_then(|all| all.iter().find(same)).unwrap_or(&Value::Null);
            json!({
                "name": listener.name,
                "supportedKinds": listener.supported_kinds.iter().map(kind).collect::<Vec<_>>(),
                "attachedRoutes": listener.attached_routes,
                "conditions": self.conditions(&listener.conditions, &old["conditions"]),
            })
        };
        listeners.iter().map(listener).collect()
    }

    fn parents(&self, parents: &[ParentStatus], now: &Value) -> Vec<Value> {
        let parents = parents.iter().map(|parent| (json!(parent.parent_ref), &*parent.conditions));
        self.references("parentRef", parents, now).collect()
    }

    fn ancestors(&self, ancestors: &[AncestorStatus], now: &Value) -> Vec<Value> {
        let ancestors =
            ancestors.iter().map(|ancestor| (json!(ancestor.ancestor_ref), &*ancestor.conditions));
        self.references("ancestorRef", ancestors, now).take(ANCESTORS_MAX).collect()
    }

    /// The entries of other controllers, and then ours.
    fn references<'a>(
        &'a self,
        field: &'a str,
        ours: impl Iterator<Item = (Value, &'a [Condition])> + 'a,
        now: &'a Value,
    ) -> impl Iterator<Item = Value> + 'a {
        let all = || now.as_array().into_iter().flatten();
        let ours = ours.map(move |(reference, conditions)| {
            let old = all().find(|old| is_ours(old) && old[field] == reference).unwrap_or(&Value::Null);
            let conditions = self.conditions(conditions, &old["conditions"]);
            let mut entry = Map::new();
            entry.insert(field.to_owned(), reference);
            entry.insert("controllerName".to_owned(), CONTROLLER.into());
            entry.insert("conditions".to_owned(), conditions.into());
            entry.into()
        });
        all().filter(|entry| !is_ours(entry)).cloned().chain(ours)
    }

    /// A condition keeps its time for as long as its status stays the same.
    fn conditions(&self, conditions: &[Condition], now: &Value) -> Vec<Value> {
        let condition = |condition: &Condition| {
            let status = if condition.is_true { "True" } else { "False" };
            let same = |old: &&Value| old["type"] == condition.kind && old["status"] == status;
            let old = now.as_array().and_then(|all| all.iter().find(same));
            let since = old.and_then(|old| old["lastTransitionTime"].as_str()).unwrap_or(self.time);
            json!({
                "type": condition.kind,
                "status": status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": self.generation,
                "lastTransitionTime": since,
            })
        };
        conditions.iter().map(condition).collect()
    }
}

fn is_ours(entry: &Value) -> bool {
    entry["controllerName"] == CONTROLLER
}

fn kind(kind: &RouteGroupKind) -> Value {
    json!({"group": kind.group.as_deref().unwrap_or(GROUP), "kind": kind.kind})
}

fn address(point: &IngressPoint) -> Option<Value> {
    match (&point.ip, &point.hostname) {
        (Some(ip), _) => Some(json!({"type": "IPAddress", "value": ip})),
        (None, Some(name)) => Some(json!({"type": "Hostname", "value": name})),
        (None, None) => None,
    }
}
