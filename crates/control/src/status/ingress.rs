//! Writes `.status.loadBalancer` of our Ingresses where it differs from what it should be.
//!
//! Never in here: an Ingress that is not ours. If an Ingress moves to another controller, its status stays: that controller writes
//! its own.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::networking::v1 as networking;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::Programmed;
use super::addresses::tidy;
use super::server::{Backoff, Failure, Server};
use crate::objects::{Ingress, IngressPoint, Sourced};
use crate::translate::Translation;

const WRITING: &str = "writing the status of Ingresses";

/// Most requests at once.
const IN_FLIGHT_MAX: usize = 10;

/// Most attempts at an Ingress when others change it at the same time.
const TRIES_MAX: usize = 3;

/// Least time between two passes over all Ingresses, however often they change.
const SPACING: Duration = Duration::from_millis(100);

/// The addresses to write, in order; none while they are not known.
pub(super) type Addresses = Option<Arc<[IngressPoint]>>;

/// Keeps the status of Ingresses as it should be.
pub(super) struct Writer {
    server: Server,
    interval: Duration,
    /// The writes so far, by uid. They are remembered since the watch reports a write later than its answer arrives.
    written: HashMap<String, Written>,
    /// The last reason for which the API server refused a status.
    refusal: Option<String>,
}

/// A write to an Ingress.
struct Written {
    /// The version of the Ingress that was written over. A version that the watch reports later replaces this record.
    over: Weak<Sourced<Ingress>>,
    points: Arc<[IngressPoint]>,
    /// When to try again; none if the write succeeded.
    until: Option<Instant>,
}

impl Written {
    fn new(over: &Arc<Sourced<Ingress>>, points: &Arc<[IngressPoint]>, until: Option<Instant>) -> Self {
        Self { over: Arc::downgrade(over), points: Arc::clone(points), until }
    }
}

impl Writer {
    pub(super) fn new(server: Server, interval: Duration) -> Self {
        Self { server, interval, written: HashMap::new(), refusal: None }
    }

    /// Forgets all writes, since another leader may have written meanwhile.
    pub(super) fn forget(&mut self) {
        self.written.clear();
    }

    /// Writes whenever the Ingresses being served or the addresses change, and checks again at each interval.
    pub(super) async fn run(
        &mut self,
        mut programmed: Programmed,
        mut addresses: watch::Receiver<Addresses>,
    ) {
        let mut tick = interval_at(Instant::now() + self.interval, self.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::default();
        loop {
            let wanted = addresses.borrow_and_update().clone();
            let translation = programmed.borrow_and_update().clone();
            let is_done = match (wanted, translation) {
                (Some(wanted), Some(translation)) => self.write_all(&translation, &wanted).await,
                _ => true,
            };
            let again = if is_done {
                backoff.reset();
                self.interval
            } else {
                backoff.next().min(self.interval)
            };
            sleep(SPACING).await;
            tokio::select! {
                () = changed(&mut programmed) => {}
                () = changed(&mut addresses) => {}
                _ = tick.tick() => {}
                () = sleep(again) => {}
            }
        }
    }

    /// Writes these addresses to all Ingresses of a translation. Returns false if some have to be tried again.
    pub(super) async fn write_all(
        &mut self,
        translation: &Translation,
        wanted: &Arc<[IngressPoint]>,
    ) -> bool {
        self.prune(translation);
        let now = Instant::now();
        let mut due = Vec::new();
        for ingress in &translation.ingresses {
            // An Ingress that is not from the API server has no uid.
            let Some(uid) = &ingress.metadata.uid else { continue };
            if self.is_due(uid, ingress, wanted, now) {
                // Recorded before the answer, since the write may succeed although its answer never arrives.
                let written = Written::new(ingress, wanted, Some(now));
                self.written.insert(uid.clone(), written);
                due.push(Arc::clone(ingress));
            }
        }
        let server = &self.server;
        let writes = due.into_iter().map(|ingress| async move {
            let outcome = write(server, &ingress, wanted).await;
            (ingress, outcome)
        });
        let mut outcomes = stream::iter(writes).buffer_unordered(IN_FLIGHT_MAX);
        let mut is_done = true;
        while let Some((ingress, outcome)) = outcomes.next().await {
            let until = match outcome {
                Ok(()) | Err(Failure::NotFound) => None,
                Err(Failure::Conflict) => {
                    is_done = false;
                    continue;
                }
                Err(Failure::Denied) => Some(now + self.interval),
                Err(Failure::Refused(why)) => {
                    if self.refusal.as_ref() != Some(&why) {
                        tracing::warn!(ingress = %ingress.key(), why, "a status is refused");
                        self.refusal = Some(why);
                    }
                    Some(now + self.interval)
                }
                Err(Failure::Unserved) => return false,
            };
            let uid = ingress.metadata.uid.clone().unwrap_or_default();
            self.written.insert(uid, Written::new(&ingress, wanted, until));
        }
        is_done
    }

    fn is_due(
        &mut self,
        uid: &str,
        ingress: &Arc<Sourced<Ingress>>,
        wanted: &Arc<[IngressPoint]>,
        now: Instant,
    ) -> bool {
        match self.written.get(uid) {
            Some(written) if written.over.as_ptr() == Arc::as_ptr(ingress) => {
                written.points != *wanted || written.until.is_some_and(|until| until <= now)
            }
            Some(_) => {
                self.written.remove(uid);
                !says(ingress, wanted)
            }
            None => !says(ingress, wanted),
        }
    }

    /// Drops the records of Ingresses that are gone, once there are many.
    fn prune(&mut self, translation: &Translation) {
        if self.written.len() > 2 * translation.ingresses.len() + 64 {
            let uids: HashSet<_> =
                translation.ingresses.iter().filter_map(|ingress| ingress.metadata.uid.as_ref()).collect();
            self.written.retain(|uid, _| uids.contains(uid));
        }
    }
}

/// Waits for a new value; for ever if the sender is gone.
pub(super) async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        pending::<()>().await;
    }
}

fn says(ingress: &Ingress, wanted: &[IngressPoint]) -> bool {
    let said = &ingress.status.load_balancer.ingress;
    said.as_slice() == wanted || tidy(said.iter().cloned()) == wanted
}

async fn write(server: &Server, ingress: &Sourced<Ingress>, points: &[IngressPoint]) -> Result<(), Failure> {
    let api: Api<networking::Ingress> = Api::namespaced(server.client.clone(), ingress.namespace());
    // The uid makes the patch fail if the Ingress was replaced by another with the same name.
    let patch = Patch::Merge(json!({
        "metadata": {"uid": ingress.metadata.uid},
        "status": {"loadBalancer": {"ingress": points}},
    }));
    let parameters = PatchParams::default();
    let mut outcome = Err(Failure::Conflict);
    for _ in 0..TRIES_MAX {
        let request = api.patch_status(ingress.name(), &parameters, &patch);
        outcome = server.ask(WRITING, request).await.map(drop);
        if outcome != Err(Failure::Conflict) {
            break;
        }
    }
    outcome
}
