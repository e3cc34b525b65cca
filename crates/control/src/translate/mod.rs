//! Objects to a model, in ordered passes.
//!
//! `configmap` sets what holds everywhere; `class` selects Ingresses and `order` sorts them by age; `annotations` gives
//! each a `policy`; `hosts` gathers their hosts and paths, and asks `endpoints` for the clusters behind them and
//! `certificates` for what they show; `streams` reads which Services have ports of their own.
//!
//! Never in here: IO, clocks, or state that outlives a call. The same objects at the same time give the same translation.

pub mod annotations;
mod backend;
mod certificates;
mod ciphers;
pub(crate) mod class;
mod client_auth;
pub mod configmap;
mod endpoints;
mod hosts;
mod order;
mod policy;
mod streams;
mod table;
mod value;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use model::Model;

use crate::index::Index;
use crate::objects::{Ingress, Sourced};
use crate::options::Options;
use crate::problem::{ObjectRef, Problem, Reason, Severity};
use crate::resolve::Resolved;
use crate::source::PassedOver;
use certificates::Certificates;
use client_auth::Demand;
use policy::Policy;

pub use certificates::HostCertificate;
pub(crate) use hosts::hosts_of;

/// A whole new model, and what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What is to be served.
    pub model: Model,
    /// What is wrong or worth knowing, by place.
    pub problems: Vec<Problem>,
    /// Numbers of things that were passed over.
    pub passed_over: PassedOver,
    /// Who asked for each route: as many as the model has routes, host by host.
    pub origins: Vec<RouteOrigin>,
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
    pub file: Option<PathBuf>,
    /// The line that says so.
    pub line: Option<u32>,
}

/// Translates all objects, as it is to be at a time.
pub fn translate(index: &Index, options: &Options, resolved: &Resolved, now: SystemTime) -> Translation {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
    let mut problems = Vec::new();
    let mut passed_over = PassedOver::new();
    let mut global = configmap::read(index, options, &mut problems);
    let mut ingresses = class::select(index, options, &mut passed_over, &mut problems);
    order::by_age(&mut ingresses);
    let mut certificates = Certificates::new(index, now);
    global.settings.tls.default_certificate = certificates.default(options);
    global.settings.stream.response_threshold = options.stream_response_threshold;
    for ingress in &ingresses {
        certificates.check(ingress);
    }
    let ours = ingresses.iter().copied().cloned().collect();
    let mut annotated = Vec::with_capacity(ingresses.len());
    for ingress in ingresses {
        annotated.push(Annotated::read(ingress, &global.policy, options, index, &mut problems));
    }
    let mut clusters = endpoints::Clusters::new(index, options, resolved);
    let (hosts, origins) =
        hosts::build(&annotated, &global, options, &mut clusters, &mut certificates, &mut problems);
    let streams = streams::build(index, options, &mut clusters, &mut problems);
    let endpoints::Built { clusters, names, problems: of_clusters } = clusters.finish();
    let certificates::Found { used: certificates, valid_until, problems: of_certificates } =
        certificates.finish();
    problems.extend(of_clusters.into_iter().chain(of_certificates));
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    // Several hosts may need the same thing that is missing.
    problems.dedup();
    let model = Model { hosts, clusters, streams, settings: global.settings };
    Translation { model, problems, passed_over, origins, ingresses: ours, names, certificates, valid_until }
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
        options: &Options,
        index: &Index,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let prefix = &options.annotations_prefix;
        let mut policy = annotations::read(ingress, base, prefix, problems);
        let closed = policy.backend.resolve(ingress, prefix, policy.crosses_namespaces, index);
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
        let demand = policy.client.resolve(ingress, prefix, policy.crosses_namespaces, index, problems);
        Self { ingress, policy, demand }
    }
}
