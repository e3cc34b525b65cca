//! What becomes of the response of an endpoint: it is kept, brings what is kept up to date, or passes.
//!
//! The rules are those of `wire::cache`; here stands what this cache does about them. Never in here: sockets, and who asked.

use std::sync::Arc;
use std::time::Duration;

use model::CachePolicy;
use wire::cache::storable::Candidate;
use wire::cache::{Directives, Freshness, Grace, Head, NotStorable, Policy, Times, Validators, stored};
use wire::h1::{Body as Framed, Response};

use crate::body::SharedBody;
use crate::cache::{Asking, Body, Key, Leader, Object, Passage, Room, TAG_FIELDS};
use crate::forms::ContentId;

/// What becomes of a response.
pub(super) enum Plan {
    /// It goes to the client and nowhere else.
    Pass,
    /// What is kept still counts, and has been brought up to date.
    Updated(Arc<Object>),
    /// The client gets what is kept, though it is stale.
    Stale,
    Keep(Box<Keeping>),
}

/// A response that is being kept.
pub(super) struct Keeping {
    pub(super) key: Key,
    /// What others are given meanwhile.
    pub(super) object: Arc<Object>,
    pub(super) body: Arc<SharedBody>,
    pub(super) room: Room,
    pub(super) len_max: u64,
    /// Purges before it was asked for.
    pub(super) since: u64,
    /// Held until all of it has come: who comes meanwhile goes along.
    pub(super) _leader: Option<Leader>,
}

/// A request, as far as that counts here.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) method: &'a [u8],
    pub(super) head: Head<'a>,
    /// Time since 1970.
    pub(super) time: Duration,
}

impl Asker<'_> {
    /// Seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.time.as_secs()
    }
}

/// What a route lets the rules do.
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

/// Decides, and lets those go that wait in vain. `framed` is what follows the head.
pub(super) fn plan(passage: &Passage, asker: Asker<'_>, response: &Response, bytes: &[u8]) -> Plan {
    let head = Head::of_response(bytes, response);
    let Some(key) = &passage.key else { return Plan::Pass };
    if response.status == 304 {
        return match passage.validates().and_then(|stale| update(passage, key, stale, asker, head)) {
            Some(object) => Plan::Updated(object),
            None => pass(passage, key, asker, response, None),
        };
    }
    if may_be_stale(passage, response.status, asker.now()) {
        passage.tell(|told| told.forward_status = Some(response.status));
        passage.let_go();
        return Plan::Stale;
    }
    let policy = policy_of(&passage.policy);
    let mut directives = Directives::of(head, policy.targets);
    withhold_tags(&mut directives);
    let times = Times::between(passage.begin, asker.time);
    let freshness = Freshness::of(response.status, head, &directives, times, &policy);
    let candidate = Candidate {
        method: asker.method,
        request: asker.head,
        asked: &passage.asked,
        status: response.status,
        response: head,
        directives: &directives,
        freshness: &freshness,
    };
    if let Err(why) = candidate.check(&policy) {
        return pass(passage, key, asker, response, Some(why));
    }
    if is_a_session(head, &directives) {
        return pass(passage, key, asker, response, Some(NotStorable::SetCookie));
    }
    let Some(labels) = passage.labels.as_ref().and_then(|labels| labels.tagged(head)) else {
        return pass_with(passage, key, asker, response, "labels");
    };
    let mut room = passage.cache.room(&passage.namespace);
    let asking = passage.asking(asker.head);
    if is_for_who_asked(asking, &directives, &freshness)
        || length_of(response).is_some_and(|length| length > passage.policy.object_bytes_max)
        || !room.take(bytes.len() as u64)
    {
        return pass(passage, key, asker, response, None);
    }
    let Some(vary) = asking.vary(head) else {
        return pass(passage, key, asker, response, Some(NotStorable::Vary));
    };
    let body = SharedBody::new();
    let Some((response_kept, written)) = as_kept(asker, response, bytes, &directives) else {
        return pass(passage, key, asker, response, None);
    };
    let object = Arc::new(Object {
        response: response_kept,
        freshness,
        validators: Validators::of(head, asker.now()),
        vary_key: vary.key(asker.head),
        vary,
        labels,
        body: Body::Coming(Arc::clone(&body)),
        content: ContentId::next(),
        head: written.into(),
    });
    passage.tell(|told| told.stored = true);
    passage.cache.forget_pass(key);
    let leader = passage.leader.take().inspect(|leader| leader.come(Arc::clone(&object)));
    let len_max = passage.policy.object_bytes_max;
    let (key, since) = (Arc::clone(key), passage.since);
    Plan::Keep(Box::new(Keeping { key, object, body, room, len_max, since, _leader: leader }))
}

