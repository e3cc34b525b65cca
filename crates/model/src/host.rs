use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::{Alias, HostName, HostTls, Rare, Route};

/// A host name with the routes that are served there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// The name or pattern of names that leads here.
    pub name: HostName,
    /// Further names that lead here, unless another host has them as its name.
    pub aliases: Rare<Alias>,
    /// TLS settings of the host. The same allocation for as long as they stay the same.
    pub tls: Arc<HostTls>,
    /// Routes in the order of their age; of two with an equal [`PathMatch`](crate::PathMatch) and equal
    /// [`Precedence`](crate::Precedence) the first is tried first. Those of wider names stand at the end.
    pub routes: Vec<Arc<Route>>,
    /// The routes of wider names, which this name belongs to: they are tried where no route for the name
    /// itself matches. None for most hosts.
    pub wider: Option<Box<Wider>>,
}

/// The routes of wider names than that of a host.
///
/// Gateway API, `HTTPRouteSpec.hostnames`: of routes whose names overlap "precedence must be given to rules
/// from the `HTTPRoute` with the largest number of characters in a matching hostname", and "when multiple
/// `HTTPRoutes` attach to the same Listener and yield identical Listener/Route intersected hostnames,
/// implementations SHOULD evaluate precedence using the original hostnames configured on the Route".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wider {
    /// The places in the host's own routes at which those of each wider name begin, in ascending order. A
    /// route for `*.a.test` is one of the host `b.a.test` where its listener has that name.
    pub starts: Vec<usize>,
    /// The host at the same listeners whose routes are tried after all of this one.
    pub host: Option<HostName>,
}

impl Host {
    /// The places of its routes, in groups by the name that the routes are for: first those for the name of
    /// the host, then those for wider names.
    pub fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = self.wider.as_deref().map_or(&[][..], |wider| &wider.starts);
        let ends = starts.iter().copied().chain([self.routes.len()]);
        [0].into_iter().chain(starts.iter().copied()).zip(ends).map(|(start, end)| start..end)
    }
}

impl Wider {
    /// The wider names of a host; none where there are none.
    pub fn boxed(starts: Vec<usize>, host: Option<HostName>) -> Option<Box<Self>> {
        (!starts.is_empty() || host.is_some()).then(|| Box::new(Self { starts, host }))
    }
}
