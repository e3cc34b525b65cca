//! From an accepted connection to one that HTTP can be spoken on: who is really there, and whether it speaks TLS with us.

use std::io;
use std::pin::pin;
use std::rc::Rc;

use model::ClusterId;
use observe::Reason;
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;
use wire::client_hello::{Peek, server_name};

use crate::buffer::Buffer;
use crate::conn::{Conn, refuse_plain_http};
use crate::deadline::{Deadline, Elapsed};
use crate::limits::{LAST_REQUEST_GRACE, PASSTHROUGH_CONNECT_TIMEOUT};
use crate::socket::Socket;
use crate::tls::{self, Refused};
use crate::tunnel::{End, tunnel};
use crate::upstream::{Lease, Trust};
use crate::worker::{Pinned, Worker};

/// What the first bytes on a TLS port say.
enum Destination {
    /// We speak TLS with the client.
    Here,
    /// What it says goes to this cluster as it is.
    Elsewhere(ClusterId),
}

/// Establishes a connection; none where that fails, or where it has been passed on and is over.
pub(crate) async fn establish(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    stream: TcpStream,
    deadline: &Deadline,
) -> Option<Socket> {
    match establish_tls(worker, conn, stream, deadline).await {
        Ok(socket) => socket,
        Err(reason) => {
            worker.recorder.borrow().reason(reason);
            None
        }
    }
}

async fn establish_tls(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    stream: TcpStream,
    deadline: &Deadline,
) -> Result<Option<Socket>, Reason> {
    if !await_first_byte(worker, &stream, deadline).await {
        return Ok(None);
    }
    let pinned = worker.pinned();
    deadline.start(pinned.settings().client.header_timeout);
    if pinned.acceptors.has_passthrough()
        && let Destination::Elsewhere(cluster) = destination(worker, &pinned, &stream, deadline).await?
    {
        pass_on(worker, &pinned, stream, cluster, deadline).await?;
        return Ok(None);
    }
    let entry = worker.turnstile.enter().ok_or(Reason::HandshakeLimit)?;
    let buffer = Buffer::empty(&worker.buffers);
    let mut handshake = pin!(tls::accept(stream, &pinned.snapshot, &pinned.acceptors, &entry, buffer));
    let result = deadline.guard(|cx| handshake.as_mut().poll(cx)).await;
    match result.map_err(|Elapsed| Reason::HandshakeTimeout)? {
        Ok((session, client)) => {
            conn.tls = Some(client);
            Ok(Some(Socket::tls(session)))
        }
        Err(Refused::PlainHttp(stream, said)) => {
            refuse_plain_http(worker, conn, &Socket::clear(stream), deadline, &said).await;
            Ok(None)
        }
        Err(Refused::Failed(reason)) => Err(reason),
        Err(Refused::Gone) => Ok(None),
    }
}

/// Waits for the client to begin; a connection on which nothing is said costs next to nothing. False when nothing comes.
async fn await_first_byte(worker: &Worker, stream: &TcpStream, deadline: &Deadline) -> bool {
    let timeout = match worker.is_draining() {
        true => LAST_REQUEST_GRACE,
        false => worker.pinned().settings().client.header_timeout,
    };
    matches!(deadline.within_idle(timeout, |cx| stream.poll_read_ready(cx)).await, Ok(Ok(())))
}

// === passthrough ===

/// Looks at the `ClientHello` without taking it.
async fn destination(
    worker: &Worker,
    pinned: &Pinned,
    stream: &TcpStream,
    deadline: &Deadline,
) -> Result<Destination, Reason> {
    loop {
        let mut ready = pin!(stream.ready(Interest::READABLE));
        let ready = deadline.guard(|cx| ready.as_mut().poll(cx)).await;
        let ready = ready.map_err(|Elapsed| Reason::HandshakeTimeout)?;
        let ready = ready.map_err(|_| Reason::HandshakeAborted)?;
        match stream.try_io(Interest::READABLE, || look(worker, pinned, stream)) {
            Ok(destination) => return Ok(destination),
            // What is there is not enough, and no more will come.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !ready.is_read_closed() => {}
            Err(_) => return Err(Reason::HandshakeAborted),
        }
    }
}

/// Of a hello that is not complete nothing is known: `WouldBlock` has the event loop say when more has come.
fn look(worker: &Worker, pinned: &Pinned, stream: &TcpStream) -> io::Result<Destination> {
    let mut buffer = Buffer::large(&worker.buffers);
    let (len, _) = recv(stream, buffer.free(), RecvFlags::PEEK)?;
    buffer.filled(len);
    match server_name(buffer.data()) {
        Peek::Partial => Err(io::ErrorKind::WouldBlock.into()),
        Peek::Hello { server_name: Some(name) } => {
            let host = pinned.snapshot.find_host(&name);
            let cluster = host.and_then(|host| host.tls().passthrough);
            Ok(cluster.map_or(Destination::Here, Destination::Elsewhere))
        }
        Peek::Hello { server_name: None } | Peek::NotHello => Ok(Destination::Here),
    }
}

/// Connects the client with an endpoint and passes on what both say, until they are done.
async fn pass_on(
    worker: &Rc<Worker>,
    pinned: &Pinned,
    stream: TcpStream,
    cluster: ClusterId,
    deadline: &Deadline,
) -> Result<(), Reason> {
    let Lease { mut connection, .. } = connect(worker, pinned, cluster, deadline).await?;
    let client = Socket::clear(stream);
    let passed = tunnel(
        End { socket: &client, read_ahead: &mut Buffer::empty(&worker.buffers) },
        End { socket: connection.socket(), read_ahead: &mut Buffer::empty(&worker.buffers) },
        pinned.settings().stream.idle_timeout,
        &worker.deadlines,
    )
    .await;
    connection.closes_in_order = passed.is_complete;
    Ok(())
}

/// Connects to one endpoint after the other until one can be connected to.
async fn connect(
    worker: &Rc<Worker>,
    pinned: &Pinned,
    cluster: ClusterId,
    deadline: &Deadline,
) -> Result<Lease, Reason> {
    let cluster = pinned.cluster(cluster);
    let settings = &pinned.settings().stream;
    let tries = if settings.next_upstream { settings.tries.unwrap_or(u32::MAX) } else { 1 };
    let mut tried = Vec::new();
    let mut last = Reason::NoEndpoints;
    for _ in 0..tries {
        let now = worker.clock.now();
        let picked = cluster.pick(|endpoint| tried.contains(&endpoint.address), &worker.random, now);
        let Some(endpoint) = picked else { break };
        tried.push(endpoint.address);
        let mut opening = pin!(worker.pool.open(endpoint, Trust::Socket));
        match deadline.within(PASSTHROUGH_CONNECT_TIMEOUT, |cx| opening.as_mut().poll(cx)).await {
            Ok(Ok(lease)) => return Ok(lease),
            Ok(Err(error)) => last = error.reason(),
            Err(Elapsed) => last = Reason::ConnectTimeout,
        }
    }
    Err(last)
}
