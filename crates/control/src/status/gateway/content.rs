//! The contents of a status, from the report of the translation and the present status.
//!
//! Never in here: IO, or a clock.

use serde_json::{Map, Value, json};

use super::features::{RELEASE, supported};
use crate::objects::IngressPoint;
use crate::objects::gateway_api::{GROUP, RouteGroupKind};
use crate::translate::gateway::report::{
    AncestorStatus, CONTROLLER, Condition, GatewayStatus, ListenerStatus, ParentStatus,
};

use super::Entry;

/// The types of the conditions that this controller sets. Others, such as `special.io/SomeField`, belong to
/// other controllers.
const OURS: [&str; 8] = [
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Conflicted",
    "OverlappingTLSConfig",
    "PartiallyInvalid",
    "InsecureFrontendValidationMode",
    "SupportedVersion",
];

/// The most entries that the specification allows in `ancestors`.
const ANCESTORS_MAX: usize = 16;

/// The fields of a status, as a merge patch of the present status `now`: entries of other controllers stay.
pub(super) fn status(entry: &Entry, addresses: &[IngressPoint], now: &Value, time: &str) -> Value {
    let writer = Writer { generation: entry.subject().generation, time };
    match entry {
        Entry::Class(class, minor) => json!({
            "conditions": writer.conditions(&class.conditions, &now["conditions"]),
            "supportedFeatures": features(*minor),
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

fn features(minor: Option<u32>) -> Vec<Value> {
    supported(minor).into_iter().map(|name| json!({"name": name})).collect()
}

/// Whether the release of the CRDs is known, as a condition of a class. Fields of an unknown release are
/// ignored, and the rest is served.
pub(super) fn supported_version(bundle: &str) -> Condition {
    let (major, minor_max) = RELEASE;
    if minor_of(bundle).is_some_and(|minor| minor <= minor_max) {
        Condition::yes("SupportedVersion", "SupportedVersion", format!("the CRDs are of {bundle}"))
    } else {
        let message = format!(
            "the CRDs are of {bundle}; v{major}.0 to v{major}.{minor_max} are supported, of others what these have"
        );
        Condition::no("SupportedVersion", "UnsupportedVersion", message)
    }
}

/// The minor number of a release, such as `v1.7.0`; none if it has another major number than the known
/// releases.
pub(super) fn minor_of(bundle: &str) -> Option<u32> {
    let mut numbers = bundle.trim_start_matches('v').split('.').map(str::parse::<u32>);
    let major = numbers.next()?.ok()?;
    numbers.next()?.ok().filter(|_| major == RELEASE.0)
}

/// The remaining `parents` or `ancestors` once an object does not concern this controller any more; none if
/// the present ones have no entry of this controller.
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

    /// The entries of other controllers, followed by ours.
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

    /// The conditions. Existing ones keep their position, and those of other controllers stay unchanged.
    fn conditions(&self, conditions: &[Condition], now: &Value) -> Vec<Value> {
        let now = || now.as_array().into_iter().flatten();
        let old = now().filter_map(|old| match conditions.iter().find(|one| old["type"] == one.kind) {
            Some(one) => Some(self.condition(one, old)),
            None => OURS.iter().all(|ours| old["type"] != *ours).then(|| old.clone()),
        });
        let is_new = |one: &&Condition| now().all(|old| old["type"] != one.kind);
        let new = conditions.iter().filter(is_new).map(|one| self.condition(one, &Value::Null));
        old.chain(new).collect()
    }

    /// A condition with its times. The transition time stays as long as the status stays the same. A
    /// condition of a later generation stays unchanged, because the watch will report that generation.
    fn condition(&self, condition: &Condition, old: &Value) -> Value {
        if old["observedGeneration"].as_i64().is_some_and(|generation| generation > self.generation) {
            return old.clone();
        }
        let status = if condition.is_true { "True" } else { "False" };
        let since = old["lastTransitionTime"].as_str().filter(|_| old["status"] == status);
        json!({
            "type": condition.kind,
            "status": status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": self.generation,
            "lastTransitionTime": since.unwrap_or(self.time),
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::gateway_api::ParentReference;

    const NOW: &str = "2026-07-01T00:00:00Z";
    const BEFORE: &str = "2026-01-01T00:00:00Z";

    fn old(kind: &str, status: &str, generation: i64) -> Value {
        json!({
            "type": kind, "status": status, "reason": "Old", "message": "", "observedGeneration": generation,
            "lastTransitionTime": BEFORE,
        })
    }

    fn written(now: &Value) -> Vec<Value> {
        let conditions =
            [Condition::yes("Accepted", "Accepted", ""), Condition::yes("Programmed", "Programmed", "")];
        Writer { generation: 2, time: NOW }.conditions(&conditions, now)
    }

    #[test]
    fn conditions_of_others_stay_as_they_are_and_where_they_are() {
        let theirs = old("special.io/SomeField", "Unknown", 1);
        let all = written(&json!([theirs, old("Conflicted", "True", 1), old("Accepted", "False", 1)]));
        let kinds: Vec<_> = all.iter().map(|one| one["type"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["special.io/SomeField", "Accepted", "Programmed"],
            "one of ours that does not hold any more goes"
        );
        assert_eq!(all[0], theirs);
        assert_eq!((&all[1]["status"], &all[1]["lastTransitionTime"]), (&json!("True"), &json!(NOW)));
        assert!(all[1..].iter().all(|one| one["observedGeneration"] == 2));
    }

    #[test]
    fn what_was_said_of_a_later_generation_stays() {
        let later = old("Accepted", "False", 3);
        let all = written(&json!([later]));
        assert_eq!((&all[0], &all[1]["type"]), (&later, &json!("Programmed")));
        assert_eq!(written(&json!([old("Accepted", "True", 2)]))[0]["lastTransitionTime"], BEFORE);
    }

    #[test]
    fn releases_that_are_known_are_supported() {
        for (bundle, is_true) in [
            ("v1.0.0", true),
            ("v1.6.3", true),
            ("v1.6.0-rc.1", true),
            ("v1.7.0", true),
            ("v1.7.0-rc.3", true),
            ("v1.8.0", false),
            ("v0.8.1", false),
            ("v2.0.0", false),
            ("main", false),
            ("", false),
        ] {
            let condition = supported_version(bundle);
            assert_eq!(condition.is_true, is_true, "{bundle}");
            assert!(condition.message.contains(&format!("of {bundle}")), "{}", condition.message);
        }
    }

    #[test]
    fn a_list_of_ancestors_that_is_full_takes_no_more() {
        let theirs: Vec<_> = (0..ANCESTORS_MAX)
            .map(|at| json!({"ancestorRef": {"name": at}, "controllerName": "example.com/other"}))
            .collect();
        let ours = AncestorStatus {
            ancestor_ref: ParentReference { name: "web".into(), ..ParentReference::default() },
            conditions: Vec::new(),
        };
        let write = |now: &[Value]| {
            Writer { generation: 1, time: NOW }.ancestors(std::slice::from_ref(&ours), &json!(now))
        };
        assert_eq!(write(&theirs), theirs);
        assert_eq!(write(&theirs[1..])[ANCESTORS_MAX - 1]["controllerName"], CONTROLLER);
    }
}
