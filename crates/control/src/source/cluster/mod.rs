//! The objects of a cluster, followed by watches.
//!
//! Each kind is listed once and then watched. A watch that breaks is resumed where it ended, and the objects
//! stay in force meanwhile. An object that cannot be decoded does not break its watch: its last good state
//! stays in force, and a problem reports it. Secrets and `ConfigMap`s are kept only if our Ingresses or the
//! settings name them, and are watched only in the namespaces of named objects.
//!
//! Never in here: the meaning of objects.

mod discovery;
mod disk_cache;
mod gateway_kinds;
mod gateway_references;
mod item;
mod named;
pub(crate) mod old_controller;
mod references;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use futures::future::{AbortHandle, BoxFuture};
use futures::stream::{FuturesUnordered, SelectAll};
use futures::{FutureExt, StreamExt};
use kube::Api;
use kube::Client;

use self::discovery::Answers;
use self::gateway_kinds::GatewayKinds;
use self::item::{Item, Thing, Watched};
use self::named::Named;
use self::references::{Group, References};
use self::watch::{Happening, Trouble, Watch};
use crate::client::Connection;
use crate::index::Index;
use crate::names::{NsName, ObjectRef};
use crate::objects::{ConfigMap, Ingress, IngressClass, Namespace, Object, Resource, Secret};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::relay::Relay;

pub(crate) use disk_cache::DiskCache;

/// The most watch events that are handled before the caller is notified.
const BATCH_MAX: usize = 4096;

/// The objects of a cluster that are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The objects of all namespaces.
    #[default]
    All,
    /// The objects of one namespace. They need no rights outside it.
    Namespace(String),
    /// The Ingresses of the namespaces that this label selector matches.
    Selector(String),
}

impl Scope {
    /// The only namespace whose objects are served; none if there are several.
    pub fn only_namespace(&self) -> Option<String> {
        match self {
            Self::Namespace(name) => Some(name.clone()),
            Self::All | Self::Selector(_) => None,
        }
    }
}

/// The watched objects, and the folder for a copy of them.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The objects that are served.
    pub scope: Scope,
    /// Folder for a copy of the objects, which is served if this process starts while the API server is
    /// unavailable; none to store no copy.
    pub state_dir: Option<PathBuf>,
    /// This replica's part in sharing watches of `EndpointSlice`s; none if each replica watches by itself.
    pub relay: Option<Relay>,
}

/// The condition of the watches on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Names of the watches whose first list is incomplete.
    pub waiting: Vec<String>,
    /// The watches that fail, each with its error.
    pub troubles: Vec<String>,
    /// Whether the served objects are the copy on disk.
    pub from_disk: bool,
}

impl Condition {
    /// Whether every watch with an incomplete first list has failed.
    pub(crate) fn is_hopeless(&self) -> bool {
        let has_failed =
            |name: &String| self.troubles.iter().any(|trouble| trouble.starts_with(name.as_str()));
        !self.waiting.is_empty() && self.waiting.iter().all(has_failed)
    }
}

/// The objects of a cluster, and their watches.
pub(crate) struct Cluster {
    connection: Connection,
    scope: Scope,
    index: Index,
    watches: SelectAll<watch::Stream>,
    states: Vec<State>,
    named: Followed,
    /// The discovery of the Gateway API's kinds.
    discovery: Answers,
    gateway: GatewayKinds,
    /// The objects that currently cannot be decoded.
    undecodable: BTreeMap<(&'static str, NsName), Problem>,
    /// Whether an object changed on which translation depends.
    changed: bool,
    /// Whether something changed on which translation does not depend, such as a status.
    touched: bool,
}

/// The state of one watch.
struct State {
    watch: Watch,
    /// Whether the first list is complete.
    listed: bool,
    /// Whether the watch began after serving had started: serving does not wait for its first list.
    is_late: bool,
    /// The objects that the current list has contained so far; none while no list is running.
    seen: Option<HashSet<NsName>>,
    trouble: Option<Trouble>,
}

/// The watched Secrets and `ConfigMap`s, which other objects name.
#[derive(Default)]
struct Followed {
    references: References,
    /// Whether the set of named objects has changed, so that the watches have to be adapted.
    renamed: bool,
    watches: HashMap<Group, (usize, AbortHandle)>,
    fetches: FuturesUnordered<BoxFuture<'static, (Named, Fetched)>>,
    /// Objects that are being fetched, each with whether a watch has reported it meanwhile.
    fetching: HashMap<Named, bool>,
    /// The `ConfigMap`s of the options, which are always watched.
    own: HashSet<NsName>,
}

type Fetched = kube::Result<Option<Thing>>;

impl Cluster {
    /// Starts the watches.
    pub(crate) fn new(connection: &Connection, scope: Scope, options: &Options) -> Self {
        Self::sharing(connection, scope, options, None)
    }

