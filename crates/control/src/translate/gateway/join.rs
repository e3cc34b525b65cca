//! Joins the hosts of Gateways with those of Ingresses, which share the ports of Ingresses.
//!
//! The oldest object with a host owns it, whatever its kind. The objects of its namespace share the host;
//! routes of Ingresses come first. Objects of other namespaces add only paths that have no meaning for the
//! owner, under the owner's terms, and only at ports where the owner serves the host.
//!
//! Never in here: the construction of hosts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use model::{Host, HostList, HostName, Listener, Model, Protocol, Route, Wider};

use super::hosts::{Assembled, Served, Slot, client_certificate};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::origin::RouteOrigin;
use crate::translate::ownership::{HostsOfIngresses, OwnPaths, Owner, Terms};

/// Shared hosts, stored from one translation to the next.
#[derive(Default)]
pub(super) struct Kept {
    /// The shared hosts, by whether the port uses TLS.
    shared: HashMap<(bool, HostName), Shared>,
    /// The host of all names with the routes of the default backend, by whether the port uses TLS.
    of_all_names: HashMap<bool, WithDefault>,
}

/// A host that was made of the Gateways' host and that of the default backend.
struct WithDefault {
    of_gateways: Arc<Host>,
    default: Arc<Host>,
    served: Served,
}

struct Shared {
    of_ingresses: Arc<Host>,
    of_gateways: Arc<Host>,
    parties: Parties,
    terms: Option<Arc<Terms>>,
    served: Served,
    problems: Vec<Problem>,
}

/// The oldest object of either kind with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parties {
    ingress: Owner,
    gateway: Owner,
}

/// The Gateway or route that owns each host at the ports of Ingresses; none where there is no host of an
/// Ingress, and no default backend.
pub(super) type Owners = HashMap<HostName, Owner>;

/// The hosts of both kinds, before they are joined.
pub(super) struct Joining<'j> {
    pub(super) options: &'j Options,
    /// The hosts of Ingresses.
    pub(super) names: &'j HostsOfIngresses,
    /// The hosts of Gateways and routes.
    pub(super) owners: &'j Owners,
    pub(super) problems: &'j mut Vec<Problem>,
}

