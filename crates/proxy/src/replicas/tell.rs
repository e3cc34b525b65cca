//! A worker tells the other replicas what to forget.

use std::rc::Rc;

use model::Timeouts;
use observe::Counter;
use wire::h1::Response;

use super::forget::{Order, requests};
use super::mark::NAME_LOWER;
use super::members::others;
use crate::body::Framing;
use crate::deadline::Deadline;
use crate::fault::Fault;
use crate::limits::{REPLICA_CONNECT_TIME, REPLICA_ORDER_TIME_MAX, REPLICA_RESPONSE_TIME};
use crate::places::Place;
use crate::subrequest::ask;
use crate::upstream::{Endpoint, Request};
use crate::worker::{Worker, WorkerConfig};

/// What is told to one of them, with all that it needs: the client whose request has made it necessary may go.
struct Telling {
    worker: Rc<Worker>,
    replica: Rc<Endpoint>,
    requests: Rc<[Vec<u8>]>,
    _place: Place,
}

/// Tells all other replicas. Returns once they have answered, or the time for it is up; for those that have failed a moment ago nobody waits. What
/// does not reach one of them is counted.
pub(crate) async fn tell(worker: &Rc<Worker>, config: &WorkerConfig, orders: &[Order]) {
    let Some(secret) = worker.peers.secret() else { return };
    let (requests, unsaid) = requests(orders, worker.clock.unix().as_secs(), secret);
    let requests: Rc<[Vec<u8>]> = requests.into();
    let mut waited = Vec::new();
    for replica in others(worker, config) {
        let place = worker.peers.orders.take();
        if unsaid > 0 || place.is_none() {
            worker.recorder.borrow().count(Counter::CacheForgetUnreached);
        }
        let Some(place) = place.filter(|_| !requests.is_empty()) else { continue };
        let is_resting = worker.peers.is_resting(replica.address.ip(), worker.clock.now());
        let telling = Telling {
            worker: Rc::clone(worker),
            replica: Rc::clone(replica),
            requests: Rc::clone(&requests),
            _place: place,
        };
        let telling = tokio::task::spawn_local(telling.run());
        if !is_resting {
            waited.push(telling);
        }
    }
    for telling in waited {
        // It counts itself what goes wrong.
        let _ = telling.await;
    }
}

impl Telling {
    async fn run(self) {
        let deadline = Deadline::new(&self.worker.deadlines);
        deadline.cap(self.worker.clock.now().after(REPLICA_ORDER_TIME_MAX));
        let mut is_told = true;
        for request in &*self.requests {
            // An idle connection may turn out to be dead; to be told twice does no harm.
            is_told &= match self.say(request, false, &deadline).await {
                Ok(is_told) => is_told,
                Err(_) => self.say(request, true, &deadline).await.unwrap_or(false),
            };
        }
        let counter = if is_told { Counter::CacheForgetTold } else { Counter::CacheForgetUnreached };
        self.worker.recorder.borrow().count(counter);
        if !is_told {
            self.worker.peers.rest(self.replica.address.ip(), self.worker.clock.now());
        }
    }

    async fn say(&self, head: &[u8], is_fresh: bool, deadline: &Deadline) -> Result<bool, Fault> {
        let timeouts = Timeouts {
            connect: REPLICA_CONNECT_TIME,
            read: REPLICA_RESPONSE_TIME,
            send: REPLICA_RESPONSE_TIME,
            ..Timeouts::default()
        };
        let request = Request {
            bytes: head,
            head_len: head.len(),
            params: None,
            has_body: false,
            is_whole: true,
            framing: Framing::Raw,
            takes_trailers: false,
            timeouts: &timeouts,
        };
        let how = (is_fresh, true);
        ask(&self.worker, &self.replica, how, (&request, None), deadline, is_replicas).await
    }
}

/// Whether it is a replica that says it has forgotten.
pub(super) fn is_replicas(head: &[u8], response: &Response) -> bool {
    response.status == 204 && response.fields.find_name(head, NAME_LOWER.as_bytes()).is_some()
}
