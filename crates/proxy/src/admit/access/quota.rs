//! Request quotas by a key (`forebay.io/limit-requests`), and the rate-limit fields of responses.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;

use clients::quota::{Decision as Verdict, RedisState, Subject};
use model::RequestQuota;
use observe::{Counter, Reason};

use super::key::{self, Counted};
use crate::admit::Targeted;
use crate::limits::LIMIT_REDIS_WAIT_MAX;
use crate::request::decision::{Decision, RateLimitFields};
use crate::request::reply::Answer;
use crate::route::filters::FilterResult;

/// nginx's default status is 503; this limit has the one that clients understand (RFC 6585 section 4).
const STATUS: u16 = 429;

pub(super) async fn check(
    targeted: &Targeted<'_>,
    quota: &RequestQuota,
    decision: &mut Decision,
) -> FilterResult {
    let Counted { subjects, are_too_many } = counted(targeted, Some(decision), quota);
    if are_too_many {
        return refuse(targeted, 1);
    }
    if subjects.is_empty() {
        return FilterResult::Continue;
    }
    let worker = targeted.worker;
    let quotas = &worker.clients.quotas;
    if quota.is_shared
        && let Some(redis) = quotas.redis()
        && !has_word(targeted, quota, &subjects, redis).await
    {
        let is_closed = targeted.config.settings().limits_fail_closed;
        let counter = if is_closed { Counter::LimitRedisClosed } else { Counter::LimitRedisAlone };
        worker.recorder.borrow().count(counter);
        if is_closed {
            targeted.note_reason(Reason::LimitUnknown);
            return FilterResult::Answer(Answer::to(Reason::LimitUnknown).retry_after(1));
        }
    }
    for &subject in &subjects {
        let Verdict { is_admitted, remaining } =
            quotas.take(subject, &quota.windows, quota.is_shared, worker.clock.now());
        // Of several values within their limits, the client gets the fields of the last one.
        decision.quota = Some(RateLimitFields::of(&remaining));
        if !is_admitted {
            let exhausted = remaining.iter().filter(|remaining| remaining.requests == 0);
            let wait = exhausted.map(|remaining| remaining.seconds).max();
            return refuse(targeted, wait.unwrap_or(1));
        }
    }
    FilterResult::Continue
}

fn refuse(targeted: &Targeted<'_>, seconds: u64) -> FilterResult {
    targeted.note_reason(Reason::RateLimit);
    FilterResult::Answer(Answer::refusal(STATUS, &[]).retry_after(seconds))
}

/// Whether Redis has reported the counts that a request needs. Waits for them while that is worth it.
async fn has_word(
    targeted: &Targeted<'_>,
    quota: &RequestQuota,
    subjects: &[Subject],
    redis: &RedisState,
) -> bool {
    let worker = targeted.worker;
    // Counts all subjects that lack a report, so that one exchange reports them together.
    let lacks = || {
        let now = worker.clock.now();
        let lacks = |&&subject: &&Subject| worker.clients.quotas.needs_redis(subject, &quota.windows, now);
        subjects.iter().filter(lacks).count() > 0
    };
    if !lacks() {
        return true;
    }
    if redis.unavailable().is_some() {
        return false;
    }
    worker.recorder.borrow().count(Counter::LimitRedisWaited);
    // Boxed: most requests do not wait, and their futures should not reserve room for it.
    Box::pin(await_word(targeted, redis, lacks)).await
}

/// Waits for exchanges until no count is lacking. False if that takes too long.
async fn await_word(targeted: &Targeted<'_>, redis: &RedisState, lacks: impl Fn() -> bool) -> bool {
    let mut exchanges = redis.exchanges();
    let mut word = pin!(async {
        while lacks() {
            if redis.unavailable().is_some() || exchanges.changed().await.is_err() {
                return false;
            }
        }
        true
    });
    // The thread reports when waiting has become useless; this bound holds without its report.
    let pause = targeted.deadline.another();
    pause.within(LIMIT_REDIS_WAIT_MAX, |cx| word.as_mut().poll(cx)).await.unwrap_or(false)
}

/// The subjects that a request is counted for.
pub(crate) fn counted(
    targeted: &Targeted<'_>,
    decision: Option<&Decision>,
    quota: &RequestQuota,
) -> Counted<Subject> {
    let client = targeted.forwarded.client.to_canonical();
    if quota.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return Counted::never();
    }
    let of = |value: &[u8]| Subject::of(quota.zone, quota.is_shared, value);
    match &quota.key {
        None => Counted::once(match key::network(client) {
            IpAddr::V4(address) => of(&address.octets()),
            IpAddr::V6(address) => of(&address.octets()),
        }),
        Some(key) => Counted::by(&key::expand(targeted, decision, key), of),
    }
}
