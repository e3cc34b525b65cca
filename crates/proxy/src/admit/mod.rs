//! The checks of a route, and the choice of the cluster that takes the request.
//!
//! [`backend`] chooses the cluster: shares, canaries, replacements of clusters without endpoints. [`access`]
//! has the checks of the client, which only routes with checks enter; the memory behind them is the crate
//! `clients`. Their outcome is a [`decision::Decision`]: headers, cookies, and slots that are held to the end
//! of the request. To count the behaviour of a client costs one hash and four additions; a verdict is looked
//! up only while any client is under one. [`admission`] decides on connections, [`guard`] on what is eased
//! when the process itself is short of something. [`upstream_head`] says what endpoints are told.
//!
//! Never in here: a try, and what the cache holds.

pub(crate) mod access;
pub(crate) mod admission;
pub(crate) mod backend;
pub(crate) mod cache_head;
pub(crate) mod canary;
pub(crate) mod cgi;
pub(crate) mod errors;
mod fallback;
pub(crate) mod filtered;
pub(crate) mod firewall;
pub mod guard;
pub(crate) mod script_heads;
pub(crate) mod taken;
#[cfg(test)]
mod tests;
pub(crate) mod upstream_head;

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::{Action, BackendAnswer, BackendFilters, CachePolicy, Canary, ClusterId, Files, Forward, Route};
use observe::Reason;

use crate::admit::backend::Backend;
use crate::io::buffer::Buffer;
use crate::replicas::PeerRequest;
use crate::request::decision::Decision;
use crate::request::inspection::{Inspection, TakenBody};
use crate::request::processing::Processing;
use crate::request::reply::{Answer, Scope as AnswerScope};
use crate::request::stage::{Stage, Watch};
use crate::request::stop::Stop;
use crate::route::Routed;
use crate::route::values::{HasValues, Scope};
use crate::store::{CacheMiss, CacheReport, CacheState};
use crate::upstream::Cluster;

/// The source of the response to an admitted request.
pub(crate) enum Target<'a> {
    /// One of these endpoints.
    Endpoints(&'a Forward, &'a Cluster),
    /// The cache: there is no endpoint at the moment.
    Cached(&'a Forward, &'a Arc<CachePolicy>),
    /// One of these endpoints, through an external processor.
    Processed(&'a Forward, &'a Cluster),
    /// A file answers, without an endpoint.
    Files(&'a Files),
}

/// A request whose cluster is chosen.
pub(crate) struct Targeted<'a> {
    pub(crate) routed: &'a Routed<'a>,
    /// The cluster whose endpoints are asked; none before one is chosen, and where none is needed.
    pub(crate) cluster: Option<ClusterId>,
    /// The filters of the backend that was chosen of several.
    pub(crate) backend: Option<Box<OfBackend>>,
}

/// The filters of one of several backends.
#[derive(Clone)]
pub(crate) struct OfBackend {
    pub(crate) filters: Arc<BackendFilters>,
    /// The target in place of all others.
    pub(crate) target: Option<Vec<u8>>,
}

/// A request that has passed all checks, or was stopped by one of them.
pub(crate) struct Admitted<'a> {
    pub(crate) targeted: Targeted<'a>,
    /// The outcome of the checks, where there is any: headers for the endpoint, cookies, slots that are held
    /// to the end.
    pub(crate) decision: Option<Rc<Decision>>,
    /// The part of another replica's request that this one needs, if the request is one.
    pub(crate) peer_request: Option<Rc<PeerRequest>>,
    /// The part of the route's cache in the request, once the cache has been looked at.
    pub(crate) cache: Option<CacheState>,
    /// The response that an error backend replaces, once that backend is asked.
    pub(crate) error_page: Option<Rc<ErrorPage>>,
}

/// A response that an error backend replaces by its own.
pub(crate) struct ErrorPage {
    /// The status of the replaced response.
    pub(crate) status: u16,
    /// The challenges of the replaced response, which the client is given all the same, as by nginx.
    pub(crate) challenges: Vec<Vec<u8>>,
    /// The request goes to the error backend without its body: the body is too long or broken, or an
    /// endpoint has got it and it was not kept.
    pub(crate) is_bodiless: bool,
}

/// An endpoint's connection whose response has come whole, though the client gets another one.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// How long the endpoint keeps the connection.
    pub(crate) idle_max: Option<Duration>,
}

impl HasValues for Targeted<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope {
            canary: self.canary(),
            cluster: self.cluster,
            is_target_rewritten: self.rewritten_target().is_some(),
            ..self.routed.scope()
        }
    }
}

impl HasValues for Admitted<'_> {
    fn scope(&self) -> Scope<'_> {
        let (decision, cache) = (self.decision.as_deref(), self.cache_report());
        Scope { decision, cache, ..self.targeted.scope() }
    }
}

impl<'a> Deref for Targeted<'a> {
    type Target = Routed<'a>;

    #[inline]
    fn deref(&self) -> &Routed<'a> {
        self.routed
    }
}

