//! The objects of a cluster, followed by watches.
//!
//! Each kind is listed once and then watched. A watch that breaks is resumed where it ended, and the objects stay in force
//! meanwhile. An object that cannot be decoded does not break its watch: its last good state stays in force, and a problem reports
//! it. Only those Secrets are kept that an Ingress of ours names, and only the namespaces of these Secrets are watched for Secrets.
//!
//! Never in here: the meaning of objects.

mod disk_cache;
mod item;
mod references;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use futures::future::{AbortHandle, BoxFuture};
use futures::stream::{FuturesUnordered, SelectAll};
use futures::{FutureExt, StreamExt};
use kube::{Api, Client};

use self::item::Item;
use self::item::Thing;
use self::references::References;
use self::watch::{Happening, Trouble, Watch};
use crate::client::Connection;
use crate::index::Index;
use crate::names::{NsName, ObjectRef};
use crate::objects::{ConfigMap, Ingress, IngressClass, Namespace, Object, Resource, Secret};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};

pub(crate) use disk_cache::DiskCache;

/// Most watch events that are handled before the caller is told.
const BATCH_MAX: usize = 4096;

/// Which objects of a cluster are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// The objects of one namespace. No rights outside it are needed.
    Namespace(String),
    /// Ingresses of the namespaces that this label selector matches.
    Selector(String),
}

/// What is watched, and where a copy of it is kept.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Which objects are served.
    pub scope: Scope,
    /// Folder for a copy of the objects, which is served if this process starts while the API server is away; none to keep no copy.
    pub state_dir: Option<PathBuf>,
}

/// The condition of the watches on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Names of the watches whose first list is not complete.
    pub waiting: Vec<String>,
    /// The watches that fail, each with its error.
    pub troubles: Vec<String>,
    /// Whether the objects being served are the copy on disk.
    pub from_disk: bool,
}

impl Condition {
    /// Whether all that is still waited for has failed.
    pub(crate) fn is_hopeless(&self) -> bool {
        let has_failed =
            |name: &String| self.troubles.iter().any(|trouble| trouble.starts_with(name.as_str()));
        !self.waiting.is_empty() && self.waiting.iter().all(has_failed)
    }
}

/// A cluster's objects.
pub(crate) struct Cluster {
    client: Client,
    scope: Scope,
    index: Index,
    watches: SelectAll<watch::Stream>,
    states: Vec<State>,
    secrets: Secrets,
    /// The objects that cannot be decoded at present.
    undecodable: BTreeMap<(&'static str, NsName), Problem>,
    /// Whether an object changed that translation depends on.
    changed: bool,
    /// Whether something changed that translation does not depend on, such as a status.
    touched: bool,
}

/// The condition of one watch.
struct State {
    watch: Watch,
    /// Whether its first list is complete.
    listed: bool,
    /// The objects that the current list has brought so far; none while no list is under way.
    seen: Option<HashSet<NsName>>,
    trouble: Option<Trouble>,
}

/// The Secrets that are followed.
#[derive(Default)]
struct Secrets {
    references: References,
    /// Whether the set of Secrets that are named has changed, so that the watches have to be adapted.
    renamed: bool,
    /// The watches on Secrets, by namespace.
    namespaces: HashMap<String, (usize, AbortHandle)>,
    fetches: FuturesUnordered<BoxFuture<'static, (NsName, Fetched)>>,
    /// Secrets that are being fetched, each with whether the watch has reported it since.
    fetching: HashMap<NsName, bool>,
}

type Fetched = kube::Result<Option<Item<Secret>>>;

impl Cluster {
    /// Starts the watches.
    pub(crate) fn new(connection: &Connection, scope: Scope, options: &Options) -> Self {
        let client = connection.client.clone();
        let mut cluster = Self {
            client,
            scope,
            index: Index::default(),
            watches: SelectAll::new(),
            states: Vec::new(),
            secrets: Secrets::default(),
            undecodable: BTreeMap::new(),
            changed: false,
            touched: false,
        };
        let namespace = match &cluster.scope {
            Scope::Namespace(namespace) => Some(namespace.clone()),
            Scope::All | Scope::Selector(_) => None,
        };
        for watch in Watch::of_routing(namespace.as_deref()) {
            cluster.follow(watch);
        }
        if let Scope::Selector(labels) = &cluster.scope {
            let watch = Watch::namespaces(labels);
            cluster.index.namespaces = Some([].into());
            cluster.follow(watch);
        }
        cluster.take_references(options);
        let named = [&options.configmap, &options.tcp_services_configmap, &options.udp_services_configmap];
        for name in named.into_iter().flatten().collect::<HashSet<_>>() {
            cluster.follow(Watch::configmap(name));
        }
        cluster
    }

    /// The objects, once all first lists are complete.
    pub(crate) fn index(&self) -> Option<&Index> {
        self.waiting().next().is_none().then_some(&self.index)
    }

    /// Whether all objects are there, the Secrets included that were named after their namespace was listed.
    pub(crate) fn is_settled(&self) -> bool {
        self.index().is_some() && self.secrets.fetches.is_empty()
    }

