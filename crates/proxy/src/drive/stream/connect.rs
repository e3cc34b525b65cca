//! Connects to an endpoint of a cluster for the bytes of a stream: for TCP services, and for TLS that is
//! passed through or decrypted. The cluster says whether the bytes are encrypted towards its endpoints.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use model::ClusterId;
use observe::{Failure, Reason};
use smallvec::SmallVec;

use crate::io::connection::Connection;
use crate::io::deadline::{Deadline, Elapsed};
use crate::limits::STREAM_CONNECT_TIMEOUT;
use crate::upstream::Endpoint;
use crate::worker::{Worker, WorkerConfig};

/// Connects to an endpoint of a cluster, or to the next where that fails.
pub(crate) async fn connect(
    worker: &Worker,
    config: &WorkerConfig,
    cluster: ClusterId,
    deadline: &Deadline,
) -> Result<(Rc<Endpoint>, Connection), Reason> {
    let settings = &config.settings().stream;
    let cluster = worker.cluster(config, cluster);
    let tries_max = match settings.tries {
        _ if !settings.next_upstream => 1,
        Some(tries) => tries as usize,
        None => usize::MAX,
    };
    let begin = worker.clock.now();
    let mut tried = SmallVec::<[SocketAddr; 3]>::new();
    let mut last_reason = Reason::NoEndpoints;
    while tried.len() < tries_max {
        let left = settings.connect_timeout.saturating_sub(worker.clock.now().since(begin));
        let was_tried = |endpoint: &Endpoint| tried.contains(&endpoint.address);
        let Some(endpoint) = cluster.pick(was_tried, &worker.random, begin).filter(|_| !left.is_zero())
        else {
            break;
        };
        tried.push(endpoint.address);
        match try_connect(worker, endpoint, left.min(STREAM_CONNECT_TIMEOUT), deadline).await {
            Ok(connection) => return Ok((Rc::clone(endpoint), connection)),
            Err(reason) => last_reason = reason,
        }
    }
    Err(last_reason)
}

async fn try_connect(
    worker: &Worker,
    endpoint: &Endpoint,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<Connection, Reason> {
    let mut opening = Box::pin(worker.pool.open_stream(endpoint));
    let reason = match deadline.within(timeout, |cx| opening.as_mut().poll(cx)).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) => error.reason(),
        Err(Elapsed) => Reason::ConnectTimeout,
    };
    let is_timeout = reason == Reason::ConnectTimeout;
    endpoint.cells.fail(if is_timeout { Failure::ConnectTimeout } else { Failure::ConnectError });
    Err(reason)
}