impl<'a> Deref for Admitted<'a> {
    type Target = Targeted<'a>;

    #[inline]
    fn deref(&self) -> &Targeted<'a> {
        &self.targeted
    }
}

/// Admits a request that was routed; one that was stopped by its route stays stopped. `rest` holds what has
/// been read after the head; none for a request that is only explained.
pub(crate) async fn let_in<'a>(
    routed: &'a Routed<'a>,
    result: Result<(), Stop>,
    rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> (Admitted<'a>, Result<Target<'a>, Stop>) {
    match result {
        Ok(()) => admit(routed, rest, watch).await,
        Err(stop) => (Admitted::of(Targeted::nowhere(routed)), Err(stop)),
    }
}

/// Chooses the endpoints of a routed request and checks its client. The result is an answer or a refusal
/// where the request goes no further. `watch` is told of each step.
async fn admit<'a>(
    routed: &'a Routed<'a>,
    rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> (Admitted<'a>, Result<Target<'a>, Stop>) {
    let Some(route) = routed.route else {
        return (Admitted::of(Targeted::nowhere(routed)), Err(Reason::UnknownPath.into()));
    };
    routed.cap_request();
    let Backend { id, filters, cluster } = routed.backend(route);
    let mut targeted = Targeted { routed, cluster: id, backend: filters };
    let cluster = match watch.see(Stage::Backend, cluster) {
        // A cached response needs no endpoint, but the client has to pass the checks.
        Err(Reason::NoEndpoints) if targeted.cached_by(route).is_some() => None,
        Err(reason) => return (Admitted::of(targeted), Err(reason.into())),
        Ok(None) => match targeted.answer_of_backend() {
            Some(answer) => return (Admitted::of(targeted), Err(answer)),
            None => None,
        },
        Ok(cluster) => cluster,
    };
    let mut decision = None;
    if let Some(access) = &route.access {
        if let Err(stop) = watch.see(Stage::GuardsInClear, targeted.check_in_clear(access)) {
            return (Admitted::of(targeted), Err(stop));
        }
        let result = if let Some(networks) = access.networks_alone() {
            access::by_address(&targeted, networks, watch)
        } else {
            let at_once = if watch.explains() {
                access::AtOnce::Undecided { has_unknown_token: false }
            } else {
                access::at_once(&targeted, access)
            };
            let (mut decided, result) = match at_once {
                access::AtOnce::Decided(decision, result) => (decision, result),
                access::AtOnce::Undecided { has_unknown_token } => {
                    Box::pin(access::admit(&targeted, access, has_unknown_token, rest, watch)).await
                }
            };
            let made = decided.as_mut().and_then(Rc::get_mut);
            if let Some(target) = made.and_then(|decided| decided.target.take()) {
                targeted.retarget(target);
            }
            decision = decided;
            result
        };
        if let Err(stop) = Result::<(), Stop>::from(result) {
            return (Admitted { decision, ..Admitted::of(targeted) }, Err(stop));
        }
        if access.processor.is_some() {
            let target = targeted.target(route, cluster).and_then(Target::processed);
            return (Admitted { decision, ..Admitted::of(targeted) }, target);
        }
    }
    let target = targeted.target(route, cluster);
    (Admitted { decision, ..Admitted::of(targeted) }, target)
}

impl Target<'_> {
    /// The same target behind an external processor. What does not come of an endpoint cannot go through one.
    fn processed(self) -> Result<Self, Stop> {
        match self {
            Self::Endpoints(forward, cluster) | Self::Processed(forward, cluster) => {
                Ok(Self::Processed(forward, cluster))
            }
            Self::Cached(..) | Self::Files(_) => Err(Reason::Unavailable.into()),
        }
    }
}

impl<'a> Targeted<'a> {
    /// A request for which no cluster is chosen.
    pub(crate) fn nowhere(routed: &'a Routed<'a>) -> Self {
        Self { routed, cluster: None, backend: None }
    }

    /// Has the endpoint asked for another path and query, whatever filters and scripts say.
    #[cold]
    fn retarget(&mut self, target: Vec<u8>) {
        let filters = self.backend.take().map(|backend| backend.filters).unwrap_or_default();
        self.backend = Some(Box::new(OfBackend { filters, target: Some(target) }));
    }

    /// The answer that the chosen one of several backends gives without an endpoint: its own, or that to a
    /// preflight.
    fn answer_of_backend(&self) -> Option<Stop> {
        let filters = &self.backend.as_ref()?.filters;
        match filters.answer.as_deref() {
            Some(BackendAnswer::Redirect(redirect)) => self.redirected(redirect).err(),
            Some(BackendAnswer::Respond(response)) => Some(Answer::direct(response).into()),
            None => self.preflight_of_backend().filter(|_| filters.cross_origin.is_some()).map(Stop::from),
        }
    }

