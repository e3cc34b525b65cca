//! What Forebay writes to the API server: where clients reach its Ingresses, and Events about what became of them.
//!
//! `lease` and `elector` say who of several writes; `whereabouts` finds the addresses that `ingress` writes; `events` tells of
//! problems and of what is served. All of it follows translations that every worker serves, never ones that some do not.
//!
//! Never in here: anything that serving waits for. Without the API server all of this is tried again until it is back.

mod addresses;
mod elector;
mod events;
mod ingress;
mod lease;
mod publish_address;
mod server;
#[cfg(test)]
mod tests;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use observe::Registry;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Connection;
use crate::names::NsName;
use crate::translate::Translation;
use elector::Elector;
use events::Teller;
use ingress::Writer;
use publish_address::PublishAddress;
use server::Server;

pub use publish_address::ThisPod;

/// Time for which [`Keeper::stop`] clears statuses. What is not cleared by then is left to the next who leads.
const CLEAR_MAX: Duration = Duration::from_secs(5);

/// Time that [`Keeper::stop`] takes at most: clearing, and giving the Lease up.
const STOP_MAX: Duration = Duration::from_secs(8);

/// Time for which the zone of this node is waited for: nothing is served before it is known, or given up.
const ZONE_MAX: Duration = Duration::from_secs(5);

/// The same of this Pod, which is always asked for.
const POD_MAX: Duration = Duration::from_secs(2);

/// Smallest `--status-update-interval`.
const INTERVAL_MIN: Duration = Duration::from_secs(5);

/// The last translation that every worker serves; none until there is one.
pub type Programmed = watch::Receiver<Option<Arc<Translation>>>;

/// What the command line says about status and Events. The defaults are ingress-nginx's.
#[derive(Clone, Debug)]
pub struct StatusOptions {
    /// Write the status of Ingresses (`--update-status`). Without it, as for a trial beside another controller, no object of
    /// anybody is changed and no Lease taken; Events are published all the same, by every replica, since they are what a trial
    /// is to tell and change nothing.
    pub update: bool,
    /// Clear the status when the last replica stops (`--update-status-on-shutdown`).
    pub update_on_shutdown: bool,
    /// Time after which the status is looked at again though nothing has changed (`--status-update-interval`); at least 5 s.
    pub interval: Duration,
    /// Service whose addresses are written (`--publish-service`).
    pub publish_service: Option<NsName>,
    /// Addresses and names that are written as they are (`--publish-status-address`); they come before the Service.
    pub publish_address: Vec<String>,
    /// Write internal addresses of Nodes where those of Nodes are written (`--report-node-internal-ip-address`).
    pub report_node_internal_ip: bool,
    /// Name of the Lease (`--election-id`), in the Pod's namespace.
    pub election_id: String,
    /// Time after which the Lease of a leader that is heard of no more runs out (`--election-ttl`).
    pub election_ttl: Duration,
    /// Elect a leader; without it every replica writes (`--disable-leader-election`).
    pub leader_election: bool,
    /// Publish an Event whenever an Ingress came into service as it now is (`--disable-sync-events`).
    pub sync_events: bool,
    /// This Pod: `POD_NAMESPACE` and `POD_NAME`.
    pub pod: Option<NsName>,
}

impl Default for StatusOptions {
    fn default() -> Self {
        Self {
            update: true,
            update_on_shutdown: true,
            interval: Duration::from_secs(60),
            publish_service: None,
            publish_address: Vec::new(),
            report_node_internal_ip: false,
            election_id: "ingress-controller-leader".to_owned(),
            election_ttl: Duration::from_secs(30),
            leader_election: true,
            sync_events: true,
            pod: None,
        }
    }
}

