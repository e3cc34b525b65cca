//! What the cache of a route does for a request: it is answered from what is kept, goes along with another one, or goes on to an endpoint,
//! whose response is kept.
//!
//! ```text
//! serve ─┬─ kept and fresh ─────────────────────────────▶ give
//!        ├─ kept, stale, may be used ── refresh (beside) ▶ give
//!        ├─ another asks for it ── follow ───────────────▶ give, along with it; or on by itself
//!        └─ on to an endpoint ── response: plan ─┬─ keep: fill the cache, and give beside it
//!                                                ├─ 304: brings what is kept up to date ▶ give
//!                                                └─ pass: to the client alone
//! ```
//!
//! It stands behind all checks of the client: what is kept is given to nobody who would not be let through to the endpoint. The rules of
//! HTTP are in `wire::cache`, what is kept in `cache`.

mod fill;
mod give;
mod invalidate;
mod key;
mod plan;
pub(crate) mod receive;
mod refresh;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use model::{CachePolicy, Forward};
use observe::{CacheResult, Reason};
use wire::cache::{Forward as Forwarded, Head, RequestDirectives, Verdict, invalidation};

use crate::cache::{
    Asking, Body, Cache, Concern, Flight, Found, Hit, Key, Labels, Object, Passage, Phase, Role, Told,
};
use crate::exchange::{AfterRequest, Exchange};
use crate::fault::Fault;
use crate::limits::CACHE_DISK_WAIT_MAX;
use key::{Headers, KeyBytes};

/// Why a request is not answered, and goes no further either.
pub(crate) enum Unanswered {
    /// It is content with what is kept, and nothing is.
    OnlyIfCached,
    Failed(Reason),
}

/// How a request comes by its response.
enum Way {
    Give(Arc<Object>, Told),
    Ask {
        key: Option<Key>,
        stale: Option<Arc<Object>>,
        leader: Option<crate::cache::Leader>,
        since: u64,
        told: Told,
    },
    OnlyIfCached,
}

impl Way {
    /// To an endpoint, without a word to or from what is kept.
    fn past(why: Forwarded, since: u64) -> Self {
        let told = Told { forward: Some(why), ..Told::default() };
        Self::Ask { key: None, stale: None, leader: None, since, told }
    }
}

/// What there is at once for a request.
pub(crate) enum Looked<S> {
    /// It answers the request, and nothing has to be waited for.
    Hit(Arc<Object>),
    /// What answers it has to be found. None in the end where it goes on to an endpoint.
    Sought(Pin<Box<S>>),
}

/// A request, as far as it has been looked at.
struct Asked {
    /// None for one that has nothing to do with what is kept, and why.
    key: Result<KeyBytes, Forwarded>,
    directives: RequestDirectives,
    /// It has headers that are not known to be harmless.
    has_unknown: bool,
    /// Purges and changes before anything was looked for.
    since: u64,
    found: Found,
}

/// Looks whether a request can be answered at once, which is all that most requests cost. None where there is no cache.
pub(crate) fn look<'e>(
    exchange: &'e Exchange<'_>,
    forward: &'e Forward,
    policy: &'e Arc<CachePolicy>,
) -> Option<Looked<impl Future<Output = Result<Option<AfterRequest>, Unanswered>>>> {
    let cache = exchange.worker.cache.as_ref()?;
    let request = Head::of_request(exchange.head, exchange.request);
    let directives = RequestDirectives::of(request);
    let since = cache.store().purged();
    let (key, has_unknown, found) = match bypass(exchange, policy) {
        Err(why) => (Err(why), false, Found::default()),
        Ok(has_unknown) => {
            let key = key::of(exchange, forward, policy, None);
            let found = cache
                .store()
                .find(&key, Asking { head: request, has_unknown, harmless: &policy.harmless_headers });
            (Ok(key), has_unknown, found)
        }
    };
    if let Some(object) = &found.object
        && matches!(object.body, Body::Here { .. })
    {
        let now = exchange.worker.clock.unix().as_secs();
        let is_stale = match object.freshness.verdict(now, &directives) {
            Verdict::Fresh => Some(false),
            Verdict::Stale => Some(true),
            Verdict::StaleWhileRevalidate | Verdict::Revalidate => None,
        };
        if let Some(is_stale) = is_stale {
            let ttl = object.freshness.ttl(now).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            exchange.cache.get_or_init(|| Concern::Hit(Hit { is_stale, ttl }));
            return Some(Looked::Hit(found.object?));
        }
    }
    let asked = Asked { key, directives, has_unknown, since, found };
    Some(Looked::Sought(Box::pin(serve(exchange, forward, (policy, cache), asked))))
}