    /// Whether an object changed, since the last call, that translation depends on.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Whether something else changed since the last call, such as a status.
    pub(crate) fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// Whether the right to read `IngressClass`es is missing: a controller that serves one namespace need not have it.
    pub(crate) fn lacks_classes(&self) -> bool {
        let mut states = self.states.iter();
        states.any(|state| state.watch.kind == IngressClass::KIND && state.is_forgone(&self.scope))
    }

    /// How it stands.
    pub(crate) fn condition(&self) -> Condition {
        let troubles = self.states.iter().filter_map(|state| {
            let is_told = state.watch.kind == Secret::KIND || !state.is_forgone(&self.scope);
            let trouble = state.trouble.as_ref().filter(|_| is_told)?;
            Some(format!("{}: {trouble}", state.watch.name))
        });
        Condition {
            waiting: self.waiting().cloned().collect(),
            troubles: troubles.collect(),
            from_disk: false,
        }
    }

    /// The problems of objects that cannot be decoded, and of Secrets that may not be read.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let unreadable = self.states.iter().filter(|state| state.watch.kind == Secret::KIND);
        let unreadable = unreadable.filter_map(|state| {
            let trouble = state.trouble.as_ref().filter(|trouble| trouble.is_forbidden)?;
            let message =
                format!("{} cannot be read, which Ingresses there name: {trouble}", state.watch.name);
            Some(Problem::new(Severity::Error, message).because(Reason::Missing))
        });
        self.undecodable.values().cloned().chain(unreadable)
    }

    /// Waits until something has happened, and handles all events that are there. It is cancel-safe.
    pub(crate) async fn changed(&mut self, options: &Options) {
        let Secrets { fetches, .. } = &mut self.secrets;
        tokio::select! {
            Some((id, happening)) = self.watches.next() => self.take(id, happening, options),
            Some((key, fetched)) = fetches.next(), if !fetches.is_empty() => {
                self.take_fetched(&key, fetched, options);
            }
        }
        for _ in 0..BATCH_MAX {
            let Some(Some((id, happening))) = self.watches.next().now_or_never() else { break };
            self.take(id, happening, options);
        }
        if self.are_routes_listed() && std::mem::take(&mut self.secrets.renamed) {
            self.follow_secrets();
        }
    }

    fn follow(&mut self, watch: Watch) -> AbortHandle {
        let (stream, handle) = watch.start(self.client.clone(), self.states.len());
        self.watches.push(stream);
        self.states.push(State { watch, listed: false, seen: None, trouble: None });
        handle
    }

    /// The watches whose first list has to be complete before anything is served.
    fn waiting(&self) -> impl Iterator<Item = &String> {
        let states = self.states.iter().filter(|state| !state.listed && !state.is_forgone(&self.scope));
        let not_followed =
            self.namespaces_of_secrets().filter(|name| !self.secrets.namespaces.contains_key(*name));
        states.map(|state| &state.watch.name).chain(not_followed)
    }

