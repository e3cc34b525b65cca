//! How much one client may ask for (ingress-nginx: `limit-rps`, `limit-rpm`, `limit-connections`).

use std::net::IpAddr;

use model::ClientLimits;
use observe::Reason;

use crate::clients::Admitted;
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::reply::Answer;
use crate::values;

/// "Requests, then connections."
pub(super) fn check(exchange: &Exchange<'_>, limits: &ClientLimits, admitted: &mut Admitted) -> FilterResult {
    let (worker, limiter) = (exchange.worker, &exchange.worker.clients.limiter);
    let Some(subject) = subject(exchange, limits) else { return FilterResult::Continue };
    let key = (subject, limits.zone);
    if !limiter.take(key, &limits.rates, worker.clock.now()) {
        return refuse(exchange, Reason::RateLimit, limits.rate_status);
    }
    if let Some(max) = limits.connections {
        admitted.slot = limiter.enter(key, max);
        if admitted.slot.is_none() {
            return refuse(exchange, Reason::ClientConnectionLimit, limits.connections_status);
        }
    }
    FilterResult::Continue
}

/// Who is counted; none where nobody is.
pub(crate) fn subject(exchange: &Exchange<'_>, limits: &ClientLimits) -> Option<IpAddr> {
    let client = exchange.forwarded.client.to_canonical();
    if limits.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return None;
    }
    match &limits.key {
        None => Some(client),
        Some(key) => match values::expand(exchange, key).as_slice() {
            [] => None,
            value => Some(exchange.worker.clients.limiter.subject(value)),
        },
    }
}

fn refuse(exchange: &Exchange<'_>, reason: Reason, status: u16) -> FilterResult {
    exchange.worker.recorder.borrow().reason(reason);
    FilterResult::Answer(Answer::refusal(status, &[]))
}
