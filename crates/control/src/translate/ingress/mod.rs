//! Ingresses: the selection of those that are served, the settings in their annotations, and their claims
//! about hosts.
//!
//! `class` selects Ingresses and `order` sorts them by age; `annotations` reads their annotations by a table,
//! of which each concern (`redirect`, `timeouts` and so on) has a part; `rules` and `certificates` read their
//! specs; `claims` combines all that for one host. A concern has its annotations, its settings, and a
//! function that applies the settings to the draft of a route. Concerns that depend on other objects or on
//! options implement `Resolve`.

pub(super) mod abuse;
pub(super) mod access;
pub(super) mod acme;
mod affinity;
pub mod annotation;
pub mod annotations;
mod api_keys;
pub(super) mod asker;
pub(super) mod auth;
mod balancing;
pub(super) mod bodies;
pub(super) mod cache;
mod canary;
mod carried_over;
mod certificates;
mod claims;
pub(crate) mod class;
mod client_certificates;
pub(super) mod compression;
mod cors;
pub(super) mod direct_response;
mod early_data;
pub(super) mod errors;
mod ext_authz;
mod ext_proc;
pub(super) mod fallback;
mod fastcgi;
mod files;
pub(super) mod firewall;
pub(super) mod firewall_tuning;
mod guards;
mod headers;
mod health_check;
mod host_tls;
pub(super) mod jwt;
pub(super) mod limits;
mod logging;
mod maintenance;
mod mirror;
pub(crate) mod mirror_share;
mod of_ingress;
pub(super) mod oidc;
pub(crate) mod order;
pub(super) mod overload;
pub mod own;
pub(super) mod partial;
pub(super) mod places;
pub(super) mod quota;
pub(super) mod redirect;
mod resolve;
pub(super) mod responses;
mod retries;
mod rewrite;
mod rollout;
mod rules;
mod screening;
pub(super) mod snippets;
mod timeouts;
pub(super) mod tracing;
mod turnover;
mod upstream_tls;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use model::{FastCgi, HostName, PathMatch, RetryPolicy, Timeouts};
use smallvec::SmallVec;

use super::backend_settings::BackendSettings;
use super::claim::{CanaryClaim, Claim, ClientAuthPolicy, DraftRoute};
use super::handful::Handful;
use super::inputs::Inputs;
use super::memo::{Memo, Revisions};
use super::ownership::Owner;
use super::upstream_protocol::UpstreamDraft;
use super::value::Parsed;
use crate::names::{NsName, PortRef};
use crate::objects::{Ingress, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use class::Class;
use of_ingress::OfIngress;
use resolve::{Context, Findings, Resolve};

pub(super) use rules::backends;
pub(crate) use rules::hosts_of;
pub(super) use turnover::Turnover;

/// The settings in the annotations of an Ingress, by concern. The defaults are those of ingress-nginx,
/// changed by the `ConfigMap`; each Ingress changes a copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) abuse: abuse::Settings,
    pub(super) acme: acme::Settings,
    pub(super) access: access::Settings,
    pub(super) auth: auth::Settings,
    affinity: affinity::Settings,
    pub(super) balancing: BackendSettings,
    pub(super) bodies: bodies::Settings,
    pub(super) cache: cache::Settings,
    canary: canary::Settings,
    client_certificates: client_certificates::Settings,
    pub(super) compression: compression::Settings,
    cors: cors::Settings,
    pub(super) errors: errors::Settings,
    direct_response: direct_response::Settings,
    ext_proc: ext_proc::Settings,
    fallback: fallback::Settings,
    fastcgi: fastcgi::Settings,
    files: files::Settings,
    pub(super) firewall: firewall::Settings,
    pub(super) guards: guards::Settings,
    hashing: balancing::Settings,
    pub(super) headers: headers::Settings,
    health_check: health_check::Settings,
    host_tls: host_tls::Settings,
    pub(super) limits: limits::Settings,
    pub(super) logging: logging::Settings,
    maintenance: maintenance::Settings,
    mirror: mirror::Settings,
    pub(super) overload: overload::Settings,
    pub(super) quota: quota::Settings,
    pub(super) redirect: redirect::Settings,
    pub(super) responses: responses::Settings,
    pub(super) retries: RetryPolicy,
    rewrite: rewrite::Settings,
    pub(super) screening: screening::Settings,
    pub(super) snippets: snippets::Settings,
    pub(super) timeouts: Timeouts,
    pub(super) tracing: tracing::Settings,
    pub(super) upstream_tls: upstream_tls::Settings,
    /// The characters of values are not checked (`--enable-annotation-validation=false`).
    pub(super) is_lenient: bool,
    /// Annotations may name Secrets of other namespaces.
    pub(super) crosses_namespaces: bool,
}

