//! Translates the objects of the Gateway API to hosts and streams of the model, and to the contents of their
//! status.
//!
//! `listeners` finds the addresses and ports of Gateways and `ListenerSet`s. `placed` stores the listeners
//! that `attach` finds for each route, except those that it loses by `conflicts`. `pieces` stores the content
//! that `routes` makes of each route, from its `rules`, `filters` and `backends`. `hosts` assembles both,
//! `join` joins the result with that of Ingresses, and `status` makes the [`report`].
//!
//! Without an object of these kinds nothing is done.
//!
//! Never in here: writing the status.

mod acme;
mod addresses;
mod at_parent;
mod attach;
mod backends;
mod closed;
mod conditions;
mod conflicts;
mod duration;
mod effective;
mod ext_authz;
mod extension;
mod filters;
mod forebay_policies;
mod forebay_status;
mod grants;
mod guarded;
pub(crate) mod hostnames;
mod hosts;
mod join;
mod kinds;
mod listener_tls;
mod listeners;
mod pieces;
mod policies;
pub mod report;
mod routes;
pub(super) mod rules;
mod sessions;
mod status;
mod stored_routes;
mod traffic;
mod wishes;

use std::collections::HashSet;
use std::sync::Arc;

use model::{HostName, Listener, Protocol, Transport};
use smallvec::SmallVec;

use super::Translation;
use super::claim::DraftRoute;
use super::clusters::ClusterQueries;
use super::ingress::{Settings, firewall};
use super::inputs::Inputs;
use super::memo::Revisions;
use super::ownership::{HostsOfIngresses, Owner};
use crate::objects::gateway_api::ReferenceGrant;
use crate::options::Options;
use crate::problem::Problem;
use effective::Effective;
use forebay_policies::ForebayPolicies;
use pieces::Pieces;
use report::GatewayReport;
use stored_routes::{Same, StoredRoutes};

/// The state of the Gateway API's translation, stored from one translation to the next.
#[derive(Default)]
pub(super) struct Gateways {
    pieces: Pieces,
    routes: StoredRoutes,
    addresses: addresses::Addresses,
    tls: listener_tls::Kept,
    grants: Same<ReferenceGrant>,
    policies: policies::Policies,
    traffic: traffic::TrafficPolicies,
    /// The version of grants and policies: it changes whenever they change.
    version: u32,
    hosts: hosts::Kept,
    joined: join::Kept,
    report: GatewayReport,
    /// The second since 1970 from which a certificate that was obtained is valid, or no longer; none for
    /// never.
    turn: Option<i64>,
}

/// The additions to a translation.
pub(super) struct Made {
    assembled: hosts::Assembled,
    owners: join::Owners,
    report: GatewayReport,
    /// The hosts for which certificates are obtained.
    wishes: Vec<wishes::Wish>,
    problems: Vec<Problem>,
}

impl Gateways {
    /// Translates all Gateways and routes; none if no Gateway, class or policy exists. `base` makes the route
    /// with the settings of the `ConfigMap`, `settings` has the same for policies to change; `streams` are
    /// the listeners of TCP and UDP services. Without rivals, which are hosts of Ingresses, the owners of
    /// hosts make no difference.
    pub(super) fn follow<'a>(
        &mut self,
        (base, settings): (&dyn Fn() -> DraftRoute, &Settings),
        streams: &[Listener],
        has_rivals: bool,
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
        let mut context = listeners::Context { inputs, acme: settings.acme, tls: &mut self.tls };
        let listeners = listeners::find(&mut context, &mut self.addresses, &ports);
        self.turn = listeners.acme.turn;
        self.tls.retain(|(parent, _), _| listeners.of_parent.contains_key(parent));
        let (policies, judged) = policies::read(inputs);
        let (traffic, judged_traffic) = traffic::read(inputs);
        self.note_version(inputs, policies, traffic);
        let forebay_policies = ForebayPolicies::read(settings, inputs);
        let usual = usual(base(), settings, inputs.options);
        let context = |has_same_policies| pieces::Context {
            policies: &self.policies,
            traffic: &self.traffic,
            version: self.version,
            forebay_policies: &forebay_policies,
            has_same_policies,
            usual: &usual,
            base: settings,
        };
        self.routes.follow(&mut self.pieces, context, &listeners, inputs, clusters, revisions);
        let (counts, by_listener) = by_listener(&listeners, &self.routes, &self.pieces);
        let owners =
            if has_rivals { owners(&listeners, &self.routes, inputs.options) } else { join::Owners::new() };
        let assembled = hosts::assemble(&listeners, &by_listener, &mut self.hosts);
        let mut problems = listeners.acme.problems.clone();
        let reporter = status::Reporter {
            listeners: &listeners,
            counts: &counts,
            routes: &self.routes,
            pieces: &self.pieces,
            before: &self.report,
            problems: &mut problems,
        };
        let report = reporter.report(&judged, &judged_traffic, &forebay_policies);
        self.report = report.clone();
        let wishes = wishes::of(&listeners);
        Some(Made { assembled, owners, report, wishes, problems })
    }

    /// Adds the result to a translation.
    pub(super) fn join(
        &mut self,
        made: Made,
        names: &HostsOfIngresses,
        options: &Options,
        translation: &mut Translation,
    ) {
        let Made { assembled, owners, report, wishes, mut problems } = made;
        wishes::add(wishes, names, translation);
        let Translation { model, origins, .. } = translation;
        let mut joining = join::Joining { options, names, owners: &owners, problems: &mut problems };
        let mut all = origins.iter().cloned().collect();
        joining.join(assembled, model, &mut all, &mut self.joined);
        *origins = Arc::new(all.into());
        translation.gateway = report;
        let mut told: HashSet<_> = translation.problems.iter().cloned().collect();
        translation.problems.extend(problems.into_iter().filter(|problem| told.insert(problem.clone())));
        translation.problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    }

    /// Removes routes that no longer exist.
    pub(super) fn sweep(&mut self, revisions: &Revisions) {
        self.pieces.sweep(revisions, |_| {});
    }

    /// The second since 1970 from which a part has another translation.
    pub(super) fn until(&self) -> i64 {
        self.turn.map_or(self.pieces.until(), |turn| turn.min(self.pieces.until()))
    }

    fn note_version(
        &mut self,
        inputs: &Inputs<'_>,
        policies: policies::Policies,
        traffic: traffic::TrafficPolicies,
    ) {
        let is_same = self.grants.note(&inputs.gateway().grants);
        if !is_same || self.policies != policies || self.traffic != traffic {
            self.policies = policies;
            self.traffic = traffic;
            self.version += 1;
        }
    }
}

