//! `ForebayPolicy`: the policies that apply to each route, and the precedence of their values.
//!
//! Policies of a Gateway apply to all routes that are attached to it; policies of a listener, a route and a
//! rule override them, in this order. If two policies have the same target, the older one counts.
//!
//! Never in here: the meaning of fields, and the status of policies.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::conditions::age;
use super::grants::{self, Referrer};
use crate::names::NsName;
use crate::objects::gateway_api::{GROUP, Gateway, GrpcRoute, HttpRoute, PolicyTarget};
use crate::objects::{ForebayPolicy, Resource, Sourced, forebay_policy};
use crate::problem::{Problem, SourceLocation};
use crate::translate::claim::{DraftRoute, RouteSetting};
use crate::translate::ingress::Settings;
use crate::translate::inputs::Inputs;
use crate::translate::policy::drafts::Wanted;
use crate::translate::policy::read::{Given, Read, read};

/// All policies, the oldest first.
#[derive(Default)]
pub(super) struct ForebayPolicies {
    pub(super) all: Vec<Policy>,
    by_target: HashMap<Target, Vec<usize>>,
}

/// A policy and its contents.
pub(super) struct Policy {
    pub(super) object: Arc<Sourced<ForebayPolicy>>,
    pub(super) read: Read,
}

/// The target of policies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) kind: &'static str,
    pub(super) name: NsName,
    /// A listener or a rule; none for the whole object.
    pub(super) section: Option<Box<str>>,
}

/// A Gateway with policies, and its listener if the listener has policies of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Above {
    gateway: NsName,
    listener: Option<Box<str>>,
}

/// Policies by kind of target, the most specific kind last; each level has the policies of one target, the
/// oldest first.
type Levels = Vec<Vec<usize>>;

/// The policies that apply to a route below a Gateway.
pub(super) struct OfRoute<'p> {
    policies: &'p ForebayPolicies,
    levels: Levels,
    /// The policies of rules, by name.
    rules: Vec<(Box<str>, Vec<usize>)>,
}

/// The initial drafts of a route's rules.
pub(super) struct Drafts {
    whole: Draft,
    of_rules: Vec<(Box<str>, Draft)>,
}

/// The initial draft of a rule.
pub(super) struct Draft {
    pub(super) route: DraftRoute,
    /// The fields of policies that it contains.
    pub(super) settings: Option<Arc<[RouteSetting]>>,
}

impl Target {
    /// The target that a policy names; none for a kind that policies do not support.
    pub(super) fn of(target: &PolicyTarget, namespace: &str) -> Option<Self> {
        let kinds = [Gateway::KIND, HttpRoute::KIND, GrpcRoute::KIND];
        let kind = kinds.into_iter().find(|kind| *target.group == *GROUP && *target.kind == **kind)?;
        let section = target.section_name.clone();
        Some(Self { kind, name: NsName::new(namespace, &*target.name), section })
    }
}

impl ForebayPolicies {
    /// Reads all policies. `base` has the settings of the `ConfigMap`.
    pub(super) fn read(base: &Settings, inputs: &Inputs<'_>) -> Self {
        let mut objects: Vec<_> = inputs.gateway().forebay_policies.iter().cloned().collect();
        objects.sort_by(|a, b| age(&**a).cmp(&age(&**b)));
        let mut policies = Self::default();
        for object in objects {
            for target in &object.spec.target_refs {
                let Some(target) = Target::of(&target.value, object.namespace()) else { continue };
                let known = policies.by_target.entry(target).or_default();
                if known.last() != Some(&policies.all.len()) {
                    known.push(policies.all.len());
                }
            }
            let kind = ForebayPolicy::KIND;
            let referrer = Referrer { group: forebay_policy::GROUP, kind, namespace: object.namespace() };
            let grants = &inputs.gateway().grants;
            let allows = |kind: &str, key: &NsName| {
                grants::allow(grants, referrer, kind, (key.namespace.as_str(), key.name.as_str()))
            };
            let read = read(&object, base, inputs, &allows);
            policies.all.push(Policy { object, read });
        }
        policies
    }

    /// The policies of a target, the oldest first.
    pub(super) fn of_target(&self, target: &Target) -> &[usize] {
        self.by_target.get(target).map_or(&[], Vec::as_slice)
    }

