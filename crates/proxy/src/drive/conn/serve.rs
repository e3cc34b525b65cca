//! The life of a client connection: one request after the other, idle between them, and a clean end.

use std::rc::Rc;

use observe::{Gauge, Reason};
use reactor::TcpStream;

use super::linger::linger;
use crate::admit::admission;
use crate::answer::own_answer::refuse;
use crate::drive::accept::{self, Established};
use crate::drive::h1::{self, NoRequest};
use crate::drive::http2::{self, Preface};
use crate::drive::serve::serve as serve_a_request;
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::socket::Socket;
use crate::io::turn;
use crate::limits::{LAST_REQUEST_GRACE, PIPELINED_PER_TURN_MAX};
use crate::request::client::Client;
use crate::request::conn::{Accepted, Conn};
use crate::request::{AfterRequest, RequestStart};
use crate::worker::{Open, Worker};

/// Serves a connection to its end. It counts as open from now on, before the future is first polled.
pub(crate) fn serve(worker: Rc<Worker>, stream: TcpStream, accepted: Accepted) -> impl Future<Output = ()> {
    let open = Open::count(worker);
    let listener = accepted.listener;
    let mut conn = Conn::new(open.worker(), accepted);
    let is_established = !listener.is_tls() && !open.worker().expects_proxy_header();
    // One block, since what is passed on from one future to another takes room in both.
    async move {
        let worker = open.worker();
        let deadline = Deadline::new(&worker.deadlines);
        conn.own(&deadline);
        let socket = if is_established {
            Socket::clear(stream)
        } else {
            match Box::pin(accept::establish(worker, &mut conn, stream, &deadline)).await {
                Established::Ready { socket, tls } => {
                    conn.tls = tls;
                    socket
                }
                Established::PlainHttp { socket, said } => {
                    return Box::pin(refuse_plain_http(worker, &conn, &socket, &deadline, &said)).await;
                }
                Established::Over => return,
            }
        };
        let mut buffer = Buffer::empty(&worker.buffers);
        let end = match &conn.tls {
            Some(tls) if tls.http2 => End::Http2,
            _ => serve_http1(worker, &conn, &socket, &deadline, &mut buffer).await,
        };
        match end {
            End::Http2 => Box::pin(http2::serve(worker, conn, socket, deadline, buffer)).await,
            End::After(AfterRequest::Linger) => Box::pin(linger(worker, listener, &socket, &deadline)).await,
            // Without a word a client under TLS takes the end for an attack, and with one a response that
            // was cut off for whole.
            End::After(AfterRequest::Close | AfterRequest::KeepAlive) => socket.notify_close(),
            End::After(AfterRequest::Abort) => {}
        }
    }
}

/// How a connection stops speaking HTTP/1.
enum End {
    After(AfterRequest),
    /// It never did: it agreed on HTTP/2, or began with its preface, which is in the buffer.
    Http2,
}

/// Tells a client that speaks HTTP where it ought to speak TLS.
async fn refuse_plain_http(
    worker: &Rc<Worker>,
    conn: &Conn,
    socket: &Socket,
    deadline: &Deadline,
    said: &Buffer,
) {
    conn.count_request();
    let client = Client::Http1(socket);
    let (config, begin) = (&*worker.config(), worker.clock.now());
    let arrival = RequestStart { conn, client, deadline, config, head: said.data(), begin };
    if refuse(worker, arrival, Reason::PlainHttp).await == AfterRequest::Linger {
        linger(worker, conn.listener, socket, deadline).await;
    }
}

