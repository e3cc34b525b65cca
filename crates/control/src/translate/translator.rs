//! The queries of a translation, and their order.
//!
//! A change of few objects visits only the hosts of these objects; `few` has that path, which gives the same
//! translation.
//!
//! Never in here: the computation of a value.

mod few;
mod host_queries;
mod problems;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use model::{
    Alias, Host, HostList, HostName, HostTls, List, Listener, Model, Protocol, Rare, Replicas, Settings,
};

use super::backend_settings::BackendConsensus;
use super::certificates;
use super::changes::{Changes, Seen, These};
use super::claim::HostCertificate;
use super::clusters::{ClusterQueries, Clusters};
use super::configmap::{self, Global};
use super::gateway::Gateways;
use super::gateway::report::GatewayReport;
use super::host_piece::HostPiece;
use super::hosts::Defaults;
use super::ingress::class::Class;
use super::ingress::{Claimants, Ingresses, ParsedIngress};
use super::inputs::{Input, Inputs, KnownInputs};
use super::memo::{Memo, Revisions};
use super::origin::RouteOrigin;
use super::ownership::{HostsOfIngresses, OfIngresses};
use super::{Translation, checked, replicas, streams};
use crate::acme;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{ConfigMap, Ingress, Resource, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::resolve::Resolved;
use crate::source::Skipped;
use few::Places;
use host_queries::HostQueries;
use problems::Faulty;

/// Translates objects, and stores the results for the next translation.
#[derive(Default)]
pub struct Translator {
    seen: Seen,
    revisions: Revisions,
    known: KnownInputs,
    global: Memo<(), GlobalPiece>,
    ingresses: Ingresses,
    clusters: Clusters,
    hosts: Memo<HostName, HostPiece>,
    streams: Memo<(), Single<Vec<Listener>>>,
    replicas: Memo<(), Single<Option<Replicas>>>,
    gateways: Gateways,
    /// TLS of the hosts for which no object configures TLS.
    plain_tls: Arc<HostTls>,
    /// Hosts without the aliases that belong to other objects.
    renamed: RefCell<Renamed>,
    /// The last translation; none before the first.
    last: Option<Translation>,
    /// The order of the hosts; none where each change has to visit all of them.
    places: Option<Places>,
    faulty: Faulty,
    /// The hosts that the last translation has visited.
    visited: usize,
}

/// A host as it was made, and without the aliases of other objects, by its name.
type Renamed = HashMap<HostName, (Arc<Host>, Arc<Host>)>;

/// The settings of the whole proxy.
struct GlobalPiece {
    global: Global,
    /// The `ConfigMap` with the settings.
    configmap: Option<Arc<Sourced<ConfigMap>>>,
    /// The default certificate, for metrics; none if no default certificate is configured.
    certificate: Option<HostCertificate>,
    problems: Vec<Problem>,
}

/// A result that exists once: the listeners of TCP and UDP services, or the replicas that share the cache and
/// limits.
struct Single<T> {
    made: T,
    problems: Vec<Problem>,
}

impl Translator {
    /// Translates all objects, for the given time.
    pub fn translate(
        &mut self,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: SystemTime,
    ) -> Translation {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        if let Some(these) = self.begin(index, options, resolved, now)
            && let Some(translation) = self.of_few(&these, index, options, resolved, now)
        {
            self.last = Some(translation.clone());
            return translation;
        }
        let translation = self.ask(index, options, resolved, now);
        self.sweep();
        options.firewalls.retain(|object| {
            let name = NsName::new(&object.namespace, &object.name);
            object.kind != Ingress::KIND || index.ingresses.get(&name).is_some()
        });
        let translation = Translation {
            checked_services: checked::services(self.clusters.model(), index),
            model: Model { clusters: self.clusters.model().clone(), ..translation.model },
            names: self.known.names().clone(),
            missing_services: self.clusters.missing(),
            valid_until: self.valid_until(),
            ..translation
        };
        self.last = Some(translation.clone());
        translation
    }

    /// The number of hosts that the last translation has visited: all of them, or those of the objects that
    /// have changed.
    pub fn visited(&self) -> usize {
        self.visited
    }

    /// Begins a revision, and records the inputs that differ from the previous one. Returns them if all
    /// others are the same.
    fn begin(&mut self, index: &Index, options: &Options, resolved: &Resolved, now: i64) -> Option<These> {
        self.revisions.begin(now);
        match self.seen.changes(index, options, resolved, now) {
            Changes::Everything => {
                self.revisions.invalidate();
                None
            }
            Changes::These(these) => {
                for input in &these.others {
                    self.known.note_change(input, &self.revisions);
                }
                for service in &these.endpoints {
                    self.known.note_change(&Input::Service(service.clone()), &self.revisions);
                }
                Some(these)
            }
        }
    }

    /// Runs all queries of a translation. Clusters, names and the end of validity are added later: they are
    /// known only after unused values have been removed.
    fn ask(&mut self, index: &Index, options: &Options, resolved: &Resolved, now: i64) -> Translation {
        let Self {
            revisions,
            known,
            global,
            ingresses,
            clusters,
            hosts,
            streams,
            replicas,
            gateways,
            plain_tls,
            renamed,
            last,
            places,
            faulty,
            visited,
            ..
        } = self;
        let inputs = Inputs::new(index, options, resolved, now, known, revisions);
        follow_global(global, &inputs, revisions);
        let global = &*global;
        let base = &global.value(ONLY).global.defaults;
        inputs.leave_out_ipv6(global.value(ONLY).global.leaves_out_ipv6);
        ingresses.follow(base, &inputs, revisions, &mut |host| hosts.number(host, revisions));
        let ingresses = &*ingresses;
        let usual = &base.balancing;
        let consensus = BackendConsensus::of(usual.clone(), ingresses.backends(usual));
        let mut queries = ClusterQueries::refresh(clusters, &inputs, revisions, &consensus);
        let claimants = Claimants::new(ingresses, base, &inputs, revisions);
        let backend = options.default_backend_service.as_ref();
        let error_pages = RefCell::default();
        let route = &|place| claimants.rest(place);
        let defaults = Defaults { tls: plain_tls, backend, route, error_pages: &error_pages };
        let any = backend.map(|_| hosts.number(HostName::Any, revisions));
        let of_hosts = HostQueries { any, ingresses, claimants: &claimants, defaults: &defaults, revisions };
        let (order, wildcards) = of_hosts.follow_all(hosts, &mut queries);
        *visited = order.len();
        follow_one(streams, &inputs, &mut queries, revisions, streams::build);
        follow_one(replicas, &inputs, &mut queries, revisions, replicas::build);
        let rest = || claimants.rest(SourceLocation::of_proxy());
        let of_streams = &streams.value(ONLY).made;
        let has_rivals = !order.is_empty();
        let of_gateways =
            gateways.follow((&rest, base), of_streams, has_rivals, &inputs, &mut queries, revisions);
        let made = Made { options, global, ingresses, hosts, order: &order, streams, replicas, renamed };
        let names = made.names(of_gateways.is_some());
        let mut translation = made.translation(&names, last.as_ref());
        let is_simple = of_gateways.is_none() && !ingresses.keeps_any();
        *places = (is_simple && made.hosts().all(HostPiece::stands_alone)).then(|| {
            let is_served = |&number: &u32| hosts.value(number).is_served;
            let (served, unserved) = order.iter().copied().partition(is_served);
            Places::new(served, unserved, consensus, wildcards)
        });
        *faulty = Faulty::of(ingresses, &order, hosts);
        if let Some(made) = of_gateways {
            gateways.join(made, &names, options, &mut translation);
            translation.model.listeners = sharing(translation.model.listeners, last.as_ref());
        }
        translation
    }

    /// Removes the values on which nothing depends. A memo is swept after the memos whose values depend on
    /// it.
    fn sweep(&mut self) {
        let Self {
            revisions, known, global, ingresses, clusters, hosts, streams, replicas, gateways, ..
        } = self;
        hosts.sweep(revisions, |_| {});
        streams.sweep(revisions, |_| {});
        replicas.sweep(revisions, |_| {});
        gateways.sweep(revisions);
        ingresses.sweep(revisions);
        global.sweep(revisions, |_| {});
        clusters.sweep(revisions);
        known.sweep(revisions);
    }

    /// The second since 1970 from which a value has to be made again; none for never.
    fn valid_until(&self) -> Option<i64> {
        let own = [self.global.until(), self.ingresses.until(), self.hosts.until(), self.streams.until()];
        let turns = own.into_iter().chain([self.gateways.until()]);
        turns.min().filter(|&turn| turn < i64::MAX)
    }
}

/// The number of the value in a memo with a single value.
const ONLY: u32 = 0;

/// Updates the settings of the whole proxy. If they change, all other values are made again.
fn follow_global(memo: &mut Memo<(), GlobalPiece>, inputs: &Inputs<'_>, revisions: &Revisions) {
    let number = memo.number((), revisions);
    let is_new = memo.get(
        number,
        revisions,
        |_| true,
        |(), _| {
            let mut problems = Vec::new();
            let mut global = configmap::read(inputs, &mut problems);
            let default = certificates::default(inputs);
            global.settings.tls.default_certificate = default.certificate;
            global.settings.stream.response_threshold = inputs.options.stream_response_threshold;
            problems.extend(default.problem);
            let name = inputs.options.configmap.as_ref();
            let configmap = name.and_then(|name| inputs.configmap(name)).map(|one| Arc::new(one.clone()));
            GlobalPiece { global, configmap, certificate: default.told, problems }
        },
    );
    if is_new {
        revisions.invalidate();
    }
}

/// The listeners, whose lists of hosts share their unchanged parts with those of the last translation.
fn sharing(mut listeners: Vec<Listener>, last: Option<&Translation>) -> Vec<Listener> {
    let Some(last) = last else { return listeners };
    let mut made: Vec<(HostList, HostList)> = Vec::new();
    for (at, listener) in listeners.iter_mut().enumerate() {
        let (Protocol::Http(hosts) | Protocol::Https(hosts)) = &mut listener.protocol else { continue };
        let known = last.model.listeners.get(at).and_then(Listener::hosts);
        let shared = made.iter().find(|(of, _)| Arc::ptr_eq(of, hosts)).map(|(_, shared)| Arc::clone(shared));
        let shared = shared.unwrap_or_else(|| {
            let all: Vec<_> = hosts.iter().cloned().collect();
            let shared = Arc::new(List::sharing(&all, known.unwrap_or(&HostList::default()), Arc::ptr_eq));
            made.push((Arc::clone(hosts), Arc::clone(&shared)));
            shared
        });
        *hosts = shared;
    }
    listeners
}

/// Updates a result that exists once, with its own clusters.
fn follow_one<T>(
    memo: &mut Memo<(), Single<T>>,
    inputs: &Inputs<'_>,
    clusters: &mut ClusterQueries<'_, '_>,
    revisions: &Revisions,
    build: fn(&Inputs<'_>, &mut ClusterQueries<'_, '_>, &mut Vec<Problem>) -> T,
) {
    let number = memo.number((), revisions);
    memo.get(
        number,
        revisions,
        |_| true,
        |(), _| {
            let mut problems = Vec::new();
            let made = build(inputs, clusters, &mut problems);
            problems.extend(clusters.take_problems());
            Single { made, problems }
        },
    );
}

// === all together ===

struct Made<'m> {
    options: &'m Options,
    global: &'m Memo<(), GlobalPiece>,
    ingresses: &'m Ingresses,
    hosts: &'m Memo<HostName, HostPiece>,
    /// The numbers of the hosts in order of appearance.
    order: &'m [u32],
    streams: &'m Memo<(), Single<Vec<Listener>>>,
    replicas: &'m Memo<(), Single<Option<Replicas>>>,
    renamed: &'m RefCell<Renamed>,
}

impl Made<'_> {
    fn translation(&self, names: &HostsOfIngresses, last: Option<&Translation>) -> Translation {
        let (hosts, origins): (Vec<_>, Vec<_>) = self.served(names).into_iter().unzip();
        let ingresses: Vec<_> = self.ingresses.objects().cloned().collect();
        let known = last.and_then(|last| last.model.listeners.first()?.hosts());
        let hosts = match known {
            Some(known) => List::sharing(&hosts, known, Arc::ptr_eq),
            None => hosts.into(),
        };
        Translation {
            model: Model {
                listeners: self.listeners(hosts),
                clusters: model::Clusters::default(),
                settings: Settings {
                    replicas: self.replicas.value(ONLY).made.clone(),
                    ..self.global.value(ONLY).global.settings.clone()
                },
            },
            problems: self.problems(names),
            skipped: self.skipped(),
            origins: Arc::new(match last {
                Some(last) => List::sharing(&origins, &last.origins, Arc::ptr_eq),
                None => origins.into(),
            }),
            ingresses: Arc::new(match last {
                Some(last) => List::sharing(&ingresses, &last.ingresses, Arc::ptr_eq),
                None => ingresses.into(),
            }),
            configmap: self.global.value(ONLY).configmap.clone(),
            names: BTreeSet::new(),
            missing_services: BTreeSet::new(),
            checked_services: BTreeMap::new(),
            certificates: self.certificates(),
            gateway: GatewayReport::default(),
            acme: self.acme(),
            geoip: self.global.value(ONLY).global.geoip.wanted.clone(),
            valid_until: None,
        }
    }

    /// The listeners. HTTP and HTTPS share the hosts, because an Ingress declares both.
    fn listeners(&self, hosts: List<Arc<Host>>) -> Vec<Listener> {
        let hosts: HostList = Arc::new(hosts);
        let http = Listener {
            address: None,
            port: self.options.http_port,
            protocol: Protocol::Http(Arc::clone(&hosts)),
        };
        let https =
            Listener { address: None, port: self.options.https_port, protocol: Protocol::Https(hosts) };
        let of_streams = self.streams.value(ONLY).made.iter().cloned();
        [http, https].into_iter().chain(of_streams).collect()
    }

    /// The owner of each name: the oldest object with it. Within a namespace, the object that declares the
    /// host takes precedence over one with an alias, as in ingress-nginx. No name is returned where the
    /// owners make no difference: without aliases and without Gateways.
    fn names(&self, has_gateways: bool) -> HostsOfIngresses {
        let mut names = HostsOfIngresses::new();
        if !has_gateways && self.hosts().all(|piece| piece.aliases_by().is_none()) {
            return names;
        }
        for piece in self.hosts().filter(|piece| piece.is_served) {
            let first = piece.claimants.iter().find(|&&ingress| !self.ingresses.is_canary(ingress));
            if let Some(&first) = first {
                let terms = piece.terms().cloned();
                let declared = OfIngresses { owner: self.ingresses.owner(first), terms, is_alias: false };
                names.insert(piece.host.name.clone(), declared);
            }
        }
        for piece in self.hosts() {
            let Some(by) = piece.aliases_by() else { continue };
            let owner = self.ingresses.owner(by);
            for alias in &*piece.host.aliases {
                let Alias::Name(name) = alias else { continue };
                let before = names.get(name);
                let is_first = before.is_none_or(|before| {
                    owner.precedes(&before.owner) || before.is_alias && owner.born < before.owner.born
                });
                if is_first {
                    let (owner, terms) = (owner.clone(), piece.terms().cloned());
                    names.insert(name.clone(), OfIngresses { owner, terms, is_alias: true });
                }
            }
        }
        names
    }

    /// The host with its aliases, except those that belong to other objects.
    fn with_own_aliases(&self, piece: &HostPiece, names: &HostsOfIngresses, before: &Renamed) -> Arc<Host> {
        let Some(by) = piece.aliases_by() else { return Arc::clone(&piece.host) };
        let owner = self.ingresses.owner(by);
        let is_own = |alias: &Alias| match alias {
            Alias::Name(name) => names.get(name).is_none_or(|one| one.is_alias && one.owner == owner),
            Alias::Pattern(_) => true,
        };
        if piece.host.aliases.iter().all(is_own) {
            return Arc::clone(&piece.host);
        }
        let aliases: Rare<_> = piece.host.aliases.iter().filter(|alias| is_own(alias)).cloned().collect();
        let known = before.get(&piece.host.name);
        let known = known.filter(|(of, known)| Arc::ptr_eq(of, &piece.host) && known.aliases == aliases);
        let known = known.map(|(_, known)| Arc::clone(known));
        let host = known.unwrap_or_else(|| Arc::new(Host { aliases, ..Host::clone(&piece.host) }));
        let made = (Arc::clone(&piece.host), Arc::clone(&host));
        self.renamed.borrow_mut().insert(piece.host.name.clone(), made);
        host
    }

    /// All hosts, and the origins of their routes. A host is left out if its name is an alias of an older
    /// object of another namespace.
    fn served(&self, names: &HostsOfIngresses) -> Vec<(Arc<Host>, Arc<[RouteOrigin]>)> {
        let before = self.renamed.take();
        let is_taken = |piece: &HostPiece| names.get(&piece.host.name).is_some_and(|one| one.is_alias);
        let with_origins =
            |piece: &HostPiece| (self.with_own_aliases(piece, names, &before), Arc::clone(&piece.origins));
        let served = self.hosts().filter(|piece| piece.is_served && !is_taken(piece));
        let mut served: Vec<_> = served.map(with_origins).collect();
        let leading: Vec<_> = self.hosts().filter_map(|piece| piece.www().cloned()).collect();
        if !leading.is_empty() {
            let declared: HashSet<_> = served.iter().map(|(host, _)| host.name.clone()).collect();
            served.extend(leading.into_iter().filter(|(www, _)| !declared.contains(&www.name)));
        }
        served
    }

    fn hosts(&self) -> impl Iterator<Item = &HostPiece> {
        self.order.iter().map(|&number| self.hosts.value(number))
    }

    /// All problems, sorted by place.
    fn problems(&self, names: &HostsOfIngresses) -> Vec<Problem> {
        let of_names = self.problems_of_names(names);
        let of_ingresses = self.ingresses.all().flat_map(ParsedIngress::problems);
        let of_hosts = self.hosts().flat_map(HostPiece::problems);
        let all = self.global.value(ONLY).problems.iter().chain(of_ingresses).chain(of_hosts);
        let others = self.streams.value(ONLY).problems.iter().chain(&self.replicas.value(ONLY).problems);
        let mut problems = problems::in_order(all.chain(others).chain(&of_names));
        problems.extend(self.ingresses.problems_of_kept());
        problems
    }

    /// Hosts and aliases that are left out because other objects own them.
    fn problems_of_names(&self, names: &HostsOfIngresses) -> Vec<Problem> {
        let mut problems = Vec::new();
        for piece in self.hosts().filter(|piece| piece.is_served) {
            let name = &piece.host.name;
            if let Some(holder) = names.get(name).filter(|one| one.is_alias) {
                let owner = &holder.owner.object;
                for &ingress in &*piece.claimants {
                    let message = format!(
                        "host {name} is a server-alias of {owner}, which is older and of another namespace; it is ignored here"
                    );
                    let problem =
                        Problem::in_place(Severity::Warning, &self.ingresses.place(ingress), message);
                    problems.push(problem.because(Reason::NotOwner));
                }
            }
            let Some(by) = piece.aliases_by() else { continue };
            let owner = self.ingresses.owner(by);
            let of_names = piece.host.aliases.iter().filter_map(|alias| match alias {
                Alias::Name(name) => Some((name, names.get(name)?)),
                Alias::Pattern(_) => None,
            });
            for (name, holder) in of_names.filter(|(_, holder)| !holder.is_alias || holder.owner != owner) {
                let message =
                    format!("server-alias {name} has no effect: {} has that host", holder.owner.object);
                let problem = Problem::in_place(Severity::Warning, &self.ingresses.place(by), message);
                problems.push(problem.because(Reason::NoEffect));
            }
        }
        problems
    }

    fn skipped(&self) -> Skipped {
        let others = self.ingresses.all().filter(|ingress| ingress.class == Class::Other).count();
        let count = ("Ingress of another class".to_owned(), others);
        if others > 0 { Skipped::from([count]) } else { Skipped::new() }
    }

    fn acme(&self) -> acme::Wanted {
        let settings = self.global.value(ONLY).global.acme.settings.clone();
        let hosts = self.hosts().filter(|piece| piece.is_served && piece.is_obtained());
        let hosts = hosts.map(|piece| piece.host.name.to_string()).collect();
        let revision = self.options.acme.held().revision;
        acme::Wanted { settings, hosts, by_handshake: BTreeSet::new(), revision }
    }

    fn certificates(&self) -> Arc<[HostCertificate]> {
        let of_hosts = self.hosts().flat_map(HostPiece::certificates);
        self.global.value(ONLY).certificate.iter().chain(of_hosts).cloned().collect()
    }
}