/// Answers a request with what is kept.
pub(crate) async fn give_hit(
    exchange: &Exchange<'_>,
    forward: &Forward,
    object: Arc<Object>,
) -> Result<Option<AfterRequest>, Unanswered> {
    let given = give::give(exchange, forward, &object, None).await;
    given.map(|keep_alive| Some(after(keep_alive))).map_err(|fault| Unanswered::Failed(fault.reason))
}

/// Answers a request from the cache. None where it goes on to an endpoint.
async fn serve(
    exchange: &Exchange<'_>,
    forward: &Forward,
    (policy, cache): (&Arc<CachePolicy>, &Arc<Cache>),
    asked: Asked,
) -> Result<Option<AfterRequest>, Unanswered> {
    let (directives, has_unknown) = (asked.directives, asked.has_unknown);
    let begin = exchange.worker.clock.unix();
    let note = |key: Option<Key>, stale, leader, since, told| {
        let passage = Passage {
            cache: Arc::clone(cache),
            policy: Arc::clone(policy),
            namespace: key::namespace(exchange),
            has_unknown,
            labels: key.as_ref().and_then(|_| key::labels(exchange, policy)),
            key,
            since,
            asked: directives,
            stale,
            leader: RefCell::new(leader),
            begin,
            is_filling: Cell::new(false),
            told: Cell::new(told),
        };
        exchange.cache.get_or_init(|| Concern::Passage(Box::new(passage)));
    };
    match choose(exchange, forward, (policy, cache), asked).await? {
        Way::Give(object, told) => {
            let is_coming = matches!(object.body, Body::Coming(_));
            let body = if is_coming { object.body.read(0, 0) } else { None };
            if is_coming && body.is_none() {
                // It has turned out to be too long.
                note(None, None, None, 0, Told { forward: Some(Forwarded::UriMiss), ..Told::default() });
                return Ok(None);
            }
            note(None, None, None, 0, told);
            let keep_alive = give::give(exchange, forward, &object, body)
                .await
                .map_err(|fault| Unanswered::Failed(fault.reason))?;
            Ok(Some(after(keep_alive)))
        }
        Way::Ask { key, stale, leader, since, told } => {
            note(key, stale, leader, since, told);
            Ok(None)
        }
        Way::OnlyIfCached => {
            note(None, None, None, 0, Told { forward: Some(Forwarded::UriMiss), ..Told::default() });
            Err(Unanswered::OnlyIfCached)
        }
    }
}

/// Answers a request for which there is no endpoint at the moment from what is kept, as far as that is fresh or may be given all the same. None
/// if nothing is.
pub(crate) async fn serve_without_endpoint(
    exchange: &Exchange<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
) -> Result<Option<AfterRequest>, Unanswered> {
    let next = match look(exchange, forward, policy) {
        Some(Looked::Hit(object)) => give_hit(exchange, forward, object).await?,
        Some(Looked::Sought(sought)) => sought.await?,
        None => None,
    };
    if next.is_some() {
        return Ok(next);
    }
    let rescued = rescue(exchange, forward, Reason::NoEndpoints).await;
    rescued.map_err(|fault| Unanswered::Failed(fault.reason))
}

fn after(keep_alive: bool) -> AfterRequest {
    if keep_alive { AfterRequest::KeepAlive } else { AfterRequest::Close }
}

/// Why a request has nothing to do with what is kept; otherwise, whether it has headers that are not known to be harmless. Where another
/// replica asks, that has been looked at there.
fn bypass(exchange: &Exchange<'_>, policy: &CachePolicy) -> Result<bool, Forwarded> {
    if exchange.guest.get().is_some() {
        return Ok(false);
    }
    let method = &exchange.head[exchange.request.method.clone()];
    if !matches!(method, b"GET" | b"HEAD") {
        return Err(Forwarded::Method);
    }
    let headers = key::headers(exchange, policy);
    let is_bypassed = exchange.request.has_body()
        || exchange.request.is_upgrade()
        || headers == Headers::Opaque
        || key::is_bypassed(exchange, policy)
        || key::has_ambiguous_query(exchange, policy);
    if is_bypassed { Err(Forwarded::Bypass) } else { Ok(headers == Headers::Unknown) }
}

