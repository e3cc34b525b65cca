//! Ingresses: which of them are ours, what their annotations ask for, and what they claim of hosts.
//!
//! `class` selects them and `order` sorts them by age; `annotations` reads what they ask for, by a table of which each concern
//! (`redirect`, `timeouts` and so on) has a slice; `rules` and `certificates` read their specs; `claims` puts all that together for
//! one host. A concern has its annotations, its settings, and how those change the draft of a route.

mod access;
mod affinity;
mod annotation;
pub mod annotations;
mod auth;
mod balancing;
mod bodies;
mod canary;
mod certificates;
mod claims;
pub(crate) mod class;
mod client_certificates;
mod cors;
mod errors;
mod fastcgi;
mod firewall;
mod guards;
mod headers;
mod host_tls;
mod limits;
mod logging;
mod mirror;
pub(crate) mod order;
mod redirect;
mod retries;
mod rewrite;
mod rules;
mod secret;
mod snippets;
mod timeouts;
mod tracing;
mod upstream_tls;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use model::{HostName, PathMatch, RetryPolicy, Timeouts};
use smallvec::SmallVec;

use super::backend_settings::BackendSettings;
use super::claim::{Claim, ClientAuthPolicy, DraftRoute};
use super::inputs::Inputs;
use super::memo::{Memo, Revisions};
use super::upstream_protocol::UpstreamDraft;
use super::value::Parsed;
use crate::names::{NsName, PortRef};
use crate::objects::{Ingress, Sourced};
use crate::problem::{Place, Problem, Reason, Severity};
use class::Class;

pub(crate) use rules::hosts_of;

/// What the annotations of an Ingress ask for, by concern. The defaults are ingress-nginx's; the `ConfigMap` changes them, and each
/// Ingress its copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) balancing: BackendSettings,
    pub(super) bodies: bodies::Settings,
    canary: canary::Settings,
    client_certificates: client_certificates::Settings,
    pub(super) guards: guards::Settings,
    headers: headers::Settings,
    host_tls: host_tls::Settings,
    logging: logging::Settings,
    pub(super) redirect: redirect::Settings,
    pub(super) retries: RetryPolicy,
    pub(super) timeouts: Timeouts,
    pub(super) upstream_tls: upstream_tls::Settings,
    /// Annotations may name Secrets of other namespaces.
    pub(super) crosses_namespaces: bool,
}

/// What an Ingress comes to, whatever else there is at its hosts.
pub(super) struct ParsedIngress {
    pub(super) class: Class,
    /// The numbers of the hosts that it has something to say about, in order of appearance.
    pub(super) hosts: SmallVec<[u32; 2]>,
    /// What it asks of the Services that it names.
    pub(super) balancing: BackendSettings,
    pub(super) problems: Box<[Problem]>,
}

/// What the annotations of an Ingress ask for, with what they name.
struct Annotated {
    settings: Settings,
    upstream: UpstreamDraft,
    /// What is asked of the clients of its hosts, or why those have to be closed.
    client_auth: Option<Parsed<ClientAuthPolicy>>,
}

/// All Ingresses, from one translation to the next.
#[derive(Default)]
pub(super) struct Ingresses {
    parsed: Memo<ByAddress, ParsedIngress>,
    /// The numbers of all, in the order of the index.
    all: Vec<u32>,
    /// The numbers of those that are ours, the oldest first.
    ours: Vec<u32>,
}

/// An Ingress, known by its place in memory: an Ingress that does not change keeps it, and it is not given to another for as long
/// as this is held.
struct ByAddress(Arc<Sourced<Ingress>>);

/// Makes claims of Ingresses. Annotations of those with several hosts are read once in a translation.
pub(super) struct Claimants<'c, 'a> {
    ingresses: &'c Ingresses,
    base: &'c Settings,
    inputs: &'c Inputs<'a>,
    revisions: &'c Revisions,
    annotated: RefCell<HashMap<u32, Rc<Annotated>>>,
}

// === impl Ingresses ===

impl Ingresses {
    /// Goes over to the Ingresses of an index. `number_of_host` numbers hosts.
    pub(super) fn follow(
        &mut self,
        base: &Settings,
        inputs: &Inputs<'_>,
        revisions: &Revisions,
        number_of_host: &mut impl FnMut(HostName) -> u32,
    ) {
        let Self { parsed, all, ours } = self;
        let mut is_changed = false;
        let mut numbers = Vec::with_capacity(all.len());
        for ingress in inputs.ingresses() {
            let number = parsed.number(ByAddress(Arc::clone(ingress)), revisions);
            is_changed |= parsed.get(
                number,
                revisions,
                |_| true,
                |ByAddress(ingress), _| parse(ingress, base, inputs, number_of_host),
            );
            numbers.push(number);
        }
        if is_changed || numbers != *all {
            let is_ours = |&number: &u32| parsed.value(number).class == Class::Ours;
            let found: Vec<_> = numbers.iter().copied().filter(is_ours).collect();
            let by_age = order::by_age(found.iter().map(|&number| &*parsed.key(number).0));
            *ours = by_age.into_iter().map(|place| found[place as usize]).collect();
            *all = numbers;
        }
    }

