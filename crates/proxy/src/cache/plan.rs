//! Plan for the response of an endpoint: it is stored, updates a stored response, or passes.
//!
//! The rules are those of `wire::cache`; this module applies them. Never in here: sockets, and the
//! connection of the client.

use std::sync::Arc;
use std::time::Duration;

use model::CachePolicy;
use wire::cache::storable::Candidate;
use wire::cache::{Directives, Freshness, Grace, Head, NotStorable, Policy, Times, Validators, stored};
use wire::h1::{Body as Framed, Response};

use crate::body::SharedBody;
use crate::store::forms::ContentId;
use crate::store::{Asking, Body, CacheMiss, Key, Leader, Object, Room, TAG_FIELDS};

/// Plan for a response.
pub(super) enum Plan {
    /// The response goes to the client and is not stored.
    Pass,
    /// The stale response is still valid, and has been updated.
    Updated(Arc<Object>),
    /// The client gets the stale response instead.
    Stale,
    Keep(Box<Keeping>),
}

/// A response that is being stored.
pub(super) struct Keeping {
    pub(super) key: Key,
    /// The object that other requests share meanwhile.
    pub(super) object: Arc<Object>,
    pub(super) body: Arc<SharedBody>,
    pub(super) room: Room,
    pub(super) len_max: u64,
    /// Count of purges and changes before the request was sent.
    pub(super) since: u64,
    /// Held until the whole response has arrived: new requests share it meanwhile.
    pub(super) _leader: Option<Leader>,
}

/// The parts of a request that the plan depends on.
#[derive(Clone, Copy)]
pub(super) struct RequestInfo<'a> {
    pub(super) method: &'a [u8],
    pub(super) head: Head<'a>,
    /// Time since 1970.
    pub(super) time: Duration,
}

impl RequestInfo<'_> {
    /// Seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.time.as_secs()
    }
}

/// The rules that a route configures.
pub(super) fn policy_of(policy: &CachePolicy) -> Policy<'static> {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    Policy {
        default_ttl: policy.default_ttl.map(seconds),
        grace: Grace {
            stale_while_revalidate: seconds(policy.stale_while_revalidate),
            stale_if_error: seconds(policy.stale_if_error),
        },
        ..Policy::default()
    }
}

/// Makes the plan, and releases the waiting requests where nothing can be shared.
pub(super) fn plan(miss: &CacheMiss, request: RequestInfo<'_>, response: &Response, bytes: &[u8]) -> Plan {
    let head = Head::of_response(bytes, response);
    let Some(key) = &miss.key else { return Plan::Pass };
    if response.status == 304 {
        return match miss.validates().and_then(|stale| update(miss, key, stale, request, head)) {
            Some(object) => Plan::Updated(object),
            None => pass(miss, key, request, response, None),
        };
    }
    if may_be_stale(miss, response.status, request.now()) {
        miss.note(|report| report.forward_status = Some(response.status));
        miss.let_go();
        return Plan::Stale;
    }
    let policy = policy_of(&miss.policy);
    let mut directives = Directives::of(head, policy.targets);
    withhold_tags(&mut directives);
    let times = Times::between(miss.begin, request.time);
    let freshness = Freshness::of(response.status, head, &directives, times, &policy);
    let candidate = Candidate {
        method: request.method,
        request: request.head,
        asked: &miss.asked,
        status: response.status,
        response: head,
        directives: &directives,
        freshness: &freshness,
    };
    if let Err(why) = candidate.check(&policy) {
        return pass(miss, key, request, response, Some(why));
    }
    if is_a_session(head, &directives) {
        return pass(miss, key, request, response, Some(NotStorable::SetCookie));
    }
    let Some(labels) = miss.labels.as_ref().and_then(|labels| labels.tagged(head)) else {
        return pass_with(miss, key, request, response, "labels");
    };
    let mut room = miss.cache.room(&miss.namespace);
    let asking = miss.asking(request.head);
    if is_for_who_asked(asking, &directives, &freshness)
        || length_of(response).is_some_and(|length| length > miss.policy.object_bytes_max)
        || !room.take(bytes.len() as u64)
    {
        return pass(miss, key, request, response, None);
    }
    let Some(vary) = asking.vary(head) else {
        return pass(miss, key, request, response, Some(NotStorable::Vary));
    };
    let body = SharedBody::new();
    let Some((response_kept, written)) = as_kept(request, response, bytes, &directives) else {
        return pass(miss, key, request, response, None);
    };
    let object = Arc::new(Object {
        response: response_kept,
        freshness,
        validators: Validators::of(head, request.now()),
        vary_key: vary.key(request.head),
        vary,
        labels,
        body: Body::Coming(Arc::clone(&body)),
        content: ContentId::next(),
        head: written.into(),
    });
    miss.note(|report| report.stored = true);
    miss.cache.forget_pass(key);
    let leader = miss.leader.take().inspect(|leader| leader.publish(Arc::clone(&object)));
    let len_max = miss.policy.object_bytes_max;
    let (key, since) = (Arc::clone(key), miss.since);
    Plan::Keep(Box::new(Keeping { key, object, body, room, len_max, since, _leader: leader }))
}

/// Passes the response, for a reason that HTTP has no word for.
fn pass_with(
    miss: &CacheMiss,
    key: &Key,
    request: RequestInfo<'_>,
    response: &Response,
    detail: &'static str,
) -> Plan {
    let plan = pass(miss, key, request, response, None);
    miss.note(|report| report.detail = Some(detail));
    plan
}

