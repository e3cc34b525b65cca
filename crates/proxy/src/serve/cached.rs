//! The way of a request that another replica sends, and of one that is sent to another.

use std::future::Future;
use std::sync::Arc;

use model::{Action, CachePolicy, Forward, Route};

use super::Stop;
use super::home::{self, Replica};
use crate::buffer::Buffer;
use crate::caching::{self, Looked, Unanswered};
use crate::exchange::{AfterRequest, Exchange};
use crate::replicas::Order;
use crate::reply::Answer;

impl<'a> Exchange<'a> {
    /// The cache's part in a route, if the route has a cache.
    #[cold]
    pub(super) fn kept_by<'r>(&self, route: &'r Route) -> Option<&'r Arc<CachePolicy>> {
        let Action::Forward(forward) = &route.action else { return None };
        forward.cache.as_ref().filter(|_| self.worker.cache.is_some())
    }

    /// Takes the request of another replica, if it is one.
    #[inline]
    pub(super) fn admit_replica(&self) -> Option<Replica<'a>> {
        self.config.settings().replicas.as_ref()?;
        home::admit(self)
    }

    /// Asks for what is not in memory at the replica where it has its home, and then, if that is here or does not answer, goes on as `sought`
    /// does. None where the request goes on to an endpoint.
    pub(super) async fn ask_home(
        &self,
        forward: &Forward,
        policy: &Arc<CachePolicy>,
        sought: impl Future<Output = Result<Option<AfterRequest>, Unanswered>>,
    ) -> Result<Option<AfterRequest>, Stop> {
        let asked = Box::pin(home::ask(self, forward, policy)).await;
        match asked.map_err(|fault| Stop::from(fault.reason))? {
            Some(next) => Ok(Some(next)),
            None => Ok(sought.await?),
        }
    }

    /// The way of another replica's request: to the cache, and to an endpoint.
    pub(super) async fn serve_replica(
        &self,
        replica: Replica<'a>,
        rest: &mut Buffer,
    ) -> Result<AfterRequest, Stop> {
        let (forward, cluster) = match replica {
            Replica::Guest(forward, cluster) => (forward, cluster),
            Replica::Forget(orders) => {
                self.forget(orders).await;
                return Err(Answer::forgotten().into());
            }
        };
        if let Some(time) = forward.timeouts.request {
            self.deadline.cap(self.report.begin.after(time));
        }
        if let Some(policy) = &forward.cache {
            let next = match caching::look(self, &forward, policy) {
                Some(Looked::Hit(object)) => caching::give_hit(self, &forward, object).await?,
                Some(Looked::Sought(sought)) => sought.await?,
                None => None,
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
        self.forward(&forward, cluster, rest).await
    }

    /// Forgets what another replica says. A purge looks at everything, which no worker has the time for.
    async fn forget(&self, orders: Vec<Order>) {
        let Some(cache) = &self.worker.cache else { return };
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
}
