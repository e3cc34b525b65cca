//! Writes the status of the Gateway API's objects if it differs from the report.
//!
//! Many objects of a kind are read as a list, few one by one. In both cases a write is refused if the object
//! was changed meanwhile, and is then computed again. Never in here: the contents of a status (`content`), or
//! objects of other controllers.

mod content;
mod features;
mod infrastructure;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use http::{Method, Request};
use k8s_openapi::jiff::{Timestamp, Unit};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::addresses::Addresses;
use super::server::{Failure, Server};
use super::writer::{Ended, StatusWriter, Write, WriteTable};
use crate::client::Versions;
use crate::objects::gateway_api::{EXPERIMENTAL_GROUP, GROUP};
use crate::objects::{IngressPoint, forebay_policy};
use crate::translate::Translation;
use crate::translate::gateway::report::{
    ClassReport, GatewayReport, GatewayStatus, ListenerSetStatus, PolicyStatus, RouteStatus, Subject,
};

const READING: &str = "reading the objects of the Gateway API";
const MAKING: &str = "making what Gateways ask for with infrastructure";
const WRITING: &str = "writing the status of the Gateway API's objects";

/// The most concurrent requests. A write waits for the disks of etcd, which write those that come together at
/// once.
const IN_FLIGHT_MAX: usize = 32;

/// The form of responses to writes: the metadata. Nothing of them is read, and a route may be long. An API
/// server that does not know the form sends the whole object.
const METADATA_ALONE: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.9";

/// The most attempts to write an object that others change at the same time.
const TRIES_MAX: usize = 4;

/// The number of objects of a kind from which they are read as a list instead of one by one.
const LISTED_MIN: usize = 32;

/// The least share of all objects of a kind, as one in this many, that is read as a list: a list has the
/// others too, and reading an object by itself costs several times what it costs in a list.
const LISTED_SHARE: usize = 4;

/// The number of objects in a page of a list, which are in memory as JSON.
const PAGE: usize = 100;

/// An object with something to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A class, and the minor number of its CRDs' release; none if that is not known.
    Class(Arc<ClassReport>, Option<u32>),
    Gateway(Arc<GatewayStatus>),
    ListenerSet(Arc<ListenerSetStatus>),
    Route(Arc<RouteStatus>),
    Policy(Arc<PolicyStatus>),
}

impl Entry {
    pub(super) fn subject(&self) -> &Subject {
        match self {
            Self::Class(it, _) => &it.subject,
            Self::Gateway(it) => &it.subject,
            Self::ListenerSet(it) => &it.subject,
            Self::Route(it) => &it.subject,
            Self::Policy(it) => &it.subject,
        }
    }

    /// The status field that has an entry for each controller; none for objects that only one controller
    /// writes.
    fn shared_field(&self) -> Option<&'static str> {
        shared_field(self.subject().object.kind)
    }

    /// The object with an empty report, which removes this controller's entries.
    fn emptied(&self) -> Option<Self> {
        match self {
            Self::Route(it) if !it.parents.is_empty() => {
                Some(Self::Route(Arc::new(RouteStatus { parents: Vec::new(), subject: it.subject.clone() })))
            }
            Self::Policy(it) if !it.ancestors.is_empty() => Some(Self::Policy(Arc::new(PolicyStatus {
                ancestors: Vec::new(),
                subject: it.subject.clone(),
            }))),
            _ => None,
        }
    }
}

fn shared_field(kind: &str) -> Option<&'static str> {
    match kind {
        "HTTPRoute" | "GRPCRoute" | "TLSRoute" | "TCPRoute" | "UDPRoute" => Some("parents"),
        "BackendTLSPolicy" | "XBackendTrafficPolicy" | "ForebayPolicy" => Some("ancestors"),
        _ => None,
    }
}

/// The entries of a report in the order of writing: objects that others wait for come first. `bundle` is the
/// release of the CRDs.
fn entries<'a>(report: &'a GatewayReport, bundle: Option<&str>) -> impl Iterator<Item = Entry> + use<'a> {
    let version = bundle.map(content::supported_version);
    let minor = bundle.and_then(content::minor_of);
    let class = move |class: &Arc<ClassReport>| {
        let mut class = Arc::clone(class);
        Arc::make_mut(&mut class).conditions.extend(version.clone());
        Entry::Class(class, minor)
    };
    let classes = report.classes.iter().map(class);
    classes
        .chain(report.gateways.iter().cloned().map(Entry::Gateway))
        .chain(report.listener_sets.iter().cloned().map(Entry::ListenerSet))
        .chain(report.routes.iter().cloned().map(Entry::Route))
        .chain(report.policies.iter().cloned().map(Entry::Policy))
}