    /// Starts the watches, of which that of slices may be shared with other replicas.
    pub(crate) fn sharing(
        connection: &Connection,
        scope: Scope,
        options: &Options,
        relay: Option<&Relay>,
    ) -> Self {
        let mut cluster = Self {
            discovery: discovery::answers(connection.client.clone()),
            gateway: GatewayKinds::default(),
            connection: connection.clone(),
            scope,
            index: Index::default(),
            watches: SelectAll::new(),
            states: Vec::new(),
            named: Followed::default(),
            undecodable: BTreeMap::new(),
            changed: false,
            touched: false,
        };
        let namespace = match &cluster.scope {
            Scope::Namespace(namespace) => Some(namespace.clone()),
            Scope::All | Scope::Selector(_) => None,
        };
        for watch in Watch::of_routing(namespace.as_deref(), relay) {
            cluster.follow(watch);
        }
        if let Scope::Selector(labels) = &cluster.scope {
            let watch = Watch::namespaces(labels);
            cluster.index.namespaces = Some([].into());
            cluster.follow(watch);
        }
        let own = [&options.configmap, &options.tcp_services_configmap, &options.udp_services_configmap];
        cluster.named.own = own.into_iter().flatten().cloned().collect();
        cluster.take_references(options);
        for name in cluster.named.own.clone() {
            cluster.follow(Watch::configmap(&name));
        }
        cluster
    }

    /// The objects, once all first lists are complete.
    pub(crate) fn index(&self) -> Option<&Index> {
        self.waiting().next().is_none().then_some(&self.index)
    }

    /// Whether all objects have arrived, including those that were named after their namespace was listed.
    pub(crate) fn is_settled(&self) -> bool {
        self.index().is_some() && self.named.fetches.is_empty()
    }

    /// Whether an object on which translation depends has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Whether something else, such as a status, has changed since the last call.
    pub(crate) fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// Whether the right to read `IngressClass`es is missing: a controller for one namespace need not have
    /// it.
    pub(crate) fn lacks_classes(&self) -> bool {
        let mut states = self.states.iter();
        states.any(|state| state.watch.kind == IngressClass::KIND && state.is_forgone(&self.scope))
    }

    /// The condition of the watches.
    pub(crate) fn condition(&self) -> Condition {
        let troubles = self.states.iter().filter_map(|state| {
            let is_told = state.watch.is_of_named || !state.is_forgone(&self.scope);
            let trouble = state.trouble.as_ref().filter(|_| is_told)?;
            Some(format!("{}: {trouble}", state.watch.name))
        });
        let kinds = self.gateway.trouble.iter().map(|trouble| format!("{}: {trouble}", gateway_kinds::NAME));
        let troubles = troubles.chain(kinds).collect();
        Condition { waiting: self.waiting().collect(), troubles, from_disk: false }
    }

    /// The problems of objects that cannot be decoded, and of named objects that may not be read.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let unreadable = self.states.iter().filter(|state| state.watch.is_of_named);
        let unreadable = unreadable.filter_map(|state| {
            let trouble = state.trouble.as_ref().filter(|trouble| trouble.is_forbidden)?;
            let by_whom = if state.watch.object.is_some() { "the settings" } else { "objects of ours" };
            let message = format!("{} cannot be read, which {by_whom} name: {trouble}", state.watch.name);
            Some(Problem::new(Severity::Error, message).because(Reason::Missing))
        });
        self.undecodable.values().cloned().chain(unreadable)
    }

    /// Waits for an event, and handles all pending events. The future is cancel-safe.
    pub(crate) async fn changed(&mut self, options: &Options) {
        let Followed { fetches, .. } = &mut self.named;
        tokio::select! {
            Some((id, happening)) = self.watches.next() => self.take(id, happening, options),
            Some((named, fetched)) = fetches.next(), if !fetches.is_empty() => {
                self.take_fetched(&named, fetched, options);
            }
            Some(answer) = self.discovery.next() => self.take_served(answer, options),
        }
        for _ in 0..BATCH_MAX {
            let Some(Some((id, happening))) = self.watches.next().now_or_never() else { break };
            self.take(id, happening, options);
        }
        if self.are_routes_listed() && std::mem::take(&mut self.named.renamed) {
            self.follow_named();
        }
    }

