//! The contents of the status of all objects, and the resulting problems.
//!
//! Never in here: writing the status.

use std::collections::HashMap;
use std::sync::Arc;

use super::at_parent::AtParent;
use super::conditions::{
    self, ACCEPTED, CONFLICTED, Fault, INSECURE_VALIDATION, OVERLAPPING_TLS, problem, subject,
};
use super::effective::{Effective, ParentKey};
use super::forebay_policies::{ForebayPolicies, Policy};
use super::forebay_status::Judge;
use super::listener_tls;
use super::listeners::{Listeners, OwnGateway, OwnSet};
use super::pieces::Pieces;
use super::policies::Judged;
use super::report::{
    AncestorStatus, ClassReport, Condition, GatewayReport, GatewayStatus, ListenerSetStatus, ListenerStatus,
    PolicyStatus, RouteStatus, Subject,
};
use super::stored_routes::StoredRoutes;
use super::traffic::JudgedTraffic;
use crate::names::NsName;
use crate::objects::gateway_api::ParentReference;
use crate::problem::{Problem, Reason, SourceLocation};

/// Why a Gateway or a set is not served although nothing is wrong with it.
const AWAITED: &str = "the certificates of its listeners are being obtained";

/// Makes the report. Unchanged parts keep their pointers.
pub(super) struct Reporter<'r, 'a> {
    pub(super) listeners: &'r Listeners<'a>,
    /// The number of routes attached to each listener.
    pub(super) counts: &'r [u32],
    pub(super) routes: &'r StoredRoutes,
    pub(super) pieces: &'r Pieces,
    pub(super) before: &'r GatewayReport,
    pub(super) problems: &'r mut Vec<Problem>,
}

