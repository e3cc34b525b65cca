use std::sync::Arc;

use model::{Cluster, ClusterId, Clusters, Conditions, ListenerId, Route, Settings, Stream};

use crate::host::{HostTable, Hosts};
use crate::path::Found;

/// A configuration, ready to serve. Immutable; shared behind one `Arc`, which each request holds from start to end.
#[derive(Debug)]
pub struct Snapshot {
    /// Counts the configurations of this process.
    pub generation: u64,
    /// What holds for the proxy as a whole.
    pub settings: Arc<Settings>,
    pub(crate) clusters: Clusters,
    pub(crate) listeners: Vec<Listener>,
}

/// A port that clients connect to, ready to serve.
#[derive(Debug)]
pub struct Listener {
    /// What it is known by from one Snapshot to the next.
    pub id: ListenerId,
    pub(crate) content: Content,
}

/// What clients of a listener get.
#[derive(Debug)]
pub(crate) enum Content {
    /// Listeners with the same hosts share one table of them.
    Hosts(Arc<Hosts>),
    Stream(Stream),
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug)]
pub enum Resolution<'a> {
    /// This route of this host takes it.
    Route(&'a HostTable, &'a Arc<Route>),
    /// The path is that of this route of this host but for a final slash: redirect there with 301 (nginx, `auto_redirect`).
    AddSlash(&'a HostTable, &'a Arc<Route>),
    /// Nothing is served for the host.
    UnknownHost,
    /// The host is known, and none of its routes takes the request.
    UnknownPath,
}

impl Snapshot {
    /// The route for a request that came in at a listener. A listener that is not part of this Snapshot knows no host.
    ///
    /// `host` is what the client sent in `Host` or `:authority`: in any letter case, with or without a port. `path` is
    /// normalised: percent-decoded, `//` merged, `.` and `..` resolved. `accepts` says whether the request complies with
    /// the conditions of a route; it is asked of routes that have any, in the order of their precedence.
    pub fn resolve(
        &self,
        listener: ListenerId,
        host: &[u8],
        path: &[u8],
        accepts: impl Fn(&Conditions) -> bool,
    ) -> Resolution<'_> {
        let table = self.hosts_of(listener).and_then(|hosts| hosts.find(host));
        let Some(table) = table else { return Resolution::UnknownHost };
        let complies = |route: usize| table.routes()[route].conditions.as_deref().is_none_or(&accepts);
        match table.find(path, complies) {
            Some(Found::Route(route)) => Resolution::Route(table, &table.routes()[route]),
            Some(Found::AddSlash(route)) => Resolution::AddSlash(table, &table.routes()[route]),
            None => Resolution::UnknownPath,
        }
    }

    /// The listeners in the order of the model.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// The hosts of a listener; none if there is no such listener, or if it knows no hosts.
    pub fn hosts_of(&self, listener: ListenerId) -> Option<&Arc<Hosts>> {
        self.find(listener)?.hosts()
    }

    /// Where a listener passes on what it gets as it is; none if there is no such listener, or if it does not.
    pub fn stream_of(&self, listener: ListenerId) -> Option<&Stream> {
        self.find(listener)?.stream()
    }

    /// There are few listeners as a rule, and those of HTTP come first: to look at one after the other is faster than to hash.
    fn find(&self, listener: ListenerId) -> Option<&Listener> {
        self.listeners.iter().find(|one| one.id == listener)
    }

    /// The hosts of all listeners in the order of the model, those that several listeners share once.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<HostTable>> {
        let (all, is_first) = (self.listeners.iter().enumerate(), |at| self.first_with_hosts_of(at) == at);
        all.filter(move |(at, _)| is_first(*at))
            .filter_map(|(_, one)| one.hosts())
            .flat_map(|hosts| hosts.iter())
    }

    /// The place of the first listener that has the hosts of the one at this place.
    pub(crate) fn first_with_hosts_of(&self, at: usize) -> usize {
        let Some(hosts) = self.listeners[at].hosts() else { return at };
        let has_them = |one: &Listener| one.hosts().is_some_and(|other| Arc::ptr_eq(other, hosts));
        self.listeners[..at].iter().position(has_them).unwrap_or(at)
    }

    /// The cluster that a route of this Snapshot refers to. A cluster keeps its id from one Snapshot to the next; the id of
    /// one that is gone may be given to another, so state that is kept by id has to look at the cluster's name too.
    ///
    /// # Panics
    ///
    /// When the id is not from a route of this Snapshot.
    pub fn cluster(&self, id: ClusterId) -> &Arc<Cluster> {
        self.clusters.get(id)
    }

    /// The clusters by ascending id. There may be gaps between the ids.
    pub fn clusters(&self) -> impl Iterator<Item = (ClusterId, &Arc<Cluster>)> {
        self.clusters.iter()
    }
}

impl Listener {
    /// Its hosts, where HTTP is spoken.
    pub fn hosts(&self) -> Option<&Arc<Hosts>> {
        match &self.content {
            Content::Hosts(hosts) => Some(hosts),
            Content::Stream(_) => None,
        }
    }

    /// Where what comes is passed on to as it is, where that is so.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.content {
            Content::Hosts(_) => None,
            Content::Stream(stream) => Some(stream),
        }
    }
}
