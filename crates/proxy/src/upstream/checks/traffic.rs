//! Whether an endpoint has answered requests since its last check: then the check is left out.
//!
//! Nothing is recorded for it while requests are served. A connection that has gone back into the pool since
//! the last check is proof of a response that came to its end, and the counters of failures prove that no
//! request has failed. Only the requests of the worker that checks the endpoint count.
//!
//! Never in here: how often checks may be left out in a row.

use std::time::Duration;

use clock::Moment;

use crate::limits::HEALTH_TRAFFIC_LOOKS;
use crate::upstream::Endpoint;
use crate::upstream::pool::Pool;

/// The requests to an endpoint since a point in time.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    since: Moment,
    /// The requests and the failures until then.
    requests: u64,
    failures: u64,
}

impl Traffic {
    /// Begins to look at requests from now on.
    pub(super) fn begin(endpoint: &Endpoint, now: Moment) -> Self {
        Self { since: now, requests: endpoint.cells.requests.get(), failures: endpoint.cells.failures() }
    }

    /// Whether the endpoint has answered a request, and none has failed. While requests are in flight, their
    /// connections are not in the pool: it looks again after a pause, some times.
    pub(super) async fn is_answered(&self, pool: &Pool, endpoint: &Endpoint, pause: Duration) -> bool {
        for _ in 1..HEALTH_TRAFFIC_LOOKS {
            if endpoint.cells.requests.get() == self.requests {
                return false;
            }
            if self.shows_answer(pool, endpoint) {
                return true;
            }
            reactor::sleep(pause).await;
        }
        self.shows_answer(pool, endpoint)
    }

    fn shows_answer(&self, pool: &Pool, endpoint: &Endpoint) -> bool {
        endpoint.cells.failures() == self.failures
            && pool.last_return(endpoint).is_some_and(|last| last > self.since)
    }
}
