//! Invalidation of cached responses by unsafe requests (RFC 9111 section 4.4).

use model::Forward;
use wire::cache::Head;
use wire::cache::invalidation::{Origin, related};

use super::key;
use crate::admit::Admitted;
use crate::admit::upstream_head;
use crate::replicas::{self, Order};

/// Invalidates the URL that a request has changed, and those that its response names, here and at the
/// replicas that share the route's cache.
pub(super) async fn invalidate(admitted: &Admitted<'_>, forward: &Forward, response: Head<'_>) {
    let Some(miss) = admitted.miss() else { return };
    let (cache, policy) = (&miss.cache, &miss.policy);
    let scheme = if admitted.forwarded.scheme == b"https" { "https" } else { "http" };
    let origin =
        Origin { scheme, authority: admitted.forwarded.host, target: upstream_head::target(admitted) };
    let own = key::of(admitted, forward, policy, None);
    let others = related(&origin, response).map(|target| key::of(admitted, forward, policy, Some(&target)));
    let mut orders = Vec::new();
    for key in [own].into_iter().chain(others) {
        cache.invalidate(&key);
        if policy.is_shared {
            orders.push(Order::Key(key.as_slice().into()));
        }
    }
    if !orders.is_empty() {
        replicas::tell(admitted.worker, admitted.config, &orders).await;
    }
}
