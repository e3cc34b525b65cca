//! Objects of the cache that have their home at another replica (`forebay.io/cache-shared`).
//!
//! ```text
//! here   a request that is let in ─ not in memory ─ its home is elsewhere ─▶ ask ─┬─ the home's response, not kept here
//!                                                                                 └─ anything else: as if there were no home
//! home   a request with a mark that holds ─▶ admit ─▶ cache, with the key that it brings ─▶ endpoint, with the head that it brings
//! ```
//!
//! The home checks nothing of the client again: who asks has done so, and asks as the endpoint is to be
//! asked. It goes on to no other home, so that there is no loop whoever is mistaken about who lives where.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use balance::KeptRun;
use identity::oidc::relay;
use model::{
    Action, AppProtocol, CachePolicy, ClusterId, Conditions, Encryption, Forward, Timeouts, Transfer,
};
use observe::{CacheResult, Counter};
use routing::Resolution;
use wire::h1::Response;

use crate::admit::Admitted;
use crate::admit::errors;
use crate::admit::upstream_head;
use crate::answer::attempted::Attempted;
use crate::cache;
use crate::forward::response::Receiver;
use crate::io::buffer::Buffer;
use crate::limits::{REPLICA_CONNECT_TIME, REPLICA_RESPONSE_TIME};
use crate::replicas::{self, Kind, NO_ANSWER, Order, PeerFetch, PeerRequest};
use crate::request::stop::Stop;
use crate::request::{AfterRequest, Request};
use crate::route::conditions;
use crate::store::{CacheState, Labels};
use crate::upstream::checks::{CheckId, Report};
use crate::upstream::fault::Fault;
use crate::upstream::subrequest;
use crate::upstream::{Call, Cluster, Endpoint, Message, ResponseTimer};

/// A request of another replica.
pub(super) enum Replica<'a> {
    /// A client's request: how it is forwarded to an endpoint, and to which cluster.
    Fetch { forwarding: Box<Forward>, cluster: &'a Cluster, id: ClusterId, peer_request: Rc<PeerRequest> },
    /// The order to remove something from the cache.
    Forget(Vec<Order>),
    /// A message about sessions of people who have signed in.
    SignIn(Box<relay::Message>),
    /// Reports about the health of endpoints.
    Checks(Vec<(CheckId, Report)>),
    /// Stops of canaries.
    Stops(Vec<KeptRun>),
}

/// Recognises the request of another replica. None for any other request, whatever it claims.
#[inline]
pub(super) fn admit_replica<'a>(request: &Request<'a>) -> Option<Replica<'a>> {
    request.config.settings().replicas.as_ref()?;
    admit(request)
}

#[cold]
fn admit<'a>(request: &Request<'a>) -> Option<Replica<'a>> {
    let Request { worker, head, parsed, .. } = *request;
    let secret = worker.peers.secret()?;
    if request.client.is_stream() || parsed.has_body() {
        return None;
    }
    let now = worker.clock.unix().as_secs();
    let mut memory = Vec::new();
    parsed.fields.find_name(head, replicas::NAME_LOWER.as_bytes())?;
    if !replicas::is_other(&request.config.snapshot, request.conn.peer.ip().to_canonical()) {
        return None;
    }
    let used = secret.used_marks();
    let (kind, said) = replicas::read_mark(head, parsed, secret.key(), now, used, &mut memory)?;
    let admitted = match (kind, request.method()) {
        (Kind::Fetch, b"GET" | b"HEAD") => admit_fetch(request, &PeerFetch::read(said)?)?,
        (Kind::Forget, b"POST") => Replica::Forget(replicas::read_orders(said)?),
        (Kind::SignIn, b"POST") => {
            Replica::SignIn(Box::new(relay::Message::open(secret.seal()?, now, said)?))
        }
        (Kind::Stops, b"POST") => Replica::Stops(replicas::read_stops(said)?),
        (Kind::Checks, b"POST") => Replica::Checks(replicas::read_reports(said)?),
        _ => return None,
    };
    request.report.is_logged.set(false);
    Some(admitted)
}

