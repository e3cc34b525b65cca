//! Follows the addresses at which clients reach this controller: those of a Service, or of the Nodes on which
//! its Pods run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::addresses;
use super::addresses::Addresses;
use super::server::{Backoff, Failure, Server};
use crate::names::NsName;
use crate::objects::IngressPoint;

const SERVICE: &str = "watching the Service of --publish-service";
const PODS: &str = "watching the Pods like this one";
const POD: &str = "reading this Pod";
const NODE: &str = "reading a Node";

/// The most concurrent requests for Nodes.
const IN_FLIGHT_MAX: usize = 10;

/// Labels that differ between the rollouts of one workload, and so do not select all of its Pods.
const LABELS_OF_ROLLOUTS: [&str; 3] =
    ["controller-revision-hash", "pod-template-generation", "pod-template-hash"];

/// The source of the addresses.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PublishAddress {
    /// The addresses in `--publish-status-address`.
    Given(Vec<IngressPoint>),
    /// The Service in `--publish-service`.
    Service(NsName),
    /// The Nodes on which this controller's Pods run.
    Nodes {
        /// Name of this process's Pod.
        pod: NsName,
        /// Whether to use the Nodes' internal addresses.
        internal: bool,
        /// Time after which the Nodes are read again.
        interval: Duration,
    },
    /// No option names a source.
    Unknown,
}

impl PublishAddress {
    /// Follows the addresses for ever.
    pub(super) async fn follow(&self, server: &Server, found: watch::Sender<Addresses>) {
        match self {
            Self::Given(points) => tell(&found, Some(points.clone())),
            Self::Service(name) => follow_service(server, name, &found).await,
            Self::Nodes { pod, internal, interval } => {
                Kin::new(server, pod, *internal).follow(*interval, &found).await;
            }
            Self::Unknown => {}
        }
        pending::<()>().await;
    }
}

/// Whether no other Pod of this controller runs. Pods that are terminating do not count.
pub(super) async fn is_last(server: &Server, pod: &NsName) -> Result<bool, Failure> {
    let parameters = ListParams { label_selector: selector(server, pod).await?, ..ListParams::default() };
    let pods: Api<Pod> = Api::namespaced(server.client.clone(), &pod.namespace);
    let others = server.ask(PODS, pods.list(&parameters)).await?;
    Ok(!others.iter().any(|other| other.name_any() != pod.name && stays(other)))
}

/// The Pod of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThisPod {
    /// The Node of the Pod.
    pub node: Option<String>,
    /// Whether the Pod shares the network namespace of its Node (`hostNetwork`).
    pub host_network: bool,
}

pub(super) async fn this_pod(server: &Server, pod: &NsName) -> Option<ThisPod> {
    let pods: Api<Pod> = Api::namespaced(server.client.clone(), &pod.namespace);
    let spec = server.ask(POD, pods.get(&pod.name)).await.ok()?.spec?;
    Some(ThisPod { node: spec.node_name, host_network: spec.host_network.unwrap_or_default() })
}

pub(super) async fn zone(server: &Server, node: &str) -> Option<String> {
    let nodes: Api<Node> = Api::all(server.client.clone());
    let node = server.ask(NODE, nodes.get(node)).await.ok()?;
    node.metadata.labels?.remove("topology.kubernetes.io/zone")
}

fn tell(found: &watch::Sender<Addresses>, points: Option<Vec<IngressPoint>>) {
    let points = points.map(Arc::<[_]>::from);
    found.send_if_modified(|known| {
        let changes = *known != points;
        if changes {
            tracing::info!(addresses = ?points.as_deref().map(texts), "where clients reach the Ingresses");
            *known = points;
        }
        changes
    });
}

fn texts(points: &[IngressPoint]) -> Vec<&str> {
    points.iter().filter_map(|point| point.ip.as_deref().or(point.hostname.as_deref())).collect()
}

async fn follow_service(server: &Server, name: &NsName, found: &watch::Sender<Addresses>) {
    let api: Api<Service> = Api::namespaced(server.client.clone(), &name.namespace);
    let mut events = Box::pin(watch_object(api, &name.name).default_backoff());
    while let Some(event) = events.next().await {
        let Some(service) = server.watched(SERVICE, event) else { continue };
        if service.is_none() {
            tracing::warn!(service = %name, "there is no such Service: the status of Ingresses stays as it is");
        }
        tell(found, service.as_ref().and_then(addresses::of_service));
    }
}

/// The Pods of this controller, and their Nodes.
struct Kin<'a> {
    server: &'a Server,
    pod: &'a NsName,
    internal: bool,
    /// The Node of each ready Pod, by the Pod's name.
    pods: BTreeMap<String, String>,
    /// The Node of each ready Pod in a list that is still incomplete, by the Pod's name.
    listed: BTreeMap<String, String>,
    /// The addresses of the known Nodes; none for a Node without an address.
    nodes: HashMap<String, Option<IngressPoint>>,
}