    fn follow(&mut self, watch: Watch) -> AbortHandle {
        let (stream, handle) = watch.start(self.connection.client.clone(), self.states.len());
        self.watches.push(stream);
        self.states.push(State { watch, listed: false, is_late: false, seen: None, trouble: None });
        handle
    }

    /// The watches whose first list has to be complete before serving starts.
    fn waiting(&self) -> impl Iterator<Item = String> {
        let is_awaited = |state: &&State| !state.listed && !state.is_late && !state.is_forgone(&self.scope);
        let states = self.states.iter().filter(is_awaited);
        let kinds = (!self.gateway.is_told).then(|| gateway_kinds::NAME.to_owned());
        let not_followed = self.groups().filter(|group| !self.named.watches.contains_key(group));
        states
            .map(|state| state.watch.name.clone())
            .chain(not_followed.map(|group| Watch::of_named(&group).name))
            .chain(kinds)
    }

    fn take(&mut self, id: usize, happening: Happening, options: &Options) {
        let state = &mut self.states[id];
        if !matches!(happening, Happening::Failed(_)) && state.trouble.take().is_some() {
            tracing::info!("{} can be watched again", state.watch.name);
            self.changed |= state.watch.is_of_named;
        }
        match happening {
            Happening::Began => state.seen = Some(HashSet::new()),
            Happening::Found(key, thing) => {
                if let Some(seen) = &mut state.seen {
                    seen.insert(key.clone());
                }
                let kind = state.watch.kind;
                self.apply(kind, key, thing, options);
            }
            Happening::Gone(key) => {
                let kind = state.watch.kind;
                self.remove(kind, &key, options);
            }
            Happening::Complete => self.complete(id, options),
            Happening::Failed(trouble) => self.note_trouble(id, trouble),
            Happening::Quiet => {}
        }
    }

    fn note_trouble(&mut self, id: usize, trouble: Trouble) {
        let state = &mut self.states[id];
        if state.trouble.as_ref() == Some(&trouble) {
            return;
        }
        if !state.watch.is_of_named && state.is_forgone_with(&trouble, &self.scope) {
            let instead = if state.watch.kind == IngressClass::KIND {
                "classes are recognized by name"
            } else {
                "the Gateway API is not served without the right to it"
            };
            tracing::info!("{} may not be read: {instead}", state.watch.name);
        } else {
            tracing::warn!("cannot watch {}: {trouble}", state.watch.name);
        }
        state.trouble = Some(trouble);
        self.changed = true;
    }

    /// Handles the end of a list: objects that it did not contain have been deleted.
    fn complete(&mut self, id: usize, options: &Options) {
        let state = &mut self.states[id];
        let Some(seen) = state.seen.take() else { return };
        let is_first = !std::mem::replace(&mut state.listed, true);
        self.changed |= is_first;
        let watch = state.watch.clone();
        let gone: Vec<_> =
            self.keys_of(&watch).into_iter().filter(|key| watch.covers(key) && !seen.contains(key)).collect();
        for key in gone {
            self.remove(watch.kind, &key, options);
        }
        if watch.is_of_named && watch.object.is_none() {
            let namespace = watch.namespace.unwrap_or_default();
            let named: Vec<_> = self.named.references.within(watch.kind, &namespace).collect();
            // The list skipped the object, because no Ingress named it at that time.
            for named in named.into_iter().filter(|named| seen.contains(&named.key)) {
                self.fetch(named);
            }
        }
    }

    fn keys_of(&self, watch: &Watch) -> Vec<NsName> {
        let index = &self.index;
        let mut keys: Vec<NsName> = match watch.kind {
            "Ingress" => index.ingresses.iter().map(|it| it.key()).collect(),
            "IngressClass" => index.classes.iter().map(|it| it.key()).collect(),
            "Service" => index.services.iter().map(|it| it.key()).collect(),
            "EndpointSlice" => index.slices.iter().map(|it| it.key()).collect(),
            "ConfigMap" => index.configmaps.iter().map(|it| it.key()).collect(),
            "Secret" => index.secrets.iter().map(|it| it.key()).collect(),
            other => index.gateway.keys(other),
        };
        keys.extend(
            self.undecodable.keys().filter(|(kind, _)| *kind == watch.kind).map(|(_, key)| key.clone()),
        );
        keys
    }

