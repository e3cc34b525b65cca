//! The objects that Forebay writes to the API server: the addresses of its Ingresses, Events about them, and
//! the status of the Gateway API's objects.
//!
//! `lease` and `elector` decide which of several replicas writes; `publish_address` finds the addresses that
//! `ingress` writes; `gateway` reports the results of Gateways and routes; `events` reports problems and
//! served Ingresses. All of them use only translations that every worker serves.
//!
//! Never in here: anything that serving depends on. If the API server is unavailable, everything here is
//! repeated until it is back.

mod addresses;
mod certificates;
mod elector;
mod events;
mod gateway;
mod ingress;
mod kept;
mod lease;
mod notice;
mod publish_address;
mod server;
#[cfg(test)]
mod tests;
mod writer;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use observe::Registry;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Connection;
use crate::names::NsName;
use certificates::CertificateDuty;
use elector::Elector;
use events::Teller;
use gateway::GatewayWriter;
use ingress::Writer;
use kept::Kept;
use notice::Notices;
use publish_address::PublishAddress;
use server::Server;

pub use kept::KeptState;
pub use notice::{About, Notice, Published};
pub use publish_address::ThisPod;
pub use writer::Programmed;

/// Time that [`Keeper::stop`] has to clear statuses. The next leader clears the rest.
const CLEAR_MAX: Duration = Duration::from_secs(5);

/// Longest time that [`Keeper::stop`] takes: clearing statuses, then releasing the Lease.
const STOP_MAX: Duration = Duration::from_secs(8);

/// Longest wait for the zone of this node. Nothing is served before the zone is known or this time is over.
const ZONE_MAX: Duration = Duration::from_secs(5);

/// Longest wait for the description of this Pod.
const POD_MAX: Duration = Duration::from_secs(2);

/// Least value of `--status-update-interval`.
const INTERVAL_MIN: Duration = Duration::from_secs(5);

/// The options of the command line about status and Events. The defaults are those of ingress-nginx.
#[derive(Clone, Debug)]
pub struct StatusOptions {
    /// Write the status of Ingresses (`--update-status`). Without it, as for a trial beside another
    /// controller, no object is changed and no Lease is acquired. Events are still published, by every
    /// replica: they report the result of the trial and change nothing.
    pub update: bool,
    /// Clear the status when the last replica stops (`--update-status-on-shutdown`).
    pub update_on_shutdown: bool,
    /// Time after which the status is compared again although nothing has changed
    /// (`--status-update-interval`); at least 5 s.
    pub interval: Duration,
    /// Service whose addresses are written (`--publish-service`).
    pub publish_service: Option<NsName>,
    /// Addresses and names to write (`--publish-status-address`). They take precedence over the Service.
    pub publish_address: Vec<String>,
    /// Write the internal addresses of Nodes, if addresses of Nodes are written
    /// (`--report-node-internal-ip-address`).
    pub report_node_internal_ip: bool,
    /// Name of the Lease (`--election-id`), in the Pod's namespace.
    pub election_id: String,
    /// Time after which the Lease of a leader that does not renew it expires (`--election-ttl`).
    pub election_ttl: Duration,
    /// Elect a leader; without it every replica writes (`--disable-leader-election`).
    pub leader_election: bool,
    /// Publish an Event when a new version of an Ingress is being served (`--disable-sync-events`).
    pub sync_events: bool,
    /// Name of this Pod: `POD_NAMESPACE` and `POD_NAME`.
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

/// Updates status and Events until it is stopped.
#[derive(Debug)]
pub struct Keeper {
    stop: oneshot::Sender<()>,
    leading: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

/// Inputs beside translations, of which something is written.
#[derive(Debug, Default)]
pub struct Beside {
    /// States that are kept in the Lease.
    pub kept: Option<Arc<dyn KeptState>>,
    /// Events that do not follow from the configuration.
    pub notices: Option<mpsc::Receiver<Notice>>,
    /// Gets to know each Event that the API server has taken.
    pub published: Option<Arc<dyn Published>>,
}

/// Starts to write. Nothing is written before the first translation that every worker serves.
///
/// The caller needs a tokio runtime with timers.
pub fn spawn(
    connection: &Connection,
    options: StatusOptions,
    programmed: Programmed,
    metrics: Arc<Registry>,
    beside: Beside,
) -> Keeper {
    let (stop, stopping) = oneshot::channel();
    let duty = Duty::new(connection, options, programmed, metrics, beside);
    let leading = duty.leading.subscribe();
    Keeper { stop, leading, task: tokio::spawn(duty.run(stopping)) }
}

impl Keeper {
    /// Whether this process leads: elected, or alone without an election. Without `--update-status` one does
    /// only once certificates are wanted.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.clone()
    }

