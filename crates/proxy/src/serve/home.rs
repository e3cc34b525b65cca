//! Objects of the cache that have their home at another replica (`forebay.io/cache-shared`).
//!
//! ```text
//! here   a request that is let in ─ not in memory ─ its home is elsewhere ─▶ ask ─┬─ the home's response, not kept here
//!                                                                                 └─ anything else: as if there were no home
//! home   a request with a mark that holds ─▶ admit ─▶ caching, with the key that it brings ─▶ endpoint, with the head that it brings
//! ```
//!
//! The home checks nothing of the client again: who asks has done so, and asks as the endpoint is to be asked. It goes on to no other home, so
//! that there is no loop whoever is mistaken about who lives where.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    Action, AppProtocol, CachePolicy, ClusterId, Conditions, Encryption, Forward, Timeouts, Transfer,
};
use observe::{CacheResult, Counter};
use routing::Resolution;
use wire::h1::Response;

use crate::body::Framing;
use crate::buffer::Buffer;
use crate::cache::Labels;
use crate::caching;
use crate::conditions;
use crate::exchange::{AfterRequest, Exchange};
use crate::fault::Fault;
use crate::limits::{REPLICA_CONNECT_TIME, REPLICA_RESPONSE_TIME};
use crate::outbound;
use crate::replicas::{self, Ask, Guest, Kind, Order};
use crate::response::Receiver;
use crate::subrequest;
use crate::upstream::{Call, Cluster, Endpoint, Request, ResponseTimer};

/// What a home says that has no response, and is there all the same.
pub(super) const NO_ANSWER: &[u8] = b"none";

/// A request of another replica.
pub(super) enum Replica<'a> {
    /// A client's: how it goes on to an endpoint, and to which.
    Guest(Box<Forward>, &'a Cluster),
    /// Something is to be forgotten.
    Forget(Vec<Order>),
}

/// Takes a request of another replica. None for what is no such request, whatever it claims.
pub(super) fn admit<'a>(exchange: &Exchange<'a>) -> Option<Replica<'a>> {
    let Exchange { worker, head, request, .. } = *exchange;
    let secret = worker.peers.secret()?;
    if exchange.client.is_http2() || request.has_body() {
        return None;
    }
    let now = worker.clock.unix().as_secs();
    let mut memory = Vec::new();
    request.fields.find_name(head, replicas::NAME_LOWER.as_bytes())?;
    if !replicas::is_other(&exchange.config.snapshot, exchange.conn.peer.ip().to_canonical()) {
        return None;
    }
    let used = secret.used_marks();
    let (kind, said) = replicas::read_mark(head, request, secret.key(), now, used, &mut memory)?;
    let admitted = match (kind, &head[request.method.clone()]) {
        (Kind::Ask, b"GET" | b"HEAD") => admit_guest(exchange, &Ask::read(said)?)?,
        (Kind::Forget, b"POST") => Replica::Forget(replicas::read_orders(said)?),
        _ => return None,
    };
    exchange.report.is_logged.set(false);
    Some(admitted)
}

fn admit_guest<'a>(exchange: &Exchange<'a>, ask: &Ask<'_>) -> Option<Replica<'a>> {
    let Exchange { worker, config, head, request, .. } = *exchange;
    worker.cache.as_ref()?;
    let accepts = |conditions: &Conditions| conditions::hold(conditions, head, request);
    let found = config.snapshot.resolve(exchange.conn.listener, ask.host, ask.path, &exchange.steps, accepts);
    let Resolution::Route(_, route) = found else { return None };
    let Action::Forward(forward) = &route.action else { return None };
    forward.cache.as_ref().filter(|policy| policy.is_shared)?;
    let is_named = |id: &ClusterId| config.snapshot.cluster(*id).identity.as_bytes() == ask.cluster;
    let id = forward.backends.clusters().find(is_named)?;
    if exchange.cluster_of(id).len() == 0 {
        return None;
    }
    let namespace = Arc::from(&*route.labels.namespace);
    let guest = Guest { key: ask.key.into(), labels: Labels::from_bytes(ask.labels)?, namespace };
    exchange.guest.get_or_init(|| Box::new(guest));
    // What the route does with heads and contents is done where the client is.
    let transfer =
        Transfer { response_head_bytes_max: forward.transfer.response_head_bytes_max, ..Transfer::default() };
    let forward = Forward { head: None, transfer, sets_affinity_cookie: false, ..forward.clone() };
    Some(Replica::Guest(Box::new(forward), exchange.go_to(id)))
}

/// A request on its way to the home of what it asks for.
struct Errand<'x> {
    replica: &'x Rc<Endpoint>,
    /// With its mark.
    head: Vec<u8>,
}

