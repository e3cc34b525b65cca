//! The cache of a route: a request is answered from the cache, shares the response to another request, or
//! goes on to an endpoint, whose response is stored.
//!
//! ```text
//! serve ─┬─ cached and fresh ──────────────────────────────▶ give
//!        ├─ cached, stale, usable ── refresh (beside) ─────▶ give
//!        ├─ same request in progress ── follow ────────────▶ give, along with it; or on by itself
//!        └─ on to an endpoint ── response: plan ─┬─ keep: fill the cache, and give beside it
//!                                                ├─ 304: updates the cached response ▶ give
//!                                                └─ pass: to the client alone
//! ```
//!
//! The cache comes after all checks of the client: a client that may not reach the endpoint gets no cached
//! response either. The rules of HTTP are in `wire::cache`, stored responses in `store`.
//!
//! Never in here: a response before the checks of the client, and the storage of cached responses.

mod fill;
mod give;
mod invalidate;
mod key;
mod plan;
pub(crate) mod receive;
mod refresh;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use model::{CachePolicy, Forward};
use observe::{CacheResult, Reason};
use wire::cache::{Forward as Forwarded, Head, RequestDirectives, Verdict, invalidation};

use crate::admit::Admitted;
use crate::answer::attempted::Attempted;
use crate::body::Stored;
use crate::limits::CACHE_DISK_WAIT_MAX;
use crate::request::AfterRequest;
use crate::request::Request;
use crate::request::reply::Answer;
use crate::request::stop::Stop;
use crate::store::{
    Asking, Body, Cache, CacheMiss, CacheReport, Flight, Hit, Key, Labels, MemoryLookup, Object, Phase, Role,
};
use crate::upstream::fault::Fault;
use key::{Headers, KeyBytes};

/// How a request that is searched for gets its response.
enum Decision {
    Give(Arc<Object>, CacheReport),
    AskEndpoint {
        key: Option<Key>,
        stale: Option<Arc<Object>>,
        leader: Option<crate::store::Leader>,
        since: u64,
        report: CacheReport,
    },
    OnlyIfCached,
}

impl Decision {
    /// To an endpoint, past the cache.
    fn past(why: Forwarded, since: u64) -> Self {
        let report = CacheReport { forward: Some(why), ..CacheReport::default() };
        Self::AskEndpoint { key: None, stale: None, leader: None, since, report }
    }

    /// To an endpoint, without waiting for another request, and without one that waits for it.
    fn by_itself(key: &[u8], stale: Option<Arc<Object>>, since: u64, report: CacheReport) -> Self {
        Self::AskEndpoint { key: Some(Key::from(key)), stale, leader: None, since, report }
    }
}

/// The result of a first look at the cache.
pub(crate) enum Lookup {
    /// A cached response that answers the request without waiting.
    Hit(Arc<Object>, Hit),
    /// A response has to be sought.
    Pending(Box<Pending>),
}

/// A request for which the cache has no response at hand.
pub(crate) struct Pending {
    /// The key; or the reason, for a request that the cache does not answer.
    key: Result<KeyBytes, Forwarded>,
    directives: RequestDirectives,
    /// The request has headers that are not known to be harmless.
    has_unknown: bool,
    /// Count of purges and changes before the first look.
    since: u64,
    found: MemoryLookup,
}

/// The result of a search.
pub(crate) enum CacheDecision {
    /// This response answers the request. Its body may still be on its way.
    Give(Arc<Object>, Option<Stored>),
    /// The request goes on to an endpoint.
    AskEndpoint,
    /// The client accepts a cached response only (`only-if-cached`), and there is none.
    OnlyIfCached,
}

/// Looks whether the cache can answer a request at once, which is all that most requests cost. None where
/// there is no cache.
pub(crate) fn look(admitted: &Admitted<'_>, forward: &Forward, policy: &CachePolicy) -> Option<Lookup> {
    let cache = admitted.worker.cache.as_ref()?;
    let request = Head::of_request(admitted.head, admitted.parsed);
    let directives = RequestDirectives::of(request);
    let since = cache.store().purged();
    let (key, has_unknown, found) = match bypass(admitted, policy) {
        Err(why) => (Err(why), false, MemoryLookup::default()),
        Ok(has_unknown) => {
            let key = key::of(admitted, forward, policy, None);
            let asking = Asking { head: request, has_unknown, harmless: &policy.harmless_headers };
            let found = cache.store().find(&key, asking);
            (Ok(key), has_unknown, found)
        }
    };
    if let Some(object) = &found.object
        && matches!(object.body, Body::Here { .. })
    {
        let now = admitted.worker.clock.unix().as_secs();
        let is_stale = match object.freshness.verdict(now, &directives) {
            Verdict::Fresh => Some(false),
            Verdict::Stale => Some(true),
            Verdict::StaleWhileRevalidate | Verdict::Revalidate => None,
        };
        if let Some(is_stale) = is_stale {
            let ttl = object.freshness.ttl(now).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            return Some(Lookup::Hit(found.object?, Hit { is_stale, ttl }));
        }
    }
    Some(Lookup::Pending(Box::new(Pending { key, directives, has_unknown, since, found })))
}