impl<'r, 'a> Reporter<'r, 'a> {
    pub(super) fn report(
        mut self,
        policies: &[Judged<'_>],
        traffic: &[JudgedTraffic<'_>],
        forebay_policies: &ForebayPolicies,
    ) -> GatewayReport {
        let before = self.before;
        let mut all_policies = self.policies(policies);
        all_policies.extend(self.traffic_policies(traffic));
        all_policies.extend(self.forebay_policies(forebay_policies));
        GatewayReport {
            classes: shared(self.classes(), &before.classes, |it| &it.subject),
            gateways: shared(self.gateways(), &before.gateways, |it| &it.subject),
            listener_sets: shared(self.sets(), &before.listener_sets, |it| &it.subject),
            routes: self.routes(),
            policies: shared(all_policies, &before.policies, |it| &it.subject),
        }
    }

    fn classes(&self) -> Vec<ClassReport> {
        let report = |class: &&crate::objects::Sourced<crate::objects::gateway_api::GatewayClass>| {
            let fault = class.spec.parameters_ref.as_ref().map(|_| {
                Fault::new("InvalidParameters", "parametersRef: there are no parameters for a class")
            });
            let conditions = vec![conditions::accepted(fault.as_ref())];
            ClassReport { subject: subject(*class), conditions }
        };
        self.listeners.classes.iter().map(report).collect()
    }

    fn gateways(&mut self) -> Vec<GatewayStatus> {
        let listeners = self.listeners;
        listeners.gateways.iter().map(|gateway| self.gateway(gateway)).collect()
    }

    fn gateway(&mut self, gateway: &OwnGateway<'_>) -> GatewayStatus {
        let key = gateway.object.key();
        let own = self.of_parent(&ParentKey::Gateway(key.clone()));
        let sets = self.listeners.sets.iter().filter(|set| set.gateway == key);
        let attached_sets = sets.filter(|set| self.set_fault(set).is_none()).count();
        let invalid = own.iter().filter(|(_, one)| one.refused.is_some()).count();
        let lacking = own.iter().any(|(_, one)| !one.is_served());
        let mut accepted = gateway.refused.clone();
        if accepted.is_none() && invalid == own.len() && invalid > 0 {
            accepted = Some(Fault::new("ListenersNotValid", "no listener is valid"));
        }
        let mut first = conditions::accepted(accepted.as_ref());
        if accepted.is_none() && lacking {
            first = Condition::yes(ACCEPTED, "ListenersNotValid", "some listeners are not valid");
        }
        let is_nowhere = gateway.assigned.unusable.as_ref().or(gateway.refused.as_ref()).cloned();
        let is_served = own.iter().any(|(_, one)| one.is_served()) || attached_sets > 0;
        let is_awaited = own.iter().any(|(_, one)| one.is_awaited());
        let (reason, why) =
            if is_awaited { ("Pending", AWAITED) } else { ("Invalid", "no listener is served") };
        let nothing = || Fault::new(reason, why);
        let programmed = gateway.assigned.unusable.clone();
        let programmed =
            programmed.or_else(|| accepted.clone().map(|why| Fault::new("Invalid", why.message)));
        let programmed = programmed.or_else(|| (!is_served).then(nothing));
        let unresolved = gateway.unresolved.clone().or_else(|| {
            let one = own.iter().find(|(_, one)| one.unresolved.is_some())?.1;
            let message = format!("references of listener {} lead nowhere", one.listener.name);
            Some(Fault::new("ListenersNotResolved", message))
        });
        let mut conditions = vec![
            first,
            conditions::programmed(programmed.as_ref()),
            conditions::resolved(unresolved.as_ref()),
        ];
        if listener_tls::is_insecure(gateway.object) {
            let message = "clients without a valid certificate are served";
            conditions.push(Condition::yes(INSECURE_VALIDATION, "ConfigurationChanged", message));
        }
        let place = SourceLocation::of(gateway.object);
        for fault in [&accepted, &gateway.assigned.unusable, &gateway.unresolved].into_iter().flatten() {
            self.problems.push(problem(&place, "", fault));
        }
        let places =
            gateway.object.spec.listeners.iter().map(|one| SourceLocation::at(gateway.object, one)).collect();
        GatewayStatus {
            subject: subject(gateway.object),
            conditions,
            addresses: gateway.assigned.status(),
            listeners: self.statuses(&own, places, is_nowhere.as_ref()),
            attached_listener_sets: attached_sets as u32,
        }
    }

    fn sets(&mut self) -> Vec<ListenerSetStatus> {
        let listeners = self.listeners;
        listeners.sets.iter().map(|set| self.set(set)).collect()
    }

    fn set(&mut self, set: &OwnSet<'_>) -> ListenerSetStatus {
        let fault = self.set_fault(set);
        if let Some(fault) = &fault {
            self.problems.push(problem(&SourceLocation::of(set.object), "", fault));
        }
        let own = self.of_parent(&ParentKey::Set(set.object.key()));
        let places =
            set.object.spec.listeners.iter().map(|one| SourceLocation::at(set.object, one)).collect();
        ListenerSetStatus {
            subject: subject(set.object),
            conditions: vec![
                conditions::accepted(fault.as_ref()),
                conditions::programmed(fault.or_else(|| self.awaiting(set)).as_ref()),
            ],
            listeners: self.statuses(&own, places, None),
        }
    }

    /// The reason for not accepting a set: "accepted if at least one of its listeners is valid".
    fn set_fault(&self, set: &OwnSet<'_>) -> Option<Fault> {
        let none_is_valid = || {
            let own = self.of_parent(&ParentKey::Set(set.object.key()));
            let is_valid = own.iter().any(|(_, one)| one.is_served() || one.is_awaited());
            (!is_valid).then(|| Fault::new("ListenersNotValid", "no listener is valid"))
        };
        set.refused.clone().or_else(none_is_valid)
    }

    /// Why an accepted set is not served: the certificates of its listeners are being obtained.
    fn awaiting(&self, set: &OwnSet<'_>) -> Option<Fault> {
        let own = self.of_parent(&ParentKey::Set(set.object.key()));
        let is_served = own.iter().any(|(_, one)| one.is_served());
        (!is_served && set.refused.is_none()).then(|| Fault::new("Pending", AWAITED))
    }

    fn of_parent(&self, key: &ParentKey) -> Vec<(usize, &'r Effective<'a>)> {
        let listeners = self.listeners;
        let places = listeners.of_parent.get(key).into_iter().flatten();
        places.map(|&at| (at, &listeners.all[at])).collect()
    }

    fn routes(&mut self) -> Vec<Arc<RouteStatus>> {
        let problems = self.routes.attached().flat_map(|route| route.problems.iter().cloned());
        self.problems.extend(problems);
        self.routes.attached().filter_map(|route| route.status.clone()).collect()
    }

    fn policies(&mut self, policies: &[Judged<'_>]) -> Vec<PolicyStatus> {
        let status = |policy: &Judged<'_>| {
            let gateways = self.gateways_of(&policy.services);
            let place = SourceLocation::of(policy.object);
            for fault in policy.accepted.iter().chain(&policy.resolved) {
                self.problems.push(problem(&place, "", fault));
            }
            let conditions = vec![
                conditions::accepted(policy.accepted.as_ref()),
                conditions::resolved(policy.resolved.as_ref()),
            ];
            PolicyStatus { subject: subject(policy.object), ancestors: ancestors(gateways, &conditions) }
        };
        policies.iter().map(status).collect()
    }

    fn traffic_policies(&mut self, policies: &[JudgedTraffic<'_>]) -> Vec<PolicyStatus> {
        let status = |policy: &JudgedTraffic<'_>| {
            let gateways = self.gateways_of(&policy.services);
            if let Some(refusal) = &policy.refusal {
                self.problems.push(problem(&refusal.place, "", &refusal.fault));
            }
            let conditions = [conditions::accepted(policy.refusal.as_ref().map(|refusal| &refusal.fault))];
            PolicyStatus { subject: subject(policy.object), ancestors: ancestors(gateways, &conditions) }
        };
        policies.iter().map(status).collect()
    }

    fn forebay_policies(&mut self, policies: &ForebayPolicies) -> Vec<PolicyStatus> {
        let judge = Judge { policies, listeners: self.listeners, routes: self.routes };
        let status = |(at, policy): (usize, &Policy)| {
            // A missing object is reported where it is needed.
            let faults = policy.read.faults.iter().filter(|fault| fault.reason != Reason::Missing);
            self.problems.extend(faults.chain(&policy.read.remarks).cloned());
            let ancestors =
                judge.ancestors(at, &mut |place, fault| self.problems.push(problem(place, "", fault)));
            PolicyStatus { subject: subject(&*policy.object), ancestors }
        };
        policies.all.iter().enumerate().map(status).collect()
    }

    /// The Gateways whose routes use one of these Services.
    fn gateways_of(&self, services: &[NsName]) -> Vec<NsName> {
        let leads =
            |at: &&AtParent| at.content(self.pieces).services.iter().any(|one| services.contains(one));
        let leading = self.routes.attached().flat_map(|route| &route.parents).filter(leads);
        let gateways = leading.filter_map(|at| self.listeners.gateway_of(&at.attached.key));
        let mut gateways: Vec<_> = gateways.map(|gateway| gateway.object.key()).collect();
        gateways.sort();
        gateways.dedup();
        gateways
    }

    fn statuses(
        &mut self,
        own: &[(usize, &Effective<'_>)],
        places: Vec<SourceLocation>,
        unusable: Option<&Fault>,
    ) -> Vec<ListenerStatus> {
        let mut statuses = Vec::with_capacity(own.len());
        for ((at, one), place) in own.iter().zip(places) {
            let name = &one.listener.name;
            // A certificate that is being obtained is no fault, unless an order has failed.
            let is_faultless = one.obtained.as_ref().is_some_and(|obtained| obtained.fault.is_none());
            let unresolved = one.unresolved.iter().filter(|_| !(one.is_awaited() && is_faultless));
            for fault in one.refused.iter().chain(unresolved) {
                self.problems.push(problem(&place, &format!("listener {name}: "), fault));
            }
            statuses.push(ListenerStatus {
                name: name.clone(),
                supported_kinds: one.kinds.iter().map(|kind| kind.group_kind()).collect(),
                attached_routes: self.counts[*at],
                conditions: conditions_of(one, unusable),
                places: if unusable.is_none() { one.places() } else { Vec::new() },
            });
        }
        statuses
    }
}

/// The same result at each of these Gateways.
fn ancestors(gateways: Vec<NsName>, conditions: &[Condition]) -> Vec<AncestorStatus> {
    let at = |gateway: NsName| AncestorStatus {
        ancestor_ref: ParentReference {
            group: Some(crate::objects::gateway_api::GROUP.into()),
            kind: Some("Gateway".into()),
            namespace: Some(gateway.namespace.into()),
            name: gateway.name.into(),
            ..ParentReference::default()
        },
        conditions: conditions.to_vec(),
    };
    gateways.into_iter().map(at).collect()
}

fn conditions_of(one: &Effective<'_>, unusable: Option<&Fault>) -> Vec<Condition> {
    let programmed = match one.fault() {
        Some(fault) if one.is_conflicted => Some(fault.clone()),
        Some(fault) if one.is_awaited() => Some(Fault::new("Pending", fault.message.clone())),
        Some(fault) if !one.is_served() => Some(Fault::new("Invalid", fault.message.clone())),
        _ => unusable.map(|why| Fault::new("Pending", why.message.clone())),
    };
    let conflicted = match &one.refused {
        Some(fault) if one.is_conflicted => Condition::yes(CONFLICTED, fault.reason, fault.message.clone()),
        _ => Condition::no(CONFLICTED, "NoConflicts", "no other listener is in its way"),
    };
    let mut conditions = vec![
        conditions::accepted(one.refused.as_ref()),
        conditions::programmed(programmed.as_ref()),
        conditions::resolved(one.unresolved.as_ref()),
        conflicted,
    ];
    if let Some(overlap) = &one.overlaps {
        conditions.push(Condition::yes(OVERLAPPING_TLS, "OverlappingHostnames", overlap.clone()));
    }
    conditions
}

/// Reuses the pointers of unchanged reports.
fn shared<T: PartialEq>(now: Vec<T>, before: &[Arc<T>], subject: impl Fn(&T) -> &Subject) -> Vec<Arc<T>> {
    let known: HashMap<_, _> = before.iter().map(|it| (&subject(it).object, it)).collect();
    let share = |it: T| match known.get(&subject(&it).object) {
        Some(old) if ***old == it => Arc::clone(old),
        _ => Arc::new(it),
    };
    now.into_iter().map(share).collect()
}
