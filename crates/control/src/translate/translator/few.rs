//! The translation after a change of few objects. Only the hosts of these objects are visited, so that the
//! cost does not grow with the number of all hosts.
//!
//! The result is that of a translation which visits all hosts; where a change could concern hosts of other
//! objects, there is none, and the caller visits all of them: canaries, aliases, redirects from `www.`,
//! wildcards with TLS, settings of Services that Ingresses contradict each other about. Beside Gateways, a
//! change of endpoints visits no host; any other change visits all.
//!
//! Never in here: the computation of a value.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use model::{HostName, List, Protocol};

use super::host_queries::{HostQueries, Wildcards, wildcard_of};
use super::problems::in_order;
use super::{HostPiece, ONLY, Translator, checked};
use crate::index::Index;
use crate::options::Options;
use crate::problem::{Problem, SourceLocation};
use crate::resolve::Resolved;
use crate::translate::Translation;
use crate::translate::backend_settings::BackendConsensus;
use crate::translate::changes::These;
use crate::translate::clusters::ClusterQueries;
use crate::translate::host_piece::Group;
use crate::translate::hosts::Defaults;
use crate::translate::ingress::{Claimants, Ingresses, Turnover};
use crate::translate::inputs::{Input, Inputs};
use crate::translate::memo::{Memo, Node};

/// Changed Ingresses beyond which all hosts are visited.
const FEW: usize = 256;

/// Translations of few objects after which one visits all hosts: it removes what nothing depends on any more.
const SWEEP_INTERVAL: u32 = 1000;

/// The order of the served hosts, and what decides about more than one of them.
pub(super) struct Places {
    /// The numbers of the served hosts, in the order of the model.
    order: Vec<u32>,
    /// The numbers of the hosts that only canaries name, in order of appearance.
    unserved: Vec<u32>,
    /// The settings of Services.
    consensus: BackendConsensus,
    wildcards: Wildcards,
    /// The number of translations since all hosts were visited.
    translations: u32,
}

/// A host of the changed Ingresses.
struct Affected {
    number: u32,
    /// The Ingresses with a claim about it after the change.
    group: Group,
    /// Its place in the order before the change; none if it was not served.
    place: Option<usize>,
    /// The Ingress that decided about its place, and its place among the hosts of that Ingress.
    first: Option<(u32, usize)>,
    /// The nodes on which it depended.
    nodes: Vec<Node>,
}

impl Places {
    pub(super) fn new(
        order: Vec<u32>,
        unserved: Vec<u32>,
        consensus: BackendConsensus,
        wildcards: Wildcards,
    ) -> Self {
        Self { order, unserved, consensus, wildcards, translations: 0 }
    }

    /// All hosts in order of appearance. The host of the default backend, about which no Ingress has a claim,
    /// is the last one.
    fn all<'p>(&'p self, hosts: &'p Memo<HostName, HostPiece>) -> impl Iterator<Item = u32> + 'p {
        let is_unclaimed = |&number: &u32| hosts.peek(number).is_some_and(|piece| piece.claimants.is_empty());
        let of_ingresses = self.order.len() - usize::from(self.order.last().is_some_and(is_unclaimed));
        let (first, last) = self.order.split_at(of_ingresses);
        first.iter().chain(&self.unserved).chain(last).copied()
    }
}

impl Translator {
    /// The last translation with these changes, if only hosts of few objects differ; none if more may.
    pub(super) fn of_few(
        &mut self,
        these: &These,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: i64,
    ) -> Option<Translation> {
        let last = self.last.take()?;
        let made = self.after(&last, these, index, options, resolved, now);
        self.last = Some(last);
        made
    }