/// Writes the status of the Gateway API's objects.
pub(super) struct GatewayWriter {
    server: Server,
    versions: Versions,
    table: WriteTable<Reported>,
}

/// The content of a write to an object.
struct Reported {
    entry: Entry,
    addresses: Arc<[IngressPoint]>,
}

impl StatusWriter for GatewayWriter {
    const SPACING: Duration = Duration::from_millis(20);

    fn interval(&self) -> Duration {
        self.table.interval
    }

    async fn write_all(&mut self, translation: &Translation, addresses: &Addresses) -> bool {
        self.write_report(&translation.gateway, &addresses.clone().unwrap_or_default()).await
    }

    /// Changes of a status by others are detected only by reading all objects again.
    fn begin_interval(&mut self) {
        self.forget();
    }
}

impl GatewayWriter {
    pub(super) fn new(server: Server, versions: Versions, interval: Duration) -> Self {
        Self { server, versions, table: WriteTable::new(interval) }
    }

    /// Forgets all writes, because another leader may have written meanwhile.
    pub(super) fn forget(&mut self) {
        self.table.writes.clear();
    }

    /// Writes every status that differs. Returns false if a write has to be repeated.
    async fn write_report(&mut self, report: &GatewayReport, addresses: &Arc<[IngressPoint]>) -> bool {
        let now = Instant::now();
        let bundle = self.versions.bundle();
        let mut due: Vec<Entry> = Vec::new();
        let mut known = 0;
        for entry in entries(report, bundle.as_deref()) {
            // An object that is not from the API server has no uid.
            let Some(uid) = &entry.subject().uid else { continue };
            known += usize::from(self.table.writes.contains_key(uid));
            if self.is_due(uid, &entry, addresses, now) {
                due.push(entry);
            }
        }
        if self.table.writes.len() > known {
            due.extend(self.gone(report));
        }
        let mut is_done = true;
        while !due.is_empty() {
            let kind = due[0].subject().object.kind;
            let (of_kind, others) = due.into_iter().partition(|entry| entry.subject().object.kind == kind);
            due = others;
            let count = entries(report, None).filter(|entry| entry.subject().object.kind == kind).count();
            match self.write_kind(kind, of_kind, count, addresses, now).await {
                Ok(all) => is_done &= all,
                Err(()) => return false,
            }
        }
        is_done
    }

    /// Forgets the objects that the report does not have any more. Returns the entries that empty their
    /// statuses.
    fn gone(&mut self, report: &GatewayReport) -> Vec<Entry> {
        let reported: HashSet<String> =
            entries(report, None).filter_map(|entry| entry.subject().uid.clone()).collect();
        let gone = self.table.writes.extract_if(|uid, _| !reported.contains(uid));
        gone.filter_map(|(_, write)| write.content.entry.emptied()).collect()
    }

    fn is_due(&self, uid: &str, entry: &Entry, addresses: &Arc<[IngressPoint]>, now: Instant) -> bool {
        self.table.writes.get(uid).is_none_or(|write| {
            write.content.entry != *entry
                || write.is_due(now)
                || matches!(entry, Entry::Gateway(_)) && write.content.addresses != *addresses
        })
    }