fn admit_fetch<'a>(request: &Request<'a>, ask: &PeerFetch<'_>) -> Option<Replica<'a>> {
    let Request { worker, config, head, parsed, .. } = *request;
    worker.cache.as_ref()?;
    let accepts = |conditions: &Conditions| conditions::hold(conditions, head, parsed);
    let found = config.snapshot.resolve(request.conn.listener, ask.host, ask.path, &request.steps, accepts);
    let Resolution::Route(_, route, _) = found else { return None };
    let Action::Forward(forward) = &route.action else { return None };
    forward.cache.as_ref().filter(|policy| policy.is_shared)?;
    let is_named = |id: &ClusterId| config.snapshot.cluster(*id).identity.as_bytes() == ask.cluster;
    let id = forward.backends.clusters().find(is_named)?;
    let cluster = request.cluster_of(id);
    if cluster.len() == 0 {
        return None;
    }
    let namespace = Arc::from(route.labels.namespace());
    let peer_request =
        Rc::new(PeerRequest { key: ask.key.into(), labels: Labels::from_bytes(ask.labels)?, namespace });
    // The replica at which the client is does what the route asks for with heads and contents.
    let transfer =
        Transfer { response_head_bytes_max: forward.transfer.response_head_bytes_max, ..Transfer::default() };
    let forward =
        Forward { head: None, transfer: transfer.into(), sets_affinity_cookie: false, ..forward.clone() };
    Some(Replica::Fetch { forwarding: Box::new(forward), cluster, id, peer_request })
}

/// A request to the replica that is the home of a request's object.
struct HomeRequest<'x> {
    replica: &'x Rc<Endpoint>,
    /// With the mark of replicas.
    head: Vec<u8>,
}

/// Asks the home of the object that a request is for. None where that is here, or does not answer in time:
/// the request goes on as if there were no other replica.
pub(super) async fn ask(
    admitted: &mut Admitted<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
) -> Result<Option<AfterRequest>, Stop> {
    let request = admitted.request;
    let Some(question) = question(admitted, forward, policy) else { return Ok(None) };
    let worker = request.worker;
    let timeouts = Timeouts {
        connect: REPLICA_CONNECT_TIME,
        read: REPLICA_RESPONSE_TIME,
        send: REPLICA_RESPONSE_TIME,
        ..*forward.timeouts
    };
    let message = Message::bodiless(&question.head, &timeouts);
    let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
    let call = call(request, &question, &message, &mut response, &mut buffer).await;
    let reply = match call.is_ok().then(|| read_reply(&response, buffer.data())).flatten() {
        // Error pages replace responses on the way from endpoints.
        Some(PeerReply::Response(_)) if errors::replaces(admitted, response.status) => Some(PeerReply::None),
        reply => reply,
    };
    let (Ok(call), Some(PeerReply::Response(result))) = (call, &reply) else {
        worker.recorder.borrow().count(Counter::CacheHomeFailed);
        if reply.is_none() {
            worker.peers.rest(question.replica.address.ip(), worker.clock.now());
        }
        worker.responses.keep(response);
        return Ok(None);
    };
    worker.recorder.borrow().count(Counter::CacheHomeAnswered);
    admitted.cache = cache::of_home(request, policy, *result).map(CacheState::of);
    request.progress.note_no_body();
    let timer = ResponseTimer::new(request.deadline, forward.timeouts.read, true);
    let attempted = Attempted::new(admitted);
    let receiver =
        Receiver { attempted: &attempted, forward, member: None, call: &call, timer: &timer, is_last: true };
    let delivered = receiver.deliver(&response, &mut buffer).await;
    worker.responses.keep(response);
    let received = delivered.map_err(|fault| Stop::from(fault.reason))?;
    call.finish(received.reusable, received.idle_max, received.closes_in_order);
    if let Some(fault) = received.client_fault {
        return Err(fault.reason.into());
    }
    Ok(Some(if received.keep_alive { AfterRequest::KeepAlive } else { AfterRequest::Close }))
}

/// The answer of a home.
enum PeerReply {
    /// A response, and the result of the home's cache.
    Response(CacheResult),
    /// The home has no response: its endpoints have failed, for example.
    None,
}

/// None for a response that is not a replica's.
fn read_reply(response: &Response, head: &[u8]) -> Option<PeerReply> {
    let value = response.fields.find_name(head, replicas::NAME_LOWER.as_bytes())?.value(head);
    let result = CacheResult::ALL.iter().find(|result| result.name().as_bytes() == value);
    match result {
        Some(result) => Some(PeerReply::Response(*result)),
        None => (value == NO_ANSWER).then_some(PeerReply::None),
    }
}