/// Keeps status and Events as they should be, until it is stopped.
#[derive(Debug)]
pub struct Keeper {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Begins to write what is to be written. Nothing is until there is a first translation that every worker serves.
///
/// Has to be called on a tokio runtime with timers.
pub fn spawn(
    connection: &Connection,
    options: StatusOptions,
    programmed: Programmed,
    metrics: Arc<Registry>,
) -> Keeper {
    let (stop, stopping) = oneshot::channel();
    let duty = Duty::new(connection, options, programmed, metrics);
    Keeper { stop, task: tokio::spawn(duty.run(stopping)) }
}

impl Keeper {
    /// Ends it. One who leads clears the status if it is the last of its kind and asked to, and gives the Lease up, for
    /// another to take over. Takes a few seconds at most, without the API server too.
    pub async fn stop(mut self) {
        // A task that is gone has nothing to stop.
        let _ = self.stop.send(());
        if timeout(STOP_MAX, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// What the API server says of the Pod that this process is in; nothing if it cannot be asked, or does not answer.
pub async fn this_pod(connection: &Connection, pod: &NsName) -> Option<ThisPod> {
    let server = Server::new(connection.client.clone());
    timeout(POD_MAX, publish_address::this_pod(&server, pod)).await.unwrap_or_default()
}

/// The zone of a Node (`topology.kubernetes.io/zone`). None, too, if the API server does not answer.
pub async fn zone_of_node(connection: &Connection, node: &str) -> Option<String> {
    let server = Server::new(connection.client.clone());
    timeout(ZONE_MAX, publish_address::zone(&server, node)).await.unwrap_or_default()
}

/// All that has to be done.
struct Duty {
    server: Server,
    options: StatusOptions,
    namespace: String,
    programmed: Programmed,
    metrics: Arc<Registry>,
    publish_address: PublishAddress,
    writer: Writer,
    teller: Teller,
}

impl Duty {
    fn new(
        connection: &Connection,
        options: StatusOptions,
        programmed: Programmed,
        metrics: Arc<Registry>,
    ) -> Self {
        let server = Server::new(connection.client.clone());
        let options = StatusOptions { interval: options.interval.max(INTERVAL_MIN), ..options };
        let namespace = options.pod.as_ref().map_or(&connection.namespace, |pod| &pod.namespace).clone();
        let publish_address = publish_address(&options);
        let writer = Writer::new(server.clone(), options.interval);
        let teller =
            Teller::new(server.clone(), identity(&options), options.sync_events, Arc::clone(&metrics));
        Self { server, options, namespace, programmed, metrics, publish_address, writer, teller }
    }

    async fn run(mut self, mut stopping: oneshot::Receiver<()>) {
        // The channel closes with the process.
        let first = async { self.programmed.wait_for(Option::is_some).await.is_ok() };
        let is_served = tokio::select! {
            _ = &mut stopping => false,
            is_served = first => is_served,
        };
        if !is_served {
            return;
        }
        if !self.options.update {
            tokio::select! {
                _ = &mut stopping => {}
                () = self.teller.run(self.programmed.clone()) => {}
            }
        } else if self.options.leader_election {
            self.run_elected(stopping).await;
        } else {
            self.metrics.set_leader(&self.options.election_id, true);
            tokio::select! {
                _ = &mut stopping => {}
                () = self.lead() => {}
            }
            self.clear_if_last().await;
        }
    }

    async fn run_elected(&mut self, mut stopping: oneshot::Receiver<()>) {
        let lease = NsName::new(&*self.namespace, &*self.options.election_id);
        let ttl = self.options.election_ttl.max(Duration::from_secs(1));
        let me = identity(&self.options);
        let mut elector = Elector::new(self.server.clone(), lease, me, ttl, Arc::clone(&self.metrics));
        let leading = elector.leading();
        tokio::select! {
            _ = &mut stopping => {}
            () = elector.run() => {}
            () = self.lead_while(leading.clone()) => {}
        }
        if *leading.borrow() {
            self.clear_if_last().await;
        }
        elector.release().await;
    }

    /// Leads whenever it is this process' turn.
    async fn lead_while(&mut self, mut leading: watch::Receiver<bool>) {
        let mut ended = leading.clone();
        while leading.wait_for(|leads| *leads).await.is_ok() {
            tokio::select! {
                () = self.lead() => {}
                _ = ended.wait_for(|leads| !*leads) => {}
            }
        }
    }

    async fn lead(&mut self) {
        self.writer.forget();
        let (found, addresses) = watch::channel(None);
        tokio::join!(
            self.publish_address.follow(&self.server, found),
            self.writer.run(self.programmed.clone(), addresses),
            self.teller.run(self.programmed.clone()),
        );
    }

    async fn clear_if_last(&mut self) {
        if !self.options.update_on_shutdown {
            return;
        }
        let clear = async {
            // Who is in no Pod has no kin.
            let is_last = match &self.options.pod {
                Some(pod) => publish_address::is_last(&self.server, pod).await,
                None => Ok(true),
            };
            let translation = self.programmed.borrow().clone();
            match (is_last, translation) {
                (Ok(true), Some(translation)) => self.writer.write_all(&translation, &Arc::from([])).await,
                (Ok(_), _) => true,
                (Err(_), _) => false,
            }
        };
        if timeout(CLEAR_MAX, clear).await != Ok(true) {
            tracing::warn!("the status of Ingresses could not be cleared");
        }
    }
}

fn publish_address(options: &StatusOptions) -> PublishAddress {
    let given = addresses::given(&options.publish_address);
    match (&options.publish_service, &options.pod) {
        _ if !given.is_empty() => PublishAddress::Given(given),
        (Some(service), _) => PublishAddress::Service(service.clone()),
        (None, Some(pod)) => PublishAddress::Nodes {
            pod: pod.clone(),
            internal: options.report_node_internal_ip,
            interval: options.interval,
        },
        (None, None) => {
            if options.update {
                tracing::warn!(
                    "without --publish-service, --publish-status-address or POD_NAME there is nothing to write to status"
                );
            }
            PublishAddress::Unknown
        }
    }
}

/// Tells this process from all others: the Pod's name, or the machine's with the process id.
fn identity(options: &StatusOptions) -> String {
    options.pod.as_ref().map_or_else(
        || {
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            format!("{}_{}", host.trim(), std::process::id())
        },
        |pod| pod.name.clone(),
    )
}
