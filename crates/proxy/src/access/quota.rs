//! How many requests those may send who have one value in common (`forebay.io/limit-requests`), and what they are told of it.

use std::net::IpAddr;

use model::RequestQuota;
use observe::Reason;

use crate::clients::{Admitted, QuotaTold, QuotaVerdict, Subject};
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::reply::Answer;
use crate::values;

/// nginx's status for it is 503 by default; who asks for this limit asks for the one that clients understand (RFC 6585 section 4).
const STATUS: u16 = 429;

pub(super) fn check(exchange: &Exchange<'_>, quota: &RequestQuota, admitted: &mut Admitted) -> FilterResult {
    let Some(subject) = subject(exchange, quota) else { return FilterResult::Continue };
    let worker = exchange.worker;
    let now = worker.clock.now();
    let QuotaVerdict { is_admitted, left } =
        worker.clients.quotas.take(subject, &quota.windows, quota.is_shared, now);
    admitted.quota = Some(QuotaTold::of(&left));
    if is_admitted {
        return FilterResult::Continue;
    }
    worker.recorder.borrow().reason(Reason::RateLimit);
    let wait = left.iter().filter(|left| left.requests == 0).map(|left| left.seconds).max();
    FilterResult::Answer(Answer::refusal(STATUS, &[]).after_seconds(wait.unwrap_or(1)))
}

/// Who is counted; none where nobody is.
pub(crate) fn subject(exchange: &Exchange<'_>, quota: &RequestQuota) -> Option<Subject> {
    let client = exchange.forwarded.client.to_canonical();
    if quota.exempt.as_ref().is_some_and(|exempt| exempt.contains(client)) {
        return None;
    }
    let of = |value: &[u8]| Subject::of(quota.zone, quota.is_shared, value);
    match &quota.key {
        None => Some(match client {
            IpAddr::V4(address) => of(&address.octets()),
            IpAddr::V6(address) => of(&address.octets()),
        }),
        Some(key) => match values::expand(exchange, key).as_slice() {
            [] => None,
            value => Some(of(value)),
        },
    }
}
