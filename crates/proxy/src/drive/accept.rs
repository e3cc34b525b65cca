//! From an accepted connection to one that HTTP can be spoken on: who is really there, and whether it speaks
//! TLS with us.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use model::{HostTls, ListenerId};
use observe::Reason;
use reactor::TcpStream;
use rustix::net::{RecvFlags, recv};
use wire::client_hello::{Peek, server_name};

use crate::admit::admission;
use crate::body::tunnel::{End, tunnel};
use crate::drive::proxy_header;
use crate::drive::stream;
use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::socket::{Socket, look_until_enough};
use crate::io::tls::{self, ClientTls, Refused, ServerConfigs};
use crate::limits::LAST_REQUEST_GRACE;
use crate::request::conn::Conn;
use crate::worker::{Worker, WorkerConfig};

/// The destination of a connection, by its first bytes on a TLS port.
enum Destination {
    /// We speak TLS with the client.
    Here,
    /// The bytes are passed on as they are to where the host says.
    Elsewhere(Arc<HostTls>),
}

/// The state of an accepted connection once its protocol is known.
pub(crate) enum Established {
    /// HTTP can be spoken on it.
    Ready {
        socket: Socket,
        /// The result of the handshake of a client that came over TLS.
        tls: Option<Box<ClientTls>>,
    },
    /// The client speaks HTTP where it ought to speak TLS, and has begun with these bytes.
    PlainHttp { socket: Socket, said: Buffer },
    /// It is over: it failed, or it was passed on to an endpoint.
    Over,
}

/// Establishes a connection. What fails is counted here.
pub(crate) async fn establish(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    stream: TcpStream,
    deadline: &Deadline,
) -> Established {
    let established = match introduce(worker, conn, &stream, deadline).await {
        Ok(()) if conn.listener.is_tls() => establish_tls(worker, conn, stream, deadline).await,
        Ok(()) => Ok(Established::Ready { socket: Socket::clear(stream), tls: None }),
        Err(reason) => Err(reason),
    };
    established.unwrap_or_else(|reason| {
        admission::note_failed(worker, conn.counted_peer(), reason);
        Established::Over
    })
}

/// Reads who the client is, where a load balancer has to say so first, and lets that client in.
async fn introduce(
    worker: &Worker,
    conn: &mut Conn,
    stream: &TcpStream,
    deadline: &Deadline,
) -> Result<(), Reason> {
    let config = worker.config();
    let settings = config.settings();
    let Some(timeout) = settings.client.proxy_header_timeout else {
        return Ok(());
    };
    let addresses = proxy_header::read(stream, deadline, timeout).await?;
    let client = proxy_header::client(conn.peer, addresses, &settings.forwarded);
    (conn.peer, conn.named_port) = (client.peer, client.port);
    match admission::admit(worker, conn.counted_peer()) {
        Ok(place) => conn.place = place,
        Err(reason) => {
            conn.is_turned_away.set(true);
            admission::turn_away(worker, conn.listener, stream, reason);
            return Err(reason);
        }
    }
    conn.own(deadline);
    Ok(())
}