    fn after(
        &mut self,
        last: &Translation,
        these: &These,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: i64,
    ) -> Option<Translation> {
        let is_over = last.valid_until.is_some_and(|end| end <= now);
        let concerns_gateways = these.has_gateways && !these.is_of_endpoints();
        if is_over || concerns_gateways || these.ingresses.len() > FEW {
            return None;
        }
        let node = |input: &Input| self.known.node(input);
        let has_dependents = |node| self.revisions.has_dependents(node);
        if these.others.iter().filter_map(node).any(has_dependents) {
            return None;
        }
        let services = these.endpoints.iter();
        let nodes: Vec<_> = services.filter_map(|service| node(&Input::Service(service.clone()))).collect();
        let inputs = Inputs::new(index, options, resolved, now, &mut self.known, &self.revisions);
        inputs.leave_out_ipv6(self.global.peek(ONLY)?.global.leaves_out_ipv6);
        if !nodes.is_empty() && !self.clusters.follow_endpoints(&nodes, &inputs, &self.revisions) {
            return None;
        }
        self.visited = 0;
        let mut made = last.clone();
        made.acme.revision = options.acme.held().revision;
        if !these.ingresses.is_empty() {
            self.change_ingresses(&mut made, these, index, options, resolved, now)?;
            made.checked_services = checked::services(self.clusters.model(), index);
            made.names.clone_from(self.known.names());
            made.missing_services = self.clusters.missing();
        }
        made.model.clusters = self.clusters.model().clone();
        Some(made)
    }

    /// Applies changes of Ingresses to the hosts of a translation. None if other hosts may differ too.
    fn change_ingresses(
        &mut self,
        made: &mut Translation,
        these: &These,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: i64,
    ) -> Option<()> {
        let Self { revisions, known, global, ingresses, clusters, hosts, plain_tls, places, faulty, .. } =
            self;
        let places = places.as_mut()?;
        places.translations += 1;
        if places.translations > SWEEP_INTERVAL {
            return None;
        }
        let inputs = Inputs::new(index, options, resolved, now, known, revisions);
        let settings = global.peek(ONLY)?;
        inputs.leave_out_ipv6(settings.global.leaves_out_ipv6);
        let base = &settings.global.defaults;
        let turnovers = ingresses
            .turn_over(these, base, &inputs, revisions, &mut |host| hosts.number(host, revisions))?;
        let consensus = &places.consensus;
        let served = &*ingresses;
        let mut numbers = turnovers.iter().flat_map(Turnover::numbers);
        if numbers
            .any(|one| served.backends_of(one).any(|(service, port)| consensus.is_disputed(service, port)))
        {
            return None;
        }
        let affected = affected(&turnovers, served, hosts, places)?;
        let claimants = Claimants::new(served, base, &inputs, revisions);
        let backend = options.default_backend_service.as_ref();
        let error_pages = RefCell::default();
        let route = &|place: SourceLocation| claimants.rest(place);
        let defaults = Defaults { tls: plain_tls, backend, route, error_pages: &error_pages };
        let (claimants, defaults) = (&claimants, &defaults);
        let of_hosts = HostQueries { any: None, ingresses: served, claimants, defaults, revisions };
        let mut queries = ClusterQueries::new(clusters, &inputs, revisions, consensus);
        for host in &affected {
            follow(host, hosts, &of_hosts, &mut queries)?;
        }
        let remade = queries.take_remade();
        let unused = clusters.unused(affected.iter().flat_map(|host| &host.nodes), revisions);
        if !unused.is_empty() && !known.names().is_empty() {
            return None;
        }
        clusters.change(&remade, &unused, revisions);
        let mut objects = List::clone(&made.ingresses);
        ingresses.take_over(&turnovers, &mut objects);
        made.ingresses = Arc::new(objects);
        places.put(&affected, &turnovers, ingresses, hosts, made)?;
        let had_problems = !faulty.is_empty();
        faulty.note_ingresses(&turnovers, ingresses);
        for host in &affected {
            faulty.note_host(host.number, hosts);
        }
        for old in turnovers.iter().filter_map(|turnover| turnover.old) {
            ingresses.forget(old, revisions);
        }
        self.visited = affected.len();
        if had_problems || !self.faulty.is_empty() {
            made.problems = self.listed_problems(index)?;
        }
        Some(())
    }