    /// Writes objects of one kind, of which the report has so many. Returns whether all are done; an error if
    /// the API server is unavailable.
    async fn write_kind(
        &mut self,
        kind: &'static str,
        entries: Vec<Entry>,
        count: usize,
        addresses: &Arc<[IngressPoint]>,
        now: Instant,
    ) -> Result<bool, ()> {
        // The CRD has been removed.
        let Some(collection) = Collection::of(kind, &self.versions) else { return Ok(true) };
        let mut is_done = true;
        let mut entries = entries;
        if is_listed(entries.len(), count) {
            let server = self.server.clone();
            let mut page = Some(read_page(&server, &collection, String::new()).await?);
            while let Some(mut read) = page {
                let work = pair(&mut entries, &mut read, kind);
                let token = read["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                // The API server lists the next page while it writes the objects of this one.
                let next = async {
                    if token.is_empty() {
                        return Ok(None);
                    }
                    read_page(&server, &collection, token).await.map(Some)
                };
                let (written, next) = tokio::join!(self.write_batch(&collection, work, addresses, now), next);
                is_done &= written?;
                page = next?;
            }
        }
        let work = entries.into_iter().map(|entry| (entry, None)).collect();
        Ok(is_done & self.write_batch(&collection, work, addresses, now).await?)
    }

    async fn write_batch(
        &mut self,
        collection: &Collection,
        work: Vec<(Entry, Option<Value>)>,
        addresses: &Arc<[IngressPoint]>,
        now: Instant,
    ) -> Result<bool, ()> {
        let server = self.server.clone();
        let writes = work.into_iter().map(|(entry, object)| {
            let server = &server;
            async move {
                let outcome = write(server, collection, &entry, addresses, object).await;
                (entry, outcome)
            }
        });
        let mut outcomes = stream::iter(writes).buffer_unordered(IN_FLIGHT_MAX);
        let mut is_done = true;
        while let Some((entry, outcome)) = outcomes.next().await {
            let until = match self.table.end(&entry.subject().object, outcome, now) {
                Ended::Until(until) => until,
                Ended::Conflict => {
                    is_done = false;
                    continue;
                }
                Ended::Unserved => return Err(()),
            };
            let uid = entry.subject().uid.clone().unwrap_or_default();
            // The write to an object that does not concern this controller any more need not be recorded.
            let is_empty = entry.shared_field().is_some() && entry.emptied().is_none();
            if !is_empty {
                let content = Reported { entry, addresses: Arc::clone(addresses) };
                self.table.writes.insert(uid, Write { content, until });
            }
        }
        Ok(is_done)
    }
}

/// Whether so many objects of a kind are read as a list, of the number that the report has.
fn is_listed(due: usize, count: usize) -> bool {
    due >= LISTED_MIN && due.saturating_mul(LISTED_SHARE) >= count
}

/// Reads a page of a list; an error if the API server is unavailable.
async fn read_page(server: &Server, collection: &Collection, token: String) -> Result<Value, ()> {
    let page = server.client.request::<Value>(collection.page(&token));
    server.ask(READING, page).await.map_err(drop)
}

/// Takes the objects of a page that have entries, together with these entries.
fn pair(entries: &mut Vec<Entry>, page: &mut Value, kind: &'static str) -> Vec<(Entry, Option<Value>)> {
    let Some(items) = page["items"].as_array_mut() else { return Vec::new() };
    let uid_of = |item: &Value| item["metadata"]["uid"].as_str().map(str::to_owned);
    let mut objects: HashMap<String, Value> =
        items.drain(..).filter_map(|item| Some((uid_of(&item)?, item))).collect();
    debug_assert!(entries.iter().all(|entry| entry.subject().object.kind == kind));
    let is_there =
        |entry: &mut Entry| entry.subject().uid.as_ref().is_some_and(|uid| objects.contains_key(uid));
    let here: Vec<Entry> = entries.extract_if(.., is_there).collect();
    let object = |entry: &Entry| entry.subject().uid.as_ref().and_then(|uid| objects.remove(uid));
    let mut object = object;
    here.into_iter()
        .map(|entry| {
            let found = object(&entry);
            (entry, found)
        })
        .collect()
}

/// The path of the objects of a kind in the API.
struct Collection {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

impl Collection {
    /// The collection of a kind; none while the API server does not have the kind.
    fn of(kind: &'static str, versions: &Versions) -> Option<Self> {
        let plural = match kind {
            "GatewayClass" => "gatewayclasses",
            "Gateway" => "gateways",
            "ListenerSet" => "listenersets",
            "HTTPRoute" => "httproutes",
            "GRPCRoute" => "grpcroutes",
            "TLSRoute" => "tlsroutes",
            "TCPRoute" => "tcproutes",
            "UDPRoute" => "udproutes",
            "BackendTLSPolicy" => "backendtlspolicies",
            "XBackendTrafficPolicy" => "xbackendtrafficpolicies",
            "ForebayPolicy" => "forebaypolicies",
            _ => return None,
        };
        let group = match kind {
            "XBackendTrafficPolicy" => EXPERIMENTAL_GROUP,
            "ForebayPolicy" => forebay_policy::GROUP,
            _ => GROUP,
        };
        Some(Self { group, version: versions.get(kind)?, plural })
    }

