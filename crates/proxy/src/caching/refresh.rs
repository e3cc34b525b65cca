//! Brings a stale response up to date while clients are given it (RFC 5861 section 3): a request that nobody waits for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use model::{CachePolicy, Forward, Timeouts};
use wire::cache::{Head, RequestDirectives};
use wire::h1::{BodyDecoder, Request as ClientRequest};

use super::fill::fill;
use super::key;
use super::plan::{Asker, Plan, plan};
use crate::body::{Framing, Incoming};
use crate::buffer::Buffer;
use crate::cache::{Cache, Object, Passage, Role, Told};
use crate::cache_head;
use crate::deadline::Deadline;
use crate::exchange::Exchange;
use crate::fault::Fault;
use crate::limits::CACHE_REFRESH_TIME_MAX;
use crate::outbound;
use crate::places::Place;
use crate::subrequest;
use crate::upstream::{self, Call, Endpoint, Params, Request, ResponseTimer};
use crate::worker::Worker;

/// A request on its way, with all that it needs: the one that began it may be over before it is.
struct Refresh {
    worker: Rc<Worker>,
    endpoint: Rc<Endpoint>,
    /// Among the requests of the endpoint, where the route limits them.
    _place_there: Option<upstream::Place>,
    passage: Passage,
    /// As the endpoint gets it.
    bytes: Buffer,
    params: Option<Box<Params>>,
    /// The client's, of which the response may make a difference.
    head: Vec<u8>,
    request: ClientRequest,
    timeouts: Timeouts,
    _place: Place,
}

/// Asks for a response again, unless that is being done already or too much of the kind is.
pub(super) fn begin(
    exchange: &Exchange<'_>,
    forward: &Forward,
    policy: &Arc<CachePolicy>,
    cache: &Arc<Cache>,
    (of, since): (&[u8], u64),
    stale: &Arc<Object>,
) {
    let worker = exchange.worker;
    if exchange.is_head() {
        return;
    }
    let Some(cluster) = exchange.cluster.get() else { return };
    let cluster = worker.cluster(exchange.config, cluster);
    let Some((member, place_there)) = exchange.pick_beside(cluster, |_| true) else { return };
    let Some(place) = worker.refreshes.take() else { return };
    let Role::Lead(leader) = cache.join(of) else { return };
    let passage = Passage {
        cache: Arc::clone(cache),
        policy: Arc::clone(policy),
        key: Some(Arc::clone(&leader.key)),
        namespace: key::namespace(exchange),
        has_unknown: super::bypass(exchange, policy).unwrap_or(false),
        labels: key::labels(exchange, policy),
        since,
        asked: RequestDirectives::default(),
        stale: Some(Arc::clone(stale)),
        leader: RefCell::new(Some(leader)),
        begin: worker.clock.unix(),
        is_filling: Cell::new(false),
        told: Cell::new(Told::default()),
    };
    let bytes = outbound::write_head_with(exchange, forward, false, |edits| {
        cache_head::edit_for(&passage, Head::of_request(exchange.head, exchange.request), edits);
    });
    let params = outbound::params(exchange, forward, outbound::protocol(exchange), &bytes);
    let refresh = Refresh {
        worker: Rc::clone(worker),
        endpoint: Rc::clone(&member.endpoint),
        _place_there: place_there,
        passage,
        bytes,
        params,
        head: exchange.head.to_vec(),
        request: exchange.request.clone(),
        timeouts: forward.timeouts,
        _place: place,
    };
    tokio::task::spawn_local(refresh.run());
}

impl Refresh {
    async fn run(self) {
        let deadline = Deadline::new(&self.worker.deadlines);
        deadline.cap(self.worker.clock.now().after(CACHE_REFRESH_TIME_MAX));
        // Whoever comes later finds what is kept as stale as it was, and asks again.
        let _ = self.ask(&deadline).await;
        self.passage.let_go();
    }

    async fn ask(&self, deadline: &Deadline) -> Result<(), Fault> {
        let (worker, timeouts) = (&self.worker, self.timeouts);
        let request = Request {
            bytes: self.bytes.data(),
            head_len: self.bytes.len(),
            params: self.params.as_deref(),
            has_body: false,
            is_whole: true,
            framing: Framing::Raw,
            takes_trailers: false,
            timeouts: &timeouts,
        };
        let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
        let ask = async |call: &mut Call<'_>| {
            call.send(&request, deadline).await?;
            let timer = ResponseTimer::new(deadline, timeouts.read, true);
            subrequest::final_head(call, &mut response, &mut buffer, &timer).await
        };
        let asked = Call::converse(&worker.pool, &self.endpoint, timeouts.connect, deadline, ask).await;
        let (call, ()) = asked?;
        let asker = Asker {
            method: &self.head[self.request.method.clone()],
            head: Head::of_request(&self.head, &self.request),
            time: worker.clock.unix(),
        };
        let plan = plan(&self.passage, asker, &response, buffer.data());
        let body = response.body(false);
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(body);
        let is_read = match plan {
            Plan::Keep(keeping) => {
                let source = call.source(body, &mut buffer, &mut decoder);
                let incoming = Incoming { source, timeout: timeouts.read };
                let request = (&*self.passage.cache, self.passage.asking(asker.head), asker.now());
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
