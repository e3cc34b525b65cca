//! The name that a client has been given for its endpoint, by a cookie or a header.

use std::borrow::Cow;

use balance::Sticky;
use model::Affinity;

use crate::request::{Request, lookup};
use crate::upstream::{Cluster, Keyed};

/// The value that the client sends to name its endpoint, unless it has expired.
pub(crate) fn session<'s>(request: &'s Request<'_>, sticky: &Sticky) -> Option<Cow<'s, [u8]>> {
    let Affinity { cookie, header, .. } = &*sticky.affinity;
    let value = match header {
        Some(name) => lookup::header(request.head, request.parsed, name.as_bytes()),
        None => lookup::cookie(request.head, request.parsed, cookie.name.as_bytes()).map(Cow::Borrowed),
    };
    value.filter(|value| sticky.is_in_time(value, request.worker.clock.unix()))
}

/// Whether the client's cookie was given out for a cluster.
pub(crate) fn is_kept_at(request: &Request<'_>, cluster: &Cluster) -> bool {
    let Some(Keyed::Cookie(sticky)) = cluster.keyed() else { return false };
    session(request, sticky).is_some_and(|value| sticky.is_of_cluster(&value))
}