/// The result of an Ingress alone, independent of other objects at its hosts.
pub(super) struct ParsedIngress {
    pub(super) class: Class,
    /// The numbers of the hosts of its claims, in order of appearance.
    pub(super) hosts: Handful,
    /// The Ingress receives a share of other Ingresses' requests at its hosts, and has no claims of its own.
    pub(super) is_canary: bool,
    /// None for most Ingresses, therefore on the heap.
    rest: Option<Box<Rest>>,
}

/// The parts of a result that most Ingresses do not have.
struct Rest {
    /// The settings for the Services that it names; none for the usual ones.
    balancing: Option<BackendSettings>,
    problems: Box<[Problem]>,
}

/// The settings in the annotations of an Ingress, with the objects that they name looked up.
struct Annotated {
    settings: Settings,
    upstream: UpstreamDraft,
    /// The verification of its hosts' clients, or the reason for closing its hosts.
    client_auth: Option<Parsed<ClientAuthPolicy>>,
    /// Headers of the responses of its locations.
    custom_headers: Option<headers::CustomHeaders>,
    /// The parameters for `FastCGI` endpoints.
    fast_cgi: Arc<FastCgi>,
    /// The authentication of users at its locations.
    auth: auth::Resolved,
    snippets: snippets::Resolved,
}

/// All Ingresses, stored from one translation to the next.
#[derive(Default)]
pub(super) struct Ingresses {
    parsed: Memo<ByAddress, ParsedIngress>,
    /// The numbers of all Ingresses, in the order of the index; none if some have changed since.
    all: Option<Vec<u32>>,
    /// The numbers of the served Ingresses, the oldest first.
    ours: Vec<u32>,
    /// Former versions that are served in place of the present ones, which are not accepted.
    kept: Vec<Arc<Sourced<Ingress>>>,
}

/// An Ingress, hashed and compared by its address in memory. An unchanged Ingress keeps its address, and no
/// other can get it while this value holds the pointer.
struct ByAddress(Arc<Sourced<Ingress>>);

/// Makes the claims of Ingresses. The annotations of an Ingress with several hosts are read once in a
/// translation.
pub(super) struct Claimants<'c, 'a> {
    ingresses: &'c Ingresses,
    base: &'c Settings,
    inputs: &'c Inputs<'a>,
    revisions: &'c Revisions,
    annotated: RefCell<HashMap<u32, Rc<Annotated>>>,
}

// === impl Ingresses ===

impl Ingresses {
    /// Updates the Ingresses of an index. `number_of_host` gives the number of a host.
    pub(super) fn follow(
        &mut self,
        base: &Settings,
        inputs: &Inputs<'_>,
        revisions: &Revisions,
        number_of_host: &mut impl FnMut(HostName) -> u32,
    ) {
        let Self { parsed, all, ours, kept } = self;
        let is_changed = Cell::new(false);
        let mut look_at = |parsed: &mut Memo<_, _>, ingress: &Arc<Sourced<Ingress>>| {
            let number = parsed.number(ByAddress(Arc::clone(ingress)), revisions);
            let is_new = parsed.get(
                number,
                revisions,
                |_| true,
                |ByAddress(ingress), _| parse(ingress, base, inputs, number_of_host),
            );
            is_changed.set(is_changed.get() || is_new);
            number
        };
        let numbers: Vec<_> = inputs.ingresses().map(|ingress| look_at(parsed, ingress)).collect();
        let is_other = is_changed.get() || all.as_ref() != Some(&numbers);
        if is_other {
            let served = ours.iter().map(|&number| &parsed.key(number).0);
            *kept = former_versions(parsed, &numbers, served);
        }
        let former: Vec<_> = kept.iter().map(|ingress| look_at(parsed, ingress)).collect();
        if is_other || is_changed.get() {
            let is_ours = |&number: &u32| parsed.value(number).class == Class::Ours;
            kept.retain({
                let mut former = former.iter();
                move |_| former.next().is_some_and(is_ours)
            });
            let found: Vec<_> = numbers.iter().chain(&former).copied().filter(is_ours).collect();
            let by_age = order::by_age(found.iter().map(|&number| &*parsed.key(number).0));
            *ours = by_age.into_iter().map(|place| found[place as usize]).collect();
            *all = Some(numbers);
        }
    }

    /// Reports each former version that stays in force.
    pub(super) fn problems_of_kept(&self) -> impl Iterator<Item = Problem> {
        self.kept.iter().map(|ingress| {
            let message =
                "the version before it stays in force, as in ingress-nginx, until this process ends";
            Problem::of(Severity::Warning, ingress, message).because(Reason::Annotation)
        })
    }

    /// All Ingresses, in the order of the index.
    pub(super) fn all(&self) -> impl Iterator<Item = &ParsedIngress> {
        self.all.iter().flatten().map(|&number| self.parsed.value(number))
    }

