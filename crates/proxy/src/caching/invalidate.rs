//! What a change makes of what is kept (RFC 9111 section 4.4).

use model::Forward;
use wire::cache::Head;
use wire::cache::invalidation::{Origin, related};

use super::key;
use crate::exchange::Exchange;
use crate::outbound;
use crate::replicas::{self, Order};

/// Removes what is kept of the page that a request has changed, and of those that its response names, here and where the route's cache is shared.
pub(super) async fn invalidate(exchange: &Exchange<'_>, forward: &Forward, response: Head<'_>) {
    let Some(passage) = exchange.passage() else { return };
    let (cache, policy) = (&passage.cache, &passage.policy);
    let scheme = if exchange.forwarded.scheme == b"https" { "https" } else { "http" };
    let origin = Origin { scheme, authority: exchange.forwarded.host, target: outbound::target(exchange) };
    let own = key::of(exchange, forward, policy, None);
    let others = related(&origin, response).map(|target| key::of(exchange, forward, policy, Some(&target)));
    let mut orders = Vec::new();
    for key in [own].into_iter().chain(others) {
        cache.invalidate(&key);
        if policy.is_shared {
            orders.push(Order::Key(key.as_slice().into()));
        }
    }
    if !orders.is_empty() {
        replicas::tell(exchange.worker, exchange.config, &orders).await;
    }
}
