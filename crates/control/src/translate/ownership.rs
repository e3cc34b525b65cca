//! Ownership of a host that objects of several kinds declare: the oldest object and its namespace own it.
//! This module decides what the other objects may add.
//!
//! Never in here: the construction of hosts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::template::Template;
use model::{Access, HostName, HostScript, Networks, PathKind, RequestFilter, RequestFilters, Route, Script};

use super::spelling;
use crate::names::ObjectRef;

/// The oldest object of a kind with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The digits of its creation time; the greatest number for an object without one, such as an object from
    /// a file.
    pub(super) born: u64,
    pub(super) object: ObjectRef,
}

impl Owner {
    /// Whether the object is older than one of another namespace.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        self.born < other.born && self.object.namespace != other.object.namespace
    }
}

/// The part of a host that Ingresses declare.
#[derive(Clone)]
pub(super) struct OfIngresses {
    pub(super) owner: Owner,
    /// Settings of all routes of the host, if any exist.
    pub(super) terms: Option<Arc<Terms>>,
    /// The name is an alias of another host (`server-alias`).
    pub(super) is_alias: bool,
}

/// The hosts of Ingresses, and their aliases.
pub(super) type HostsOfIngresses = HashMap<HostName, OfIngresses>;

/// Settings of all routes of a host, whichever object declares them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Terms {
    /// The clients that may use the host at all.
    pub(super) access: Access,
    pub(super) script: Option<Arc<HostScript>>,
    /// The target of the redirect for requests of `/`.
    pub(super) app_root: Option<Template>,
}

impl Terms {
    /// The route with the host's settings applied.
    pub(super) fn hold_for(&self, route: &Arc<Route>) -> Arc<Route> {
        let mut route = Route::clone(route);
        let Access { forbidden, client_certificate, unavailable, networks, .. } = &self.access;
        if *self != Self::default() {
            let access = route.access.get_or_insert_default();
            access.forbidden = forbidden.clone().or_else(|| access.forbidden.take());
            access.client_certificate =
                client_certificate.clone().or_else(|| access.client_certificate.take());
            access.unavailable = unavailable.clone().or_else(|| access.unavailable.take());
            access.networks = Networks::within(access.networks.take(), networks.as_ref());
        }
        if let Some(script) = &self.script {
            let own = route.script.get_or_insert_with(|| Box::new(Script::default()));
            own.host = Some(Arc::clone(script));
        }
        if let Some(path) = &self.app_root {
            let own = route.request_filters.as_slice().iter();
            let own = own.filter(|filter| !matches!(filter, RequestFilter::AppRoot(_))).cloned();
            let filters = own.chain([RequestFilter::AppRoot(path.clone())]).collect();
            route.request_filters = RequestFilters::new(filters).expect("each is of another kind");
        }
        Arc::new(route)
    }
}

/// The paths that the owner of a host has, by their meaning.
pub(super) struct OwnPaths(HashSet<String>);

impl OwnPaths {
    /// The paths of these routes. `has_wider`: other requests go to a more general host, so that "/" belongs
    /// to the owner too.
    pub(super) fn of<'r>(routes: impl Iterator<Item = &'r Arc<Route>>, has_wider: bool) -> Self {
        let root = has_wider.then(|| "/".to_owned());
        Self(routes.map(|route| spelling::meaning(route.path.path())).chain(root).collect())
    }

    /// The reason for leaving out a guest's route; none if the owner has no path of the same meaning.
    pub(super) fn refusal(&self, route: &Route) -> Option<&'static str> {
        if route.path.kind() == PathKind::Regex {
            return Some("a regular expression could take its paths");
        }
        if route.conditions.is_some() {
            return Some("conditions beside the path could take a part of its requests");
        }
        let is_held = self.0.contains(&spelling::meaning(route.path.path()));
        is_held.then_some("the path is the owner's, in whichever spelling")
    }
}
