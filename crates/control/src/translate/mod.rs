//! Objects to a model, in ordered passes.
//!
//! `configmap` sets what holds everywhere; `class` selects Ingresses and `order` sorts them by age; `annotations` gives
//! each a `policy`; `hosts` gathers their hosts and paths, and asks `endpoints` for the clusters behind them.
//!
//! Never in here: IO, clocks, or state that outlives a call. The same objects give the same translation.

pub mod annotations;
mod class;
pub mod configmap;
mod endpoints;
mod hosts;
mod order;
mod policy;
mod table;
mod value;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use model::Model;

use crate::index::Index;
use crate::objects::{Ingress, Sourced};
use crate::options::{NsName, Options};
use crate::problem::{ObjectRef, Problem, Severity};
use crate::resolve::Resolved;
use crate::source::PassedOver;
use policy::Policy;

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
    /// Names whose addresses the model depends on.
    pub names: BTreeSet<String>,
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

/// Translates all objects.
pub fn translate(index: &Index, options: &Options, resolved: &Resolved) -> Translation {
    let mut problems = Vec::new();
    let mut passed_over = PassedOver::new();
    let global = configmap::read(index, options, &mut problems);
    let mut ingresses = class::select(index, options, &mut passed_over, &mut problems);
    order::by_age(&mut ingresses);
    check_certificates(index, &ingresses, &mut problems);
    let read = |ingress| Annotated {
        ingress,
        policy: annotations::read(ingress, &global.policy, &options.annotations_prefix, &mut problems),
    };
    let annotated: Vec<_> = ingresses.into_iter().map(read).collect();
    let mut clusters = endpoints::Clusters::new(index, options, resolved);
    let (hosts, origins) = hosts::build(&annotated, &global, options, &mut clusters, &mut problems);
    let endpoints::Built { clusters, names, problems: cluster_problems } = clusters.finish();
    problems.extend(cluster_problems);
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    // Several hosts may need the same thing that is missing.
    problems.dedup();
    let model = Model { hosts, clusters, streams: Vec::new(), settings: global.settings };
    Translation { model, problems, passed_over, origins, names }
}

/// An Ingress with what its annotations ask for.
struct Annotated<'a> {
    ingress: &'a Sourced<Ingress>,
    policy: Policy,
}

/// A certificate that cannot be had does not keep a host from being served: it gets the default certificate.
fn check_certificates(index: &Index, ingresses: &[&Sourced<Ingress>], problems: &mut Vec<Problem>) {
    for ingress in ingresses {
        for name in ingress.spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref()) {
            let fault = match index.secrets.get(&NsName::new(ingress.namespace(), &name.value)) {
                None => "is missing".to_owned(),
                Some(secret) if secret.kind.as_deref() == Some("kubernetes.io/tls") => continue,
                Some(secret) => {
                    let kind = secret.kind.as_deref().unwrap_or("Opaque");
                    format!("is of type {kind}, not kubernetes.io/tls")
                }
            };
            let message = format!(
                "TLS Secret {:?} {fault}; when TLS is served, it will be with the default certificate",
                name.value
            );
            problems.push(Problem::at(Severity::Warning, ingress, name, message));
        }
    }
}