    /// All problems, in their order. None where the hosts are not in order.
    fn listed_problems(&self, index: &Index) -> Option<Vec<Problem>> {
        let Self { global, ingresses, hosts, streams, replicas, places, faulty, .. } = self;
        let of_proxy = global.peek(ONLY)?.problems.iter();
        let of_objects = faulty.of_ingresses(ingresses, index);
        let of_hosts = faulty.of_hosts(places.as_ref()?.all(hosts), hosts);
        let others = streams.value(ONLY).problems.iter().chain(&replicas.value(ONLY).problems);
        Some(in_order(of_proxy.chain(of_objects).chain(of_hosts).chain(others)))
    }
}

/// The hosts of the changed Ingresses. None if one of them concerns others.
fn affected(
    turnovers: &[Turnover],
    ingresses: &Ingresses,
    hosts: &Memo<HostName, HostPiece>,
    places: &Places,
) -> Option<Vec<Affected>> {
    let numbers = turnovers.iter().flat_map(Turnover::numbers);
    let numbers: BTreeSet<u32> = numbers.flat_map(|one| ingresses.hosts_of(one)).copied().collect();
    let one = |number: u32| {
        let name = hosts.key(number);
        let before = hosts.peek(number);
        let old = before.map_or(&[][..], |before| &*before.claimants);
        let group = group_after(old, number, turnovers, ingresses);
        let has_tls = || old.iter().chain(&group).any(|&one| ingresses.has_tls(one));
        let is_alone = match name {
            HostName::Exact(_) => wildcard_of(name, &places.wildcards).is_none(),
            HostName::OneLabel(_) => !has_tls(),
            HostName::Suffix(_) | HostName::Any => false,
        };
        if !is_alone || before.is_some_and(HostPiece::is_of_canaries) {
            return None;
        }
        let is_served = before.is_some_and(|before| before.is_served);
        let place = if is_served { places.order.iter().position(|&one| one == number) } else { None };
        let first = before.and_then(|before| first(&before.claimants, number, ingresses));
        Some(Affected { number, group, place, first, nodes: hosts.dependencies(number).to_vec() })
    };
    numbers.into_iter().map(one).collect()
}

/// The Ingresses with a claim about a host after a change: those that are no canaries by age, then the
/// others.
fn group_after(old: &[u32], host: u32, turnovers: &[Turnover], ingresses: &Ingresses) -> Group {
    let claims = |number: u32| ingresses.hosts_of(number).contains(&host);
    let present = |&number: &u32| match turnovers.iter().find(|turnover| turnover.old == Some(number)) {
        Some(turnover) => turnover.new.filter(|&new| turnover.keeps_place && claims(new)),
        None => Some(number),
    };
    let mut group: Group = old.iter().filter_map(present).collect();
    for new in turnovers.iter().filter_map(|turnover| turnover.new).filter(|&new| claims(new)) {
        if !group.contains(&new) {
            let is_before = |&other: &u32| !ingresses.is_canary(other) && ingresses.is_older(other, new);
            let at = group.partition_point(is_before);
            group.insert(at, new);
        }
    }
    group
}

/// The Ingress that decides about the place of a host: the oldest one that is no canary, with the place of
/// the host among its hosts.
fn first(group: &[u32], host: u32, ingresses: &Ingresses) -> Option<(u32, usize)> {
    let first = *group.iter().find(|&&one| !ingresses.is_canary(one))?;
    Some((first, ingresses.hosts_of(first).iter().position(|&one| one == host)?))
}