    /// Stops writing. A leader clears the status, if the options request it and no other replica runs, and
    /// releases the Lease. This takes a few seconds at most, even if the API server is unavailable.
    pub async fn stop(mut self) {
        // The task may have ended already.
        let _ = self.stop.send(());
        if timeout(STOP_MAX, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Keeper {
    /// Stops writing at once, since another process does it in this one's place.
    pub fn abandon(self) {
        self.task.abort();
    }
}

/// The API server's description of this process's Pod; none if the server does not answer.
pub async fn this_pod(connection: &Connection, pod: &NsName) -> Option<ThisPod> {
    let server = Server::new(connection.client.clone());
    timeout(POD_MAX, publish_address::this_pod(&server, pod)).await.unwrap_or_default()
}

/// The zone of a Node (`topology.kubernetes.io/zone`); none also if the API server does not answer.
pub async fn zone_of_node(connection: &Connection, node: &str) -> Option<String> {
    let server = Server::new(connection.client.clone());
    timeout(ZONE_MAX, publish_address::zone(&server, node)).await.unwrap_or_default()
}

/// The task behind a [`Keeper`].
struct Duty {
    server: Server,
    options: StatusOptions,
    namespace: String,
    programmed: Programmed,
    metrics: Arc<Registry>,
    publish_address: PublishAddress,
    writer: Writer,
    gateway_writer: GatewayWriter,
    teller: Teller,
    kept: Kept,
    /// Whether this process writes objects.
    leading: watch::Sender<bool>,
}

/// Tells that this process writes objects, until it is dropped.
struct Leading<'d>(&'d watch::Sender<bool>);

impl<'d> Leading<'d> {
    fn new(leading: &'d watch::Sender<bool>) -> Self {
        leading.send_replace(true);
        Self(leading)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl Duty {
    fn new(
        connection: &Connection,
        options: StatusOptions,
        programmed: Programmed,
        metrics: Arc<Registry>,
        beside: Beside,
    ) -> Self {
        let server = Server::new(connection.client.clone());
        let options = StatusOptions { interval: options.interval.max(INTERVAL_MIN), ..options };
        let namespace = options.pod.as_ref().map_or(&connection.namespace, |pod| &pod.namespace).clone();
        let publish_address = publish_address(&options);
        let writer = Writer::new(server.clone(), options.interval);
        let gateway_writer =
            GatewayWriter::new(server.clone(), connection.versions.clone(), options.interval);
        let notices = Notices::new(beside.notices);
        let (instance, sync) = (identity(&options), options.sync_events);
        let teller = Teller::new(server.clone(), instance, sync, Arc::clone(&metrics), notices)
            .telling(beside.published);
        Self {
            server,
            options,
            namespace,
            programmed,
            metrics,
            publish_address,
            writer,
            gateway_writer,
            teller,
            kept: Kept(beside.kept),
            leading: watch::Sender::new(false),
        }
    }

    async fn run(mut self, mut stopping: oneshot::Receiver<()>) {
        // The channel closes when the process ends.
        let first = async { self.programmed.wait_for(Option::is_some).await.is_ok() };
        let is_served = tokio::select! {
            _ = &mut stopping => false,
            is_served = first => is_served,
        };
        if !is_served {
            return;
        }
        if !self.options.update {
            let mut certificates = CertificateDuty {
                elector: self.options.leader_election.then(|| self.elector(Kept(None))),
                programmed: self.programmed.clone(),
                leading: self.leading.clone(),
            };
            tokio::select! {
                _ = &mut stopping => {}
                () = self.teller.run(self.programmed.clone()) => {}
                () = certificates.run() => {}
            }
            certificates.end().await;
        } else if self.options.leader_election {
            Box::pin(self.run_elected(stopping)).await;
        } else {
            self.metrics.set_leader(&self.options.election_id, true);
            tokio::select! {
                _ = &mut stopping => {}
                () = self.lead() => {}
            }
            self.clear_if_last().await;
        }
    }

    /// A participant of the election, which keeps these states in the Lease.
    fn elector(&self, kept: Kept) -> Elector {
        let lease = NsName::new(&*self.namespace, &*self.options.election_id);
        let ttl = self.options.election_ttl.max(Duration::from_secs(1));
        let me = identity(&self.options);
        Elector::new(self.server.clone(), lease, me, ttl, Arc::clone(&self.metrics), kept)
    }

    async fn run_elected(&mut self, mut stopping: oneshot::Receiver<()>) {
        let mut elector = self.elector(self.kept.clone());
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

    /// Writes while this process leads.
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
        self.gateway_writer.forget();
        let _leading = Leading::new(&self.leading);
        let (found, addresses) = watch::channel(None);
        tokio::join!(
            self.publish_address.follow(&self.server, found),
            writer::run(&mut self.gateway_writer, self.programmed.clone(), addresses.clone()),
            writer::run(&mut self.writer, self.programmed.clone(), addresses),
            self.teller.run(self.programmed.clone()),
        );
    }

    async fn clear_if_last(&mut self) {
        if !self.options.update_on_shutdown {
            return;
        }
        let clear = async {
            // A process outside of a Pod cannot find other replicas.
            let is_last = match &self.options.pod {
                Some(pod) => publish_address::is_last(&self.server, pod).await,
                None => Ok(true),
            };
            let translation = self.programmed.borrow().clone();
            match (is_last, translation) {
                (Ok(true), Some(translation)) => self.writer.write_points(&translation, &Arc::from([])).await,
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

/// The identity of this process: the Pod's name, or the machine's name with the process id.
fn identity(options: &StatusOptions) -> String {
    options.pod.as_ref().map_or_else(
        || {
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            format!("{}_{}", host.trim(), std::process::id())
        },
        |pod| pod.name.clone(),
    )
}
