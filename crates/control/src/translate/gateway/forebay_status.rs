//! The status of each `ForebayPolicy`: one ancestor for each of its targets.
//!
//! Never in here: the effects of policies.

use super::conditions::{self, Fault};
use super::forebay_policies::{ForebayPolicies, Policy, Target};
use super::listeners::Listeners;
use super::report::AncestorStatus;
use super::stored_routes::{StoredRoute, StoredRoutes};
use crate::objects::gateway_api::{GROUP, Gateway, ParentReference, PolicyTarget};
use crate::objects::{At, Resource};
use crate::problem::SourceLocation;

/// The existing targets, and the policies that claim them.
pub(super) struct Judge<'j, 'a> {
    pub(super) policies: &'j ForebayPolicies,
    pub(super) listeners: &'j Listeners<'a>,
    pub(super) routes: &'j StoredRoutes,
}

impl Judge<'_, '_> {
    /// The ancestors of a policy's status. `told` receives the faults of targets.
    pub(super) fn ancestors(
        &self,
        at: usize,
        told: &mut impl FnMut(&SourceLocation, &Fault),
    ) -> Vec<AncestorStatus> {
        let policy = &self.policies.all[at];
        let mut ancestors: Vec<AncestorStatus> = Vec::new();
        for target in &policy.object.spec.target_refs {
            let fault = self.fault(at, policy, target);
            if let Some(fault) =
                fault.as_ref().filter(|fault| fault.reason != INVALID || is_of_target(policy, target))
            {
                told(&SourceLocation::at(&*policy.object, target), fault);
            }
            let ancestor_ref = reference(&target.value, policy.object.namespace());
            if ancestors.iter().all(|known| known.ancestor_ref != ancestor_ref) {
                let conditions = vec![conditions::accepted(fault.as_ref())];
                ancestors.push(AncestorStatus { ancestor_ref, conditions });
            }
        }
        for route in self.routes.attached().filter(|route| names(route, policy)) {
            let of_route = route.object.subject().object;
            let ancestor_ref = ParentReference {
                group: Some(GROUP.into()),
                kind: Some(of_route.kind.into()),
                namespace: Some(of_route.namespace.into()),
                name: of_route.name.into(),
                section_name: None,
                port: None,
            };
            if ancestors.iter().all(|known| known.ancestor_ref != ancestor_ref) {
                let conditions = vec![conditions::accepted(of_fields(policy).as_ref())];
                ancestors.push(AncestorStatus { ancestor_ref, conditions });
            }
        }
        ancestors
    }

    /// The reason why a policy does not apply to a target, or only in part.
    fn fault(&self, at: usize, policy: &Policy, target: &At<PolicyTarget>) -> Option<Fault> {
        let Some(target) = Target::of(&target.value, policy.object.namespace()) else {
            let kind = &target.value.kind;
            let message = format!(
                "no field is for {kind} {}: policies are for Gateways, HTTPRoutes and GRPCRoutes",
                target.value.name
            );
            return Some(Fault::new(INVALID, message));
        };
        if let Some(why) = self.missing(&target) {
            return Some(Fault::new("TargetNotFound", why));
        }
        of_fields(policy).or_else(|| self.conflict(at, policy, &target))
    }

    /// The reason why a target does not exist.
    fn missing(&self, target: &Target) -> Option<String> {
        let Target { kind, name, section } = target;
        if *kind == Gateway::KIND {
            let Some(gateway) = self.listeners.gateways.iter().find(|one| one.object.key() == *name) else {
                return Some(format!("no Gateway {name} is Forebay's"));
            };
            let section = section.as_deref()?;
            let mut listeners = gateway.object.spec.listeners.iter();
            let is_there = listeners.any(|listener| *listener.value.name == *section);
            return (!is_there).then(|| format!("Gateway {name} has no listener {section}"));
        }
        let is_meant = |route: &&StoredRoute| route.object.is_named(kind, name);
        let Some(route) = self.routes.attached().find(is_meant) else {
            return Some(format!("no {kind} {name} is attached to a Gateway of Forebay's"));
        };
        let section = section.as_deref()?;
        (!route.object.rule_names().contains(&section))
            .then(|| format!("{kind} {name} has no rule {section}"))
    }

    /// The fields that older policies of the same target already set.
    fn conflict(&self, at: usize, policy: &Policy, target: &Target) -> Option<Fault> {
        let older = self.policies.of_target(target).iter().take_while(|&&other| other != at);
        let mut lost = Vec::new();
        for other in older.map(|&other| &self.policies.all[other]) {
            let theirs = |name: &str| other.read.given.iter().any(|one| one.field.annotation.name == name);
            let own = policy.read.given.iter().filter(|own| theirs(own.field.annotation.name));
            lost.extend(own.map(|own| format!("{} ({})", own.field.path(), other.object.key())));
        }
        (!lost.is_empty()).then(|| {
            let message = format!(
                "older policies for the same target have said already: {}; the rest holds",
                lost.join(", ")
            );
            Fault::new("Conflicted", message)
        })
    }
}

const INVALID: &str = "Invalid";

/// The first fault of a policy's fields.
fn of_fields(policy: &Policy) -> Option<Fault> {
    let (first, others) = policy.read.faults.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!("; {} more", others.len()) };
    Some(Fault::new(INVALID, format!("{}{more}", first.message)))
}

/// Whether filters of a route name a policy.
fn names(route: &StoredRoute, policy: &Policy) -> bool {
    let asks = route.object.asks();
    let of_rules = asks.rules.iter().flat_map(|(_, policies)| policies);
    let mut all = of_rules.chain(&asks.of_backends);
    route.object.subject().object.namespace == policy.object.namespace()
        && all.any(|name| *name == policy.object.name())
}

/// Whether a fault concerns the target itself. Faults of fields are reported at the fields.
fn is_of_target(policy: &Policy, target: &At<PolicyTarget>) -> bool {
    Target::of(&target.value, policy.object.namespace()).is_none()
}

fn reference(target: &PolicyTarget, namespace: &str) -> ParentReference {
    ParentReference {
        group: Some(target.group.clone()),
        kind: Some(target.kind.clone()),
        namespace: Some(namespace.into()),
        name: target.name.clone(),
        section_name: target.section_name.clone(),
        port: None,
    }
}