    fn apply(&mut self, kind: &'static str, key: NsName, thing: Thing, options: &Options) {
        self.note_told(kind, &key);
        if is_of_named(kind) && !self.is_wanted(kind, &key) {
            return;
        }
        self.put(kind, key, thing, options);
    }

    fn put(&mut self, kind: &'static str, key: NsName, thing: Thing, options: &Options) {
        match thing {
            Thing::Object(object) => {
                self.changed |= self.undecodable.remove(&(kind, key)).is_some();
                let differs = self.index.apply(&object);
                self.changed |= differs;
                self.touched |= !differs;
                if differs {
                    self.note_references(&object, options);
                }
            }
            Thing::Undecodable { uid, why } => {
                let object = ObjectRef { kind, namespace: key.namespace.clone(), name: key.name.clone() };
                let message = format!("cannot be read: {why}; what it said before stays in force");
                let problem = Problem { object: Some(object), uid, ..Problem::new(Severity::Error, message) };
                let problem = problem.because(Reason::Undecodable);
                self.changed |= self.undecodable.insert((kind, key), problem.clone()) != Some(problem);
            }
        }
    }

    fn remove(&mut self, kind: &'static str, key: &NsName, options: &Options) {
        self.note_told(kind, key);
        self.changed |= self.undecodable.remove(&(kind, key.clone())).is_some();
        self.changed |= self.index.remove(kind, key);
        match kind {
            Ingress::KIND => {
                self.named.references.forget(kind, key);
                self.named.renamed = true;
            }
            Namespace::KIND
                if self.index.namespaces.as_mut().is_some_and(|selected| selected.remove(&key.name)) =>
            {
                self.take_references(options);
            }
            Namespace::KIND => {}
            ConfigMap::KIND if !self.named.own.contains(key) => {}
            ConfigMap::KIND | IngressClass::KIND => self.take_references(options),
            _ if references::names_others(kind) => self.take_references(options),
            _ => {}
        }
    }

    /// Records that a watch has reported an object, including its deletion.
    fn note_told(&mut self, kind: &'static str, key: &NsName) {
        if self.named.fetching.is_empty() {
            return;
        }
        if let Some(told) = self.named.fetching.get_mut(&Named { kind, key: key.clone() }) {
            *told = true;
        }
    }

    /// Whether a Secret or `ConfigMap` is kept, because it is named or belongs to the options.
    fn is_wanted(&self, kind: &'static str, key: &NsName) -> bool {
        self.named.references.has(kind, key) || kind == ConfigMap::KIND && self.named.own.contains(key)
    }

    /// Updates the set of named objects after an object has changed.
    fn note_references(&mut self, object: &Object, options: &Options) {
        match object {
            Object::Ingress(ingress) if self.named.references.follow(ingress, &self.index, options) => {
                self.named.renamed = true;
                let key = ingress.key();
                let named: Vec<_> = self.named.references.named_by(Ingress::KIND, &key).cloned().collect();
                for named in named {
                    self.fetch(named);
                }
            }
            Object::Namespace(namespace) => {
                // The set of namespaces affects Ingresses only if a selector chooses them.
                let selected = self.index.namespaces.as_mut();
                if selected.is_some_and(|selected| selected.insert(namespace.name().to_owned())) {
                    self.take_references(options);
                }
            }
            Object::IngressClass(_)
            | Object::GatewayClass(_)
            | Object::Gateway(_)
            | Object::ListenerSet(_)
            | Object::BackendTlsPolicy(_)
            | Object::ForebayPolicy(_) => self.take_references(options),
            Object::ConfigMap(own) if self.named.own.contains(&own.key()) => self.take_references(options),
            _ => {}
        }
    }

    /// The named groups of objects to watch, as far as they are in scope.
    fn groups(&self) -> impl Iterator<Item = Group> {
        self.named.references.groups().filter(|group| match &self.scope {
            Scope::Namespace(only) => group.namespace == *only || group.object.is_some(),
            Scope::All | Scope::Selector(_) => true,
        })
    }