    fn target(&self, route: &'a Route, cluster: Option<&'a Cluster>) -> Result<Target<'a>, Stop> {
        self.check_steps()?;
        match (&route.action, cluster) {
            (Action::Forward(forward), Some(cluster)) => Ok(Target::Endpoints(forward, cluster)),
            (Action::Files(files), _) => Ok(Target::Files(files)),
            (Action::Forward(forward), None) => match self.cached_by(route) {
                Some(policy) => Ok(Target::Cached(forward, policy)),
                None => Err(Reason::NoEndpoints.into()),
            },
            (Action::Respond(fixed), _) => Err(Answer::direct(fixed).into()),
            (Action::NotFound, _) => Err(Reason::UnknownPath.into()),
        }
    }

    /// The cache of a route, if the route has one.
    #[cold]
    fn cached_by<'r>(&self, route: &'r Route) -> Option<&'r Arc<CachePolicy>> {
        let Action::Forward(forward) = &route.action else { return None };
        forward.cache.as_ref().filter(|_| self.worker.cache.is_some())
    }

    /// The canary that serves the request, if one does.
    pub(crate) fn canary(&self) -> Option<&'a Canary> {
        let model::Backends::Canary(canary) = &self.own_forward()?.backends else { return None };
        (self.cluster == Some(canary.cluster)).then_some(canary)
    }

    /// The target for endpoints where filters change it; none for the client's own.
    pub(crate) fn rewritten_target(&self) -> Option<&[u8]> {
        let of_backend = self.backend.as_ref().and_then(|backend| backend.target.as_deref());
        of_backend.or_else(|| self.rewritten.as_ref().and_then(|rewritten| rewritten.target.as_deref()))
    }

    /// Whether filters of the route or of the backend may change anything of the request or its response.
    pub(crate) fn is_filtered(&self) -> bool {
        self.rewritten.is_some() || self.backend.is_some()
    }
}

impl<'a> Admitted<'a> {
    /// A request about which its checks have said nothing.
    pub(crate) fn of(targeted: Targeted<'a>) -> Self {
        Self { targeted, decision: None, peer_request: None, cache: None, error_page: None }
    }

    /// The same request for another cluster.
    pub(crate) fn at(&self, cluster: Option<ClusterId>) -> Self {
        let Targeted { routed, backend, .. } = &self.targeted;
        Self {
            targeted: Targeted { routed, cluster, backend: backend.clone() },
            decision: self.decision.clone(),
            peer_request: self.peer_request.clone(),
            cache: self.cache.clone(),
            error_page: self.error_page.clone(),
        }
    }

    /// The state of the cache for the request, unless the cache has answered.
    pub(crate) fn miss(&self) -> Option<&CacheMiss> {
        match &self.cache {
            Some(CacheState::Miss(miss)) => Some(miss),
            Some(CacheState::Hit(_)) | None => None,
        }
    }

    /// The report of the route's cache, for the client, the log and the metrics.
    pub(crate) fn cache_report(&self) -> Option<CacheReport> {
        self.cache.as_ref().map(CacheState::report)
    }

    /// The transaction of the route's firewall, if the route has one.
    pub(crate) fn inspection(&self) -> Option<&Inspection> {
        self.decision.as_deref()?.inspection.as_ref()
    }

    /// Whether all of the body was read for a check, and nobody has taken it yet.
    pub(crate) fn has_whole_body(&self) -> bool {
        self.decision.as_deref().is_some_and(Decision::has_whole_body)
    }

    /// The body that was read for a check, for the first that asks.
    pub(crate) fn take_body(&self) -> Option<TakenBody> {
        self.decision.as_deref()?.take_body()
    }

    /// The conversation with the route's external processor, if the route has one.
    pub(crate) fn processing(&self) -> Option<&Processing> {
        self.decision.as_deref()?.processing.as_deref()
    }

    /// Notes for how long the response is still fresh.
    pub(crate) fn tell_ttl(&self, ttl: i64) {
        if let Some(miss) = self.miss() {
            miss.note(|report| report.ttl = Some(ttl));
        }
    }

    /// Whether the request asks for another protocol, and for none but those that are passed on: what an
    /// endpoint agrees to besides, such as h2c, would be a tunnel past every rule of the proxy.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.parsed.is_upgrade() && self.error_page.is_none() && self.is_known_upgrade()
    }

    #[cold]
    fn is_known_upgrade(&self) -> bool {
        let known = &self.config.settings().client.upgrade_protocols;
        let is_known = |name: &[u8]| known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        self.parsed.fields.upgrades(self.head).all(is_known)
    }

    /// Whether the request goes on without its body.
    pub(crate) fn is_bodiless(&self) -> bool {
        self.error_page.as_ref().is_some_and(|page| page.is_bodiless)
    }

    /// The scope in which a response is made after all: neither an error backend nor the script of a host
    /// answers within a location.
    pub(crate) fn final_scope(&self, scope: AnswerScope) -> AnswerScope {
        let is_of_host =
            self.error_page.is_some() || self.script.as_ref().is_some_and(|script| script.is_of_host);
        if is_of_host { AnswerScope::Host } else { scope }
    }
}
