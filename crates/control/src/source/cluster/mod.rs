//! The objects of a cluster, followed by watches.
//!
//! Each kind is listed once and followed from there; a watch that breaks is taken up again where it was, and the objects stay
//! meanwhile. One object that cannot be read breaks no watch: its last good state stays in force, and a problem tells of it.
//! Of Secrets only those that our Ingresses name are kept, and only namespaces that hold such are watched.
//!
//! Never in here: what objects mean.

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

/// Most of what has happened that is taken in at once, before anybody is told.
const BATCH_MAX: usize = 4096;

/// Which objects of a cluster count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// Those of one namespace. No rights are needed for others.
    Namespace(String),
    /// Ingresses of the namespaces with these labels.
    Selector(String),
}

/// What is watched, and where what was seen is kept.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Which objects count.
    pub scope: Scope,
    /// Folder for a copy of the objects, which is served when this process starts while the API server is away.
    pub state_dir: Option<PathBuf>,
}

/// How it stands with the cluster's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// What has not been listed yet.
    pub waiting: Vec<String>,
    /// What is in trouble, and why.
    pub troubles: Vec<String>,
    /// Whether what is served was kept on disk by a process before this one.
    pub from_disk: bool,
}

/// A cluster's objects.
pub(crate) struct Cluster {
    client: Client,
    scope: Scope,
    index: Index,
    watches: SelectAll<watch::Stream>,
    states: Vec<State>,
    secrets: Secrets,
    /// What cannot be read at present.
    undecodable: BTreeMap<(&'static str, NsName), Problem>,
    /// Whether something is to be translated anew.
    changed: bool,
    /// Whether only an answer changed, such as a status.
    touched: bool,
}

/// How it stands with one watch.
struct State {
    watch: Watch,
    /// Whether all of it has been listed once.
    listed: bool,
    /// What the list under way has brought so far.
    seen: Option<HashSet<NsName>>,
    trouble: Option<Trouble>,
}

/// The Secrets that are followed.
#[derive(Default)]
struct Secrets {
    references: References,
    /// Whether these have changed, and what is followed is to.
    renamed: bool,
    /// The watches of namespaces.
    namespaces: HashMap<String, (usize, AbortHandle)>,
    fetches: FuturesUnordered<BoxFuture<'static, (NsName, Fetched)>>,
    /// What is being fetched, and whether the watch has told of it since.
    fetching: HashMap<NsName, bool>,
}

type Fetched = kube::Result<Option<Item<Secret>>>;

impl Cluster {
    /// Begins to watch.
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

    /// The objects, once all have been listed.
    pub(crate) fn index(&self) -> Option<&Index> {
        self.waiting().next().is_none().then_some(&self.index)
    }

    /// Whether something changed since this was last asked that is to be translated.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The same for what only has to be seen some time, such as a status.
    pub(crate) fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// Whether classes may not be looked at: who may read one namespace only need not be given them.
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

    /// Objects that cannot be read, and Secrets that must not be.
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

    /// Waits until something has happened, and takes in what there is of it. May be dropped at any time.
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

    /// What is waited for before anything is served.
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

    /// A list has ended: what it did not bring is gone.
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
            // One that was passed over, since nobody had named it when it came by.
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

    /// Keeps up with which Secrets are named.
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

    /// The namespaces that hold Secrets which are named, as far as they are in scope.
    fn namespaces_of_secrets(&self) -> impl Iterator<Item = &String> {
        self.secrets.references.namespaces().filter(|namespace| match &self.scope {
            Scope::Namespace(only) => *namespace == only,
            Scope::All | Scope::Selector(_) => true,
        })
    }

    /// Takes all references anew: what changed decides which Ingresses are ours, or what these may name.
    fn take_references(&mut self, options: &Options) {
        self.secrets.references = References::of(&self.index, options);
        self.secrets.renamed = true;
        let references = &self.secrets.references;
        let named: Vec<_> = references.namespaces().flat_map(|it| references.within(it)).collect();
        for key in named {
            self.fetch(key);
        }
    }

    /// Whether everything has been listed that decides which Secrets are named.
    fn are_routes_listed(&self) -> bool {
        let mut states = self.states.iter().filter(|state| state.watch.kind != Secret::KIND);
        states.all(|state| state.listed || state.is_forgone(&self.scope))
    }

    /// Watches the namespaces that hold Secrets which are named, and no others; keeps these Secrets, and no others.
    fn follow_secrets(&mut self) {
        let named: HashSet<_> = self.namespaces_of_secrets().cloned().collect();
        let left: Vec<_> =
            self.secrets.namespaces.keys().filter(|name| !named.contains(*name)).cloned().collect();
        for namespace in left {
            if let Some((id, handle)) = self.secrets.namespaces.remove(&namespace) {
                handle.abort();
                // Its place stays: places are what streams are known by.
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

    /// Gets a Secret that is named from now on, where the watch of its namespace has passed it over before.
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
    /// Whether it is done without: who may read one namespace only cannot read classes, which are in none.
    fn is_forgone(&self, scope: &Scope) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| self.is_forgone_with(trouble, scope))
    }

    fn is_forgone_with(&self, trouble: &Trouble, scope: &Scope) -> bool {
        let is_out_of_scope = self.watch.kind == IngressClass::KIND && matches!(scope, Scope::Namespace(_));
        trouble.is_forbidden && (is_out_of_scope || self.watch.kind == Secret::KIND)
    }
}
