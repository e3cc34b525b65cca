//! Copies of requests (ingress-nginx: `mirror-target`): they are sent and forgotten, so that nothing of what becomes of them shows.

use std::rc::Rc;

use model::{Mirror, MirrorCopy, Timeouts};
use observe::Counter;

use crate::body::{Framing, HeldBody};
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::exchange::Exchange;
use crate::head::{HeadEdits, Subrequest, write_subrequest_head};
use crate::limits::MIRROR_TIME_MAX;
use crate::places::Place;
use crate::subrequest::{ask, visible};
use crate::upstream::{Endpoint, Request};
use crate::values;
use crate::worker::Worker;

/// The body of a request that has come to its end.
#[derive(Default)]
pub(crate) struct Content<'a> {
    pub(crate) begin: &'a [u8],
    pub(crate) rest: Option<Rc<HeldBody>>,
}

/// A copy on its way, with all that it needs: the request may be over before it is.
struct Running {
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    bytes: Buffer,
    head_len: usize,
    rest: Option<Rc<HeldBody>>,
    timeouts: Timeouts,
    /// Held to its end.
    _place: Place,
}

/// Sends the copy of a request. `content` is none where its body is not all here. A copy for which there is no room is dropped and
/// counted.
pub(crate) fn send(
    exchange: &Exchange<'_>,
    mirror: &Mirror,
    timeouts: Timeouts,
    content: Option<Content<'_>>,
) {
    let (worker, copy) = (exchange.worker, &*mirror.copy);
    let content = if copy.has_body { content } else { Some(Content::default()) };
    let cluster = worker.cluster(exchange.config, mirror.cluster);
    let endpoint = cluster.pick(|_| false, &worker.random, worker.clock.now());
    let (Some(content), Some(endpoint), Some(place)) = (content, endpoint, worker.mirrors.take()) else {
        worker.recorder.borrow().count(Counter::MirrorsDropped);
        return;
    };
    let mut bytes = Buffer::small(&worker.buffers);
    write_head(exchange, copy, &content, &mut bytes);
    let head_len = bytes.len();
    bytes.extend(content.begin);
    let running = Running {
        worker: Rc::clone(worker),
        endpoint: Rc::clone(endpoint),
        bytes,
        head_len,
        rest: content.rest,
        timeouts,
        _place: place,
    };
    tokio::task::spawn_local(running.run());
}

/// The client's head, as nginx passes it on there: without what endpoints are told beside it.
fn write_head(exchange: &Exchange<'_>, copy: &MirrorCopy, content: &Content<'_>, out: &mut Buffer) {
    let (head, request) = (exchange.head, exchange.request);
    let mut target = visible(&values::expand(exchange, &copy.target));
    if target.first() != Some(&b'/') {
        target.insert(0, b'/');
    }
    let query = wire::path::query_of_target(request.origin_target(head));
    if let Some(query) = query.filter(|query| copy.adds_query && !query.is_empty()) {
        target.push(if target.contains(&b'?') { b'&' } else { b'?' });
        target.extend_from_slice(&visible(query));
    }
    let mut edits = HeadEdits::default();
    let length = content.begin.len() as u64 + content.rest.as_ref().map_or(0, |rest| rest.len());
    if copy.has_body && (request.has_body() || request.fields.content_length.is_some()) {
        edits.set("Content-Length", length.to_string().into_bytes());
    }
    let host = values::expand_field(exchange, &copy.host);
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
        let Self { worker, endpoint, bytes, head_len, rest, timeouts, _place } = self;
        let request = Request {
            bytes: bytes.data(),
            head_len,
            params: None,
            has_body: rest.is_some() || bytes.len() > head_len,
            is_whole: rest.is_none(),
            framing: Framing::Raw,
            takes_trailers: false,
            timeouts,
        };
        let deadline = Deadline::new(&worker.deadlines);
        deadline.cap(worker.clock.now().after(MIRROR_TIME_MAX));
        // What goes wrong, nobody learns of; and a copy that may have arrived is not sent again.
        let what = (&request, rest.as_deref());
        let _ = ask(&worker, &endpoint, (false, false), what, &deadline, |_, _| ()).await;
    }
}
