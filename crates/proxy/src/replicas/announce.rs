//! Purges for the other replicas on behalf of the process. A worker sends them, as it has connections to the
//! replicas.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use routing::Snapshot;
use tokio::sync::{mpsc, oneshot};

use super::forget::{Order, requests};
use super::members::{addresses, everyone};
use super::tell::Delivery;
use crate::limits::{ANNOUNCEMENTS_WAITING_MAX, REPLICA_PURGE_TIME_MAX};
use crate::store::Purge;
use crate::worker::Worker;

/// Result of a purge at the other replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Number of replicas that have carried it out.
    pub told: usize,
    /// Replicas that have not confirmed it.
    pub unreached: Vec<IpAddr>,
}

/// Hands purges to the worker that sends them; to none where nothing is shared.
#[derive(Clone)]
pub(crate) struct Announcer(Option<mpsc::Sender<Announcement>>);

/// Purges to be sent, and who waits for their result.
pub(crate) struct Announcement {
    purges: Vec<Purge>,
    result: oneshot::Sender<Elsewhere>,
}

impl Announcer {
    /// The announcer, and the worker's end of it.
    pub(crate) fn new(is_shared: bool) -> (Self, Option<mpsc::Receiver<Announcement>>) {
        let channel = is_shared.then(|| mpsc::channel(ANNOUNCEMENTS_WAITING_MAX));
        let (sender, receiver) = channel.unzip();
        (Self(sender), receiver)
    }

    /// Has purges sent to all other replicas, and waits for their answers.
    pub(crate) async fn purge(&self, snapshot: &Snapshot, purges: &[Purge]) -> Elsewhere {
        let Some(sender) = &self.0 else { return Elsewhere::default() };
        let (result, received) = oneshot::channel();
        // Where this fails, so does the wait for the result.
        let _ = sender.send(Announcement { purges: purges.to_vec(), result }).await;
        // A worker that has ended reaches nobody.
        let none = || addresses(snapshot).iter().map(SocketAddr::ip).collect();
        received.await.unwrap_or_else(|_| Elsewhere { told: 0, unreached: none() })
    }
}

/// Sends what is announced, until this is dropped.
pub(crate) async fn announce(worker: Rc<Worker>, announcements: Option<mpsc::Receiver<Announcement>>) {
    let Some(mut announcements) = announcements else { return };
    while let Some(Announcement { purges, result }) = announcements.recv().await {
        let worker = Rc::clone(&worker);
        reactor::spawn_detached(async move {
            // Whoever has asked may not wait any longer.
            let _ = result.send(purge(&worker, purges).await);
        });
    }
}

/// Sends purges to all other replicas at once.
async fn purge(worker: &Rc<Worker>, purges: Vec<Purge>) -> Elsewhere {
    let Some(secret) = worker.peers.secret() else { return Elsewhere::default() };
    let orders: Vec<_> = purges.into_iter().map(Order::Purge).collect();
    let (requests, unsaid) = requests(&orders, worker.clock.unix().as_secs(), secret);
    let requests: Rc<[Vec<u8>]> = requests.into();
    let mut running = Vec::new();
    for replica in everyone(worker, &worker.config()) {
        let (worker, requests) = (Rc::clone(worker), Rc::clone(&requests));
        // Before anything else runs: a change of the configuration may take the replica out of its cluster.
        replica.join();
        running.push(reactor::spawn(async move {
            let address = replica.address.ip();
            let delivery = Delivery { worker: Rc::clone(&worker), replica: Rc::clone(&replica), requests };
            let is_told = delivery.send(REPLICA_PURGE_TIME_MAX).await;
            worker.pool.leave(&replica);
            (address, is_told)
        }));
    }
    let mut elsewhere = Elsewhere::default();
    for delivery in running {
        let (address, is_told) = delivery.await.expect("a delivery neither panics nor is aborted");
        if is_told && unsaid == 0 {
            elsewhere.told += 1;
        } else {
            elsewhere.unreached.push(address);
        }
    }
    elsewhere.unreached.sort_unstable();
    elsewhere
}