    fn take(&mut self, id: usize, happening: Happening, options: &Options) {
        let state = &mut self.states[id];
        if !matches!(happening, Happening::Failed(_)) && state.trouble.take().is_some() {
            tracing::info!("{} can be watched again", state.watch.name);
            self.changed |= state.watch.kind == Secret::KIND;
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
        if state.watch.kind != Secret::KIND && state.is_forgone_with(&trouble, &self.scope) {
            tracing::info!("{} may not be read: classes are told by name", state.watch.name);
        } else {
            tracing::warn!("cannot watch {}: {trouble}", state.watch.name);
        }
        state.trouble = Some(trouble);
        self.changed = true;
    }

    /// Handles the end of a list: the objects that it did not bring are gone.
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
        if watch.kind == Secret::KIND {
            let namespace = watch.namespace.unwrap_or_default();
            let named: Vec<_> = self.secrets.references.within(&namespace).collect();
            // The Secret was skipped when the list brought it, since no Ingress named it at that time.
            for key in named.into_iter().filter(|key| seen.contains(key)) {
                self.fetch(key);
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
            _ => index.namespaces.iter().flatten().map(|name| NsName::new("", name)).collect(),
        };
        keys.extend(
            self.undecodable.keys().filter(|(kind, _)| *kind == watch.kind).map(|(_, key)| key.clone()),
        );
        keys
    }

    fn apply(&mut self, kind: &'static str, key: NsName, thing: Thing, options: &Options) {
        if kind == Secret::KIND {
            if let Some(told) = self.secrets.fetching.get_mut(&key) {
                *told = true;
            }
            if !self.secrets.references.has(&key) {
                return;
            }
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
            Thing::Namespace => {
                let namespaces = self.index.namespaces.get_or_insert_default();
                if namespaces.insert(key.name) {
                    self.changed = true;
                    self.take_references(options);
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
        if let Some(told) = self.secrets.fetching.get_mut(key).filter(|_| kind == Secret::KIND) {
            *told = true;
        }
        self.changed |= self.undecodable.remove(&(kind, key.clone())).is_some();
        if kind == Namespace::KIND {
            let namespaces = self.index.namespaces.get_or_insert_default();
            self.changed |= namespaces.remove(&key.name);
        }
        self.changed |= self.index.remove(kind, key);
        match kind {
            Ingress::KIND => {
                self.secrets.references.forget(key);
                self.secrets.renamed = true;
            }
            IngressClass::KIND | ConfigMap::KIND | Namespace::KIND => self.take_references(options),
            _ => {}
        }
    }

    /// Updates the set of Secrets that are named after an object has changed.
    fn note_references(&mut self, object: &Object, options: &Options) {
        match object {
            Object::Ingress(ingress) if self.secrets.references.follow(ingress, &self.index, options) => {
                self.secrets.renamed = true;
                let named: Vec<_> = self.secrets.references.named_by(&ingress.key()).cloned().collect();
                for key in named {
                    self.fetch(key);
                }
            }
            Object::IngressClass(_) | Object::ConfigMap(_) => self.take_references(options),
            _ => {}
        }
    }

    /// The namespaces of the Secrets that are named, as far as they are in scope.
    fn namespaces_of_secrets(&self) -> impl Iterator<Item = &String> {
        self.secrets.references.namespaces().filter(|namespace| match &self.scope {
            Scope::Namespace(only) => *namespace == only,
            Scope::All | Scope::Selector(_) => true,
        })
    }

    /// Collects all references again. This is needed when an object changed that decides which Ingresses are ours, or which Secrets
    /// they may name.
    fn take_references(&mut self, options: &Options) {
        self.secrets.references = References::of(&self.index, options);
        self.secrets.renamed = true;
        let references = &self.secrets.references;
        let named: Vec<_> = references.namespaces().flat_map(|it| references.within(it)).collect();
        for key in named {
            self.fetch(key);
        }
    }

    /// Whether all lists are complete that decide which Secrets are named.
    fn are_routes_listed(&self) -> bool {
        let mut states = self.states.iter().filter(|state| state.watch.kind != Secret::KIND);
        states.all(|state| state.listed || state.is_forgone(&self.scope))
    }

    /// Watches the namespaces of the Secrets that are named and ends other watches; drops Secrets that are not named any more.
    fn follow_secrets(&mut self) {
        let named: HashSet<_> = self.namespaces_of_secrets().cloned().collect();
        let left: Vec<_> =
            self.secrets.namespaces.keys().filter(|name| !named.contains(*name)).cloned().collect();
        for namespace in left {
            if let Some((id, handle)) = self.secrets.namespaces.remove(&namespace) {
                handle.abort();
                // The place is not removed: a stream is known by the number of its place.
                let state = &mut self.states[id];
                (state.listed, state.seen, state.trouble) = (true, None, None);
            }
        }
        for namespace in named {
            if !self.secrets.namespaces.contains_key(&namespace) {
                let id = self.states.len();
                let handle = self.follow(Watch::secrets(&namespace));
                self.secrets.namespaces.insert(namespace, (id, handle));
            }
        }
        let references = &self.secrets.references;
        let unnamed: Vec<_> =
            self.index.secrets.iter().map(|it| it.key()).filter(|key| !references.has(key)).collect();
        for key in unnamed {
            self.index.remove(Secret::KIND, &key);
        }
    }

    /// Fetches a Secret that was not named before: the watch of its namespace may have skipped it.
    fn fetch(&mut self, key: NsName) {
        let is_listed =
            self.secrets.namespaces.get(&key.namespace).is_some_and(|(id, _)| self.states[*id].listed);
        if !is_listed || self.index.secrets.get(&key).is_some() || self.secrets.fetching.contains_key(&key) {
            return;
        }
        let api = Api::<Item<Secret>>::namespaced(self.client.clone(), &key.namespace);
        self.secrets.fetching.insert(key.clone(), false);
        self.secrets.fetches.push(
            async move {
                let fetched = api.get_opt(&key.name).await;
                (key, fetched)
            }
            .boxed(),
        );
    }

    fn take_fetched(&mut self, key: &NsName, fetched: Fetched, options: &Options) {
        let told = self.secrets.fetching.remove(key).unwrap_or_default();
        let is_wanted = !told && self.secrets.references.has(key);
        match fetched {
            Ok(Some(item)) if is_wanted => {
                self.put(Secret::KIND, key.clone(), item.thing(), options);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "cannot read Secret {key}"),
        }
    }
}

impl State {
    /// Whether this watch is not needed: `IngressClass`es are cluster-scoped, and a controller that serves one namespace may not be
    /// allowed to read them.
    fn is_forgone(&self, scope: &Scope) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| self.is_forgone_with(trouble, scope))
    }

    fn is_forgone_with(&self, trouble: &Trouble, scope: &Scope) -> bool {
        let is_out_of_scope = self.watch.kind == IngressClass::KIND && matches!(scope, Scope::Namespace(_));
        trouble.is_forbidden && (is_out_of_scope || self.watch.kind == Secret::KIND)
    }
}
