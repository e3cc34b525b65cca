//! The cache's part in a request, behind all checks and before an endpoint is tried, and the requests of
//! other replicas.

use std::sync::Arc;

use model::{CachePolicy, Forward};
use observe::Reason;

use super::conclude;
use super::home::{self, Replica};
use super::sign_ins;
use crate::admit::{Admitted, Targeted};
use crate::answer::attempted::Attempted;
use crate::answer::passed::Passed;
use crate::cache::{self, Lookup};
use crate::forward::forward;
use crate::io::buffer::Buffer;
use crate::replicas::Order;
use crate::request::reply::Answer;
use crate::request::stop::Stop;
use crate::request::{AfterRequest, Request};
use crate::route::Routed;
use crate::store::CacheState;

/// Answers a request from the cache of its route. None where it goes on to an endpoint.
#[inline]
pub(super) async fn answer(
    admitted: &mut Admitted<'_>,
    forwarding: &Forward,
    policy: &Arc<CachePolicy>,
) -> Result<Option<AfterRequest>, Stop> {
    match cache::look(admitted, forwarding, policy) {
        Some(Lookup::Hit(object, hit)) => {
            admitted.cache = Some(CacheState::Hit(hit));
            Ok(Some(cache::give(&Attempted::new(admitted), forwarding, &object).await?))
        }
        Some(Lookup::Pending(pending)) => Box::pin(seek(admitted, forwarding, policy, pending)).await,
        None => Ok(None),
    }
}

/// Asks the replica where the object has its home, and then looks on here.
async fn seek(
    admitted: &mut Admitted<'_>,
    forwarding: &Forward,
    policy: &Arc<CachePolicy>,
    pending: Box<cache::Pending>,
) -> Result<Option<AfterRequest>, Stop> {
    if policy.is_shared
        && let Some(next) = home::ask(admitted, forwarding, policy).await?
    {
        return Ok(Some(next));
    }
    let (miss, found) = cache::seek(admitted, forwarding, policy, *pending).await?;
    admitted.cache = Some(CacheState::of(miss));
    cache::give_found(&Attempted::new(admitted), forwarding, found).await
}

/// Answers a request for which there is no endpoint at the moment from the cache, with responses that are
/// fresh or may be given all the same.
pub(super) async fn without_endpoint(
    admitted: &mut Admitted<'_>,
    forwarding: &Forward,
    policy: &Arc<CachePolicy>,
) -> Result<AfterRequest, Stop> {
    let mut next = match cache::look(admitted, forwarding, policy) {
        Some(Lookup::Hit(object, hit)) => {
            admitted.cache = Some(CacheState::Hit(hit));
            Some(cache::give(&Attempted::new(admitted), forwarding, &object).await?)
        }
        Some(Lookup::Pending(pending)) => {
            let (miss, found) = cache::seek(admitted, forwarding, policy, *pending).await?;
            admitted.cache = Some(CacheState::of(miss));
            cache::give_found(&Attempted::new(admitted), forwarding, found).await?
        }
        None => None,
    };
    if next.is_none() {
        let attempted = Attempted::new(admitted);
        let rescued = cache::rescue(&attempted, forwarding, Reason::NoEndpoints).await;
        next = rescued.map_err(|fault| Stop::from(fault.reason))?;
    }
    next.ok_or_else(|| Reason::NoEndpoints.into())
}

/// Serves another replica's request: from the cache, or from an endpoint.
pub(super) async fn serve_replica(
    request: &Request<'_>,
    replica: Replica<'_>,
    rest: &mut Buffer,
) -> AfterRequest {
    let (routed, worker) = (Routed::unrouted(request), request.worker);
    let answer = match replica {
        Replica::Fetch { forwarding, cluster, id, peer_request } => {
            let targeted = Targeted { routed: &routed, cluster: Some(id), backend: None };
            let mut admitted = Admitted { peer_request: Some(peer_request), ..Admitted::of(targeted) };
            if let Some(time) = forwarding.timeouts.request {
                request.deadline.cap(request.report.begin.after(time));
            }
            let cached = match &forwarding.cache {
                Some(policy) => answer(&mut admitted, &forwarding, policy).await,
                None => Ok(None),
            };
            let passed: Passed<'_> = match cached {
                Ok(None) => forward(&admitted, &forwarding, cluster, rest).await,
                Ok(Some(next)) => Ok(next).into(),
                Err(stop) => stop.into(),
            };
            return conclude(&admitted, passed, rest).await;
        }
        Replica::SignIn(message) => Box::pin(sign_ins::answer(request, *message)).await,
        Replica::Stops(stops) => {
            worker.rollouts.all().hear(stops, worker.clock.unix());
            Answer::forgotten()
        }
        Replica::Checks(reports) => {
            let from = request.conn.peer.ip().to_canonical();
            worker.pool.board().together.hear(from, &reports, worker.clock.now());
            Answer::forgotten()
        }
        Replica::Forget(orders) => {
            forget(request, orders).await;
            Answer::forgotten()
        }
    };
    conclude(&Admitted::of(Targeted::nowhere(&routed)), Stop::from(answer).into(), rest).await
}

/// Removes what another replica names from the cache. A purge looks at every object, for which no worker has
/// the time.
async fn forget(request: &Request<'_>, orders: Vec<Order>) {
    let Some(cache) = &request.worker.cache else { return };
    let mut purges = Vec::new();
    for order in orders {
        match order {
            Order::Key(key) => cache.invalidate(&key),
            Order::Purge(purge) => purges.push(purge),
        }
    }
    if !purges.is_empty() {
        let cache = Arc::clone(cache);
        let purged = tokio::task::spawn_blocking(move || cache.purge(&purges)).await;
        purged.expect("a purge neither panics nor is aborted");
    }
}
