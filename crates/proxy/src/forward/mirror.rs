//! Copies of requests (ingress-nginx: `mirror-target`): they are sent and forgotten, so that nothing of what
//! becomes of them shows. A copy begins when the sockets have been polled after its request was sent on,
//! and a cluster that does not answer gets few ([`Copies`]).

use std::rc::Rc;

use balance::Copies;
use clock::Clock;
use model::{Forward, Mirror, MirrorCopy, Share, Timeouts};
use observe::Counter;

use crate::admit::Admitted;
use crate::admit::upstream_head;
use crate::body::{Framing, HeldBody};
use crate::forward::outbound::{self, Outbound};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::permits::Permit;
use crate::io::turn;
use crate::request::head::{HeadEdits, Subrequest, write_subrequest_head};
use crate::route::values;
use crate::upstream::subrequest::{Question, ask, visible};
use crate::upstream::{self, Endpoint, Message};
use crate::worker::Worker;

/// A copy on its way, with all that it needs: the request may be over before it is.
struct Running {
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    /// Among the requests of the endpoint, where the route limits them.
    slot: Option<upstream::Slot>,
    bytes: Buffer,
    head_len: usize,
    rest: Option<Rc<HeldBody>>,
    timeouts: Timeouts,
    /// Held to its end.
    _permit: Permit,
    copy: Copy,
}

/// A copy among those of its cluster. Dropped without an answer, it has failed.
struct Copy {
    copies: Rc<Copies>,
    clock: Clock,
    is_answered: bool,
}

/// Sends the copies of a request, those that are due by their shares: the route's, and those of the backend
/// that it goes to.
#[cold]
pub(crate) fn send_all(admitted: &Admitted<'_>, forward: &Forward, outbound: &Outbound<'_, '_>) {
    let random = &admitted.worker.random;
    let is_due = |mirror: &&Mirror| mirror.share == Share::ALL || mirror.share.takes(random.next());
    for mirror in outbound::mirrors(admitted, forward).filter(is_due) {
        send(admitted, forward, mirror, outbound.content());
    }
}

/// Sends the copy of a request. `content` is none where its body is not all here. A copy for which there is
/// no room is dropped and counted.
fn send(admitted: &Admitted<'_>, forward: &Forward, mirror: &Mirror, content: Option<outbound::Content<'_>>) {
    let worker = admitted.worker;
    let content = if mirror.has_body() { content } else { Some(outbound::Content::default()) };
    let cluster = worker.cluster(admitted.config, mirror.cluster);
    let copies = cluster.state().copies();
    let permit = worker.mirrors.take().filter(|_| copies.has_room(worker.clock.now()));
    let picked = permit.as_ref().and_then(|_| admitted.pick_beside(cluster, |_| true));
    let (Some(content), Some(picked), Some(permit)) = (content, picked, permit) else {
        worker.recorder.borrow().count(Counter::MirrorsDropped);
        return;
    };
    let mut bytes = Buffer::small(&worker.buffers);
    write_head(admitted, forward, mirror, &content, &mut bytes);
    let head_len = bytes.len();
    bytes.extend(content.begin);
    let (member, slot) = picked;
    let running = Running {
        worker: Rc::clone(worker),
        endpoint: Rc::clone(&member.endpoint),
        slot,
        bytes,
        head_len,
        rest: content.rest,
        timeouts: *forward.timeouts,
        _permit: permit,
        copy: Copy::begin(copies, &worker.clock),
    };
    reactor::spawn_detached(reactor::late(running.run()));
}

/// Destination of the copies, and the share of requests that are copied.
pub(crate) fn in_words(admitted: &Admitted<'_>, forward: &Forward, mirror: &Mirror) -> String {
    let name = &admitted.config.snapshot.cluster(mirror.cluster).name;
    let (host, target) = address(admitted, forward, mirror);
    let [host, target] = [host, target].map(|text| String::from_utf8_lossy(&text).into_owned());
    let share =
        if mirror.share == Share::ALL { String::new() } else { format!("{} of them: ", mirror.share) };
    format!("{share}a copy goes to {name}: {target} of {host}")
}

/// Host and target of a copy.
fn address(admitted: &Admitted<'_>, forward: &Forward, mirror: &Mirror) -> (Vec<u8>, Vec<u8>) {
    if let Some(copy) = &mirror.copy {
        return (values::expand_field(admitted, &copy.host), target_of(admitted, copy));
    }
    let host = upstream_head::host(admitted, forward).unwrap_or_else(|| admitted.forwarded.host.to_vec());
    (host, upstream_head::target(admitted).to_vec())
}

fn target_of(admitted: &Admitted<'_>, copy: &MirrorCopy) -> Vec<u8> {
    let mut target = visible(&values::expand(admitted, &copy.target));
    if target.first() != Some(&b'/') {
        target.insert(0, b'/');
    }
    let query = wire::path::query_of_target(admitted.sent_target());
    if let Some(query) = query.filter(|query| copy.adds_query && !query.is_empty()) {
        target.push(if target.contains(&b'?') { b'&' } else { b'?' });
        target.extend_from_slice(&visible(query));
    }
    target
}

/// The client's head, as nginx passes it on there: without what endpoints are told beside it. A copy of what
/// endpoints get has what they are told.
fn write_head(
    admitted: &Admitted<'_>,
    forward: &Forward,
    mirror: &Mirror,
    content: &outbound::Content<'_>,
    out: &mut Buffer,
) {
    let (head, parsed) = (admitted.head, admitted.parsed);
    let (host, target) = address(admitted, forward, mirror);
    let mut edits = if mirror.copy.is_none() {
        upstream_head::edits(admitted, forward, true)
    } else {
        HeadEdits::default()
    };
    let length = content.begin.len() as u64 + content.rest.as_ref().map_or(0, |rest| rest.len());
    if mirror.has_body() && (parsed.has_body() || parsed.fields.content_length.is_some()) {
        edits.set("Content-Length", length.to_string().into_bytes());
    }
    let subrequest = Subrequest {
        method: admitted.method(),
        target: &target,
        host: &host,
        names: admitted.config.settings().client.header_names,
    };
    write_subrequest_head(head, parsed, &subrequest, &edits, out);
}

impl Running {
    async fn run(self) {
        let Self { worker, endpoint, slot: _slot, bytes, head_len, rest, timeouts, _permit, mut copy } = self;
        // The request itself, and what is ready beside it, come first.
        turn::yield_now(&worker.clock).await;
        let message = &Message {
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
        let now = worker.clock.now();
        deadline.cap(now.after(copy.copies.time_max(now)));
        // Nobody learns of a failure; a copy that may have arrived is not sent again.
        let question = Question { message, rest: rest.as_deref(), can_be_repeated: false };
        let answered = &mut copy.is_answered;
        let _ = ask(&worker, &endpoint, question, &deadline, |_, _| *answered = true).await;
    }
}

impl Copy {
    fn begin(copies: &Rc<Copies>, clock: &Clock) -> Self {
        copies.begin();
        Self { copies: Rc::clone(copies), clock: clock.clone(), is_answered: false }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.copies.end(self.is_answered, self.clock.now());
    }
}