    /// The numbers of the Ingresses with problems.
    pub(super) fn with_problems(&self) -> impl Iterator<Item = u32> {
        self.all.iter().flatten().copied().filter(move |&number| !self.problems_of(number).is_empty())
    }

    /// The problems of the Ingress with this number.
    pub(super) fn problems_of(&self, number: u32) -> &[Problem] {
        self.parsed.value(number).problems()
    }

    /// The Ingress with this number.
    pub(super) fn object(&self, number: u32) -> &Arc<Sourced<Ingress>> {
        &self.parsed.key(number).0
    }

    /// The numbers of the served Ingresses and of their hosts, the oldest Ingress first.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.ours.iter().map(|&number| (number, &*self.parsed.value(number).hosts))
    }

    /// The served Ingresses, the oldest first.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Sourced<Ingress>>> {
        self.ours.iter().map(|&number| &self.parsed.key(number).0)
    }

    /// The settings of the served Ingresses for the backends that they name.
    pub(super) fn backends<'s>(
        &'s self,
        usual: &'s BackendSettings,
    ) -> impl Iterator<Item = (&'s BackendSettings, impl Iterator<Item = (NsName, PortRef)>)> + Clone {
        self.ours.iter().map(move |&number| {
            let own = self.parsed.value(number).balancing();
            (own.unwrap_or(usual), rules::backends(&self.parsed.key(number).0))
        })
    }

    /// The Ingress with this number as an owner of a host.
    pub(super) fn owner(&self, number: u32) -> Owner {
        let ingress = &self.parsed.key(number).0;
        Owner { born: order::birth(ingress).unwrap_or(u64::MAX), object: ingress.reference() }
    }

    /// The place of the Ingress with this number.
    pub(super) fn place(&self, number: u32) -> SourceLocation {
        SourceLocation::of(&*self.parsed.key(number).0)
    }

    /// Whether the Ingress with this number serves its hosts over TLS.
    pub(super) fn has_tls(&self, number: u32) -> bool {
        !self.is_canary(number) && !self.parsed.key(number).0.spec.tls.is_empty()
    }

    /// Whether the Ingress with this number receives only a share of other Ingresses' requests.
    pub(super) fn is_canary(&self, number: u32) -> bool {
        self.parsed.value(number).is_canary
    }

    pub(super) fn until(&self) -> i64 {
        self.parsed.until()
    }

    /// Removes the deleted Ingresses.
    pub(super) fn sweep(&mut self, revisions: &Revisions) {
        self.parsed.sweep(revisions, |_| {});
    }
}

/// The versions that were `served` so far of Ingresses whose present version is not accepted.
fn former_versions<'o>(
    parsed: &Memo<ByAddress, ParsedIngress>,
    numbers: &[u32],
    served: impl Iterator<Item = &'o Arc<Sourced<Ingress>>>,
) -> Vec<Arc<Sourced<Ingress>>> {
    let is_not_accepted = |&&number: &&u32| parsed.value(number).class == Class::NotAccepted;
    let present: HashMap<_, _> = numbers
        .iter()
        .filter(is_not_accepted)
        .map(|&number| &parsed.key(number).0)
        .map(|ingress| (ingress.key(), ingress))
        .collect();
    if present.is_empty() {
        return Vec::new();
    }
    let is_former = |served: &&Arc<Sourced<Ingress>>| {
        let is_earlier = |now: &&Arc<Sourced<Ingress>>| {
            now.metadata.uid() == served.metadata.uid() && !Arc::ptr_eq(now, served)
        };
        present.get(&served.key()).is_some_and(is_earlier)
    };
    served.filter(is_former).map(Arc::clone).collect()
}

