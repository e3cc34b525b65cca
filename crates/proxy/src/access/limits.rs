//! How much one client may ask for (ingress-nginx: `limit-rps`, `limit-rpm`, `limit-connections`).

use model::ClientLimits;
use observe::Reason;

use crate::clients::Admitted;
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::reply::Answer;
use crate::values;

/// "Requests, then connections."
pub(super) fn check(exchange: &Exchange<'_>, limits: &ClientLimits, admitted: &mut Admitted) -> FilterResult {
    let (worker, client) = (exchange.worker, exchange.forwarded.client.to_canonical());
    if limits.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return FilterResult::Continue;
    }
    let limiter = &worker.clients.limiter;
    let subject = match &limits.key {
        None => client,
        Some(key) => match values::expand(exchange, key).as_slice() {
            [] => return FilterResult::Continue,
            value => limiter.subject(value),
        },
    };
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

fn refuse(exchange: &Exchange<'_>, reason: Reason, status: u16) -> FilterResult {
    exchange.worker.recorder.borrow().reason(reason);
    FilterResult::Answer(Answer::refusal(status, &[]))
}
