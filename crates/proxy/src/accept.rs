//! From an accepted connection to one that HTTP can be spoken on: who is really there, and whether it speaks TLS with us.

use std::io;
use std::pin::pin;
use std::rc::Rc;

use model::ClusterId;
use observe::Reason;
use rustix::net::{RecvFlags, recv};
use tokio::net::TcpStream;
use wire::client_hello::{Peek, server_name};

use crate::buffer::Buffer;
use crate::conn::{Conn, refuse_plain_http};
use crate::deadline::{Deadline, Elapsed};
use crate::limits::LAST_REQUEST_GRACE;
use crate::proxy_header;
use crate::socket::{Socket, look_until_enough};
use crate::tls::{self, Refused};
use crate::tunnel::{End, tunnel};
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
    is_tls: bool,
    deadline: &Deadline,
) -> Option<Socket> {
    let established = match introduce(worker, conn, &stream, deadline).await {
        Ok(()) if is_tls => establish_tls(worker, conn, stream, deadline).await,
        Ok(()) => return Some(Socket::clear(stream)),
        Err(reason) => Err(reason),
    };
    established.unwrap_or_else(|reason| {
        worker.recorder.borrow().reason(reason);
        None
    })
}

/// Reads who the client is, where a load balancer has to say so first.
async fn introduce(
    worker: &Worker,
    conn: &mut Conn,
    stream: &TcpStream,
    deadline: &Deadline,
) -> Result<(), Reason> {
    let pinned = worker.pinned();
    let settings = pinned.settings();
    if let Some(timeout) = settings.client.proxy_header_timeout {
        let addresses = proxy_header::read(stream, deadline, timeout).await?;
        conn.peer = proxy_header::client(conn.peer, addresses, &settings.forwarded);
    }
    Ok(())
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
            worker.recorder.borrow().handshake(client.handshake());
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
    let timeout = if worker.is_draining() {
        LAST_REQUEST_GRACE
    } else {
        worker.pinned().settings().client.header_timeout
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
    let looked = look_until_enough(stream, deadline, || look(worker, pinned, stream)).await;
    looked.map_err(|Elapsed| Reason::HandshakeTimeout)?.map_err(|_| Reason::HandshakeAborted)
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
    let (_, mut connection) = crate::stream::connect(worker, pinned, cluster, deadline).await?;
    let client = Socket::clear(stream);
    let (passed, _) = tunnel(
        End { socket: &client, read_ahead: &mut Buffer::empty(&worker.buffers) },
        End { socket: connection.socket(), read_ahead: &mut Buffer::empty(&worker.buffers) },
        pinned.settings().stream.idle_timeout,
        worker,
        &(),
    )
    .await;
    connection.closes_in_order = passed.is_complete;
    Ok(())
}
