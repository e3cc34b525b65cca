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
mod grants;
mod hostnames;
mod hosts;
mod join;
mod kinds;
mod listener_tls;
mod listeners;
mod pieces;
mod policies;
pub mod report;
mod routes;
mod rules;
mod status;

use std::collections::HashSet;
use std::sync::Arc;

use model::{HostName, Listener, Protocol, Transport};

use super::Translation;
use super::claim::DraftRoute;
use super::clusters::ClusterQueries;
use super::inputs::Inputs;
use super::memo::Revisions;
use crate::objects::Sourced;
use crate::objects::gateway_api::ReferenceGrant;
use crate::options::Options;
use crate::problem::Problem;
use pieces::{Pieces, RouteObject};
use report::GatewayReport;

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
    /// Translates all Gateways and routes; none if there is no Gateway and no class of this controller. `base` has the settings that hold
    /// for all routes, `streams` are the listeners of TCP and UDP services.
    pub(super) fn follow<'a>(
        &mut self,
        base: &dyn Fn() -> DraftRoute,
        streams: &[Listener],
        inputs: &Inputs<'a>,
        clusters: &mut ClusterQueries<'_, 'a>,
        revisions: &Revisions,
    ) -> Option<Made> {
        let stores = inputs.gateway();
        if stores.gateways.is_empty() && stores.classes.is_empty() {
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
        let base = base();
        let mut attachments = Vec::new();
        for (object, candidate) in objects.iter().zip(&candidates) {
            let attached = attach::attach(candidate, &listeners, inputs);
            let mut numbers = Vec::with_capacity(attached.len());
            for one in &attached {
                let gateway = listeners.gateway_of(&one.key);
                let object = (object, gateway.and_then(|gateway| gateway.client_certificate.as_ref()));
                let with = (&self.policies, self.version);
                let pieces = &mut self.pieces;
                numbers.push(pieces::follow(pieces, object, with, &base, inputs, clusters, revisions));
            }
            if !attached.is_empty() {
                attachments.push((object, numbers, attached));
            }
        }
        let results: Vec<_> = attachments
            .iter()
            .map(|(object, numbers, attached)| {
                let contents = numbers.iter().map(|&number| &self.pieces.value(number).content);
                status::RouteResult { object, attached, contents: contents.collect() }
            })
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
        let report = reporter.report(&results, &judged);
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

fn taken(listener: &Listener) -> (Transport, u16) {
    let transport =
        if matches!(listener.protocol, Protocol::Udp(_)) { Transport::Udp } else { Transport::Tcp };
    (transport, listener.port)
}

/// How many routes each listener has, and which of them are served there under which names.
fn by_listener<'r>(
    listeners: &listeners::Listeners<'_>,
    results: &'r [status::RouteResult<'r>],
) -> (Vec<u32>, Vec<hosts::AttachedTo<'r>>) {
    let mut counts = vec![0; listeners.all.len()];
    let mut attached: Vec<hosts::AttachedTo<'r>> = listeners.all.iter().map(|_| Vec::new()).collect();
    for result in results {
        let mut counted: Vec<usize> = Vec::new();
        for (one, content) in result.attached.iter().zip(&result.contents) {
            for (at, names) in one.listeners.iter().flatten() {
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
