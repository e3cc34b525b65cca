//! How much one client may ask for (ingress-nginx: `limit-rps`, `limit-rpm`, `limit-connections`).

use std::net::IpAddr;

use model::ClientLimits;
use observe::Reason;

use super::key::{self, Counted};
use crate::clients::Admitted;
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::reply::Answer;

/// "Requests, then connections."
pub(super) fn check(exchange: &Exchange<'_>, limits: &ClientLimits, admitted: &mut Admitted) -> FilterResult {
    let (worker, limiter) = (exchange.worker, &exchange.worker.clients.limiter);
    let Counted { subjects, are_too_many } = counted(exchange, limits);
    let keys = || subjects.iter().map(|&subject| (subject, limits.zone));
    if are_too_many || !keys().all(|key| limiter.take(key, &limits.rates, worker.clock.now())) {
        return refuse(exchange, Reason::RateLimit, limits.rate_status);
    }
    if let Some(max) = limits.connections {
        for key in keys() {
            let Some(slot) = limiter.enter(key, max) else {
                return refuse(exchange, Reason::ClientConnectionLimit, limits.connections_status);
            };
            admitted.slots.push(slot);
        }
    }
    FilterResult::Continue
}

/// The subjects that a request is counted for.
pub(crate) fn counted(exchange: &Exchange<'_>, limits: &ClientLimits) -> Counted<IpAddr> {
    let client = exchange.forwarded.client.to_canonical();
    if limits.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return Counted::never();
    }
    let limiter = &exchange.worker.clients.limiter;
    match &limits.key {
        None => Counted::once(key::network(client)),
        Some(key) => Counted::by(&key::expand(exchange, key), |value| limiter.subject(value)),
    }
}

fn refuse(exchange: &Exchange<'_>, reason: Reason, status: u16) -> FilterResult {
    exchange.note_reason(reason);
    FilterResult::Answer(Answer::refusal(status, &[]))
}
