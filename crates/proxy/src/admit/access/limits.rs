//! Limits on the rate and the connections of one client (ingress-nginx: `limit-rps`, `limit-rpm`,
//! `limit-connections`).

use std::net::IpAddr;

use model::ClientLimits;
use observe::Reason;

use super::key::{self, Counted};
use crate::admit::Targeted;
use crate::request::decision::Decision;
use crate::request::reply::Answer;
use crate::route::filters::FilterResult;

/// Checks the limits in nginx's order: requests, then connections.
pub(super) fn check(targeted: &Targeted<'_>, limits: &ClientLimits, decision: &mut Decision) -> FilterResult {
    let (worker, limiter) = (targeted.worker, &targeted.worker.clients.limiter);
    let Counted { subjects, are_too_many } = counted(targeted, Some(decision), limits);
    let keys = || subjects.iter().map(|&subject| (subject, limits.zone));
    if are_too_many || !keys().all(|key| limiter.take(key, &limits.rates, worker.clock.now())) {
        return refuse(targeted, Reason::RateLimit, limits.rate_status);
    }
    if let Some(max) = limits.connections {
        for key in keys() {
            let Some(slot) = limiter.enter(key, max) else {
                return refuse(targeted, Reason::ClientConnectionLimit, limits.connections_status);
            };
            decision.slots.push(slot);
        }
    }
    FilterResult::Continue
}

/// The subjects that a request is counted for.
pub(crate) fn counted(
    targeted: &Targeted<'_>,
    decision: Option<&Decision>,
    limits: &ClientLimits,
) -> Counted<IpAddr> {
    let client = targeted.forwarded.client.to_canonical();
    if limits.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return Counted::never();
    }
    let limiter = &targeted.worker.clients.limiter;
    match &limits.key {
        None => Counted::once(key::network(client)),
        Some(key) => Counted::by(&key::expand(targeted, decision, key), |value| limiter.subject(value)),
    }
}

fn refuse(targeted: &Targeted<'_>, reason: Reason, status: u16) -> FilterResult {
    targeted.note_reason(reason);
    FilterResult::Answer(Answer::refusal(status, &[]))
}