impl<'a> Kin<'a> {
    fn new(server: &'a Server, pod: &'a NsName, internal: bool) -> Self {
        let (pods, listed, nodes) = Default::default();
        Self { server, pod, internal, pods, listed, nodes }
    }

    async fn follow(&mut self, interval_of_nodes: Duration, found: &watch::Sender<Addresses>) {
        let api: Api<Pod> = Api::namespaced(self.server.client.clone(), &self.pod.namespace);
        let config = watcher::Config { label_selector: self.selector().await, ..watcher::Config::default() };
        let config = if config.label_selector.is_some() {
            config
        } else {
            config.fields(&format!("metadata.name={}", self.pod.name))
        };
        let mut events = Box::pin(watcher(api, config).default_backoff());
        let mut tick = interval(interval_of_nodes);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::default();
        let mut retry: Option<Instant> = None;
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some(event) = event else { return };
                    let event = self.server.watched(PODS, event);
                    if !event.is_some_and(|event| self.apply(event)) { continue }
                }
                _ = tick.tick() => self.nodes.clear(),
                () = sleep_until_some(retry) => {}
            }
            if self.look_up().await {
                (retry, backoff) = (None, Backoff::default());
                tell(found, self.points());
            } else {
                retry = Some(Instant::now() + backoff.next());
            }
        }
    }

    /// A selector for all Pods of this controller; none if their labels do not identify them.
    async fn selector(&self) -> Option<String> {
        let mut backoff = Backoff::default();
        loop {
            match selector(self.server, self.pod).await {
                Ok(selector) => return selector,
                Err(failure) => {
                    tracing::debug!(?failure, pod = %self.pod, "this Pod is not known yet");
                    sleep(backoff.next()).await;
                }
            }
        }
    }

    /// Handles an event about a Pod. Returns whether the set of Nodes may have changed.
    fn apply(&mut self, event: Event<Pod>) -> bool {
        match event {
            Event::Init => {
                self.listed.clear();
                false
            }
            Event::InitApply(pod) => {
                self.listed.extend(place(pod));
                false
            }
            Event::InitDone => {
                self.pods = std::mem::take(&mut self.listed);
                true
            }
            Event::Apply(pod) => {
                let name = pod.name_any();
                match place(pod) {
                    Some((name, node)) => self.pods.insert(name, node.clone()) != Some(node),
                    None => self.pods.remove(&name).is_some(),
                }
            }
            Event::Delete(pod) => self.pods.remove(&pod.name_any()).is_some(),
        }
    }

    /// Reads the unknown Nodes. Returns false if a request failed.
    async fn look_up(&mut self) -> bool {
        let wanted: BTreeSet<_> = self.pods.values().cloned().collect();
        self.nodes.retain(|node, _| wanted.contains(node));
        let unknown: Vec<_> = wanted.into_iter().filter(|node| !self.nodes.contains_key(node)).collect();
        let nodes: Api<Node> = Api::all(self.server.client.clone());
        let (nodes, server, internal) = (&nodes, self.server, self.internal);
        let requests = unknown.into_iter().map(|name| async move {
            let node = match server.ask(NODE, nodes.get(&name)).await {
                Ok(node) => Some(node),
                Err(Failure::NotFound) => None,
                Err(_) => return None,
            };
            let addresses = node.and_then(|node| node.status?.addresses).unwrap_or_default();
            Some((name, addresses::of_node(&addresses, internal)))
        });
        let answers: Vec<_> = stream::iter(requests).buffer_unordered(IN_FLIGHT_MAX).collect().await;
        let is_complete = answers.iter().all(Option::is_some);
        self.nodes.extend(answers.into_iter().flatten());
        is_complete
    }

    /// The addresses; none while no Pod is ready. One may become ready soon, and until then the old addresses
    /// are as good as none.
    fn points(&self) -> Option<Vec<IngressPoint>> {
        let points = addresses::tidy(self.pods.values().filter_map(|node| self.nodes.get(node)?.clone()));
        (!points.is_empty()).then_some(points)
    }
}

async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => pending().await,
    }
}

async fn selector(server: &Server, pod: &NsName) -> Result<Option<String>, Failure> {
    let pods: Api<Pod> = Api::namespaced(server.client.clone(), &pod.namespace);
    let labels = server.ask(POD, pods.get(&pod.name)).await?.metadata.labels.unwrap_or_default();
    let labels = labels.iter().filter(|(key, _)| !LABELS_OF_ROLLOUTS.contains(&key.as_str()));
    let terms: Vec<_> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    Ok((!terms.is_empty()).then(|| terms.join(",")))
}

/// Name and Node of a Pod that accepts requests: it runs, is ready and is not terminating.
fn place(pod: Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let serves = is_ready && status.phase.as_deref() == Some("Running") && stays(&pod);
    serves.then(|| pod.name_any()).zip(pod.spec?.node_name)
}

/// Whether a Pod stays: it has not ended and is not terminating.
fn stays(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}