/// Asks the home of what a request is for. None where that is here, or is not heard of in time: the request goes on as if there were no other
/// replica.
pub(super) async fn ask(
    exchange: &Exchange<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
) -> Result<Option<AfterRequest>, Fault> {
    let Some(errand) = errand(exchange, forward, policy) else { return Ok(None) };
    let worker = exchange.worker;
    let timeouts = Timeouts {
        connect: REPLICA_CONNECT_TIME,
        read: REPLICA_RESPONSE_TIME,
        send: REPLICA_RESPONSE_TIME,
        ..forward.timeouts
    };
    let request = Request {
        bytes: &errand.head,
        head_len: errand.head.len(),
        params: None,
        has_body: false,
        is_whole: true,
        framing: Framing::Raw,
        takes_trailers: false,
        timeouts: &timeouts,
    };
    let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
    let call = call(exchange, &errand, &request, &mut response, &mut buffer).await;
    let said = match call.is_ok().then(|| said(&response, buffer.data())).flatten() {
        // Error pages take the place of responses on the way from endpoints.
        Some(Said::Response(_)) if exchange.replaces(response.status) => Some(Said::Nothing),
        said => said,
    };
    let (Ok(call), Some(Said::Response(result))) = (call, &said) else {
        worker.recorder.borrow().count(Counter::CacheHomeFailed);
        if said.is_none() {
            worker.peers.rest(errand.replica.address.ip(), worker.clock.now());
        }
        worker.responses.keep(response);
        return Ok(None);
    };
    worker.recorder.borrow().count(Counter::CacheHomeAnswered);
    caching::note_home(exchange, policy, *result);
    if !exchange.progress.is_body_done() {
        // It has none.
        exchange.progress.note_body_begun();
        exchange.progress.note_body_whole();
    }
    let timer = ResponseTimer::new(exchange.deadline, forward.timeouts.read, true);
    let receiver = Receiver { exchange, forward, member: None, call: &call, timer: &timer, is_last: true };
    let delivered = receiver.deliver(&response, &mut buffer).await;
    worker.responses.keep(response);
    let received = delivered?;
    call.finish(received.reusable, received.idle_max, received.closes_in_order);
    received.client_fault.map_or(Ok(()), Err)?;
    Ok(Some(if received.keep_alive { AfterRequest::KeepAlive } else { AfterRequest::Close }))
}

/// What a home says.
enum Said {
    /// A response, and what its cache did.
    Response(CacheResult),
    /// That it has none: its endpoints have failed, say.
    Nothing,
}

/// None for who is no replica.
fn said(response: &Response, head: &[u8]) -> Option<Said> {
    let value = response.fields.find_name(head, replicas::NAME_LOWER.as_bytes())?.value(head);
    let result = CacheResult::ALL.iter().find(|result| result.name().as_bytes() == value);
    match result {
        Some(result) => Some(Said::Response(*result)),
        None => (value == NO_ANSWER).then_some(Said::Nothing),
    }
}

/// Where a request goes whose object is at home elsewhere and not in memory here.
fn errand<'a>(exchange: &Exchange<'a>, forward: &Forward, policy: &Arc<CachePolicy>) -> Option<Errand<'a>> {
    let worker = exchange.worker;
    let secret = worker.peers.secret()?;
    if exchange.guest.get().is_some() || !can_be_asked_elsewhere(exchange, forward) {
        return None;
    }
    let (key, labels) = caching::key_of_absent(exchange, forward, policy)?;
    let replica = replicas::home(worker, exchange.config, &key)?;
    let address: IpAddr = replica.address.ip();
    if worker.peers.is_resting(address, worker.clock.now()) {
        return None;
    }
    let cluster = exchange.config.snapshot.cluster(exchange.cluster.get()?);
    let ask = Ask {
        host: exchange.host(),
        path: exchange.current_path(),
        cluster: cluster.identity.as_bytes(),
        labels: labels.bytes(),
        key: &key,
    };
    let head = outbound::write_head_with(exchange, forward, false, |_| ());
    let mark = (Kind::Ask, worker.clock.unix().as_secs());
    let head = replicas::add_mark(head.data(), mark, &ask.write(), secret.key())?;
    Some(Errand { replica, head })
}

/// Whether another replica would ask the endpoint as this one does: what a request's own connection says to it is part of no head.
fn can_be_asked_elsewhere(exchange: &Exchange<'_>, forward: &Forward) -> bool {
    let Some(id) = exchange.cluster.get() else { return false };
    let cluster = exchange.config.snapshot.cluster(id);
    cluster.version != AppProtocol::FastCgi
        && !matches!(cluster.encryption, Encryption::AsClient(_))
        && !forward.transfer.uses_http_1_0
        && forward.connection_header.is_none()
        && forward.backends.clusters().any(|cluster| cluster == id)
}

/// Asks, and waits for the head of the response.
async fn call<'x>(
    exchange: &Exchange<'x>,
    errand: &Errand<'x>,
    request: &Request<'_>,
    response: &mut Response,
    buffer: &mut Buffer,
) -> Result<Call<'x>, Fault> {
    let (pool, deadline) = (&exchange.worker.pool, exchange.deadline);
    let ask = async |call: &mut Call<'x>| {
        call.send(request, deadline).await?;
        let timer = ResponseTimer::new(deadline, request.timeouts.read, true);
        subrequest::final_head(call, response, buffer, &timer).await
    };
    let (call, ()) = Call::converse(pool, errand.replica, request.timeouts.connect, deadline, ask).await?;
    Ok(call)
}