/// The draft of routes without policies. Settings of the `ConfigMap` for bodies, headers, access and caches
/// are for Ingresses, except for the firewall, and its setting for the access log of a default backend is not
/// for routes.
fn usual(base: DraftRoute, settings: &Settings, options: &Options) -> DraftRoute {
    let DraftRoute { path, place, timeouts, retry, transfer, overload, priority, abuse, tracing, .. } = base;
    let none = DraftRoute::new(path, None, place);
    let mut usual = DraftRoute { timeouts, retry, transfer, overload, priority, abuse, tracing, ..none };
    let mut firewall = settings.firewall.clone();
    usual.denials.extend(firewall.resolve_global(options));
    firewall::apply(&firewall, &mut usual);
    usual
}

fn taken(listener: &Listener) -> (Transport, u16) {
    let transport =
        if matches!(listener.protocol, Protocol::Udp(_)) { Transport::Udp } else { Transport::Tcp };
    (transport, listener.port)
}

/// The owner of each host at the ports of Ingresses: the oldest of the Gateways and sets with a listener for
/// it and the routes that name it.
fn owners(listeners: &listeners::Listeners<'_>, routes: &StoredRoutes, options: &Options) -> join::Owners {
    let is_shared = |one: &Effective<'_>| {
        let is_own = one.port == options.http_port || one.port == options.https_port;
        is_own && one.transport() == Transport::Tcp && one.refused.is_none() && one.addresses.contains(&None)
    };
    let mut owners = join::Owners::new();
    let mut note = |name: &HostName, owner: Owner| {
        let is_first = owners.get(name).is_none_or(|first| {
            (owner.born, &owner.object.namespace, &owner.object.name)
                < (first.born, &first.object.namespace, &first.object.name)
        });
        if is_first {
            owners.insert(name.clone(), owner);
        }
    };
    for one in listeners.all.iter().filter(|one| is_shared(one)) {
        if let Some(owner) = listeners.owner_of(&one.parent) {
            note(&one.hostname, owner);
        }
    }
    for route in routes.attached() {
        let places = route.parents.iter().flat_map(|parent| {
            let places = parent.attached.listeners.iter().flatten();
            places.filter(|(at, _)| is_shared(&listeners.all[*at]) && !parent.loses(*at))
        });
        for shared in places.flat_map(|(_, names)| names) {
            note(&shared.name, route.object.owner());
        }
    }
    owners
}

/// The number of routes of each listener, and the served ones among them with their names.
fn by_listener<'r>(
    listeners: &listeners::Listeners<'_>,
    routes: &'r StoredRoutes,
    pieces: &'r Pieces,
) -> (Vec<u32>, Vec<hosts::AttachedTo<'r>>) {
    let mut counts = vec![0; listeners.all.len()];
    let mut attached: Vec<hosts::AttachedTo<'r>> = listeners.all.iter().map(|_| Vec::new()).collect();
    for route in routes.attached() {
        let mut counted: SmallVec<[usize; 4]> = SmallVec::new();
        for parent in &route.parents {
            let places = parent.attached.listeners.iter().flatten();
            for ((at, names), content) in places.zip(parent.contents(pieces)) {
                if counted.contains(at) || parent.loses(*at) {
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