fn parse(
    ingress: &Sourced<Ingress>,
    base: &Settings,
    inputs: &Inputs<'_>,
    number_of_host: &mut impl FnMut(HostName) -> u32,
) -> ParsedIngress {
    let mut problems = Vec::new();
    let mut class = class::of(ingress, inputs, &mut problems);
    let mut hosts = SmallVec::<[u32; 4]>::new();
    let mut balancing = None;
    let mut is_canary = false;
    if class == Class::Ours {
        let Annotated { settings, .. } = Annotated::read(ingress, base, inputs, &mut problems);
        is_canary = settings.canary.is_canary;
        let asked = BackendSettings {
            affinity: settings.affinity.of_backends().filter(|_| !is_canary),
            hash_by: settings.hashing.of_backends(),
            ..settings.balancing
        };
        balancing = Some(asked).filter(|asked| *asked != base.balancing);
        if settings.guards.ignores_ingress {
            class = Class::NotAccepted;
        } else if !is_canary {
            certificates::check(ingress, inputs, &mut problems);
            acme::check(ingress, settings.acme, &mut problems);
        }
        if class == Class::Ours {
            rules::check(ingress, &mut problems);
            for name in hosts_of(ingress) {
                let host = number_of_host(name);
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
    }
    let is_usual = balancing.is_none() && problems.is_empty();
    let rest = (!is_usual).then(|| Box::new(Rest { balancing, problems: problems.into() }));
    ParsedIngress { class, hosts: (&*hosts).into(), is_canary, rest }
}

impl ParsedIngress {
    /// The settings for the Services that it names; none for the usual ones.
    fn balancing(&self) -> Option<&BackendSettings> {
        self.rest.as_ref()?.balancing.as_ref()
    }

    pub(super) fn problems(&self) -> &[Problem] {
        self.rest.as_ref().map_or(&[], |rest| &rest.problems)
    }
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
        let refusals = screening::refusals(ingress, &base.screening, options);
        if !refusals.is_empty() {
            problems.extend(refusals);
            let mut ignored = Self::base(base, options);
            ignored.settings.guards.ignores_ingress = true;
            return ignored;
        }
        let mut settings = annotations::read(ingress, base, prefix, problems);
        let is_given = |name: &str| annotations::is_given(ingress, prefix, name);
        let (snippets, faults) = snippets::resolve(&mut settings, is_given, annotations::named);
        settings.auth.set_own_script(snippets.auth.clone());
        snippets::remark(&snippets.remarks, ingress, prefix, problems);
        for fault in faults {
            snippets::close(fault, ingress, prefix, &mut settings.guards, problems);
        }
        let asker = OfIngress { ingress, prefix };
        let context = Context { asker: &asker, inputs, crosses_namespaces: settings.crosses_namespaces };
        let mut findings = Findings { guards: &mut settings.guards, problems };
        settings.firewall.resolve(&context, &mut findings);
        let upstream = settings.upstream_tls.resolve(&context, &mut findings);
        settings.tracing.resolve(&context, &mut findings);
        settings.cache.resolve(&context, &mut findings);
        settings.quota.resolve(&context, &mut findings);
        settings.access.places.resolve(&context, &mut findings);
        settings.host_tls.resolve(&context, &mut findings);
        settings.responses.resolve(&context, &mut findings);
        settings.files.resolve(&context, &mut findings);
        let client_auth = settings.client_certificates.resolve(&context, &mut findings);
        settings.errors.resolve(&context, &mut findings);
        settings.ext_proc.resolve(&context, &mut findings);
        settings.direct_response.resolve(&context, &mut findings);
        settings.maintenance.resolve(&context, &mut findings);
        settings.fallback.resolve(&context, &mut findings);
        let auth = settings.auth.resolve(&context, &mut findings);
        let custom_headers = settings.headers.resolve(&context, &mut findings);
        let fast_cgi = settings.fastcgi.resolve(&context, &mut findings);
        Self { settings, upstream, client_auth, custom_headers, fast_cgi, auth, snippets }
    }

    /// The settings of a route without an Ingress.
    fn base(base: &Settings, options: &Options) -> Self {
        let (upstream, auth) = (base.upstream_tls.draft(), auth::Resolved::default());
        let mut settings = base.clone();
        let (snippets, _) = settings.snippets.read();
        settings.guards.of_locations.extend(settings.firewall.resolve_global(options));
        let fast_cgi = Arc::default();
        Self { settings, upstream, client_auth: None, custom_headers: None, fast_cgi, auth, snippets }
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

    /// The claim of an Ingress about one of its hosts.
    pub(super) fn claim(&self, number: u32, host: &HostName) -> Claim {
        let (ingress, annotated) = self.annotated(number);
        claims::claim(ingress, &annotated, host, self.inputs)
    }

    /// The claim of a canary Ingress about one of its hosts.
    pub(super) fn canary(&self, number: u32, host: &HostName) -> CanaryClaim {
        let (ingress, annotated) = self.annotated(number);
        claims::canary(ingress, &annotated, host)
    }

    fn annotated(&self, number: u32) -> (&'c Arc<Sourced<Ingress>>, Rc<Annotated>) {
        let parsed = self.ingresses.parsed.read(number, self.revisions);
        let ingress = &self.ingresses.parsed.key(number).0;
        let read = || Rc::new(Annotated::read(ingress, self.base, self.inputs, &mut Vec::new()));
        let annotated = if parsed.hosts.len() > 1 {
            Rc::clone(self.annotated.borrow_mut().entry(number).or_insert_with(read))
        } else {
            read()
        };
        (ingress, annotated)
    }

    /// The route for requests that no other route matches, at a host without an Ingress.
    pub(super) fn rest(&self, place: SourceLocation) -> DraftRoute {
        let mut route = DraftRoute::new(PathMatch::root(), None, place);
        claims::apply_to_any(&Annotated::base(self.base, self.inputs.options), &mut route);
        logging::apply_to_rest(&self.base.logging, &mut route);
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
