//! TCP services: a connection of a client, one to an endpoint, and bytes both ways.
//!
//! Each end closes its sending side on its own. The end that closes first keeps `TIME_WAIT`; where that is
//! the client, this proxy keeps it towards the endpoint, since a client that has finished sending may still
//! receive. Any other ending is a reset, which leaves none.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use model::ListenerId;
use observe::{Failure, Reason};
use reactor::TcpStream;
use wire::proxy_protocol::{Addresses, write_v1};

use super::record::{Outcome, Tracked};
use super::{Service, Target, connect};
use crate::body::tunnel::{End, Ending, Side, tunnel};
use crate::drive::proxy_header;
use crate::io::buffer::Buffer;
use crate::io::connection::Connection;
use crate::io::deadline::Deadline;
use crate::io::listening::{self, Acceptor};
use crate::io::socket::{Socket, Unwritten};
use crate::limits::STREAM_PROXY_HEADER_TIMEOUT;
use crate::upstream::Endpoint;
use crate::worker::{Open, Worker};

/// Listens at a port. A client that is connected while the port closes finds no endpoint if the service
/// itself is gone.
pub(crate) fn open(
    worker: &Rc<Worker>,
    listener: ListenerId,
    target: &Rc<Target>,
) -> io::Result<Vec<Acceptor>> {
    let bind = |address, only_v6| listening::bind_for(worker, address, only_v6);
    let sockets = listening::bind_all(&worker.config().settings().listen, listener, bind)?;
    let accept_from = |socket| {
        let (admitting, target) = (Rc::clone(worker), Rc::clone(target));
        let admit = move |stream, peer| admit(&admitting, &target, stream, peer);
        Acceptor::start(worker, socket, Rc::new(admit), drop)
    };
    sockets.into_iter().flatten().map(accept_from).collect()
}

fn admit(worker: &Rc<Worker>, target: &Target, stream: TcpStream, peer: SocketAddr) {
    if let Some(peer) = listening::client(worker, peer) {
        reactor::spawn_detached(serve(Rc::clone(worker), target.now(), stream, peer));
    }
}

/// Serves a connection to its end. It counts as open from now on, before the future is first polled.
fn serve(
    worker: Rc<Worker>,
    service: Rc<Service>,
    stream: TcpStream,
    peer: SocketAddr,
) -> impl Future<Output = ()> {
    let tracked = Tracked::begin(&service, &worker);
    let open = Open::count(worker);
    async move {
        let worker = open.worker();
        let mut outcome = Outcome { client: peer.ip(), fault: None, received: 0, sent: 0 };
        // Boxed, so that an established connection does not keep the room that it took to prepare.
        let upstream = match Box::pin(prepare(worker, &service, stream, peer, &mut outcome)).await {
            Ok(mut ends) => {
                if pass(worker, &mut ends, &tracked, &mut outcome).await == CloseMode::Reset {
                    ends.client.reset();
                }
                Some(ends.endpoint.address)
            }
            Err(reason) => {
                outcome.fault = Some(reason);
                None
            }
        };
        tracked.end(worker, &outcome, upstream);
    }
}

/// Both ends of a connection that is ready.
pub(super) struct Ends {
    pub(super) client: Socket,
    pub(super) upstream: Connection,
    pub(super) endpoint: Rc<Endpoint>,
}

async fn prepare(
    worker: &Rc<Worker>,
    service: &Service,
    stream: TcpStream,
    peer: SocketAddr,
    outcome: &mut Outcome,
) -> Result<Ends, Reason> {
    let (config, deadline) = (worker.config(), Deadline::new(&worker.deadlines));
    let mut client = peer;
    if service.stream.accepts_proxy_header {
        let addresses = proxy_header::read(&stream, &deadline, STREAM_PROXY_HEADER_TIMEOUT).await?;
        client = proxy_header::client(peer, addresses, &config.settings().forwarded).peer;
        outcome.client = client.ip();
    }
    let (endpoint, upstream) =
        connect(worker, &config, service.cluster(&config, &worker.random)?, &deadline).await?;
    if service.stream.sends_proxy_header {
        let mut header = Vec::new();
        let addresses = stream.local_addr().ok().map(|local| Addresses {
            source: client,
            destination: SocketAddr::new(local.ip().to_canonical(), local.port()),
        });
        write_v1(addresses, &mut header);
        let mut unwritten = Unwritten::new(&[&header]);
        poll_fn(|cx| upstream.socket().poll_write_all(cx, &mut unwritten))
            .await
            .map_err(|_| Reason::UpstreamReset)?;
    }
    Ok(Ends { client: Socket::clear(stream), upstream, endpoint })
}

/// How the client's connection is to be closed.
#[derive(PartialEq, Eq)]
pub(super) enum CloseMode {
    InOrder,
    Reset,
}

/// Relays bytes both ways until both ends have closed.
pub(super) async fn pass(
    worker: &Rc<Worker>,
    ends: &mut Ends,
    tracked: &Tracked,
    outcome: &mut Outcome,
) -> CloseMode {
    let (mut none, mut nothing) = (Buffer::empty(&worker.buffers), Buffer::empty(&worker.buffers));
    let idle = worker.config().settings().stream.idle_timeout;
    let client = End { socket: &ends.client, read_ahead: &mut none };
    let upstream = End { socket: ends.upstream.socket(), read_ahead: &mut nothing };
    let (passed, ending) = tunnel(client, upstream, idle, worker.for_tunnels(), tracked).await;
    (outcome.received, outcome.sent) = (passed.to_upstream, passed.to_client);
    ends.upstream.closes_in_order = passed.is_complete;
    let Ending::Broken { side, client_was_told } = ending else { return CloseMode::InOrder };
    outcome.fault = Some(match side {
        Side::Client => Reason::ClientAborted,
        Side::Upstream => {
            ends.endpoint.cells.fail(Failure::Reset);
            Reason::UpstreamReset
        }
    });
    // The endpoint's last bytes before it closed may still be in flight.
    if client_was_told { CloseMode::InOrder } else { CloseMode::Reset }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F>(_: fn(Rc<Worker>, Rc<Service>, TcpStream, SocketAddr) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_is_small() {
        let size = size_of_future(serve);
        assert!(size <= 1024, "{size}");
    }
}