impl Joining<'_> {
    /// Adds the hosts and streams of Gateways to a model. `origins` belong to its hosts.
    pub(super) fn join(
        &mut self,
        assembled: Assembled,
        model: &mut Model,
        origins: &mut Vec<Arc<[RouteOrigin]>>,
        kept: &mut Kept,
    ) {
        let Assembled { mut hosts, streams } = assembled;
        let before = std::mem::take(kept);
        let mut own = |is_tls: bool, port: u16| hosts.remove(&Slot { address: None, port, is_tls });
        let gateways = [own(false, self.options.http_port), own(true, self.options.https_port)];
        if gateways.iter().any(Option::is_some) {
            let base: Vec<Served> = {
                let hosts = model
                    .listeners
                    .first()
                    .and_then(Listener::hosts)
                    .into_iter()
                    .flat_map(|it| it.iter().cloned());
                hosts.zip(std::mem::take(origins)).collect()
            };
            for (at, of_gateways) in gateways.into_iter().enumerate() {
                let is_tls = at == 1;
                let all = self.add(&base, of_gateways.unwrap_or_default(), is_tls, &before, kept);
                let (list, of_list) = unzipped(all);
                origins.extend(of_list);
                model.listeners[at].protocol = protocol(is_tls, list);
            }
        }
        for (place, (slot, hosts)) in (2..).zip(hosts) {
            let (list, of_list) = unzipped(hosts);
            origins.extend(of_list);
            let listener =
                Listener { address: slot.address, port: slot.port, protocol: protocol(slot.is_tls, list) };
            model.listeners.insert(place, listener);
        }
        model.listeners.extend(streams);
    }

    /// Adds the hosts of both kinds at one port.
    fn add(
        &mut self,
        base: &[Served],
        of_gateways: Vec<Served>,
        is_tls: bool,
        before: &Kept,
        kept: &mut Kept,
    ) -> Vec<Served> {
        if base.is_empty() && self.names.is_empty() {
            return of_gateways;
        }
        let mut all = Vec::with_capacity(base.len() + of_gateways.len());
        let mut of_gateways: Vec<Option<Served>> = of_gateways.into_iter().map(Some).collect();
        let named = of_gateways.iter().flatten().zip(0..).map(|((host, _), at)| (host.name.clone(), at));
        let places: HashMap<HostName, usize> = named.collect();
        for own in base {
            let name = &own.0.name;
            let other = places.get(name).and_then(|&at| of_gateways[at].take());
            let gateway = self.owners.get(name).or_else(|| self.owners.get(&same_labels(name)?));
            let Some(gateway) = gateway else {
                all.push(own.clone());
                continue;
            };
            match (self.names.get(name).filter(|one| !one.is_alias), other) {
                (Some(ingress), other) => {
                    let parties = Parties { ingress: ingress.owner.clone(), gateway: gateway.clone() };
                    match other {
                        Some(other) => {
                            let shared = Pair { own, other, parties, terms: ingress.terms.clone() };
                            all.push(self.shared(shared, is_tls, before, kept));
                        }
                        None if gateway.precedes(&ingress.owner) => self.tell_of_host(own, gateway),
                        None => all.push(own.clone()),
                    }
                }
                // Routes that no object declares: the default backend of all hosts, and redirects to a host
                // with "www." or without.
                (None, Some(other)) if *name == HostName::Any => {
                    let known = before.of_all_names.get(&is_tls);
                    let made = WithDefault::of(other, own, known);
                    all.push(made.served.clone());
                    kept.of_all_names.insert(is_tls, made);
                }
                (None, Some(other)) => all.push(other),
                (None, None) if *name == HostName::Any => all.push(own.clone()),
                (None, None) => {}
            }
        }
        for served in of_gateways.into_iter().flatten() {
            let name = &served.0.name;
            let alias = self.names.get(name).filter(|one| one.is_alias).map(|one| &one.owner);
            match (alias, self.owners.get(name)) {
                (Some(alias), Some(gateway)) if alias.precedes(gateway) => self.tell_of_host(&served, alias),
                _ => all.push(served),
            }
        }
        all
    }

    fn shared(&mut self, pair: Pair<'_>, is_tls: bool, before: &Kept, kept: &mut Kept) -> Served {
        let key = (is_tls, pair.own.0.name.clone());
        let known = before.shared.get(&key).filter(|old| pair.is_of(old));
        let (served, problems) = match known {
            Some(known) => (known.served.clone(), known.problems.clone()),
            None => pair.made(),
        };
        self.problems.extend(problems.iter().cloned());
        let Pair { own, other, parties, terms } = pair;
        let of_ingresses = Arc::clone(&own.0);
        let made =
            Shared { of_ingresses, of_gateways: other.0, parties, terms, served: served.clone(), problems };
        kept.shared.insert(key, made);
        served
    }

    fn tell_of_host(&mut self, left_out: &Served, owner: &Owner) {
        let (host, origins) = left_out;
        let mut told: Vec<&RouteOrigin> = Vec::new();
        for origin in origins.iter() {
            if !told.iter().any(|other| other.object() == origin.object()) {
                told.push(origin);
                let what = "it is not served at this port";
                self.problems.push(problem(origin, &host.name, owner, what));
            }
        }
    }
}

/// A host that objects of both kinds declare.
struct Pair<'p> {
    own: &'p Served,
    other: Served,
    parties: Parties,
    /// Settings of all routes of the Ingresses' host.
    terms: Option<Arc<Terms>>,
}

impl Pair<'_> {
    fn is_of(&self, old: &Shared) -> bool {
        let is_same = |a: &Option<Arc<Terms>>, b: &Option<Arc<Terms>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        Arc::ptr_eq(&old.of_ingresses, &self.own.0)
            && Arc::ptr_eq(&old.of_gateways, &self.other.0)
            && old.parties == self.parties
            && is_same(&old.terms, &self.terms)
    }

    /// The owner's host with the additions of the other side. If both belong to one namespace, TLS and names
    /// come from the Ingresses.
    fn made(&self) -> (Served, Vec<Problem>) {
        let ((own, own_origins), (other, other_origins)) = (self.own, &self.other);
        let Parties { ingress, gateway } = &self.parties;
        let is_of_gateway = gateway.precedes(ingress);
        let (first, first_origins, second, second_origins, owner) = if is_of_gateway {
            (other, other_origins, own, own_origins, gateway)
        } else {
            (own, own_origins, other, other_origins, ingress)
        };
        let is_one_namespace = ingress.object.namespace == gateway.object.namespace;
        let wider = other.wider.as_ref().and_then(|wider| wider.host.clone());
        let wider = wider.filter(|_| is_of_gateway || is_one_namespace);
        let terms = if is_of_gateway {
            client_certificate(other.tls.client_auth.as_ref()).map(|of_clients| {
                let mut terms = Terms::default();
                terms.access.client_certificate = Some(of_clients);
                Arc::new(terms)
            })
        } else {
            self.terms.clone()
        };
        let paths = OwnPaths::of(first.routes.iter(), wider.is_some());
        let mut joined = Groups::of(first, first_origins);
        let mut problems = Vec::new();
        for (group, places) in second.groups().enumerate() {
            for (route, origin) in pairs(second, second_origins, places) {
                let is_guest = origin.object().namespace != owner.object.namespace;
                if let Some(why) = paths.refusal(route).filter(|_| is_guest) {
                    let what = format!("path {}: {why}; it is ignored", route.path.path());
                    problems.push(problem(origin, &own.name, owner, &what));
                    continue;
                }
                let hold = |terms: &Arc<Terms>| terms.hold_for(route);
                let route = terms.as_ref().map_or_else(|| Arc::clone(route), hold);
                // A guest's path may be the beginning of one that the owner has for a wider name.
                let group = if is_guest { group.max(joined.last()) } else { group };
                joined.add(group, route, origin.clone());
            }
        }
        (joined.made(first, wider), problems)
    }
}

