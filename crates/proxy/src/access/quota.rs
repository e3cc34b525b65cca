//! How many requests those may send who have one value in common (`forebay.io/limit-requests`), and what they are told of it.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;

use model::RequestQuota;
use observe::{Counter, Reason};

use super::key::{self, Counted};
use crate::clients::{Admitted, QuotaTold, QuotaVerdict, Store, Subject};
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::limits::LIMIT_REDIS_WAIT_MAX;
use crate::reply::Answer;

/// nginx's status for it is 503 by default; who asks for this limit asks for the one that clients understand (RFC 6585 section 4).
const STATUS: u16 = 429;

pub(super) async fn check(
    exchange: &Exchange<'_>,
    quota: &RequestQuota,
    admitted: &mut Admitted,
) -> FilterResult {
    let Counted { subjects, are_too_many } = counted(exchange, quota);
    if are_too_many {
        return refuse(exchange, 1);
    }
    if subjects.is_empty() {
        return FilterResult::Continue;
    }
    let worker = exchange.worker;
    let quotas = &worker.clients.quotas;
    if quota.is_shared
        && let Some(store) = quotas.store()
        && !has_word(exchange, quota, &subjects, store).await
    {
        let is_closed = exchange.config.settings().limits_fail_closed;
        let counter = if is_closed { Counter::LimitRedisClosed } else { Counter::LimitRedisAlone };
        worker.recorder.borrow().count(counter);
        if is_closed {
            exchange.note_reason(Reason::LimitUnknown);
            return FilterResult::Answer(Answer::to(Reason::LimitUnknown).after_seconds(1));
        }
    }
    for &subject in &subjects {
        let QuotaVerdict { is_admitted, left } =
            quotas.take(subject, &quota.windows, quota.is_shared, worker.clock.now());
        // Of several values that are within their limits the client is told of the last one.
        admitted.quota = Some(QuotaTold::of(&left));
        if !is_admitted {
            let wait = left.iter().filter(|left| left.requests == 0).map(|left| left.seconds).max();
            return refuse(exchange, wait.unwrap_or(1));
        }
    }
    FilterResult::Continue
}

fn refuse(exchange: &Exchange<'_>, seconds: u64) -> FilterResult {
    exchange.note_reason(Reason::RateLimit);
    FilterResult::Answer(Answer::refusal(STATUS, &[]).after_seconds(seconds))
}

/// Whether Redis has said what there is to be known for a request. Waits for it where it has not, as long as that is worth it.
async fn has_word(
    exchange: &Exchange<'_>,
    quota: &RequestQuota,
    subjects: &[Subject],
    store: &Store,
) -> bool {
    let worker = exchange.worker;
    // Redis is asked about all of them at once.
    let lacks = || {
        let now = worker.clock.now();
        let lacks = |&&subject: &&Subject| worker.clients.quotas.lacks_word(subject, &quota.windows, now);
        subjects.iter().filter(lacks).count() > 0
    };
    if !lacks() {
        return true;
    }
    if store.away().is_some() {
        return false;
    }
    worker.recorder.borrow().count(Counter::LimitRedisWaited);
    // Most requests do not wait, and are not to have room for it.
    Box::pin(await_word(exchange, store, lacks)).await
}

/// Waits for exchanges until nothing is lacking any more. False if that takes too long.
async fn await_word(exchange: &Exchange<'_>, store: &Store, lacks: impl Fn() -> bool) -> bool {
    let mut exchanges = store.exchanges();
    let mut word = pin!(async {
        while lacks() {
            if store.away().is_some() || exchanges.changed().await.is_err() {
                return false;
            }
        }
        true
    });
    // Who talks to Redis says when there is no more use in waiting; this bound does without it.
    let pause = exchange.deadline.another();
    pause.within(LIMIT_REDIS_WAIT_MAX, |cx| word.as_mut().poll(cx)).await.unwrap_or(false)
}

/// The subjects that a request is counted for.
pub(crate) fn counted(exchange: &Exchange<'_>, quota: &RequestQuota) -> Counted<Subject> {
    let client = exchange.forwarded.client.to_canonical();
    if quota.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return Counted::never();
    }
    let of = |value: &[u8]| Subject::of(quota.zone, quota.is_shared, value);
    match &quota.key {
        None => Counted::once(match key::network(client) {
            IpAddr::V4(address) => of(&address.octets()),
            IpAddr::V6(address) => of(&address.octets()),
        }),
        Some(key) => Counted::by(&key::expand(exchange, key), of),
    }
}
