//! Requests of clients whose behaviour is far off the others'. Entered only while there is such a client.

use model::{Conditions, HostName};
use routing::Resolution;

use crate::admit::access;
use crate::request::Request;
use crate::request::stop::Stop;
use crate::route::conditions;
use crate::route::filters::FilterResult;
use crate::route::{HEALTH_PATH, Routed};

/// Has the request wait, or refuses it, which is recorded as its route's. The route is looked up for this
/// alone: a request that goes on is routed later, as all are. None where it goes on.
pub(super) async fn check_behaviour<'a>(request: &'a Request<'a>) -> Option<(Routed<'a>, Stop)> {
    let path = request.client_path();
    let accepts = |conditions: &Conditions| conditions::hold(conditions, request.head, request.parsed);
    let snapshot = &request.config.snapshot;
    let found = snapshot.resolve(request.conn.listener, request.host(), path, &request.steps, accepts);
    let route = match found {
        // Load balancers that ask whether the proxy is there get their answer.
        Resolution::UnknownHost if path == HEALTH_PATH => return None,
        Resolution::Route(host, _, _) if *host.name() == HostName::Any && path == HEALTH_PATH => return None,
        Resolution::Route(_, route, _) | Resolution::AddSlash(_, route) => Some(route),
        Resolution::UnknownHost | Resolution::Undecided(_) | Resolution::UnknownPath(_) => None,
    };
    let routed = Routed::bare(request, route);
    let stop = match access::abuse::check(&routed).await {
        FilterResult::Continue => return None,
        FilterResult::Answer(answer) => answer.into(),
        FilterResult::Refuse(reason) => reason.into(),
    };
    Some((routed, stop))
}