/// The question for an object whose home is elsewhere and that is not in memory here.
fn question<'a>(
    admitted: &Admitted<'a>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
) -> Option<HomeRequest<'a>> {
    let request = admitted.request;
    let worker = request.worker;
    let secret = worker.peers.secret()?;
    if admitted.peer_request.is_some() || !can_be_asked_elsewhere(admitted, forward) {
        return None;
    }
    let (key, labels) = cache::key_of_absent(admitted, forward, policy)?;
    let replica = replicas::home(worker, request.config, &key)?;
    let address: IpAddr = replica.address.ip();
    if worker.peers.is_resting(address, worker.clock.now()) {
        return None;
    }
    let cluster = request.config.snapshot.cluster(admitted.cluster?);
    let ask = PeerFetch {
        host: request.host(),
        path: admitted.current_path(),
        cluster: cluster.identity.as_bytes(),
        labels: labels.bytes(),
        key: &key,
    };
    let head = upstream_head::write_head_with(admitted, forward, false, |_| ());
    let mark = (Kind::Fetch, worker.clock.unix().as_secs());
    let head = replicas::add_mark(head.data(), mark, &ask.write(), secret.key())?;
    Some(HomeRequest { replica, head })
}

/// Whether another replica would ask the endpoint as this one does: what a request's own connection says to
/// it is part of no head.
fn can_be_asked_elsewhere(admitted: &Admitted<'_>, forward: &Forward) -> bool {
    let Some(id) = admitted.cluster else { return false };
    let cluster = admitted.config.snapshot.cluster(id);
    cluster.version != AppProtocol::FastCgi
        && !matches!(cluster.encryption, Encryption::AsClient(_))
        && !forward.transfer.uses_http_1_0
        && forward.connection_header.is_none()
        && forward.backends.clusters().any(|cluster| cluster == id)
}

/// Asks, and waits for the head of the response.
async fn call<'x>(
    request: &Request<'x>,
    question: &HomeRequest<'x>,
    message: &Message<'_>,
    response: &mut Response,
    buffer: &mut Buffer,
) -> Result<Call<'x>, Fault> {
    let (pool, deadline) = (&request.worker.pool, request.deadline);
    let ask = async |call: &mut Call<'x>| {
        call.send(message, deadline).await?;
        let timer = ResponseTimer::new(deadline, message.timeouts.read, true);
        subrequest::final_head(call, response, buffer, &timer).await
    };
    let (call, ()) = Call::converse(pool, question.replica, message.timeouts.connect, deadline, ask).await?;
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FAST_CGI, ONE, World, forward, route_to};

    #[test]
    fn a_home_says_what_its_cache_did_or_that_it_has_no_response() {
        for (value, expected) in
            [("hit", Some(Some(CacheResult::Hit))), ("none", Some(None)), ("", None), ("HIT", None)]
        {
            let head = format!("HTTP/1.1 200 OK\r\n{}: {value}\r\n\r\n", replicas::NAME);
            let mut response = Response::default();
            assert!(response.parse(head.as_bytes()).unwrap());
            let reply = read_reply(&response, head.as_bytes()).map(|reply| match reply {
                PeerReply::Response(result) => Some(result),
                PeerReply::None => None,
            });
            assert_eq!(reply, expected, "{value}");
        }
    }

    #[test]
    fn only_requests_that_every_replica_sends_alike_are_asked_elsewhere() {
        let old = Forward {
            transfer: Transfer { uses_http_1_0: true, ..Transfer::default() }.into(),
            ..forward(ONE)
        };
        for (lines, forward, expected) in [
            ("GET /", forward(ONE), true),
            ("HEAD /", forward(ONE), true),
            ("GET /", forward(FAST_CGI), false),
            ("GET /", old, false),
        ] {
            let cluster = forward.backends.clusters().next().unwrap();
            World::of(route_to(cluster)).admitted(lines, |admitted, _| {
                assert_eq!(can_be_asked_elsewhere(&admitted, &forward), expected, "{lines}");
            });
        }
    }
}
