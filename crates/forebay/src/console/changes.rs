//! `/console/changes`: the changes by the latest configurations, found by comparing each with the one before.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use control::Translation;
use model::{Cluster, Host, HostList, Model};
use serde::Serialize;

use super::seen::lock;

/// Changes that are kept; older ones are forgotten.
const CHANGES_MAX: usize = 200;

/// Names that are kept of each kind in a change, and how long each may be. More are counted.
const NAMES_MAX: usize = 20;

/// The latest changes.
#[derive(Default)]
pub(super) struct Changes(Mutex<VecDeque<Change>>);

/// The changes that one configuration made.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// Number of the configuration.
    pub(crate) generation: u64,
    /// When it was handed to the workers, in seconds since 1970.
    pub(crate) at_seconds: f64,
    /// It is the first one: all that there is was added.
    pub(crate) is_first: bool,
    pub(crate) hosts: Differences,
    /// Clusters; a changed one has other endpoints or other settings.
    pub(crate) clusters: Differences,
    /// Endpoints of all clusters.
    pub(crate) endpoints: Differences,
    /// TCP and UDP services, by transport and port.
    pub(crate) services: Differences,
    /// The settings of the proxy as a whole differ.
    pub(crate) has_other_settings: bool,
    /// Problems that there were not before, by object and message.
    pub(crate) problems: Names,
    /// How many problems are solved.
    pub(crate) problems_solved: usize,
}

/// Added, removed and changed objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Differences {
    pub(crate) added: Names,
    pub(crate) removed: Names,
    pub(crate) changed: Names,
}

/// Some names, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Names {
    pub(crate) count: usize,
    /// The first of them.
    pub(crate) names: Vec<String>,
}

impl Changes {
    /// Notes that a translation has become the configuration of this number, unless the number was noted
    /// before: then it changed nothing that is served. The first one is compared with an empty one.
    pub(super) fn note(&self, generation: u64, before: &Translation, now: &Translation) {
        if lock(&self.0).front().is_some_and(|last| last.generation == generation) {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let change = Change::between(before, now);
        let mut changes = lock(&self.0);
        let change =
            Change { generation, at_seconds: at.as_secs_f64(), is_first: changes.is_empty(), ..change };
        changes.push_front(change);
        changes.truncate(CHANGES_MAX);
    }

    /// The latest changes, the newest first.
    pub(super) fn all(&self) -> Vec<Change> {
        lock(&self.0).iter().cloned().collect()
    }
}

impl Change {
    /// The changes from one translation to another one.
    pub(crate) fn between(before: &Translation, now: &Translation) -> Self {
        let (clusters, endpoints) = clusters(&before.model, &now.model);
        let mut problems = Names::default();
        now.new_problems(before).for_each(|problem| problems.add(|| problem.to_string()));
        Self {
            hosts: hosts(&before.model, &now.model),
            clusters,
            endpoints,
            services: services(&before.model, &now.model),
            has_other_settings: before.model.settings != now.model.settings,
            problems,
            problems_solved: before.new_problems(now).count(),
            ..Self::default()
        }
    }
}

impl Names {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.names.len() < NAMES_MAX {
            self.names.push(name());
        }
    }
}

/// Hosts that did not change are in parts of the lists that both models share, mostly: the others are
/// compared.
fn hosts(before: &Model, now: &Model) -> Differences {
    let (before, now) = (unlike(before, now), unlike(now, before));
    let addresses = |hosts: &[&Arc<Host>]| hosts.iter().map(|host| Arc::as_ptr(host)).collect();
    let (old, new): (HashSet<_>, HashSet<_>) = (addresses(&before), addresses(&now));
    let differing = old.symmetric_difference(&new).copied().collect::<HashSet<_>>();
    let all = before.iter().chain(&now);
    let names: HashSet<_> =
        all.filter(|host| differing.contains(&Arc::as_ptr(host))).map(|host| &host.name).collect();
    // A name occurs once for each listener: one of several is enough to say that it changed.
    let by_name = |hosts: Vec<&Arc<Host>>| -> HashMap<String, Vec<Arc<Host>>> {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        for host in hosts.into_iter().filter(|host| names.contains(&host.name)) {
            by_name.entry(host.name.to_string()).or_default().push(Arc::clone(host));
        }
        by_name
    };
    differences(&by_name(before), &by_name(now), PartialEq::eq)
}

/// The hosts of a model but for the parts of lists that another one has too.
fn unlike<'m>(model: &'m Model, other: &Model) -> Vec<&'m Arc<Host>> {
    let others = lists(other);
    let of_list = |(at, list): (usize, &'m HostList)| -> Vec<&'m Arc<Host>> {
        match others.get(at) {
            Some(other) => list.unlike(other).collect(),
            None => list.iter().collect(),
        }
    };
    lists(model).into_iter().enumerate().flat_map(of_list).collect()
}

/// The lists of hosts, those that listeners share once.
fn lists(model: &Model) -> Vec<&HostList> {
    let mut lists: Vec<&HostList> = Vec::new();
    for list in model.listeners.iter().filter_map(model::Listener::hosts) {
        if !lists.iter().any(|known| Arc::ptr_eq(known, list)) {
            lists.push(list);
        }
    }
    lists
}

fn clusters(before: &Model, now: &Model) -> (Differences, Differences) {
    // As with hosts, unchanged ones are the same allocation.
    let by_name = |model: &Model, other: &Model| -> HashMap<String, Arc<Cluster>> {
        let own = model.clusters.unlike(&other.clusters);
        own.map(|cluster| (cluster.name.clone(), Arc::clone(cluster))).collect()
    };
    let differs =
        |cluster: &Cluster, other: Option<&Arc<Cluster>>| other.is_none_or(|other| **other != *cluster);
    let (before, now) = (by_name(before, now), by_name(now, before));
    let endpoints = |of: &HashMap<String, Arc<Cluster>>, others: &HashMap<String, Arc<Cluster>>| {
        let changed = of.iter().filter(|(name, cluster)| differs(cluster, others.get(*name)));
        let endpoints = changed.flat_map(|(name, cluster)| {
            cluster.endpoints.iter().map(move |one| (format!("{} ({name})", one.address), *one))
        });
        endpoints.collect::<HashMap<_, _>>()
    };
    let of_endpoints = differences(&endpoints(&before, &now), &endpoints(&now, &before), PartialEq::eq);
    (differences(&before, &now, PartialEq::eq), of_endpoints)
}

fn services(before: &Model, now: &Model) -> Differences {
    let by_name = |model: &Model| -> HashMap<String, model::Stream> {
        let streams = model.listeners.iter().filter_map(|listener| {
            let (id, stream) = (listener.id(), listener.stream()?);
            Some((format!("{} {}", id.kind.as_str(), id.port), stream.clone()))
        });
        streams.collect()
    };
    differences(&by_name(before), &by_name(now), PartialEq::eq)
}

fn differences<T>(
    before: &HashMap<String, T>,
    now: &HashMap<String, T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Differences {
    let mut differences = Differences::default();
    let mut names: Vec<&String> = now.keys().collect();
    names.sort_unstable();
    for name in names {
        match before.get(name) {
            None => differences.added.add(|| name.clone()),
            Some(old) if !is_same(old, &now[name]) => differences.changed.add(|| name.clone()),
            Some(_) => {}
        }
    }
    let mut gone: Vec<&String> = before.keys().filter(|name| !now.contains_key(*name)).collect();
    gone.sort_unstable();
    for name in gone {
        differences.removed.add(|| name.clone());
    }
    differences
}
