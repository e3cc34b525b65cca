//! The life of a client connection: one request after the other, idle between them, and a clean end.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;

use observe::Gauge;
use tokio::net::TcpStream;
use wire::h1::{RequestLimits, Version};

use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::exchange::{self, Next};
use crate::filters::forwarded::LastLines;
use crate::h1::{self, NoRequest};
use crate::limits::{LAST_REQUEST_GRACE, LINGER, LINGER_BYTES_MAX};
use crate::socket::Socket;
use crate::worker::Worker;

/// A client connection, as the requests on it see it.
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) deadline: Deadline,
    /// Who is at the other end.
    pub(crate) peer: SocketAddr,
    /// Where it was accepted.
    pub(crate) local: SocketAddr,
    /// Serial number among the worker's connections.
    pub(crate) serial: u64,
    /// Requests so far.
    pub(crate) requests: u64,
    pub(crate) last_lines: RefCell<LastLines>,
}

/// Serves a connection to its end. It counts as open from now on, before the future is first polled.
pub(crate) fn serve(
    worker: Rc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
) -> impl Future<Output = ()> {
    let open = Open::count(worker);
    async move { serve_open(&open.0, stream, peer, local).await }
}

async fn serve_open(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, local: SocketAddr) {
    let mut conn = Conn {
        socket: Socket::new(stream),
        deadline: Deadline::new(&worker.deadlines),
        peer,
        local,
        serial: worker.next_serial(),
        requests: 0,
        last_lines: RefCell::default(),
    };
    if serve_requests(worker, &mut conn).await == Next::Linger {
        linger(worker, &conn).await;
    }
}

async fn serve_requests(worker: &Rc<Worker>, conn: &mut Conn) -> Next {
    let mut buffer = Buffer::empty(&worker.buffers);
    loop {
        if buffer.is_empty() {
            buffer.clear();
            if !await_request(worker, conn, &mut buffer).await {
                return Next::Close;
            }
        }
        // On the heap, so that an idle connection does not keep the room that a request takes; and the room that the last
        // request left is in the CPU's cache.
        match Box::pin(serve_request(worker, conn, &mut buffer)).await {
            Next::KeepAlive => {}
            // What is not read when the socket is closed resets the connection.
            Next::Close if !buffer.is_empty() => return Next::Linger,
            next => return next,
        }
    }
}

/// Waits for a request to begin; the buffer has no memory meanwhile. False when none comes.
async fn await_request(worker: &Worker, conn: &Conn, buffer: &mut Buffer) -> bool {
    let is_first = conn.requests == 0;
    let timeout = match worker.is_draining() {
        // It was accepted when the worker had been told to stop: its request may have come already.
        true if is_first => LAST_REQUEST_GRACE,
        true => return false,
        false => {
            let pinned = worker.pinned();
            let client = &pinned.settings().client;
            if is_first { client.header_timeout } else { client.keep_alive_timeout }
        }
    };
    let _waiting = Waiting::count(worker);
    let read = conn.deadline.within_idle(timeout, |cx| conn.socket.poll_fill_small(cx, buffer)).await;
    matches!(read, Ok(Ok(1..)))
}

/// Serves one request; what of `buffer` belongs to the next stays in it.
async fn serve_request(worker: &Rc<Worker>, conn: &mut Conn, buffer: &mut Buffer) -> Next {
    let begin = worker.clock.now();
    let (limits, timeout) = {
        let pinned = worker.pinned();
        let client = &pinned.settings().client;
        let (line_bytes_max, head_bytes_max) = (client.line_bytes_max, client.head_bytes_max);
        (RequestLimits { line_bytes_max, head_bytes_max }, client.header_timeout)
    };
    let fields = worker.spare_fields();
    let read = h1::read_request(&conn.socket, buffer, fields, limits, timeout, &conn.deadline).await;
    let request = match read {
        Ok(request) => request,
        Err(NoRequest::Gone) => return Next::Close,
        Err(NoRequest::Refused(reason)) => {
            conn.requests += 1;
            return exchange::refuse(worker, conn, buffer.data(), reason, begin).await;
        }
    };
    conn.requests += 1;
    // The head stays as it is until the request is done; what follows it lives on.
    let mut rest = Buffer::empty(&worker.buffers);
    if buffer.len() > request.len {
        rest.extend(&buffer.data()[request.len..]);
        buffer.truncate(request.len);
    }
    let head = std::mem::replace(buffer, rest);
    let next = exchange::serve(worker, conn, head.data(), &request, buffer, begin).await;
    worker.keep_fields(request.fields);
    next
}

/// Reads for a while what the client still sends: a socket that is closed with unread data resets the connection, and the
/// reset may overtake the response.
async fn linger(worker: &Worker, conn: &Conn) {
    if poll_fn(|cx| conn.socket.poll_shutdown(cx)).await.is_err() {
        return;
    }
    let mut left = LINGER_BYTES_MAX;
    let mut buffer = Buffer::large(&worker.buffers);
    conn.deadline.start(LINGER);
    while left > 0 {
        // To run out of time is one of the three ways in which this ends well.
        match conn.deadline.guard(|cx| conn.socket.poll_read(cx, &mut buffer)).await {
            Ok(Ok(len)) if len > 0 => left = left.saturating_sub(len),
            _ => return,
        }
        buffer.consume(buffer.len());
    }
}

/// What version a head that could not be read claims; the answer to it is written accordingly.
pub(crate) fn claimed_version(head: &[u8]) -> Version {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    if line.trim_ascii_end().ends_with(b"HTTP/1.0") { Version::Http10 } else { Version::Http11 }
}

/// Counts a connection while it is open.
struct Open(Rc<Worker>);

impl Open {
    fn count(worker: Rc<Worker>) -> Self {
        worker.connection_opened();
        Self(worker)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
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
    use std::net::SocketAddr;
    use std::rc::Rc;

    use tokio::net::TcpStream;

    use super::*;

    /// What a future of this function takes; it need not be made for that.
    fn size_of_future<F>(_: fn(Rc<Worker>, TcpStream, SocketAddr, SocketAddr) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_is_small() {
        let size = size_of_future(serve);
        assert!(size <= 768, "{size}");
    }
}
