//! Copies of requests (ingress-nginx: `mirror-target`): they are sent and forgotten, so that nothing of what becomes of them shows.

use std::rc::Rc;

use model::{Forward, Mirror, MirrorCopy, Share, Timeouts};
use observe::Counter;

use crate::body::{Framing, HeldBody};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::exchange::Exchange;
use crate::head::{HeadEdits, Subrequest, write_subrequest_head};
use crate::limits::MIRROR_TIME_MAX;
use crate::outbound::{self, Outbound};
use crate::places::Place;
use crate::subrequest::{ask, visible};
use crate::upstream::{self, Endpoint, Request};
use crate::values;
use crate::worker::Worker;

/// A copy on its way, with all that it needs: the request may be over before it is.
struct Running {
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    /// Among the requests of the endpoint, where the route limits them.
    place_there: Option<upstream::Place>,
    bytes: Buffer,
    head_len: usize,
    rest: Option<Rc<HeldBody>>,
    timeouts: Timeouts,
    /// Held to its end.
    _place: Place,
}

/// Sends the copies of a request, those that are due by their shares: the route's, and those of the backend that it goes to.
#[cold]
pub(crate) fn send_all(exchange: &Exchange<'_>, forward: &Forward, outbound: &Outbound<'_, '_>) {
    let random = &exchange.worker.random;
    let is_due = |mirror: &&Mirror| mirror.share == Share::ALL || mirror.share.takes(random.next());
    for mirror in outbound::mirrors(exchange, forward).filter(is_due) {
        send(exchange, forward, mirror, outbound.content());
    }
}

/// Sends the copy of a request. `content` is none where its body is not all here. A copy for which there is no room is dropped and
/// counted.
fn send(exchange: &Exchange<'_>, forward: &Forward, mirror: &Mirror, content: Option<outbound::Content<'_>>) {
    let worker = exchange.worker;
    let content = if mirror.has_body() { content } else { Some(outbound::Content::default()) };
    let cluster = worker.cluster(exchange.config, mirror.cluster);
    let picked = exchange.pick_beside(cluster, |_| true);
    let (Some(content), Some(picked), Some(place)) = (content, picked, worker.mirrors.take()) else {
        worker.recorder.borrow().count(Counter::MirrorsDropped);
        return;
    };
    let mut bytes = Buffer::small(&worker.buffers);
    write_head(exchange, forward, mirror, &content, &mut bytes);
    let head_len = bytes.len();
    bytes.extend(content.begin);
    let (member, place_there) = picked;
    let running = Running {
        worker: Rc::clone(worker),
        endpoint: Rc::clone(&member.endpoint),
        place_there,
        bytes,
        head_len,
        rest: content.rest,
        timeouts: forward.timeouts,
        _place: place,
    };
    tokio::task::spawn_local(running.run());
}

/// Host and target of a copy.
pub(crate) fn address(exchange: &Exchange<'_>, forward: &Forward, mirror: &Mirror) -> (Vec<u8>, Vec<u8>) {
    if let Some(copy) = &mirror.copy {
        return (values::expand_field(exchange, &copy.host), target_of(exchange, copy));
    }
    let host = outbound::host(exchange, forward).unwrap_or_else(|| exchange.forwarded.host.to_vec());
    (host, outbound::target(exchange).to_vec())
}

fn target_of(exchange: &Exchange<'_>, copy: &MirrorCopy) -> Vec<u8> {
    let mut target = visible(&values::expand(exchange, &copy.target));
    if target.first() != Some(&b'/') {
        target.insert(0, b'/');
    }
    let query = wire::path::query_of_target(exchange.request.origin_target(exchange.head));
    if let Some(query) = query.filter(|query| copy.adds_query && !query.is_empty()) {
        target.push(if target.contains(&b'?') { b'&' } else { b'?' });
        target.extend_from_slice(&visible(query));
    }
    target
}

/// The client's head, as nginx passes it on there: without what endpoints are told beside it. A copy of what endpoints get has what they
/// are told.
fn write_head(
    exchange: &Exchange<'_>,
    forward: &Forward,
    mirror: &Mirror,
    content: &outbound::Content<'_>,
    out: &mut Buffer,
) {
    let (head, request) = (exchange.head, exchange.request);
    let (host, target) = address(exchange, forward, mirror);
    let mut edits =
        if mirror.copy.is_none() { outbound::edits(exchange, forward, true) } else { HeadEdits::default() };
    let length = content.begin.len() as u64 + content.rest.as_ref().map_or(0, |rest| rest.len());
    if mirror.has_body() && (request.has_body() || request.fields.content_length.is_some()) {
        edits.set("Content-Length", length.to_string().into_bytes());
    }
    let subrequest = Subrequest {
        method: &head[request.method.clone()],
        target: &target,
        host: &host,
        names: exchange.config.settings().client.header_names,
    };
    write_subrequest_head(head, request, &subrequest, &edits, out);
}

impl Running {
    async fn run(self) {
        let Self { worker, endpoint, place_there: _place_there, bytes, head_len, rest, timeouts, _place } =
            self;
        let request = Request {
            bytes: bytes.data(),
            head_len,
            params: None,
            has_body: rest.is_some() || bytes.len() > head_len,
            is_whole: rest.is_none(),
            framing: Framing::Raw,
            takes_trailers: false,
            timeouts: &timeouts,
        };
        let deadline = Deadline::new(&worker.deadlines);
        deadline.cap(worker.clock.now().after(MIRROR_TIME_MAX));
        // What goes wrong, nobody learns of; and a copy that may have arrived is not sent again.
        let what = (&request, rest.as_deref());
        let _ = ask(&worker, &endpoint, (false, false), what, &deadline, |_, _| ()).await;
    }
}