/// The head of a response as it is stored.
fn as_kept(
    request: RequestInfo<'_>,
    response: &Response,
    bytes: &[u8],
    directives: &Directives,
) -> Option<(Response, Vec<u8>)> {
    let head = Head::of_response(bytes, response);
    let mut written = Vec::with_capacity(response.len + 64);
    let reason = &bytes[response.reason.clone()];
    stored::write_head(response.status, reason, head, directives, None, &mut written);
    if !head.has(b"date") {
        with_field(&mut written, "Date", &wire::date::imf_fixdate(request.now()));
    }
    Some((Object::parse(&written)?, written))
}

fn length_of(response: &Response) -> Option<u64> {
    match response.body(false) {
        Framed::Empty => Some(0),
        Framed::Length(length) => Some(length),
        Framed::Chunked | Framed::UntilClose => None,
    }
}

/// Whether a response may belong to its client alone: the client sent a cookie, or a header that may be a
/// credential, and the response does not declare itself shareable. A route's default and heuristic freshness
/// are no such declaration.
fn is_for_who_asked(asking: Asking<'_>, directives: &Directives, freshness: &Freshness) -> bool {
    !freshness.explicit && !directives.public && (asking.has_unknown || asking.head.has(b"cookie"))
}

/// Whether a response sets a cookie that may be a session.
fn is_a_session(response: Head<'_>, directives: &Directives) -> bool {
    let is_withheld = || directives.withheld.iter().any(|name| **name == *b"set-cookie");
    let is_shared = directives.public || directives.s_maxage.is_some();
    response.has(b"set-cookie") && !is_shared && !is_withheld()
}

/// Tags are for caches: they are stored as labels, and removed from the head.
fn withhold_tags(directives: &mut Directives) {
    directives.withheld.extend(TAG_FIELDS.map(|(name, _)| name.as_bytes().into()));
}

/// Whether a stale response is better than one with this status (RFC 5861 section 4).
pub(super) fn may_be_stale(miss: &CacheMiss, status: u16, now: u64) -> bool {
    matches!(status, 500 | 502..=504)
        && miss.stale.as_ref().is_some_and(|stale| stale.freshness.may_serve_on_error(now, &miss.asked))
}

/// Passes the response, and remembers the key where its later responses are likely to pass too.
#[cold]
fn pass(
    miss: &CacheMiss,
    key: &Key,
    request: RequestInfo<'_>,
    response: &Response,
    why: Option<NotStorable>,
) -> Plan {
    miss.let_go();
    let is_of_request =
        matches!(why, Some(NotStorable::Method | NotStorable::RequestNoStore | NotStorable::Partial));
    let is_failure = response.status >= 500 || response.status == 304;
    if !is_of_request && !is_failure {
        miss.cache.note_pass(key, request.now());
        if let Some(stale) = &miss.stale {
            miss.cache.store().remove_one(key, stale);
        }
    }
    miss.note(|report| report.detail = why.map(name));
    Plan::Pass
}

fn name(why: NotStorable) -> &'static str {
    match why {
        NotStorable::Method => "method",
        NotStorable::Status => "status",
        NotStorable::Partial => "partial",
        NotStorable::NoStore => "no-store",
        NotStorable::RequestNoStore => "request-no-store",
        NotStorable::Private => "private",
        NotStorable::Authorization => "authorization",
        NotStorable::SetCookie => "set-cookie",
        NotStorable::Vary => "vary",
        NotStorable::NoFreshness => "no-freshness",
    }
}

/// Updates the stale response by a 304 (RFC 9111 section 4.3.4).
fn update(
    miss: &CacheMiss,
    key: &Key,
    stale: &Arc<Object>,
    request: RequestInfo<'_>,
    head: Head<'_>,
) -> Option<Arc<Object>> {
    let policy = policy_of(&miss.policy);
    let mut said = Directives::of(head, policy.targets);
    withhold_tags(&mut said);
    let mut written = Vec::with_capacity(stale.head.len() + 128);
    let (status, reason) = (stale.response.status, &stale.head[stale.response.reason.clone()]);
    stored::write_updated(status, reason, stale.head(), head, &said, &mut written);
    let response = Object::parse(&written)?;
    let merged = Head::of_response(&written, &response);
    let directives = Directives::of(merged, policy.targets);
    let times = Times::between(miss.begin, request.time);
    let mut freshness = Freshness::of(status, merged, &directives, times, &policy);
    if !head.has(b"date") {
        // The `Date` is that of the former response.
        freshness.initial_age = times.delay;
    }
    let vary = miss.asking(request.head).vary(merged)?;
    let has_tags = TAG_FIELDS.iter().any(|(name, _)| head.has(name.as_bytes()));
    let labels = if has_tags { stale.labels.tagged(head) } else { None };
    let object = Arc::new(Object {
        freshness,
        validators: Validators::of(merged, request.now()),
        vary_key: vary.key(request.head),
        vary,
        labels: labels.unwrap_or_else(|| stale.labels.clone()),
        body: stale.body.clone(),
        content: stale.content,
        response: response.clone(),
        head: written.into(),
    });
    let is_kept = miss.cache.store().replace(key, stale, &object, miss.since);
    miss.note(|report| {
        report.forward_status = Some(304);
        report.revalidated = true;
        report.stored = is_kept;
    });
    match miss.leader.take() {
        Some(leader) if is_kept => leader.publish(Arc::clone(&object)),
        // The response has been purged meanwhile: waiting requests may be newer than the purge.
        Some(leader) => leader.pass(),
        None => {}
    }
    Some(object)
}

/// Adds a field to a head that has been written.
pub(super) fn with_field(head: &mut Vec<u8>, name: &str, value: &str) {
    head.truncate(head.len() - b"\r\n".len());
    head.extend_from_slice(format!("{name}: {value}\r\n\r\n").as_bytes());
}