/// Sends a cached response to the client.
pub(crate) async fn give(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    object: &Object,
) -> Result<AfterRequest, Stop> {
    let given = give::give(attempted, forward, object, None).await;
    given.map(after).map_err(|fault| fault.reason.into())
}

/// Sends the response of a search to the client. None where the request goes on to an endpoint.
pub(crate) async fn give_found(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    found: CacheDecision,
) -> Result<Option<AfterRequest>, Stop> {
    match found {
        CacheDecision::Give(object, body) => {
            let given = give::give(attempted, forward, &object, body).await;
            given.map(|keep_alive| Some(after(keep_alive))).map_err(|fault| fault.reason.into())
        }
        CacheDecision::AskEndpoint => Ok(None),
        CacheDecision::OnlyIfCached => Err(Answer::not_cached().into()),
    }
}

/// Searches the response to a request: in memory, on disk, and in progress for another request.
pub(crate) async fn seek(
    admitted: &Admitted<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
    pending: Pending,
) -> Result<(CacheMiss, CacheDecision), Stop> {
    let Some(cache) = &admitted.worker.cache else { return Err(Reason::NoEndpoints.into()) };
    let (directives, has_unknown) = (pending.directives, pending.has_unknown);
    let begin = admitted.worker.clock.unix();
    let miss = |key: Option<Key>, stale, leader, since, report| CacheMiss {
        cache: Arc::clone(cache),
        policy: Arc::clone(policy),
        namespace: key::namespace(admitted),
        has_unknown,
        labels: key.as_ref().and_then(|_| key::labels(admitted, policy)),
        key,
        since,
        asked: directives,
        stale,
        leader: RefCell::new(leader),
        begin,
        is_filling: Cell::new(false),
        report: Cell::new(report),
    };
    let missed = || {
        let report = CacheReport { forward: Some(Forwarded::UriMiss), ..CacheReport::default() };
        miss(None, None, None, 0, report)
    };
    Ok(match choose(admitted, forward, policy, cache, pending).await? {
        Decision::Give(object, report) => {
            let is_coming = matches!(object.body, Body::Coming(_));
            let body = if is_coming { object.body.read(0, 0) } else { None };
            if is_coming && body.is_none() {
                // The body has turned out to be too long to be stored.
                (missed(), CacheDecision::AskEndpoint)
            } else {
                (miss(None, None, None, 0, report), CacheDecision::Give(object, body))
            }
        }
        Decision::AskEndpoint { key, stale, leader, since, report } => {
            (miss(key, stale, leader, since, report), CacheDecision::AskEndpoint)
        }
        Decision::OnlyIfCached => (missed(), CacheDecision::OnlyIfCached),
    })
}

fn after(keep_alive: bool) -> AfterRequest {
    if keep_alive { AfterRequest::KeepAlive } else { AfterRequest::Close }
}

/// Why a request bypasses the cache; otherwise, whether it has headers that are not known to be harmless. A
/// request of another replica has been checked there.
fn bypass(admitted: &Admitted<'_>, policy: &CachePolicy) -> Result<bool, Forwarded> {
    if admitted.peer_request.is_some() {
        return Ok(false);
    }
    let method = admitted.method();
    if !matches!(method, b"GET" | b"HEAD") {
        return Err(Forwarded::Method);
    }
    let headers = key::headers(admitted, policy);
    let is_bypassed = admitted.parsed.has_body()
        || admitted.parsed.is_upgrade()
        || headers == Headers::Opaque
        || key::is_bypassed(admitted, policy)
        || key::has_ambiguous_query(admitted, policy);
    if is_bypassed { Err(Forwarded::Bypass) } else { Ok(headers == Headers::Unknown) }
}

