//! Translates the objects of the Gateway API: to hosts and streams of the model, and to what their status is to say.
//!
//! `listeners` finds what Gateways and `ListenerSet`s listen at, and `attach` the listeners of each route. `pieces` keeps what `routes`
//! makes of each route: of its `rules`, `filters` and `backends`. `hosts` puts both together, `join` puts the result beside that of
//! Ingresses, and `status` makes the [`report`].
//!
//! Without an object of these kinds nothing is done.
//!
//! Never in here: who writes the status, and when.

mod addresses;
mod attach;
mod backends;
mod conditions;
mod duration;
mod effective;
mod filters;
mod forebay_policies;
mod forebay_status;
mod grants;
mod guarded;
mod hostnames;
mod hosts;
mod join;
mod kinds;
mod listener_tls;
mod listeners;
mod pieces;
mod policies;
pub mod report;
mod route_result;
mod routes;
mod rules;
mod status;

use std::collections::HashSet;
use std::sync::Arc;

use model::{HostName, Listener, Protocol, Transport};

use super::Translation;
use super::claim::DraftRoute;
use super::clusters::ClusterQueries;
use super::ingress::Settings;
use super::inputs::Inputs;
use super::memo::Revisions;
use crate::objects::Sourced;
use crate::objects::gateway_api::ReferenceGrant;
use crate::options::Options;
use crate::problem::Problem;
use effective::{Effective, ParentKey};
use forebay_policies::{Above, ForebayPolicies};
use pieces::{Pieces, RouteObject};
use report::GatewayReport;
use route_result::RouteResult;

/// What is known of Gateways, kept from one translation to the next.
#[derive(Default)]
pub(super) struct Gateways {
    pieces: Pieces,
    addresses: addresses::Addresses,
    tls: listener_tls::Kept,
    grants: Vec<Arc<Sourced<ReferenceGrant>>>,
    policies: policies::Policies,
    /// Is another one whenever grants or policies are other ones.
    version: u32,
    hosts: hosts::Kept,
    joined: join::Kept,
    report: GatewayReport,
}

/// What is to be added to a translation.
pub(super) struct Made {
    assembled: hosts::Assembled,
    report: GatewayReport,
    problems: Vec<Problem>,
}

