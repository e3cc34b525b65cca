use std::sync::Arc;

use serde::Serialize;

use crate::{Alias, HostName, HostTls, Route};

/// A host name with the routes that are served there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// The name or pattern of names that leads here.
    pub name: HostName,
    /// Further names that lead here, unless another host has them as its name.
    pub aliases: Vec<Alias>,
    /// TLS settings of the host. The same allocation for as long as they stay the same.
    pub tls: Arc<HostTls>,
    /// Routes in the order of their age; of two with an equal [`PathMatch`](crate::PathMatch) and equal
    /// [`Precedence`](crate::Precedence) the first is tried first.
    pub routes: Vec<Arc<Route>>,
    /// A wider host name at the same listeners, which this name belongs to, whose routes are tried where none
    /// of this host matches (Gateway API, `HTTPRouteSpec.hostnames`: of routes whose names overlap
    /// "precedence must be given to rules from the `HTTPRoute` with the largest number of characters in a
    /// matching hostname"). None where there is no such host.
    pub wider: Option<Box<HostName>>,
}