async fn choose(
    admitted: &Admitted<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
    cache: &Arc<Cache>,
    Pending { key, directives: asked, has_unknown, mut since, found }: Pending,
) -> Result<Decision, Stop> {
    let asked = &asked;
    let key = match key {
        Ok(key) => key,
        Err(why) => return Ok(Decision::past(why, since)),
    };
    let mut found = Some(found);
    let head = Head::of_request(admitted.head, admitted.parsed);
    let request = Asking { head, has_unknown, harmless: &policy.harmless_headers };
    let mut is_on_disk = cache.store().has_tier();
    loop {
        let now = admitted.worker.clock.unix().as_secs();
        let MemoryLookup { object, has_others } = found.take().unwrap_or_else(|| {
            since = cache.store().purged();
            cache.store().find(&key, request)
        });
        let is_unknown = object.is_none() && !has_others;
        if is_unknown && std::mem::take(&mut is_on_disk) && Box::pin(bring_up(admitted, cache, &key)).await? {
            continue;
        }
        let verdict = object.as_ref().map(|object| object.freshness.verdict(now, asked));
        if let (Some(object), Some(usable)) =
            (&object, verdict.filter(|verdict| *verdict != Verdict::Revalidate))
        {
            if usable == Verdict::StaleWhileRevalidate {
                refresh::begin(admitted, forward, policy, cache, (&key, since), object);
            }
            let report = CacheReport { hit: true, stale: usable != Verdict::Fresh, ..CacheReport::default() };
            return Ok(Decision::Give(Arc::clone(object), report));
        }
        let why = why_forwarded(object.as_deref(), has_others, now);
        let report = CacheReport { forward: Some(why), ..CacheReport::default() };
        if asked.only_if_cached {
            return Ok(Decision::OnlyIfCached);
        }
        let by_itself = |stale, report| Decision::by_itself(&key, stale, since, report);
        let is_for_all = !admitted.is_head() && !head.has(b"range") && !asked.no_cache && !asked.no_store;
        if !is_for_all || cache.passes(&key, now) {
            return Ok(by_itself(object, report));
        }
        let flight = match cache.join(&key) {
            Role::Lead(leader) => {
                // Another leader may have finished since the lookup.
                let meanwhile = cache.store().find(&key, request).object;
                if meanwhile.is_some_and(|new| is_new(&new, object.as_ref()) && is_usable(&new, now, asked)) {
                    drop(leader);
                    continue;
                }
                let key = Some(Arc::clone(&leader.key));
                return Ok(Decision::AskEndpoint { key, stale: object, leader: Some(leader), since, report });
            }
            Role::Follow(flight) => flight,
        };
        match follow(admitted, &flight).await? {
            // A response that needs validation for each request is only for the request that fetched it.
            Phase::Coming(coming) if coming.answers(request) && is_usable(&coming, now, asked) => {
                return Ok(Decision::Give(coming, CacheReport { collapsed: true, ..report }));
            }
            Phase::Vacant => {}
            _ => return Ok(by_itself(object, report)),
        }
    }
}

/// Why a request goes to an endpoint although its key may have responses.
fn why_forwarded(object: Option<&Object>, has_others: bool, now: u64) -> Forwarded {
    match object {
        Some(object) if object.freshness.is_fresh(now) => Forwarded::Request,
        Some(_) => Forwarded::Stale,
        None if has_others => Forwarded::VaryMiss,
        None => Forwarded::UriMiss,
    }
}

/// Whether a response differs from the one that was found before.
fn is_new(object: &Arc<Object>, before: Option<&Arc<Object>>) -> bool {
    before.is_none_or(|before| !Arc::ptr_eq(before, object))
}

/// The key of a request and its labels, if no fresh response is stored and the request may go to an
/// endpoint.
pub(crate) fn key_of_absent(
    admitted: &Admitted<'_>,
    forward: &Forward,
    policy: &CachePolicy,
) -> Option<(KeyBytes, Labels)> {
    let cache = admitted.worker.cache.as_ref()?;
    let head = Head::of_request(admitted.head, admitted.parsed);
    let asked = RequestDirectives::of(head);
    // The home cannot tell a client's headers from those that are set here: only responses for everybody are
    // requested.
    let has_unknown = bypass(admitted, policy).ok().filter(|has_unknown| !has_unknown)?;
    if asked.only_if_cached {
        return None;
    }
    let key = key::of(admitted, forward, policy, None);
    let now = admitted.worker.clock.unix().as_secs();
    let found =
        cache.store().find(&key, Asking { head, has_unknown, harmless: &policy.harmless_headers }).object;
    let is_fresh = found.is_some_and(|object| object.freshness.verdict(now, &asked) == Verdict::Fresh);
    Some((key, key::labels(admitted, policy)?)).filter(|_| !is_fresh)
}

/// The part of the cache in a request that another replica answers, with the result of that replica's cache.
pub(crate) fn of_home(
    request: &Request<'_>,
    policy: &Arc<CachePolicy>,
    result: CacheResult,
) -> Option<CacheMiss> {
    let report = CacheReport {
        forward: Some(Forwarded::UriMiss),
        detail: Some("home"),
        home: Some(result),
        ..CacheReport::default()
    };
    Some(CacheMiss {
        cache: Arc::clone(request.worker.cache.as_ref()?),
        policy: Arc::clone(policy),
        namespace: Arc::default(),
        has_unknown: false,
        key: None,
        labels: None,
        since: 0,
        asked: RequestDirectives::default(),
        stale: None,
        leader: RefCell::new(None),
        begin: request.worker.clock.unix(),
        is_filling: Cell::new(false),
        report: Cell::new(report),
    })
}