    /// The identity of the policies at a listener of a Gateway; none without policies. A listener that a
    /// `ListenerSet` adds has no name that policies could use.
    pub(super) fn above(&self, gateway: &NsName, listener: Option<&str>) -> Option<Above> {
        if self.all.is_empty() {
            return None;
        }
        let target = |section: Option<&str>| Target {
            kind: Gateway::KIND,
            name: gateway.clone(),
            section: section.map(Into::into),
        };
        let listener = listener.filter(|name| !self.of_target(&target(Some(name))).is_empty());
        let is_some = listener.is_some() || !self.of_target(&target(None)).is_empty();
        is_some.then(|| Above { gateway: gateway.clone(), listener: listener.map(Into::into) })
    }

    /// The policies for a route.
    pub(super) fn of_route(
        &self,
        above: Option<&Above>,
        kind: &'static str,
        name: &NsName,
        rules: &[&str],
    ) -> OfRoute<'_> {
        if self.all.is_empty() {
            return OfRoute { policies: self, levels: Vec::new(), rules: Vec::new() };
        }
        let of = |kind, name: &NsName, section: Option<&str>| {
            let target = Target { kind, name: name.clone(), section: section.map(Into::into) };
            self.of_target(&target).to_vec()
        };
        let mut levels = Vec::new();
        if let Some(Above { gateway, listener }) = above {
            levels.push(of(Gateway::KIND, gateway, None));
            levels.extend(listener.as_deref().map(|listener| of(Gateway::KIND, gateway, Some(listener))));
        }
        levels.push(of(kind, name, None));
        levels.retain(|level| !level.is_empty());
        let rules = rules.iter().map(|rule| (Box::from(*rule), of(kind, name, Some(rule))));
        let rules = rules.filter(|(_, level)| !level.is_empty()).collect();
        OfRoute { policies: self, levels, rules }
    }
}

impl<'p> OfRoute<'p> {
    /// The objects of the policies. As long as they are the same, in the same order, their contents are the
    /// same.
    pub(super) fn objects(&self) -> Vec<Arc<Sourced<ForebayPolicy>>> {
        let all = self.levels.iter().chain(self.rules.iter().map(|(_, level)| level)).flatten();
        all.map(|&at| Arc::clone(&self.policies.all[at].object)).collect()
    }

    /// The initial drafts of the route's rules. `usual` is the draft without policies; `base` has the
    /// settings of the `ConfigMap`.
    pub(super) fn drafts(
        &self,
        route: &SourceLocation,
        usual: &DraftRoute,
        base: &Settings,
        inputs: &Inputs<'_>,
        problems: &mut Vec<Problem>,
    ) -> Drafts {
        if self.levels.is_empty() && self.rules.is_empty() {
            let whole = Draft { route: usual.clone(), settings: None };
            return Drafts { whole, of_rules: Vec::new() };
        }
        let mut draft = |wanted: Wanted<'_>| Draft {
            route: wanted.draft(usual, base, inputs, problems),
            settings: Some(wanted.settings()),
        };
        let whole = draft(self.wanted(None, route.clone()));
        let of_rules = self.rules.iter().map(|(rule, level)| {
            let mut place = route.clone();
            if level.iter().any(|&at| self.policies.all[at].read.has_section("limits")) {
                // A rule with limits of its own has its own counters.
                place.object.name = format!("{}/{rule}", place.object.name);
            }
            (rule.clone(), draft(self.wanted(Some(level), place)))
        });
        let of_rules = of_rules.collect();
        Drafts { whole, of_rules }
    }

    fn wanted(&self, rule: Option<&'p Vec<usize>>, place: SourceLocation) -> Wanted<'p> {
        let mut given: BTreeMap<&'static str, &'p Given> = BTreeMap::new();
        let mut denials = Vec::new();
        let policies = self.policies;
        for level in self.levels.iter().chain(rule) {
            for policy in level.iter().rev().map(|&at| &policies.all[at]) {
                given.extend(policy.read.given.iter().map(|given| (given.field.annotation.name, given)));
                denials.extend(policy.read.denial.clone());
            }
        }
        Wanted { given: given.into_values().collect(), denials, place }
    }
}

impl Drafts {
    /// The initial draft of a rule; an empty name stands for a rule without a name.
    pub(super) fn of(&self, rule: &str) -> &Draft {
        let own = self.of_rules.iter().find(|(name, _)| **name == *rule);
        own.map_or(&self.whole, |(_, draft)| draft)
    }
}
