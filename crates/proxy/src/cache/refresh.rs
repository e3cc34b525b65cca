//! Refreshes a stale response while clients get the stale one (RFC 5861 section 3): a request that no client
//! waits for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use model::{CachePolicy, Forward, Timeouts};
use wire::cache::{Head, RequestDirectives};
use wire::h1::{BodyDecoder, Request as ClientRequest};

use super::fill::fill;
use super::key;
use super::plan::{Plan, RequestInfo, plan};
use crate::admit::Admitted;
use crate::admit::cache_head;
use crate::admit::upstream_head;
use crate::body::Incoming;
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::permits::Permit;
use crate::limits::CACHE_REFRESH_TIME_MAX;
use crate::store::{Cache, CacheMiss, CacheReport, Object, Role};
use crate::upstream::fault::Fault;
use crate::upstream::subrequest;
use crate::upstream::{self, Call, Endpoint, Message, Params, ResponseTimer};
use crate::worker::Worker;

/// A refresh in progress, which owns all that it needs: the request that began it may end first.
struct Refresh {
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    /// Slot at the endpoint, where the route limits its requests.
    _slot: Option<upstream::Slot>,
    miss: CacheMiss,
    /// The request head as the endpoint gets it.
    bytes: Buffer,
    params: Option<Box<Params>>,
    /// The client's request head, whose fields select among responses.
    head: Vec<u8>,
    request: ClientRequest,
    timeouts: Timeouts,
    _permit: Permit,
}

/// Begins a refresh, unless one is in progress for the key or too many are.
pub(super) fn begin(
    admitted: &Admitted<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
    cache: &Arc<Cache>,
    (of, since): (&[u8], u64),
    stale: &Arc<Object>,
) {
    let worker = admitted.worker;
    if admitted.is_head() {
        return;
    }
    let Some(cluster) = admitted.cluster else { return };
    let cluster = worker.cluster(admitted.config, cluster);
    let Some((member, slot)) = admitted.pick_beside(cluster, |_| true) else { return };
    let Some(permit) = worker.refreshes.take() else { return };
    let Role::Lead(leader) = cache.join(of) else { return };
    let miss = CacheMiss {
        cache: Arc::clone(cache),
        policy: Arc::clone(policy),
        key: Some(Arc::clone(&leader.key)),
        namespace: key::namespace(admitted),
        has_unknown: super::bypass(admitted, policy).unwrap_or(false),
        labels: key::labels(admitted, policy),
        since,
        asked: RequestDirectives::default(),
        stale: Some(Arc::clone(stale)),
        leader: RefCell::new(Some(leader)),
        begin: worker.clock.unix(),
        is_filling: Cell::new(false),
        report: Cell::new(CacheReport::default()),
    };
    let bytes = upstream_head::write_head_with(admitted, forward, false, |edits| {
        cache_head::edit_for(&miss, Head::of_request(admitted.head, admitted.parsed), edits);
    });
    let params = upstream_head::params(admitted, forward, upstream_head::protocol(admitted), &bytes);
    let refresh = Refresh {
        worker: Rc::clone(worker),
        endpoint: Rc::clone(&member.endpoint),
        _slot: slot,
        miss,
        bytes,
        params,
        head: admitted.head.to_vec(),
        request: admitted.parsed.clone(),
        timeouts: *forward.timeouts,
        _permit: permit,
    };
    reactor::spawn_detached(refresh.run());
}

impl Refresh {
    async fn run(self) {
        let deadline = Deadline::new(&self.worker.deadlines);
        deadline.cap(self.worker.clock.now().after(CACHE_REFRESH_TIME_MAX));
        // After a failure, the next request finds the response as stale as before, and begins another
        // refresh.
        let _ = self.ask(&deadline).await;
        self.miss.let_go();
    }

    async fn ask(&self, deadline: &Deadline) -> Result<(), Fault> {
        let (worker, timeouts) = (&self.worker, self.timeouts);
        let message =
            Message { params: self.params.as_deref(), ..Message::bodiless(self.bytes.data(), &timeouts) };
        let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
        let ask = async |call: &mut Call<'_>| {
            call.send(&message, deadline).await?;
            let timer = ResponseTimer::new(deadline, timeouts.read, true);
            subrequest::final_head(call, &mut response, &mut buffer, &timer).await
        };
        let asked = Call::converse(&worker.pool, &self.endpoint, timeouts.connect, deadline, ask).await;
        let (call, ()) = asked?;
        let info = RequestInfo {
            method: &self.head[self.request.method.clone()],
            head: Head::of_request(&self.head, &self.request),
            time: worker.clock.unix(),
        };
        let plan = plan(&self.miss, info, &response, buffer.data());
        let body = response.body(false);
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(body);
        let is_read = match plan {
            Plan::Keep(keeping) => {
                let source = call.source(body, &mut buffer, &mut decoder);
                let incoming = Incoming { source, timeout: timeouts.read };
                let request = (&*self.miss.cache, self.miss.asking(info.head), info.now());
                fill(incoming, *keeping, request, deadline).await.is_ok()
            }
            Plan::Updated(_) => true,
            Plan::Pass | Plan::Stale => false,
        };
        call.note_source_left(decoder);
        let is_reusable = is_read && response.is_persistent() && buffer.is_empty();
        worker.responses.keep(response);
        call.finish(is_reusable, None, false);
        Ok(())
    }
}