    fn page(&self, token: &str) -> Request<Vec<u8>> {
        let path = format!("/apis/{}/{}/{}?limit={PAGE}", self.group, self.version, self.plural);
        let more = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        request(Method::GET, path + &more, Vec::new())
    }

    fn path(&self, subject: &Subject) -> String {
        let (namespace, name) = (&subject.object.namespace, &subject.object.name);
        let within = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        format!("/apis/{}/{}/{within}{}/{name}", self.group, self.version, self.plural)
    }
}

fn request(method: Method, path: String, body: Vec<u8>) -> Request<Vec<u8>> {
    let request = Request::builder().uri(path);
    let accepted = if method == Method::PATCH { METADATA_ALONE } else { "application/json" };
    let request = request.method(method).header("accept", accepted);
    let request = request.header("content-type", "application/merge-patch+json").body(body);
    request.expect("names of objects and tokens of lists are made of what a path may have")
}

/// Updates a status; `object` is the present state, if it is known.
async fn write(
    server: &Server,
    collection: &Collection,
    entry: &Entry,
    addresses: &[IngressPoint],
    mut object: Option<Value>,
) -> Result<(), Failure> {
    let subject = entry.subject();
    let path = collection.path(subject);
    let mut outcome = Err(Failure::Conflict);
    for _ in 0..TRIES_MAX {
        let object = if let Some(object) = object.take() {
            object
        } else {
            let get = request(Method::GET, path.clone(), Vec::new());
            server.ask(READING, server.client.request::<Value>(get)).await?
        };
        if object["metadata"]["uid"].as_str() != subject.uid.as_deref() {
            return Err(Failure::NotFound);
        }
        if matches!(entry, Entry::Gateway(_)) {
            make_infrastructure(server, entry, addresses, &object).await?;
        }
        let Some(status) = difference(entry, addresses, &object["status"]) else { return Ok(()) };
        let patch = json!({
            "metadata": {"uid": subject.uid, "resourceVersion": object["metadata"]["resourceVersion"]},
            "status": status,
        });
        let patch = request(Method::PATCH, path.clone() + "/status", patch.to_string().into_bytes());
        outcome = server.ask(WRITING, server.client.request::<Value>(patch)).await.map(drop);
        if outcome != Err(Failure::Conflict) {
            break;
        }
    }
    outcome
}

/// Applies the objects that a Gateway requests. Without the right to do so, the status is still written.
async fn make_infrastructure(
    server: &Server,
    entry: &Entry,
    addresses: &[IngressPoint],
    gateway: &Value,
) -> Result<(), Failure> {
    if gateway["spec"]["infrastructure"].is_null() {
        return Ok(());
    }
    let status = content::status(entry, addresses, &Value::Null, "");
    let addresses: Vec<String> = status["addresses"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|address| address["value"].as_str().map(str::to_owned))
        .collect();
    for (path, object) in infrastructure::objects(gateway, &addresses) {
        let apply = Request::builder().method(Method::PATCH).uri(path.clone() + "?fieldManager=forebay");
        let apply = apply.header("content-type", "application/apply-patch+yaml");
        let Ok(apply) = apply.body(object.to_string().into_bytes()) else { continue };
        match server.ask(MAKING, server.client.request::<Value>(apply)).await {
            Err(Failure::Unserved) => return Err(Failure::Unserved),
            Err(Failure::Refused(why)) => {
                tracing::warn!(gateway = %entry.subject().object, why, "its Service is refused");
            }
            // The apply is not forced, because another manager may have created or changed the object.
            Err(Failure::Conflict) => {
                tracing::warn!(gateway = %entry.subject().object, path, "its Service is not made: others manage fields of it");
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// The merge patch for a status; none if the status is up to date.
fn difference(entry: &Entry, addresses: &[IngressPoint], now: &Value) -> Option<Value> {
    if let Some(field) = entry.shared_field().filter(|_| entry.emptied().is_none()) {
        return content::without_ours(&now[field]).map(|left| json!({field: left}));
    }
    let time = Timestamp::now().round(Unit::Second).unwrap_or_default().to_string();
    let mut wanted = content::status(entry, addresses, now, &time);
    let fields = wanted.as_object_mut()?;
    // The server omits empty fields.
    let is_same = |field: &str, value: &Value| {
        let old = &now[field];
        old == value || old.is_null() && (value == &json!([]) || value == &json!(0))
    };
    fields.retain(|field, value| !is_same(field, value));
    (!fields.is_empty()).then_some(wanted)
}