impl Gateways {
    /// Translates all Gateways and routes; none if there is no Gateway, no class and no policy. `base` makes the route that has what
    /// the `ConfigMap` says, `settings` has the same for policies to change; `streams` are the listeners of TCP and UDP services.
    pub(super) fn follow<'a>(
        &mut self,
        (base, settings): (&dyn Fn() -> DraftRoute, &Settings),
        streams: &[Listener],
        inputs: &Inputs<'a>,
        clusters: &mut ClusterQueries<'_, 'a>,
        revisions: &Revisions,
    ) -> Option<Made> {
        let stores = inputs.gateway();
        let is_asked_for = !stores.forebay_policies.is_empty();
        if stores.gateways.is_empty() && stores.classes.is_empty() && !is_asked_for {
            *self = Self { pieces: std::mem::take(&mut self.pieces), ..Self::default() };
            return None;
        }
        let ports: Vec<_> = streams.iter().map(taken).collect();
        let listeners = listeners::find(inputs, &mut self.addresses, &ports, &mut self.tls);
        self.tls.retain(|(parent, _), _| listeners.of_parent.contains_key(parent));
        let (policies, judged) = policies::read(inputs);
        self.note_version(inputs, policies);
        let objects = RouteObject::all(inputs);
        let candidates: Vec<_> = objects.iter().map(RouteObject::candidate).collect();
        let forebay_policies = ForebayPolicies::read(settings, inputs);
        let usual = usual(base());
        let context = pieces::Context {
            policies: &self.policies,
            version: self.version,
            forebay_policies: &forebay_policies,
            usual: &usual,
            base: settings,
        };
        let mut attachments = Vec::new();
        for (object, candidate) in objects.iter().zip(&candidates) {
            let attached = attach::attach(candidate, &listeners, inputs);
            let mut numbers = Vec::with_capacity(attached.len());
            for one in &attached {
                let gateway = listeners.gateway_of(&one.key);
                let certificate = gateway.and_then(|gateway| gateway.client_certificate.as_ref());
                let mut follow = |above| {
                    let with = (certificate, above);
                    pieces::follow(&mut self.pieces, object, with, &context, inputs, clusters, revisions)
                };
                let mut of_listeners = Vec::new();
                for (at, _) in one.listeners.iter().flatten() {
                    let above = above(gateway, &listeners.all[*at], &forebay_policies);
                    of_listeners.push(follow(above));
                }
                let first = of_listeners.first().copied();
                numbers.push((first.unwrap_or_else(|| follow(None)), of_listeners));
            }
            if !attached.is_empty() {
                attachments.push((object, numbers, attached));
            }
        }
        let results: Vec<_> = attachments
            .iter()
            .map(|(object, numbers, attached)| RouteResult::new(object, attached, numbers, &self.pieces))
            .collect();
        let (counts, by_listener) = by_listener(&listeners, &results);
        let assembled = hosts::assemble(&listeners, &by_listener, &mut self.hosts);
        let mut problems = Vec::new();
        let reporter = status::Reporter {
            listeners: &listeners,
            counts: &counts,
            before: &self.report,
            problems: &mut problems,
        };
        let report = reporter.report(&results, &judged, &forebay_policies);
        self.report = report.clone();
        Some(Made { assembled, report, problems })
    }

    /// Adds what was made to a translation.
    pub(super) fn join(&mut self, made: Made, options: &Options, translation: &mut Translation) {
        let Made { assembled, report, problems } = made;
        let Translation { model, origins, .. } = translation;
        join::join(assembled, options, model, origins, &mut self.joined);
        translation.gateway = report;
        let mut told: HashSet<_> = translation.problems.iter().cloned().collect();
        translation.problems.extend(problems.into_iter().filter(|problem| told.insert(problem.clone())));
        translation.problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    }

    /// Forgets routes that are gone.
    pub(super) fn sweep(&mut self, revisions: &Revisions) {
        self.pieces.sweep(revisions, |_| {});
    }

    /// Second since 1970 from which something has another translation.
    pub(super) fn until(&self) -> i64 {
        self.pieces.until()
    }

    fn note_version(&mut self, inputs: &Inputs<'_>, policies: policies::Policies) {
        let grants = &inputs.gateway().grants;
        let is_same = self.grants.len() == grants.iter().count()
            && self.grants.iter().zip(grants.iter()).all(|(old, new)| Arc::ptr_eq(old, new));
        if !is_same || self.policies != policies {
            self.grants = grants.iter().cloned().collect();
            self.policies = policies;
            self.version += 1;
        }
    }
}

/// What holds for routes without policies: what the `ConfigMap` says of bodies, headers, access and caches is for Ingresses, and what it says
/// of the access log of a default backend is not for routes.
fn usual(base: DraftRoute) -> DraftRoute {
    let DraftRoute { path, place, timeouts, retry, transfer, overload, priority, abuse, tracing, .. } = base;
    let none = DraftRoute::new(path, None, place);
    DraftRoute { timeouts, retry, transfer, overload, priority, abuse, tracing, ..none }
}

/// What the policies are told by that hold at a listener.
fn above(
    gateway: Option<&listeners::OwnGateway<'_>>,
    listener: &Effective<'_>,
    policies: &ForebayPolicies,
) -> Option<Above> {
    let name = match &listener.parent {
        ParentKey::Gateway(_) => Some(&*listener.listener.name),
        ParentKey::Set(_) => None,
    };
    policies.above(&gateway?.object.key(), name)
}

fn taken(listener: &Listener) -> (Transport, u16) {
    let transport =
        if matches!(listener.protocol, Protocol::Udp(_)) { Transport::Udp } else { Transport::Tcp };
    (transport, listener.port)
}

/// How many routes each listener has, and which of them are served there under which names.
fn by_listener<'r>(
    listeners: &listeners::Listeners<'_>,
    results: &'r [RouteResult<'r>],
) -> (Vec<u32>, Vec<hosts::AttachedTo<'r>>) {
    let mut counts = vec![0; listeners.all.len()];
    let mut attached: Vec<hosts::AttachedTo<'r>> = listeners.all.iter().map(|_| Vec::new()).collect();
    for result in results {
        let mut counted: Vec<usize> = Vec::new();
        for (one, contents) in result.attached.iter().zip(&result.at_listeners) {
            for ((at, names), content) in one.listeners.iter().flatten().zip(contents) {
                let names: &'r [HostName] = names;
                if counted.contains(at) {
                    continue;
                }
                counted.push(*at);
                counts[*at] += u32::from(content.refused.is_none());
                attached[*at].push((content, names));
            }
        }
    }
    (counts, attached)
}