    /// Collects all references again. This is necessary after a change of an object that decides which
    /// Ingresses are ours, which objects they may name, or which objects the settings name.
    fn take_references(&mut self, options: &Options) {
        self.named.references = References::of(&self.index, options);
        self.named.renamed = true;
        let named: Vec<_> = self.named.references.by_objects().collect();
        for named in named {
            self.fetch(named);
        }
    }

    /// Whether all lists are complete that decide which objects are named.
    fn are_routes_listed(&self) -> bool {
        let mut states = self.states.iter().filter(|state| !state.watch.is_of_named);
        states.all(|state| state.listed || state.is_late || state.is_forgone(&self.scope))
    }

    /// Starts watches on named objects, ends other watches, and drops objects that are no longer named.
    fn follow_named(&mut self) {
        let named: HashSet<_> = self.groups().collect();
        let left: Vec<_> =
            self.named.watches.keys().filter(|group| !named.contains(group)).cloned().collect();
        for group in left {
            if let Some((id, handle)) = self.named.watches.remove(&group) {
                handle.abort();
                // The index stays occupied, because a stream is identified by its index.
                let state = &mut self.states[id];
                (state.listed, state.seen, state.trouble) = (true, None, None);
            }
        }
        for group in named {
            if !self.named.watches.contains_key(&group) {
                let id = self.states.len();
                let handle = self.follow(Watch::of_named(&group));
                self.named.watches.insert(group, (id, handle));
            }
        }
        let secrets = self.index.secrets.iter().map(|it| Named::secret(it.key()));
        let configmaps = self.index.configmaps.iter().map(|it| Named::configmap(it.key()));
        let unnamed: Vec<_> =
            secrets.chain(configmaps).filter(|named| !self.is_wanted(named.kind, &named.key)).collect();
        for Named { kind, key } in unnamed {
            self.index.remove(kind, &key);
        }
    }

    /// Fetches a newly named object, because the watch of its namespace may have skipped it.
    fn fetch(&mut self, named: Named) {
        let Named { kind, key } = &named;
        let group = Group { kind, namespace: key.namespace.clone(), object: None };
        let is_listed = self.named.watches.get(&group).is_some_and(|(id, _)| self.states[*id].listed);
        let is_known = match *kind {
            Secret::KIND => self.index.secrets.get(key).is_some(),
            _ => self.index.configmaps.get(key).is_some(),
        };
        if !is_listed || is_known || self.named.fetching.contains_key(&named) {
            return;
        }
        let (client, key) = (self.connection.client.clone(), key.clone());
        let fetched = match *kind {
            Secret::KIND => get::<Secret>(client, key).boxed(),
            _ => get::<ConfigMap>(client, key).boxed(),
        };
        self.named.fetching.insert(named.clone(), false);
        self.named.fetches.push(fetched.map(|fetched| (named, fetched)).boxed());
    }

    fn take_fetched(&mut self, named: &Named, fetched: Fetched, options: &Options) {
        let Named { kind, key } = named;
        let told = self.named.fetching.remove(named).unwrap_or_default();
        let is_wanted = !told && self.named.references.has(kind, key);
        match fetched {
            Ok(Some(thing)) if is_wanted => self.put(kind, key.clone(), thing, options),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "cannot read {kind} {key}"),
        }
    }
}

/// Whether objects of a kind are kept only while they are named.
fn is_of_named(kind: &str) -> bool {
    matches!(kind, Secret::KIND | ConfigMap::KIND)
}

async fn get<T: Watched>(client: Client, key: NsName) -> Fetched {
    let api = Api::<Item<T>>::namespaced_with(client, &key.namespace, &"v1");
    Ok(api.get_opt(&key.name).await?.map(Item::thing))
}

impl State {
    /// Whether serving can start without this watch: `IngressClass`es are cluster-scoped, and a controller
    /// for one namespace may not be allowed to read them.
    fn is_forgone(&self, scope: &Scope) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| self.is_forgone_with(trouble, scope))
    }

    fn is_forgone_with(&self, trouble: &Trouble, scope: &Scope) -> bool {
        let is_out_of_scope = self.watch.kind == IngressClass::KIND && matches!(scope, Scope::Namespace(_));
        let may_lack = gateway_kinds::may_lack(&self.watch, scope);
        trouble.is_forbidden && (is_out_of_scope || may_lack || self.watch.is_of_named)
    }
}
