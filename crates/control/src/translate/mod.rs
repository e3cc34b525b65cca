//! Objects to a model, in ordered passes.
//!
//! `configmap` sets what holds everywhere; `class` selects Ingresses and `order` sorts them by age; `annotations` gives
//! each a `policy`; `hosts` gathers their hosts and paths, and asks `endpoints` for the clusters behind them and
//! `certificates` for what they show; `streams` reads which Services have ports of their own.
//!
//! A [`Translator`] keeps the pieces of which a translation consists, and notes what each has looked at (`lookup`): the next
//! translation makes only those anew that would come out otherwise. That saves work and changes nothing: the same objects at
//! the same time give the same translation, but for the ids of clusters.
//!
//! Never in here: IO, clocks.

pub mod annotations;
mod asked;
mod backend;
mod certificates;
mod ciphers;
pub(crate) mod class;
mod client_auth;
pub mod configmap;
mod endpoints;
mod hosts;
mod judged;
mod lookup;
pub(crate) mod order;
mod policy;
mod readings;
mod slots;
mod streams;
mod table;
mod translator;
mod value;

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use model::Model;

use crate::index::Index;
use crate::names::ObjectRef;
use crate::objects::{Ingress, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::resolve::Resolved;
use crate::source::PassedOver;
use client_auth::Demand;
use lookup::Lookup;
use policy::Policy;

pub use certificates::HostCertificate;
pub(crate) use hosts::hosts_of;
pub use translator::Translator;

/// A whole new model, and what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What is to be served.
    pub model: Model,
    /// What is wrong or worth knowing, by place.
    pub problems: Vec<Problem>,
    /// Numbers of things that were passed over.
    pub passed_over: PassedOver,
    /// Who asked for each route: for each host of the model as many as it has routes.
    pub origins: Vec<Arc<[RouteOrigin]>>,
    /// The Ingresses that are ours, the oldest first.
    pub ingresses: Vec<Arc<Sourced<Ingress>>>,
    /// Names whose addresses the model depends on.
    pub names: BTreeSet<String>,
    /// The certificates of hosts.
    pub certificates: Vec<HostCertificate>,
    /// Second since 1970 from which the same objects translate to something else: a certificate begins or ends.
    pub valid_until: Option<i64>,
}

impl Translation {
    /// The problems that the translation before this one did not have: those to tell the operator of.
    pub fn new_problems<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Problem> {
        let known: HashSet<_> = before.problems.iter().collect();
        self.problems.iter().filter(move |problem| !known.contains(problem))
    }
}

/// Who asked for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOrigin {
    /// The object.
    pub object: ObjectRef,
    /// The file that it is in.
    pub file: Option<Arc<Path>>,
    /// The line that says so.
    pub line: Option<u32>,
}

/// Translates all objects, as it is to be at a time.
pub fn translate(index: &Index, options: &Options, resolved: &Resolved, now: SystemTime) -> Translation {
    Translator::default().translate(index, options, resolved, now)
}

/// An Ingress with what its annotations ask for.
struct Annotated<'a> {
    ingress: &'a Sourced<Ingress>,
    policy: Policy,
    /// What is asked of the clients of its hosts, or why those have to be closed.
    demand: Option<value::Parsed<Demand>>,
}

impl<'a> Annotated<'a> {
    fn read(
        ingress: &'a Sourced<Ingress>,
        base: &Policy,
        lookup: &Lookup<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let options = lookup.options;
        let prefix = &options.annotations_prefix;
        let mut policy = annotations::read(ingress, base, prefix, problems);
        let closed = policy.backend.resolve(ingress, prefix, policy.crosses_namespaces, lookup);
        if let Some((denial, problem)) = closed {
            policy.denials.push(denial);
            problems.push(problem);
        }
        if policy.passthrough && !options.ssl_passthrough {
            policy.passthrough = false;
            let key = format!("{prefix}/ssl-passthrough");
            let message =
                format!("annotation {key} has no effect without --enable-ssl-passthrough: TLS ends here");
            let line = ingress.metadata.annotations.get(&key);
            let problem = line.map(|value| Problem::at(Severity::Warning, ingress, value, message));
            problems.extend(problem.map(|problem| problem.because(Reason::NoEffect)));
        }
        let demand = policy.client.resolve(ingress, prefix, policy.crosses_namespaces, lookup, problems);
        Self { ingress, policy, demand }
    }
}