async fn serve_http1(
    worker: &Rc<Worker>,
    conn: &Conn,
    socket: &Socket,
    deadline: &Deadline,
    buffer: &mut Buffer,
) -> End {
    let mut in_a_row = 0;
    loop {
        if !buffer.is_empty() && in_a_row == PIPELINED_PER_TURN_MAX {
            // Requests that are answered here wait for nothing: the worker's other connections, and its
            // clock, would stand still.
            turn::yield_now(&worker.clock).await;
            in_a_row = 0;
        }
        in_a_row += 1;
        if buffer.is_empty() {
            in_a_row = 0;
            buffer.clear();
            if !await_request(worker, conn, socket, deadline, buffer).await {
                return End::After(AfterRequest::Close);
            }
            if conn.requests.get() == 0 && http2::may_begin(buffer.data()) {
                match Box::pin(http2::await_preface(worker, socket, deadline, buffer)).await {
                    Preface::Whole => return End::Http2,
                    Preface::Gone => return End::After(AfterRequest::Close),
                    Preface::Slow(reason) => {
                        admission::note_failed(worker, conn.counted_peer(), reason);
                        return End::After(AfterRequest::Close);
                    }
                    Preface::Other => {}
                }
            }
        }
        // On the heap, so that an idle connection does not keep the room that a request takes; and the room
        // that the last request left is in the CPU's cache.
        match boxed(|| serve_request(worker, conn, socket, deadline, buffer)).await {
            AfterRequest::KeepAlive => {}
            // Bytes that are unread when the socket is closed reset the connection.
            AfterRequest::Close if !buffer.is_empty() => return End::After(AfterRequest::Linger),
            next => return End::After(next),
        }
    }
}

/// Waits for a request to begin; the buffer has no memory meanwhile. False when none comes.
async fn await_request(
    worker: &Worker,
    conn: &Conn,
    socket: &Socket,
    deadline: &Deadline,
    buffer: &mut Buffer,
) -> bool {
    let is_first = conn.requests.get() == 0;
    let timeout = match worker.is_closing(conn.listener) {
        // It was accepted when its listener was about to close: its request may have come already.
        true if is_first => LAST_REQUEST_GRACE,
        true => return false,
        false => {
            let config = worker.config();
            let client = &config.settings().client;
            worker.keep_alive_timeout(if is_first {
                client.header_timeout
            } else {
                client.keep_alive_timeout
            })
        }
    };
    let _waiting = Waiting::count(worker);
    let read = deadline.within_idle(timeout, |cx| socket.poll_fill_small(cx, buffer)).await;
    matches!(read, Ok(Ok(1..)))
}

/// Serves one request; what of `buffer` belongs to the next stays in it.
async fn serve_request(
    worker: &Rc<Worker>,
    conn: &Conn,
    socket: &Socket,
    deadline: &Deadline,
    buffer: &mut Buffer,
) -> AfterRequest {
    let begin = worker.clock.now();
    let mut config = worker.config();
    let client = &config.settings().client;
    let mut request = worker.requests.take();
    let read =
        h1::read_request(socket, buffer, &mut request, config.request_limits(), client, deadline).await;
    // One that has come into force while the head was read is this request's.
    worker.renew(&mut config);
    let config = &*config;
    let client = Client::Http1(socket);
    match read {
        Ok(()) => {}
        Err(NoRequest::Gone) => return AfterRequest::Close,
        Err(NoRequest::Refused(reason)) => {
            conn.count_request();
            let arrival = RequestStart { conn, client, deadline, config, head: buffer.data(), begin };
            return Box::pin(refuse(worker, arrival, reason)).await;
        }
    }
    conn.count_request();
    // The head stays as it is until the request is done; what follows it lives on.
    let mut rest = Buffer::empty(&worker.buffers);
    if buffer.len() > request.len {
        rest.extend(&buffer.data()[request.len..]);
        buffer.truncate(request.len);
    }
    let head = std::mem::replace(buffer, rest);
    let arrival = RequestStart { conn, client, deadline, config, head: head.data(), begin };
    let next = serve_a_request(worker, arrival, &request, buffer).await;
    worker.requests.keep(request);
    next
}

/// Counts a connection while it waits for a request.
struct Waiting<'a>(&'a Worker);

impl<'a> Waiting<'a> {
    fn count(worker: &'a Worker) -> Self {
        worker.recorder.borrow().inc(Gauge::ConnectionsWaiting);
        Self(worker)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.recorder.borrow().dec(Gauge::ConnectionsWaiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future of this function, without making it.
    fn size_of_future<F>(_: fn(Rc<Worker>, TcpStream, Accepted) -> F) -> usize {
        size_of::<F>()
    }

    /// The same of a request.
    fn size_of_request<'a, F>(
        _: fn(&'a Rc<Worker>, &'a Conn, &'a Socket, &'a Deadline, &'a mut Buffer) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_is_small() {
        let size = size_of_future(serve);
        assert!(size <= 768, "{size}");
    }

    /// It is moved to the heap for each request. What only some routes ask for takes a pointer.
    #[test]
    fn a_request_is_small() {
        let size = size_of_request(serve_request);
        assert!(size <= 2_720, "{size}");
    }
}
