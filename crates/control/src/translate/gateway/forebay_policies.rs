//! `ForebayPolicy`: the policies that apply to each route, and the precedence of their values.
//!
//! Policies of a Gateway apply to all routes that are attached to it; policies of a listener, a route, a rule
//! and its filters override them, in this order. If two policies have the same target, the older one counts.
//!
//! Never in here: the meaning of fields, and the status of policies.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::DirectResponse;

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
    by_name: HashMap<NsName, usize>,
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
    /// The policies of rules, by the number of the rule.
    rules: Vec<(Rule, Levels)>,
    /// The policies whose answers replace backends.
    of_backends: Vec<usize>,
}

/// A rule with policies of its own.
struct Rule {
    number: usize,
    /// Name for counters of its own.
    name: String,
}

/// The policies that the rules of a route name, and the names by which policies find the rules.
#[derive(Default)]
pub(super) struct Asks<'r> {
    /// The name of each rule, which may be empty, and the policies in its filters.
    pub(super) rules: Vec<(&'r str, Vec<&'r str>)>,
    /// The policies in filters of backends.
    pub(super) of_backends: Vec<&'r str>,
}

/// The initial drafts of a route's rules.
pub(super) struct Drafts {
    whole: Draft,
    of_rules: Vec<(usize, Draft)>,
    /// The answers of policies in filters of backends; none for a policy that has other sections, or none.
    pub(super) answers: Vec<(NsName, Option<DirectResponse>)>,
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
            policies.by_name.insert(object.key(), policies.all.len());
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
        asks: &Asks<'_>,
    ) -> OfRoute<'_> {
        if self.all.is_empty() {
            let (levels, rules, of_backends) = Default::default();
            return OfRoute { policies: self, levels, rules, of_backends };
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
        let named = |policy: &&str| self.by_name.get(&NsName::new(name.namespace.as_str(), *policy)).copied();
        let of_rule = |(number, (rule, filters)): (usize, &(&str, Vec<&str>))| {
            let own = if rule.is_empty() { Vec::new() } else { of(kind, name, Some(rule)) };
            let of_filters = filters.iter().filter_map(named).map(|policy| vec![policy]);
            let levels: Levels =
                [own].into_iter().chain(of_filters).filter(|level| !level.is_empty()).collect();
            let name = if rule.is_empty() { format!("rules[{number}]") } else { (*rule).to_owned() };
            (!levels.is_empty()).then_some((Rule { number, name }, levels))
        };
        let rules = asks.rules.iter().enumerate().filter_map(of_rule).collect();
        let of_backends = asks.of_backends.iter().filter_map(named).collect();
        OfRoute { policies: self, levels, rules, of_backends }
    }
}

impl<'p> OfRoute<'p> {
    /// The objects of the policies. As long as they are the same, in the same order, their contents are the
    /// same.
    pub(super) fn objects(&self) -> Vec<Arc<Sourced<ForebayPolicy>>> {
        let of_rules = self.rules.iter().flat_map(|(_, levels)| levels);
        let all = self.levels.iter().chain(of_rules).flatten().chain(&self.of_backends);
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
        let usually = || Draft { route: usual.clone(), settings: None };
        let mut draft = |wanted: Wanted<'_>| Draft {
            route: wanted.draft(usual, base, inputs, problems),
            settings: Some(wanted.settings()),
        };
        let whole = if self.levels.is_empty() { usually() } else { draft(self.wanted(&[], route.clone())) };
        let of_rules = self.rules.iter().map(|(rule, levels)| {
            let mut place = route.clone();
            if levels.iter().flatten().any(|&at| self.policies.all[at].read.has_section("limits")) {
                // A rule with limits of its own has its own counters.
                place.object.name = format!("{}/{}", place.object.name, rule.name);
            }
            (rule.number, draft(self.wanted(levels, place)))
        });
        let of_rules = of_rules.collect();
        let answers = self.of_backends.iter().map(|&at| {
            let policy = &self.policies.all[at];
            let is_answer = |given: &Given| given.field.section.name == "directResponse";
            let is_fit = policy.read.denial.is_none() && policy.read.given.iter().all(is_answer);
            let given = policy.read.given.iter().collect();
            let wanted = Wanted { given, denials: Vec::new(), place: route.clone() };
            (policy.object.key(), is_fit.then(|| draft(wanted).route).and_then(answer_alone))
        });
        let answers = answers.collect();
        Drafts { whole, of_rules, answers }
    }

    fn wanted(&self, rule: &'p [Vec<usize>], place: SourceLocation) -> Wanted<'p> {
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

/// The answer of a draft, unless its content cannot be had.
fn answer_alone(draft: DraftRoute) -> Option<DirectResponse> {
    draft.respond.filter(|_| draft.denials.is_empty())
}

impl Drafts {
    /// The initial draft of the rule with this number.
    pub(super) fn of(&self, rule: usize) -> &Draft {
        let own = self.of_rules.iter().find(|(number, _)| *number == rule);
        own.map_or(&self.whole, |(_, draft)| draft)
    }
}
