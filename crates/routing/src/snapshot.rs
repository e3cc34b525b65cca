use std::sync::Arc;

use model::{Cluster, ClusterId, Clusters, Conditions, HostName, Route, Settings, Stream};

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
    pub(crate) hosts: Hosts,
    /// Ports whose bytes are passed on as they are.
    pub streams: Vec<Stream>,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug)]
pub enum Resolution<'a> {
    /// This route of this host takes it.
    Route(&'a HostTable, &'a Arc<Route>),
    /// The path is that of this route but for a final slash: redirect there with 301 (nginx, `auto_redirect`).
    AddSlash(&'a Arc<Route>),
    /// Nothing is served for the host.
    UnknownHost,
    /// The host is known, and none of its routes takes the request.
    UnknownPath,
}

impl Snapshot {
    /// The route for a request.
    ///
    /// `host` is what the client sent in `Host` or `:authority`: in any letter case, with or without a port. `path` is
    /// normalised: percent-decoded, `//` merged, `.` and `..` resolved. `accepts` says whether the request complies with
    /// the conditions of a route; it is asked of routes that have any, in the order of their precedence.
    pub fn resolve(&self, host: &[u8], path: &[u8], accepts: impl Fn(&Conditions) -> bool) -> Resolution<'_> {
        let Some(table) = self.hosts.find(host) else { return Resolution::UnknownHost };
        let complies = |route: usize| table.routes()[route].conditions.as_deref().is_none_or(&accepts);
        match table.paths.find(path, complies) {
            Some(Found::Route(route)) => Resolution::Route(table, &table.routes()[route]),
            Some(Found::AddSlash(route)) => Resolution::AddSlash(&table.routes()[route]),
            None => Resolution::UnknownPath,
        }
    }

    /// The table of the host that a client names, be it in `Host`, `:authority` or the handshake's server name.
    pub fn find_host(&self, host: &[u8]) -> Option<&Arc<HostTable>> {
        self.hosts.find(host)
    }

    /// The hosts in the order of the model.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = &Arc<HostTable>> {
        self.hosts.iter()
    }

    /// The table of a configured name.
    pub fn host(&self, name: &HostName) -> Option<&Arc<HostTable>> {
        self.hosts.get(name)
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