/// Whether a response may be used without validation.
fn is_usable(object: &Object, now: u64, asked: &RequestDirectives) -> bool {
    object.freshness.verdict(now, asked) != Verdict::Revalidate
}

/// Loads the responses of a key from the disk. False where there are none, or the disk does not answer soon:
/// the request then goes to an endpoint.
async fn bring_up(admitted: &Admitted<'_>, cache: &Cache, key: &[u8]) -> Result<bool, Stop> {
    let mut read = pin!(cache.store().bring_up(key));
    let mut gone = pin!(admitted.client_gone());
    let deadline = admitted.deadline.another();
    let answered = deadline.within(CACHE_DISK_WAIT_MAX, |cx| match read.as_mut().poll(cx) {
        Poll::Ready(is_there) => Poll::Ready(Ok(is_there)),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(Stop::Fault(Reason::ClientAborted))),
    });
    answered.await.unwrap_or(Ok(false))
}

/// Waits for the response to another request, for as long as the client is there and the request has time.
async fn follow(admitted: &Admitted<'_>, flight: &Flight) -> Result<Phase, Stop> {
    let mut gone = pin!(admitted.client_gone());
    // The time limit of the whole request bounds the wait, where the route has one.
    let followed = admitted.deadline.within(Duration::MAX, |cx| match flight.poll_phase(cx) {
        Poll::Ready(phase) => Poll::Ready(Ok(phase)),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(Stop::Fault(Reason::ClientAborted))),
    });
    followed.await.unwrap_or(Err(Stop::Fault(Reason::UpstreamReadTimeout)))
}

/// Sends a stale response in place of one that cannot be had (RFC 5861 section 4). None where there is none;
/// requests that wait for the response go on by themselves then.
pub(crate) async fn rescue(
    attempted: &Attempted<'_, '_>,
    forward: &Forward,
    reason: Reason,
) -> Result<Option<AfterRequest>, Fault> {
    let Some(miss) = attempted.miss() else { return Ok(None) };
    if matches!(reason, Reason::ClientAborted | Reason::BodyTimeout) || attempted.progress.is_answered() {
        // Nothing is known of the endpoint: a waiting request becomes the leader.
        drop(miss.leader.take());
        return Ok(None);
    }
    miss.let_go();
    let now = attempted.worker.clock.unix().as_secs();
    let stale = miss.stale.as_ref().filter(|stale| stale.freshness.may_serve_on_error(now, &miss.asked));
    let Some(stale) = stale else { return Ok(None) };
    miss.note(|report| report.stale = true);
    let keep_alive = give::give_kept(attempted, forward, stale).await?;
    Ok(Some(after(keep_alive)))
}

/// The cache's treatment of a request in words, as far as it does not depend on stored responses.
pub(crate) fn in_words(admitted: &Admitted<'_>, policy: &CachePolicy) -> String {
    match bypass(admitted, policy) {
        Err(Forwarded::Method) => "not answered from the cache: the method is neither GET nor HEAD".to_owned(),
        Err(_) => "not answered from the cache, and not kept: it has a body, a condition, a header or cookie that passes, or a query that can be read in two ways".to_owned(),
        Ok(_) if policy.is_shared && admitted.config.settings().replicas.is_some() => "depends on what is kept, here or at the replica where the object has its home: a fresh response answers, and otherwise the endpoint's is kept at its home if it may be".to_owned(),
        Ok(_) => "depends on what is kept: a fresh response answers, and otherwise the endpoint's is kept if it may be".to_owned(),
    }
}

/// Invalidates the cached responses of a URL that a request has changed (RFC 9111 section 4.4). Replicas
/// that share the cache are notified before the client is answered.
async fn note_response(admitted: &Admitted<'_>, forward: &Forward, status: u16, response: Head<'_>) {
    let method = admitted.method();
    if invalidation::is_unsafe(method) && invalidation::is_success(status) {
        Box::pin(invalidate::invalidate(admitted, forward, response)).await;
    }
}

/// Whether the client gets a stale response in place of one with this status.
pub(crate) fn is_rescued(admitted: &Admitted<'_>, status: u16) -> bool {
    let Some(miss) = admitted.miss().filter(|_| admitted.error_page.is_none()) else {
        return false;
    };
    let is_rescued = plan::may_be_stale(miss, status, admitted.worker.clock.unix().as_secs());
    if is_rescued {
        miss.note(|report| report.forward_status = Some(status));
    }
    is_rescued
}
