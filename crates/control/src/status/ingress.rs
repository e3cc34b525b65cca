//! Writes `.status.loadBalancer` of our Ingresses if it differs from the published addresses.
//!
//! Never in here: an Ingress of another controller. If an Ingress moves to another controller, its status
//! stays: that controller writes its own.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::networking::v1 as networking;
use kube::Api;
use kube::api::{Patch, PatchParams};
use model::List;
use serde_json::json;
use tokio::time::Instant;

use super::addresses::{Addresses, tidy};
use super::server::{Failure, Server};
use super::writer::{Ended, StatusWriter, Write, WriteTable};
use crate::objects::{Ingress, IngressPoint, Sourced};
use crate::translate::Translation;

const WRITING: &str = "writing the status of Ingresses";

/// The most concurrent requests.
const IN_FLIGHT_MAX: usize = 10;

/// The most attempts to write an Ingress that others change at the same time.
const TRIES_MAX: usize = 3;

/// Writes the status of Ingresses.
pub(super) struct Writer {
    server: Server,
    table: WriteTable<Addressed>,
    /// The last pass; none if one over all Ingresses is due.
    seen: Option<Pass>,
}

/// A pass without writes to repeat soon: until the next pass over all Ingresses, only those that have changed
/// since are compared.
struct Pass {
    ingresses: Arc<List<Arc<Sourced<Ingress>>>>,
    points: Arc<[IngressPoint]>,
    /// The time of the next pass over all Ingresses: at the interval, or when a refused write is repeated.
    until: Instant,
}

/// The content of a write to an Ingress.
struct Addressed {
    /// The version of the Ingress before the write. A later version from the watch invalidates this record.
    over: Weak<Sourced<Ingress>>,
    points: Arc<[IngressPoint]>,
}

impl StatusWriter for Writer {
    const SPACING: Duration = Duration::from_millis(100);

    fn interval(&self) -> Duration {
        self.table.interval
    }

    async fn write_all(&mut self, translation: &Translation, addresses: &Addresses) -> bool {
        match addresses {
            Some(points) => self.write_points(translation, points).await,
            None => true,
        }
    }
}

impl Writer {
    pub(super) fn new(server: Server, interval: Duration) -> Self {
        Self { server, table: WriteTable::new(interval), seen: None }
    }

    /// Forgets all writes, because another leader may have written meanwhile.
    pub(super) fn forget(&mut self) {
        self.table.writes.clear();
        self.seen = None;
    }

    /// Writes these addresses to all Ingresses of a translation. Returns false if a write has to be repeated.
    pub(super) async fn write_points(
        &mut self,
        translation: &Translation,
        wanted: &Arc<[IngressPoint]>,
    ) -> bool {
        self.prune(translation);
        let now = Instant::now();
        let mut due = Vec::new();
        let before = self.seen.take().filter(|seen| seen.points == *wanted && now < seen.until);
        let to_compare: Vec<_> = match &before {
            Some(seen) => translation.ingresses.unlike(&seen.ingresses).collect(),
            None => translation.ingresses.iter().collect(),
        };
        for ingress in to_compare {
            // An Ingress that is not from the API server has no uid.
            let Some(uid) = ingress.metadata.uid() else { continue };
            if self.is_due(uid, ingress, wanted, now) {
                // The record precedes the response, because the write may succeed although its response never
                // arrives.
                self.note(ingress, wanted, Some(now));
                due.push(Arc::clone(ingress));
            }
        }
        let server = self.server.clone();
        let writes = due.into_iter().map(|ingress| {
            let server = &server;
            async move {
                let outcome = write(server, &ingress, wanted).await;
                (ingress, outcome)
            }
        });
        let mut outcomes = stream::iter(writes).buffer_unordered(IN_FLIGHT_MAX);
        let mut is_done = true;
        let mut next = before.as_ref().map_or(now + self.table.interval, |seen| seen.until);
        while let Some((ingress, outcome)) = outcomes.next().await {
            match self.table.end(&ingress.key(), outcome, now) {
                Ended::Until(until) => {
                    self.note(&ingress, wanted, until);
                    next = until.map_or(next, |until| next.min(until));
                }
                Ended::Conflict => is_done = false,
                Ended::Unserved => return false,
            }
        }
        if is_done {
            let (ingresses, points) = (Arc::clone(&translation.ingresses), Arc::clone(wanted));
            if before.is_none() {
                // Writes that earlier passes left for later. Those of the past are of deleted Ingresses.
                let refused = self.table.writes.values().filter_map(|write| write.until);
                next = refused.filter(|until| *until > now).fold(next, Instant::min);
            }
            self.seen = Some(Pass { ingresses, points, until: next });
        }
        is_done
    }

    fn note(
        &mut self,
        ingress: &Arc<Sourced<Ingress>>,
        points: &Arc<[IngressPoint]>,
        until: Option<Instant>,
    ) {
        let uid = ingress.metadata.uid().unwrap_or_default().to_owned();
        let content = Addressed { over: Arc::downgrade(ingress), points: Arc::clone(points) };
        self.table.writes.insert(uid, Write { content, until });
    }

    fn is_due(
        &mut self,
        uid: &str,
        ingress: &Arc<Sourced<Ingress>>,
        wanted: &Arc<[IngressPoint]>,
        now: Instant,
    ) -> bool {
        match self.table.writes.get(uid) {
            Some(write) if write.content.over.as_ptr() == Arc::as_ptr(ingress) => {
                write.content.points != *wanted || write.is_due(now)
            }
            Some(_) => {
                self.table.writes.remove(uid);
                !says(ingress, wanted)
            }
            None => !says(ingress, wanted),
        }
    }

    /// Removes the records of deleted Ingresses, once there are many.
    fn prune(&mut self, translation: &Translation) {
        if self.table.writes.len() > 2 * translation.ingresses.len() + 64 {
            let uids: HashSet<_> =
                translation.ingresses.iter().filter_map(|ingress| ingress.metadata.uid()).collect();
            self.table.writes.retain(|uid, _| uids.contains(uid.as_str()));
        }
    }
}

fn says(ingress: &Ingress, wanted: &[IngressPoint]) -> bool {
    let said = ingress.status.points();
    *said == *wanted || tidy(said.iter().cloned()) == wanted
}

async fn write(server: &Server, ingress: &Sourced<Ingress>, points: &[IngressPoint]) -> Result<(), Failure> {
    let api: Api<networking::Ingress> = Api::namespaced(server.client.clone(), ingress.namespace());
    // The uid makes the patch fail if the Ingress was replaced by another with the same name.
    let patch = Patch::Merge(json!({
        "metadata": {"uid": ingress.metadata.uid()},
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