/// The routes of a host with their origins, in groups by the name that they are for.
struct Groups(Vec<Vec<(Arc<Route>, RouteOrigin)>>);

impl Groups {
    fn of(host: &Host, origins: &[RouteOrigin]) -> Self {
        let clones = |(route, origin): (&Arc<Route>, &RouteOrigin)| (Arc::clone(route), origin.clone());
        let group = |places| pairs(host, origins, places).map(clones).collect();
        Self(host.groups().map(group).collect())
    }

    /// The number of the last group.
    fn last(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Adds a route to a group. Of the two hosts that are joined, that of Ingresses has one group, which is
    /// for the host's own name.
    fn add(&mut self, group: usize, route: Arc<Route>, origin: RouteOrigin) {
        if self.0.len() <= group {
            self.0.resize_with(group + 1, Vec::new);
        }
        self.0[group].push((route, origin));
    }

    /// The host with these routes in place of its own, and with this wider host.
    fn made(self, host: &Host, wider: Option<HostName>) -> Served {
        let count = |group: &Vec<_>| group.len();
        let ends = self.0.iter().map(count).scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        let starts = ends.take(self.last()).collect();
        let (routes, origins): (Vec<_>, Vec<_>) = self.0.into_iter().flatten().unzip();
        let host = Host { routes, wider: Wider::boxed(starts, wider), ..host.clone() };
        (Arc::new(host), origins.into())
    }
}

/// Some routes of a host, with their origins.
fn pairs<'h>(
    host: &'h Host,
    origins: &'h [RouteOrigin],
    places: Range<usize>,
) -> impl Iterator<Item = (&'h Arc<Route>, &'h RouteOrigin)> {
    let start = places.start;
    host.routes[places].iter().zip(origins.iter().skip(start))
}

impl WithDefault {
    /// The host of Gateways for all names, with the routes of the command line's default backend after its
    /// own.
    fn of(of_gateways: Served, default: &Served, known: Option<&Self>) -> Self {
        let is_same = |known: &&Self| {
            Arc::ptr_eq(&known.of_gateways, &of_gateways.0) && Arc::ptr_eq(&known.default, &default.0)
        };
        let served = match known.filter(is_same) {
            Some(known) => known.served.clone(),
            None => with_default_backend(&of_gateways, default),
        };
        Self { of_gateways: of_gateways.0, default: Arc::clone(&default.0), served }
    }
}

fn with_default_backend(of_gateways: &Served, default: &Served) -> Served {
    let ((host, origins), (default, default_origins)) = (of_gateways, default);
    if default.routes.is_empty() {
        return of_gateways.clone();
    }
    let routes = host.routes.iter().chain(&default.routes).cloned().collect();
    let host = Host { routes, ..Host::clone(host) };
    (Arc::new(host), origins.iter().chain(default_origins.iter()).cloned().collect())
}

fn problem(origin: &RouteOrigin, host: &HostName, owner: &Owner, what: &str) -> Problem {
    let owner = &owner.object;
    let message = format!("host {host} belongs to {owner}, which is older and of another namespace; {what}");
    Problem::in_place(Severity::Warning, &origin.place(), message).because(Reason::NotOwner)
}

/// The Gateway form of an Ingress wildcard: the suffix that contains all its names, and more.
fn same_labels(name: &HostName) -> Option<HostName> {
    if let HostName::OneLabel(suffix) = name { Some(HostName::Suffix(suffix.clone())) } else { None }
}

fn protocol(is_tls: bool, list: HostList) -> Protocol {
    if is_tls { Protocol::Https(list) } else { Protocol::Http(list) }
}

fn unzipped(served: Vec<Served>) -> (HostList, Vec<Arc<[RouteOrigin]>>) {
    let (hosts, origins): (Vec<_>, Vec<_>) = served.into_iter().unzip();
    (Arc::new(hosts.into()), origins)
}