async fn establish_tls(
    worker: &Rc<Worker>,
    conn: &Conn,
    stream: TcpStream,
    deadline: &Deadline,
) -> Result<Established, Reason> {
    let listener = conn.listener;
    if !await_first_byte(worker, listener, &stream, deadline).await {
        return Ok(Established::Over);
    }
    let config = worker.config();
    deadline.start(config.settings().client.header_timeout);
    let server_configs = config.tls_listeners.get(listener);
    if let Some(configs) = server_configs.filter(|configs| configs.has_passthrough())
        && let Destination::Elsewhere(tls) = destination(worker, configs, &stream, deadline).await?
    {
        // A connection that is passed on counts as one request.
        conn.count_request();
        match &tls.stream {
            Some(to) => stream::tls::serve(worker, &config, conn, to, Socket::clear(stream), deadline).await,
            None => pass_on(worker, &config, stream, &tls, deadline).await?,
        }
        return Ok(Established::Over);
    }
    conn.has_begun_handshake.set(true);
    let entry = worker.handshakes.enter().ok_or(Reason::HandshakeLimit)?;
    let buffer = Buffer::empty(&worker.buffers);
    let result = {
        let mut handshake = pin!(tls::accept(stream, server_configs, &entry, buffer));
        deadline.guard(|cx| handshake.as_mut().poll(cx)).await
    };
    match result.map_err(|Elapsed| Reason::HandshakeTimeout)? {
        Ok((session, tls)) => {
            worker.recorder.borrow().handshake(tls.handshake());
            if let Some(to) = &tls.stream {
                conn.count_request();
                drop(entry);
                stream::tls::serve(worker, &config, conn, to, Socket::tls(session), deadline).await;
                return Ok(Established::Over);
            }
            Ok(Established::Ready { socket: Socket::tls(session), tls: Some(tls) })
        }
        Err(Refused::PlainHttp(stream, said)) => {
            Ok(Established::PlainHttp { socket: Socket::clear(stream), said })
        }
        Err(Refused::Failed(reason)) => Err(reason),
        Err(Refused::Gone) => Ok(Established::Over),
    }
}

/// Waits for the client to begin; a connection on which nothing is said costs next to nothing. False when
/// nothing comes.
async fn await_first_byte(
    worker: &Worker,
    listener: ListenerId,
    stream: &TcpStream,
    deadline: &Deadline,
) -> bool {
    let timeout = if worker.is_closing(listener) {
        LAST_REQUEST_GRACE
    } else {
        worker.keep_alive_timeout(worker.config().settings().client.header_timeout)
    };
    deadline.within_idle(timeout, |cx| stream.poll_read_ready(cx)).await.is_ok()
}

// === passthrough ===

/// Looks at the `ClientHello` without taking it.
async fn destination(
    worker: &Worker,
    configs: &ServerConfigs,
    stream: &TcpStream,
    deadline: &Deadline,
) -> Result<Destination, Reason> {
    let looked = look_until_enough(stream, deadline, || look(worker, configs, stream)).await;
    looked.map_err(|Elapsed| Reason::HandshakeTimeout)?.map_err(|_| Reason::HandshakeAborted)
}

/// Of a hello that is not complete nothing is known: `WouldBlock` has the event loop say when more has come.
fn look(worker: &Worker, configs: &ServerConfigs, stream: &TcpStream) -> io::Result<Destination> {
    let mut buffer = Buffer::large(&worker.buffers);
    let (len, _) = recv(stream, buffer.free(), RecvFlags::PEEK)?;
    buffer.filled(len);
    match server_name(buffer.data()) {
        Peek::Partial => Err(io::ErrorKind::WouldBlock.into()),
        Peek::Hello { server_name: name } => {
            let passed = configs.passthrough(name.as_deref());
            Ok(passed.map_or(Destination::Here, |tls| Destination::Elsewhere(Arc::clone(tls))))
        }
        Peek::NotHello => Ok(Destination::Here),
    }
}

/// Connects the client with an endpoint and passes on what both say, until they are done.
async fn pass_on(
    worker: &Rc<Worker>,
    config: &WorkerConfig,
    stream: TcpStream,
    tls: &HostTls,
    deadline: &Deadline,
) -> Result<(), Reason> {
    let cluster = tls.passthrough.ok_or(Reason::NoEndpoints)?;
    let (_, mut connection) = stream::connect(worker, config, cluster, deadline).await?;
    let client = Socket::clear(stream);
    let (passed, _) = tunnel(
        End { socket: &client, read_ahead: &mut Buffer::empty(&worker.buffers) },
        End { socket: connection.socket(), read_ahead: &mut Buffer::empty(&worker.buffers) },
        config.settings().stream.idle_timeout,
        worker.for_tunnels(),
        &(),
    )
    .await;
    connection.closes_in_order = passed.is_complete;
    Ok(())
}