async fn choose(
    exchange: &Exchange<'_>,
    forward: &Forward,
    (policy, cache): (&Arc<CachePolicy>, &Arc<Cache>),
    Asked { key, directives: asked, has_unknown, mut since, found }: Asked,
) -> Result<Way, Unanswered> {
    let asked = &asked;
    let key = match key {
        Ok(key) => key,
        Err(why) => return Ok(Way::past(why, since)),
    };
    let mut found = Some(found);
    let head = Head::of_request(exchange.head, exchange.request);
    let request = Asking { head, has_unknown, harmless: &policy.harmless_headers };
    let mut is_on_disk = cache.store().has_tier();
    loop {
        let now = exchange.worker.clock.unix().as_secs();
        let Found { object, has_others } = found.take().unwrap_or_else(|| {
            since = cache.store().purged();
            cache.store().find(&key, request)
        });
        let is_unknown = object.is_none() && !has_others;
        if is_unknown && std::mem::take(&mut is_on_disk) && Box::pin(bring_up(exchange, cache, &key)).await? {
            continue;
        }
        let verdict = object.as_ref().map(|object| object.freshness.verdict(now, asked));
        if let (Some(object), Some(usable)) =
            (&object, verdict.filter(|verdict| *verdict != Verdict::Revalidate))
        {
            if usable == Verdict::StaleWhileRevalidate {
                refresh::begin(exchange, forward, policy, cache, (&key, since), object);
            }
            let told = Told { hit: true, stale: usable != Verdict::Fresh, ..Told::default() };
            return Ok(Way::Give(Arc::clone(object), told));
        }
        let why = why_forwarded(object.as_deref(), has_others, now);
        let told = Told { forward: Some(why), ..Told::default() };
        if asked.only_if_cached {
            return Ok(Way::OnlyIfCached);
        }
        let by_itself =
            |object, told| Way::Ask { key: Some(Key::from(&*key)), stale: object, leader: None, since, told };
        let is_for_all = !exchange.is_head() && !head.has(b"range") && !asked.no_cache && !asked.no_store;
        if !is_for_all || cache.passes(&key, now) {
            return Ok(by_itself(object, told));
        }
        let flight = match cache.join(&key) {
            Role::Lead(leader) => {
                // Another may have been the first, and done, since it was looked for.
                let meanwhile = cache.store().find(&key, request).object;
                if meanwhile.is_some_and(|new| is_new(&new, object.as_ref()) && is_usable(&new, now, asked)) {
                    drop(leader);
                    continue;
                }
                let key = Some(Arc::clone(&leader.key));
                return Ok(Way::Ask { key, stale: object, leader: Some(leader), since, told });
            }
            Role::Follow(flight) => flight,
        };
        match follow(exchange, &flight).await? {
            // What has to be validated for each request is nobody's but of who asked first.
            Phase::Coming(coming) if coming.answers(request) && is_usable(&coming, now, asked) => {
                return Ok(Way::Give(coming, Told { collapsed: true, ..told }));
            }
            Phase::Vacant => {}
            _ => return Ok(by_itself(object, told)),
        }
    }
}

/// Why a request goes on though it might be answered with what is kept.
fn why_forwarded(object: Option<&Object>, has_others: bool, now: u64) -> Forwarded {
    match object {
        Some(object) if object.freshness.is_fresh(now) => Forwarded::Request,
        Some(_) => Forwarded::Stale,
        None if has_others => Forwarded::VaryMiss,
        None => Forwarded::UriMiss,
    }
}

/// Whether a response is another one than that which was found before.
fn is_new(object: &Arc<Object>, before: Option<&Arc<Object>>) -> bool {
    before.is_none_or(|before| !Arc::ptr_eq(before, object))
}

/// The key of what a request is for, and by what the response can be purged, if nothing fresh is kept for it and an endpoint may be asked.
pub(crate) fn key_of_absent(
    exchange: &Exchange<'_>,
    forward: &Forward,
    policy: &CachePolicy,
) -> Option<(KeyBytes, Labels)> {
    let cache = exchange.worker.cache.as_ref()?;
    let head = Head::of_request(exchange.head, exchange.request);
    let asked = RequestDirectives::of(head);
    // The home cannot tell a client's headers from those that are set here: it is asked for what is everybody's.
    let has_unknown = bypass(exchange, policy).ok().filter(|has_unknown| !has_unknown)?;
    if asked.only_if_cached {
        return None;
    }
    let key = key::of(exchange, forward, policy, None);
    let now = exchange.worker.clock.unix().as_secs();
    let found =
        cache.store().find(&key, Asking { head, has_unknown, harmless: &policy.harmless_headers }).object;
    let is_fresh = found.is_some_and(|object| object.freshness.verdict(now, &asked) == Verdict::Fresh);
    Some((key, key::labels(exchange, policy)?)).filter(|_| !is_fresh)
}

/// Notes that another replica answers a request, and what its cache did.
pub(crate) fn note_home(exchange: &Exchange<'_>, policy: &Arc<CachePolicy>, result: CacheResult) {
    let Some(cache) = &exchange.worker.cache else { return };
    let told = Told {
        forward: Some(Forwarded::UriMiss),
        detail: Some("home"),
        home: Some(result),
        ..Told::default()
    };
    let passage = Passage {
        cache: Arc::clone(cache),
        policy: Arc::clone(policy),
        namespace: Arc::default(),
        has_unknown: false,
        key: None,
        labels: None,
        since: 0,
        asked: RequestDirectives::default(),
        stale: None,
        leader: RefCell::new(None),
        begin: exchange.worker.clock.unix(),
        is_filling: Cell::new(false),
        told: Cell::new(told),
    };
    exchange.cache.get_or_init(|| Concern::Passage(Box::new(passage)));
}