    /// All of them, in the order of the index.
    pub(super) fn all(&self) -> impl Iterator<Item = &ParsedIngress> {
        self.all.iter().map(|&number| self.parsed.value(number))
    }

    /// Numbers and hosts of those that are ours, the oldest first.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.ours.iter().map(|&number| (number, &*self.parsed.value(number).hosts))
    }

    /// Those that are ours, the oldest first.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Sourced<Ingress>>> {
        self.ours.iter().map(|&number| &self.parsed.key(number).0)
    }

    /// What those that are ours ask of the backends that they name.
    pub(super) fn backends(
        &self,
    ) -> impl Iterator<Item = (BackendSettings, impl Iterator<Item = (NsName, PortRef)>)> + Clone {
        self.ours
            .iter()
            .map(|&number| (self.parsed.value(number).balancing, rules::backends(&self.parsed.key(number).0)))
    }

    pub(super) fn until(&self) -> i64 {
        self.parsed.until()
    }

    /// Forgets those that are gone.
    pub(super) fn sweep(&mut self, revisions: &Revisions) {
        self.parsed.sweep(revisions, |_| {});
    }
}

fn parse(
    ingress: &Sourced<Ingress>,
    base: &Settings,
    inputs: &Inputs<'_>,
    number_of_host: &mut impl FnMut(HostName) -> u32,
) -> ParsedIngress {
    let mut problems = Vec::new();
    let mut class = class::of(ingress, inputs, &mut problems);
    let mut hosts = SmallVec::new();
    let mut balancing = BackendSettings::default();
    if class == Class::Ours {
        certificates::check(ingress, inputs, &mut problems);
        let Annotated { settings, .. } = Annotated::read(ingress, base, inputs, &mut problems);
        balancing = settings.balancing;
        if settings.guards.ignores_ingress {
            class = Class::Refused;
        } else if !settings.canary.is_canary {
            rules::check(ingress, &mut problems);
            for name in hosts_of(ingress) {
                let host = number_of_host(name);
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
    }
    hosts.shrink_to_fit();
    ParsedIngress { class, hosts, balancing, problems: problems.into() }
}

// === impl Annotated ===

impl Annotated {
    fn read(
        ingress: &Sourced<Ingress>,
        base: &Settings,
        inputs: &Inputs<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let options = inputs.options;
        let prefix = &options.annotations_prefix;
        let mut settings = annotations::read(ingress, base, prefix, problems);
        let crosses_namespaces = settings.crosses_namespaces;
        let (upstream, refusal) = settings.upstream_tls.resolve(ingress, prefix, crosses_namespaces, inputs);
        if let Some((denial, problem)) = refusal {
            settings.guards.of_locations.push(denial);
            problems.push(problem);
        }
        if settings.host_tls.passthrough && !options.ssl_passthrough {
            settings.host_tls.passthrough = false;
            let key = format!("{prefix}/ssl-passthrough");
            let message =
                format!("annotation {key} has no effect without --enable-ssl-passthrough: TLS ends here");
            let line = ingress.metadata.annotations.get(&key);
            let problem = line.map(|value| Problem::at(Severity::Warning, ingress, value, message));
            problems.extend(problem.map(|problem| problem.because(Reason::NoEffect)));
        }
        let client_auth =
            settings.client_certificates.resolve(ingress, prefix, crosses_namespaces, inputs, problems);
        Self { settings, upstream, client_auth }
    }

    /// What holds where there is no Ingress.
    fn base(base: &Settings) -> Self {
        Self { settings: base.clone(), upstream: base.upstream_tls.draft(), client_auth: None }
    }
}

// === impl Claimants ===

impl<'c, 'a> Claimants<'c, 'a> {
    pub(super) fn new(
        ingresses: &'c Ingresses,
        base: &'c Settings,
        inputs: &'c Inputs<'a>,
        revisions: &'c Revisions,
    ) -> Self {
        Self { ingresses, base, inputs, revisions, annotated: RefCell::default() }
    }

    /// What an Ingress says about one of its hosts.
    pub(super) fn claim(&self, number: u32, host: &HostName) -> Claim {
        let parsed = self.ingresses.parsed.read(number, self.revisions);
        let ingress = &self.ingresses.parsed.key(number).0;
        let read = || Rc::new(Annotated::read(ingress, self.base, self.inputs, &mut Vec::new()));
        let annotated = if parsed.hosts.len() > 1 {
            Rc::clone(self.annotated.borrow_mut().entry(number).or_insert_with(read))
        } else {
            read()
        };
        claims::claim(ingress, &annotated, host, self.inputs)
    }

    /// The route for what no other takes, at a host that no Ingress has.
    pub(super) fn rest(&self, place: Place) -> DraftRoute {
        let mut route = DraftRoute::new(PathMatch::root(), None, place);
        claims::apply(&Annotated::base(self.base), self.inputs.options.https_port, &mut route);
        route
    }
}

// === impl ByAddress ===

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl Hash for ByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
