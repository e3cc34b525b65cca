//! A worker's orders to the other replicas to forget cached responses.

use std::rc::Rc;
use std::time::Duration;

use model::Timeouts;
use observe::Counter;
use wire::h1::Response;

use super::forget::{Order, requests};
use super::mark::NAME_LOWER;
use super::members::others;
use crate::io::deadline::Deadline;
use crate::io::permits::Permit;
use crate::limits::{REPLICA_CONNECT_TIME, REPLICA_ORDER_TIME_MAX, REPLICA_RESPONSE_TIME};
use crate::upstream::fault::Fault;
use crate::upstream::subrequest::{Question, ask};
use crate::upstream::{Endpoint, Message};
use crate::worker::{Worker, WorkerConfig};

/// Orders in flight to one replica, which own all that they need: the client whose request has caused them
/// may leave first.
pub(super) struct Delivery {
    pub(super) worker: Rc<Worker>,
    pub(super) replica: Rc<Endpoint>,
    pub(super) requests: Rc<[Vec<u8>]>,
}

/// Sends orders to all other replicas. Returns once they have answered, or the time for it is up; replicas
/// that failed recently are not waited for. Orders that do not reach a replica are counted.
pub(crate) async fn tell(worker: &Rc<Worker>, config: &WorkerConfig, orders: &[Order]) {
    let Some(secret) = worker.peers.secret() else { return };
    let (requests, unsaid) = requests(orders, worker.clock.unix().as_secs(), secret);
    let requests: Rc<[Vec<u8>]> = requests.into();
    let mut waited = Vec::new();
    for replica in others(worker, config) {
        let permit = worker.peers.orders.take();
        if unsaid > 0 || permit.is_none() {
            worker.recorder.borrow().count(Counter::CacheForgetUnreached);
        }
        let Some(permit) = permit.filter(|_| !requests.is_empty()) else { continue };
        let is_resting = worker.peers.is_resting(replica.address.ip(), worker.clock.now());
        let delivery = Delivery {
            worker: Rc::clone(worker),
            replica: Rc::clone(replica),
            requests: Rc::clone(&requests),
        };
        let delivery = reactor::spawn(delivery.run(permit));
        if !is_resting {
            waited.push(delivery);
        }
    }
    for delivery in waited {
        // Failures are counted in there.
        let _ = delivery.await;
    }
}

impl Delivery {
    /// Sends the orders of a request, which are counted.
    async fn run(self, _permit: Permit) {
        let is_told = self.send(REPLICA_ORDER_TIME_MAX).await;
        let counter = if is_told { Counter::CacheForgetTold } else { Counter::CacheForgetUnreached };
        self.worker.recorder.borrow().count(counter);
        if !is_told {
            self.worker.peers.rest(self.replica.address.ip(), self.worker.clock.now());
        }
    }

    /// Sends the orders within some time. Whether the replica has carried out all of them.
    pub(super) async fn send(&self, time: Duration) -> bool {
        let deadline = Deadline::new(&self.worker.deadlines);
        deadline.cap(self.worker.clock.now().after(time));
        let mut is_told = true;
        for request in &*self.requests {
            is_told &= self.say(request, &deadline).await.unwrap_or(false);
        }
        is_told
    }

    /// Sends one request, again where an idle connection was dead: an order that arrives twice does no harm.
    async fn say(&self, head: &[u8], deadline: &Deadline) -> Result<bool, Fault> {
        let timeouts = Timeouts {
            connect: REPLICA_CONNECT_TIME,
            read: REPLICA_RESPONSE_TIME,
            send: REPLICA_RESPONSE_TIME,
            ..Timeouts::default()
        };
        let message = &Message::bodiless(head, &timeouts);
        let question = Question { message, rest: None, can_be_repeated: true };
        ask(&self.worker, &self.replica, question, deadline, is_replicas).await
    }
}

/// Whether a response is a replica's confirmation.
fn is_replicas(head: &[u8], response: &Response) -> bool {
    response.status == 204 && response.fields.find_name(head, NAME_LOWER.as_bytes()).is_some()
}