/// Nobody else gets it, for a reason that HTTP has no word for.
fn pass_with(
    passage: &Passage,
    key: &Key,
    asker: Asker<'_>,
    response: &Response,
    detail: &'static str,
) -> Plan {
    let plan = pass(passage, key, asker, response, None);
    passage.tell(|told| told.detail = Some(detail));
    plan
}

/// The head of a response as it is kept.
fn as_kept(
    asker: Asker<'_>,
    response: &Response,
    bytes: &[u8],
    directives: &Directives,
) -> Option<(Response, Vec<u8>)> {
    let head = Head::of_response(bytes, response);
    let mut written = Vec::with_capacity(response.len + 64);
    let reason = &bytes[response.reason.clone()];
    stored::write_head(response.status, reason, head, directives, None, &mut written);
    if !head.has(b"date") {
        with_field(&mut written, "Date", &wire::date::imf_fixdate(asker.now()));
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

/// Whether a response may be what belongs to its client alone: one to a client with a cookie, or with a header that may be a key, that does
/// not say that it is for others. A route's default, and what is guessed, is no such word.
fn is_for_who_asked(asking: Asking<'_>, directives: &Directives, freshness: &Freshness) -> bool {
    !freshness.explicit && !directives.public && (asking.has_unknown || asking.head.has(b"cookie"))
}

/// Whether a response sets a cookie that may be a session.
fn is_a_session(response: Head<'_>, directives: &Directives) -> bool {
    let is_withheld = || directives.withheld.iter().any(|name| **name == *b"set-cookie");
    let is_shared = directives.public || directives.s_maxage.is_some();
    response.has(b"set-cookie") && !is_shared && !is_withheld()
}

/// Tags are for caches: what is kept has them beside its head.
fn withhold_tags(directives: &mut Directives) {
    directives.withheld.extend(TAG_FIELDS.map(|(name, _)| name.as_bytes().into()));
}

/// Whether what is kept is better than a response with this status (RFC 5861 section 4).
pub(super) fn may_be_stale(passage: &Passage, status: u16, now: u64) -> bool {
    matches!(status, 500 | 502..=504)
        && passage.stale.as_ref().is_some_and(|stale| stale.freshness.may_serve_on_error(now, &passage.asked))
}

/// Nobody else gets it, which is remembered where it is likely to stay so.
#[cold]
fn pass(
    passage: &Passage,
    key: &Key,
    asker: Asker<'_>,
    response: &Response,
    why: Option<NotStorable>,
) -> Plan {
    passage.let_go();
    let is_of_request =
        matches!(why, Some(NotStorable::Method | NotStorable::RequestNoStore | NotStorable::Partial));
    let is_failure = response.status >= 500 || response.status == 304;
    if !is_of_request && !is_failure {
        passage.cache.note_pass(key, asker.now());
        if let Some(stale) = &passage.stale {
            passage.cache.store().remove_one(key, stale);
        }
    }
    passage.tell(|told| told.detail = why.map(name));
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

/// Brings what is kept up to date by a 304 (RFC 9111 section 4.3.4).
fn update(
    passage: &Passage,
    key: &Key,
    stale: &Arc<Object>,
    asker: Asker<'_>,
    head: Head<'_>,
) -> Option<Arc<Object>> {
    let policy = policy_of(&passage.policy);
    let mut said = Directives::of(head, policy.targets);
    withhold_tags(&mut said);
    let mut written = Vec::with_capacity(stale.head.len() + 128);
    let (status, reason) = (stale.response.status, &stale.head[stale.response.reason.clone()]);
    stored::write_updated(status, reason, stale.head(), head, &said, &mut written);
    let response = Object::parse(&written)?;
    let merged = Head::of_response(&written, &response);
    let directives = Directives::of(merged, policy.targets);
    let times = Times::between(passage.begin, asker.time);
    let mut freshness = Freshness::of(status, merged, &directives, times, &policy);
    if !head.has(b"date") {
        // Its `Date` is that of the former response.
        freshness.initial_age = times.delay;
    }
    let vary = passage.asking(asker.head).vary(merged)?;
    let has_tags = TAG_FIELDS.iter().any(|(name, _)| head.has(name.as_bytes()));
    let labels = if has_tags { stale.labels.tagged(head) } else { None };
    let object = Arc::new(Object {
        freshness,
        validators: Validators::of(merged, asker.now()),
        vary_key: vary.key(asker.head),
        vary,
        labels: labels.unwrap_or_else(|| stale.labels.clone()),
        body: stale.body.clone(),
        content: stale.content,
        response: response.clone(),
        head: written.into(),
    });
    let is_kept = passage.cache.store().replace(key, stale, &object, passage.since);
    passage.tell(|told| {
        told.forward_status = Some(304);
        told.revalidated = true;
        told.stored = is_kept;
    });
    match passage.leader.take() {
        Some(leader) if is_kept => leader.come(Arc::clone(&object)),
        // It has been purged meanwhile: who waits may have come later.
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
