use std::sync::Arc;

use crate::{Alias, HostName, HostTls, Route};

/// A name that clients ask for, with what is served there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Which requests come here.
    pub name: HostName,
    /// Which others, as far as no host has that name.
    pub aliases: Vec<Alias>,
    /// How it is served over TLS. The same allocation for as long as it stays the same.
    pub tls: Arc<HostTls>,
    /// In the order of their age; of two with an equal [`PathMatch`](crate::PathMatch) and equal
    /// [`Precedence`](crate::Precedence) the first is asked first.
    pub routes: Vec<Arc<Route>>,
    /// The name of a host at the same listeners whose routes are asked where none of its own takes a request: one for more names, to
    /// which this one belongs (Gateway API, `HTTPRouteSpec.hostnames`: of routes whose names overlap "precedence must be given to rules
    /// from the `HTTPRoute` with the largest number of characters in a matching hostname"). None where it stands alone.
    pub wider: Option<HostName>,
}
