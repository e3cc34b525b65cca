//! A configuration that is ready to serve, and the way from a request to its route.
//!
//! Must not be in here: the tables of hosts and paths, and how they are built.

use std::sync::Arc;

use model::{Cluster, ClusterId, Clusters, Conditions, ListenerId, Route, Settings, StepBudget, Stream};

use crate::host::Hosts;
use crate::needs::Needs;
use crate::path::Found;
use crate::table::HostTable;

/// Hosts that are asked after the one that a request is for. A name of 253 bytes has no more labels than
/// that.
const HOSTS_ASKED_MAX: usize = 128;

/// A configuration, ready to serve. Immutable; shared behind one `Arc`, which each request holds from start
/// to end.
#[derive(Debug)]
pub struct Snapshot {
    /// Counts the configurations of this process.
    pub generation: u64,
    /// The settings of the proxy as a whole.
    pub settings: Arc<Settings>,
    /// The features that the settings ask for on all routes.
    pub(crate) needs: Needs,
    pub(crate) clusters: Clusters,
    pub(crate) listeners: Vec<Listener>,
}

/// A port that clients connect to, ready to serve.
#[derive(Debug)]
pub struct Listener {
    /// The name that stays the same from one Snapshot to the next.
    pub id: ListenerId,
    pub(crate) content: Content,
}

/// The content that clients of a listener get.
#[derive(Debug)]
pub(crate) enum Content {
    /// Listeners with the same hosts share one table of them.
    Hosts(Arc<Hosts>),
    Stream(Stream),
}

/// The way in which a request is to be answered.
#[derive(Clone, Copy, Debug)]
pub enum Resolution<'a> {
    /// This route of this host takes it. The features are those of the route and of the settings.
    Route(&'a HostTable, &'a Arc<Route>, Needs),
    /// The path is that of this route of this host but for a final slash: redirect there with 301 (nginx,
    /// `auto_redirect`).
    AddSlash(&'a HostTable, &'a Arc<Route>),
    /// Nothing is served for the host.
    UnknownHost,
    /// An expression of the host takes too many steps to find out whether its route takes the path.
    Undecided(&'a HostTable),
    /// This host is known, and neither its routes nor those of wider ones take the request.
    UnknownPath(&'a HostTable),
}

impl Snapshot {
    /// The route for a request that came in at a listener. A listener that is not part of this Snapshot
    /// knows no host.
    ///
    /// `host` is what the client sent in `Host` or `:authority`: in any letter case, with or without a port.
    /// `path` is normalised: percent-decoded, `//` merged, `.` and `..` resolved. `accepts` says whether the
    /// request complies with the conditions of a route; it is asked of routes that have any, in the order of
    /// their precedence.
    /// `budget` is the request's.
    pub fn resolve(
        &self,
        listener: ListenerId,
        host: &[u8],
        path: &[u8],
        budget: &StepBudget,
        accepts: impl Fn(&Conditions) -> bool,
    ) -> Resolution<'_> {
        let Some(hosts) = self.hosts_of(listener) else { return Resolution::UnknownHost };
        let Some(table) = hosts.find(host) else { return Resolution::UnknownHost };
        let complies = |route: usize| table.routes()[route].conditions.as_deref().is_none_or(&accepts);
        match table.find(path, budget, complies) {
            Some(Found::Route(route)) => {
                Resolution::Route(table, &table.routes()[route], table.needs(route) | self.needs)
            }
            Some(Found::AddSlash(route)) => Resolution::AddSlash(table, &table.routes()[route]),
            Some(Found::Undecided) => Resolution::Undecided(table),
            None => self.wider(hosts, table, path, budget, accepts),
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

    /// Where a listener passes on what it gets as it is; none if there is no such listener, or if it does
    /// not.
    pub fn stream_of(&self, listener: ListenerId) -> Option<&Stream> {
        self.find(listener)?.stream()
    }

    /// There are few listeners as a rule, and those of HTTP come first: to look at one after the other is
    /// faster than to hash.
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

    /// The hosts of all listeners with TLS settings, with canaries that have steps, or with aliases: what
    /// concerns more than their own requests is found there without a look at all hosts.
    pub fn special_hosts(&self) -> impl Iterator<Item = &Arc<HostTable>> {
        let (all, is_first) = (self.listeners.iter().enumerate(), |at| self.first_with_hosts_of(at) == at);
        all.filter(move |(at, _)| is_first(*at))
            .filter_map(|(_, one)| one.hosts())
            .flat_map(|hosts| hosts.special())
    }

    /// The place of the first listener that has the hosts of the one at this place.
    pub(crate) fn first_with_hosts_of(&self, at: usize) -> usize {
        let Some(hosts) = self.listeners[at].hosts() else { return at };
        let has_them = |one: &Listener| one.hosts().is_some_and(|other| Arc::ptr_eq(other, hosts));
        self.listeners[..at].iter().position(has_them).unwrap_or(at)
    }

    /// The cluster that a route of this Snapshot refers to. A cluster keeps its id from one Snapshot to the
    /// next; the id of one that is gone may be given to another, so state that is kept by id has to look at
    /// the cluster's name too.
    ///
    /// # Panics
    ///
    /// When the id is not from a route of this Snapshot.
    pub fn cluster(&self, id: ClusterId) -> &Arc<Cluster> {
        self.clusters.get(id)
    }

    /// All clusters by id.
    pub fn clusters_by_id(&self) -> &Clusters {
        &self.clusters
    }

    /// The clusters by ascending id. There may be gaps between the ids.
    pub fn clusters(&self) -> impl Iterator<Item = (ClusterId, &Arc<Cluster>)> {
        self.clusters.iter()
    }

    /// The route for a wider name that takes a request which no route for the host's own name takes. The host
    /// stays the one that was asked for.
    #[cold]
    fn wider<'a>(
        &self,
        hosts: &'a Hosts,
        table: &'a HostTable,
        path: &[u8],
        budget: &StepBudget,
        accepts: impl Fn(&Conditions) -> bool,
    ) -> Resolution<'a> {
        let next = |narrower: &&'a HostTable| Some(&**hosts.get(narrower.wider()?)?);
        for (at, one) in std::iter::successors(Some(table), next).take(HOSTS_ASKED_MAX).enumerate() {
            let complies = |route: usize| one.routes()[route].conditions.as_deref().is_none_or(&accepts);
            let own = if at == 0 { None } else { one.find(path, budget, complies) };
            match own.or_else(|| one.find_wider(path, budget, complies)) {
                Some(Found::Route(route)) => {
                    let needs = one.needs(route) | self.needs;
                    return Resolution::Route(table, &one.routes()[route], needs);
                }
                Some(Found::AddSlash(route)) => return Resolution::AddSlash(table, &one.routes()[route]),
                Some(Found::Undecided) => return Resolution::Undecided(table),
                None => {}
            }
        }
        Resolution::UnknownPath(table)
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