/// Makes a host again, or removes it. None if what differs concerns more than the host.
fn follow(
    host: &Affected,
    hosts: &mut Memo<HostName, HostPiece>,
    of_hosts: &HostQueries<'_, '_>,
    clusters: &mut ClusterQueries<'_, '_>,
) -> Option<()> {
    let facts = |hosts: &Memo<HostName, HostPiece>| {
        let piece = hosts.peek(host.number);
        let certificates = piece.map(|piece| piece.certificates().to_vec()).unwrap_or_default();
        (certificates, piece.is_some_and(HostPiece::is_obtained), hosts.until_of(host.number))
    };
    let before = facts(&*hosts);
    if host.group.is_empty() {
        let is_plain = before.0.is_empty() && !before.1 && before.2 == i64::MAX;
        return is_plain.then(|| hosts.remove(host.number, of_hosts.revisions));
    }
    of_hosts.follow(hosts, host.number, &host.group, None, clusters);
    let piece = hosts.value(host.number);
    let is_own = piece.stands_alone() && !piece.is_of_canaries();
    (is_own && before == facts(&*hosts)).then_some(())
}

impl Places {
    /// Puts the changed hosts into the lists of a translation.
    fn put(
        &mut self,
        affected: &[Affected],
        turnovers: &[Turnover],
        ingresses: &Ingresses,
        hosts: &Memo<HostName, HostPiece>,
        made: &mut Translation,
    ) -> Option<()> {
        let before = Arc::clone(made.model.listeners.first()?.hosts()?);
        let (mut list, mut origins) = (List::clone(&before), List::clone(&made.origins));
        let served = |host: &Affected| {
            let piece = if host.group.is_empty() { None } else { hosts.peek(host.number) };
            piece.filter(|piece| piece.is_served)
        };
        let successor = |number: u32| {
            let replaced = turnovers.iter().find(|one| one.old == Some(number) && one.keeps_place);
            replaced.map_or(Some(number), |turnover| turnover.new)
        };
        let mut to_insert = Vec::new();
        for host in affected {
            let now = served(host).and_then(|piece| first(&piece.claimants, host.number, ingresses));
            let keeps_place = host
                .first
                .is_some_and(|(first, at)| successor(first).is_some_and(|first| now == Some((first, at))));
            // Hosts that were removed before this one have moved it.
            let place = host.place.and_then(|_| self.order.iter().position(|&one| one == host.number));
            match (place, served(host)) {
                (Some(at), Some(piece)) if keeps_place => {
                    list.replace(at, Arc::clone(&piece.host));
                    origins.replace(at, Arc::clone(&piece.origins));
                    continue;
                }
                (Some(at), _) => {
                    self.order.remove(at);
                    list.remove(at);
                    origins.remove(at);
                }
                (None, _) => {}
            }
            to_insert.extend(served(host).map(|piece| (host.number, piece)));
        }
        for (number, piece) in to_insert {
            let at = self.order.partition_point(|&other| precedes(other, number, ingresses, hosts));
            self.order.insert(at, number);
            list.insert(at, Arc::clone(&piece.host));
            origins.insert(at, Arc::clone(&piece.origins));
        }
        let list = Arc::new(list);
        for listener in &mut made.model.listeners {
            match &mut listener.protocol {
                Protocol::Http(hosts) | Protocol::Https(hosts) if Arc::ptr_eq(hosts, &before) => {
                    *hosts = Arc::clone(&list);
                }
                _ => {}
            }
        }
        made.origins = Arc::new(origins);
        Some(())
    }
}

/// Whether a host has its place before another one: in the order of the oldest Ingresses with claims about
/// them. The host of the default backend, about which no Ingress has a claim, is the last one.
fn precedes(host: u32, other: u32, ingresses: &Ingresses, hosts: &Memo<HostName, HostPiece>) -> bool {
    let first_of = |host: u32| first(&hosts.peek(host)?.claimants, host, ingresses);
    match (first_of(host), first_of(other)) {
        (Some((first, at)), Some((other, other_at))) if first == other => at < other_at,
        (Some((first, _)), Some((other, _))) => ingresses.is_older(first, other),
        (first, _) => first.is_some(),
    }
}