/// Whether a response may be given without asking the endpoint.
fn is_usable(object: &Object, now: u64, asked: &RequestDirectives) -> bool {
    object.freshness.verdict(now, asked) != Verdict::Revalidate
}

/// Brings what is on disk into memory. False where there is nothing, or the disk does not answer soon: an endpoint is asked then.
async fn bring_up(exchange: &Exchange<'_>, cache: &Cache, key: &[u8]) -> Result<bool, Unanswered> {
    let mut read = pin!(cache.store().bring_up(key));
    let mut gone = pin!(exchange.client_leaves());
    let deadline = exchange.deadline.another();
    let answered = deadline.within(CACHE_DISK_WAIT_MAX, |cx| match read.as_mut().poll(cx) {
        Poll::Ready(is_there) => Poll::Ready(Ok(is_there)),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(Unanswered::Failed(Reason::ClientAborted))),
    });
    answered.await.unwrap_or(Ok(false))
}

/// Waits for the response to another request, for as long as the client is there and the request has time.
async fn follow(exchange: &Exchange<'_>, flight: &Flight) -> Result<Phase, Unanswered> {
    let mut gone = pin!(exchange.client_leaves());
    // The time of the whole request bounds the wait, where the route says one.
    let followed = exchange.deadline.within(Duration::MAX, |cx| match flight.poll_phase(cx) {
        Poll::Ready(phase) => Poll::Ready(Ok(phase)),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(Unanswered::Failed(Reason::ClientAborted))),
    });
    followed.await.unwrap_or(Err(Unanswered::Failed(Reason::UpstreamReadTimeout)))
}

/// Gives what is kept in place of a response that cannot be had (RFC 5861 section 4). None where there is nothing of the kind; those who wait
/// for the response go on by themselves then.
pub(crate) async fn rescue(
    exchange: &Exchange<'_>,
    forward: &Forward,
    reason: Reason,
) -> Result<Option<AfterRequest>, Fault> {
    let Some(passage) = exchange.passage() else { return Ok(None) };
    if matches!(reason, Reason::ClientAborted | Reason::BodyTimeout) || exchange.progress.is_answered() {
        // Whoever waits asks for itself: nothing is known of the endpoint.
        drop(passage.leader.take());
        return Ok(None);
    }
    passage.let_go();
    let now = exchange.worker.clock.unix().as_secs();
    let stale =
        passage.stale.as_ref().filter(|stale| stale.freshness.may_serve_on_error(now, &passage.asked));
    let Some(stale) = stale else { return Ok(None) };
    passage.tell(|told| told.stale = true);
    let keep_alive = give::give_kept(exchange, forward, stale).await?;
    Ok(Some(after(keep_alive)))
}

/// What becomes of a request, as far as it can be said without what is kept.
pub(crate) fn in_words(exchange: &Exchange<'_>, policy: &CachePolicy) -> String {
    match bypass(exchange, policy) {
        Err(Forwarded::Method) => "not answered from the cache: the method is neither GET nor HEAD".to_owned(),
        Err(_) => "not answered from the cache, and not kept: it has a body, a condition, a header or cookie that passes, or a query that can be read in two ways".to_owned(),
        Ok(_) if policy.is_shared && exchange.config.settings().replicas.is_some() => "depends on what is kept, here or at the replica where the object has its home: a fresh response answers, and otherwise the endpoint's is kept at its home if it may be".to_owned(),
        Ok(_) => "depends on what is kept: a fresh response answers, and otherwise the endpoint's is kept if it may be".to_owned(),
    }
}

/// Notes that what is kept for a page counts no more, where a request has changed it (RFC 9111 section 4.4). Those who share the cache of its
/// route are told before the client is answered.
async fn note_response(exchange: &Exchange<'_>, forward: &Forward, status: u16, response: Head<'_>) {
    let method = &exchange.head[exchange.request.method.clone()];
    if invalidation::is_unsafe(method) && invalidation::is_success(status) {
        Box::pin(invalidate::invalidate(exchange, forward, response)).await;
    }
}

/// Whether the client gets what is kept in place of a response that tells of a failure.
pub(crate) fn is_rescued(exchange: &Exchange<'_>, status: u16) -> bool {
    let Some(passage) = exchange.passage().filter(|_| exchange.error_page.get().is_none()) else {
        return false;
    };
    let is_rescued = plan::may_be_stale(passage, status, exchange.worker.clock.unix().as_secs());
    if is_rescued {
        passage.tell(|told| told.forward_status = Some(status));
    }
    is_rescued
}
