//! One request to one endpoint, whatever its protocol: the only place where the versions of HTTP, and
//! `FastCGI`, differ towards endpoints.
//!
//! Bytes of a head and of a body go in, and come out. Never in here: clients, routes, and whether a fault is
//! worth another try.

use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use model::{AppProtocol, Timeouts};
use observe::Reason;
use wire::h1::{Body, BodyDecoder, Response};

use super::error::NoConnection;
use super::fcgi;
use super::h2::{self, Session};
use super::pool::{Endpoint, LivenessCheck, Pool, PooledConnection};
use super::timer::{HeadLimits, ResponseTimer};
use crate::body::{Framing, Sink, Source};
use crate::io::buffer::Buffer;
use crate::io::connection::Connection;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::socket::{Socket, Unwritten};
use crate::limits::HTTP2_SESSIONS_PER_TRY_MAX;
use crate::upstream::fault::{Fault, Retry};

/// Encoded parameters of `FastCGI`.
pub(crate) struct Params(pub(crate) Vec<u8>);

/// A request as it is sent to an endpoint, whatever its protocol.
#[derive(Clone, Copy)]
pub(crate) struct Message<'r> {
    /// The head as HTTP/1, followed by the available part of the body, framed as `framing` says.
    pub(crate) bytes: &'r [u8],
    /// Length of the head in `bytes`.
    pub(crate) head_len: usize,
    /// Parameters for an endpoint that speaks `FastCGI`; none for others.
    pub(crate) params: Option<&'r Params>,
    /// Whether the head announces a body, even an empty one.
    pub(crate) has_body: bool,
    /// Whether `bytes` is the whole request.
    pub(crate) is_whole: bool,
    /// Framing of the body.
    pub(crate) framing: Framing,
    /// Whether the sender accepts trailers, which HTTP/2 has to announce.
    pub(crate) takes_trailers: bool,
    /// Timeouts for the endpoint.
    pub(crate) timeouts: &'r Timeouts,
}

/// A connection to an endpoint for one request, and then the request on it.
pub(crate) struct Call<'e> {
    pool: &'e Pool,
    endpoint: &'e Endpoint,
    line: Line,
    /// It has served requests before.
    is_reused: bool,
}

/// The transport of a call, by protocol.
enum Line {
    Http1(Connection, Option<Duration>),
    /// A shared session, and the call on it once the head has been sent.
    Http2(Rc<Session>, Option<Box<h2::Call>>),
    /// A connection for this request alone, and how long it took to open.
    FastCgi(Box<fcgi::Call>, Option<Duration>),
}

impl<'e> Call<'e> {
    /// Takes an idle connection for a request, unless `is_fresh`, or opens one within the time that the
    /// request has. `can_be_repeated` says whether a connection that turns out to be dead does no harm.
    pub(crate) async fn open(
        pool: &'e Pool,
        endpoint: &'e Endpoint,
        is_fresh: bool,
        can_be_repeated: bool,
        connect_timeout: Duration,
        deadline: &Deadline,
    ) -> Result<Self, Fault> {
        let check = if can_be_repeated { LivenessCheck::EventLoop } else { LivenessCheck::Socket };
        let (line, is_reused) = match endpoint.protocol.version {
            AppProtocol::FastCgi => {
                let PooledConnection { connection, connect_time } =
                    Box::pin(connect(pool, endpoint, check, connect_timeout, deadline)).await?;
                (Line::FastCgi(Box::new(fcgi::Call::new(connection, endpoint.address)), connect_time), false)
            }
            AppProtocol::Http1 => {
                let idle = if is_fresh { None } else { pool.take_idle(endpoint, check) };
                let PooledConnection { mut connection, connect_time } = match idle {
                    Some(lease) => lease,
                    None => Box::pin(connect(pool, endpoint, check, connect_timeout, deadline)).await?,
                };
                connection.requests += 1;
                (Line::Http1(connection, connect_time), connect_time.is_none())
            }
            AppProtocol::Http2 => {
                let session = Box::pin(share_session(pool, endpoint, connect_timeout, deadline)).await?;
                let is_reused = session.note_use();
                (Line::Http2(session, None), is_reused)
            }
        };
        endpoint.cells.requests.add(1);
        Ok(Self { pool, endpoint, line, is_reused })
    }

    /// Takes an idle HTTP/1 connection to an endpoint; none where there is none, or the endpoint speaks
    /// another protocol.
    #[inline]
    pub(crate) fn on_idle(pool: &'e Pool, endpoint: &'e Endpoint, check: LivenessCheck) -> Option<Self> {
        if endpoint.protocol.version != AppProtocol::Http1 {
            return None;
        }
        let PooledConnection { mut connection, connect_time } = pool.take_idle(endpoint, check)?;
        connection.requests += 1;
        endpoint.cells.requests.add(1);
        Some(Self { pool, endpoint, line: Line::Http1(connection, connect_time), is_reused: true })
    }

    /// Makes a call that may be repeated: again on a fresh connection where an idle one turns out to be
    /// dead. `converse` sends the request and waits for enough of the response to show that the endpoint is
    /// alive.
    pub(crate) async fn converse<T>(
        pool: &'e Pool,
        endpoint: &'e Endpoint,
        connect_timeout: Duration,
        deadline: &Deadline,
        mut converse: impl AsyncFnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<(Self, T), Fault> {
        let mut calls = 0;
        loop {
            let mut call = Self::open(pool, endpoint, calls > 0, true, connect_timeout, deadline).await?;
            calls += 1;
            match converse(&mut call).await {
                Ok(result) => return Ok((call, result)),
                Err(fault) if call.was_dead(fault, calls) => call.discard(),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Whether the call is the first one on its connection.
    pub(crate) fn is_first(&self) -> bool {
        !self.is_reused
    }

    /// How long it took to connect; none where the connection was not opened for this request alone.
    pub(crate) fn connect_time(&self) -> Option<Duration> {
        match self.line {
            Line::Http1(_, connect_time) | Line::FastCgi(_, connect_time) => connect_time,
            Line::Http2(..) => None,
        }
    }

    /// Sends the request, except for the bytes that [`unsent`](Self::unsent) returns.
    pub(crate) async fn send(&mut self, message: &Message<'_>, deadline: &Deadline) -> Result<(), Fault> {
        match &mut self.line {
            Line::Http1(connection, _) => {
                write(connection.socket(), message.bytes, message.timeouts.send, deadline).await
            }
            Line::FastCgi(call, _) => {
                let parts = message.bytes.split_at(message.head_len);
                let params = message.params.map_or(&[][..], |params| &params.0);
                let records = fcgi::records(parts, params, message.is_whole);
                Box::pin(write(call.socket(), &records, message.timeouts.send, deadline)).await
            }
            Line::Http2(session, call) => {
                let head = &message.bytes[..message.head_len];
                *call = Some(Box::new(session.call(head, message.takes_trailers, message.is_head_only())?));
                Ok(())
            }
        }
    }

    /// Sends a request that is all in memory, as far as the socket has room, which it nearly always has.
    /// Returns the number of bytes written.
    #[inline]
    pub(crate) fn send_now(&self, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(socket) = self.own_socket() else { return Ok(0) };
        let mut unwritten = Unwritten::new(&[bytes]);
        match socket.poll_write_all(&mut Context::from_waker(Waker::noop()), &mut unwritten) {
            Poll::Ready(Ok(())) => Ok(bytes.len()),
            Poll::Pending => Ok(bytes.len() - unwritten.len()),
            Poll::Ready(Err(_)) if unwritten.len() == bytes.len() => {
                Err(Fault::unsent(Reason::UpstreamReset))
            }
            Poll::Ready(Err(_)) => Err(Fault::sent(Reason::UpstreamReset)),
        }
    }

    /// Sends the bytes of a request that the socket had no room for.
    pub(crate) async fn send_rest(
        &self,
        bytes: &[u8],
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<(), Fault> {
        let Some(socket) = self.own_socket() else { return Err(Fault::sent(Reason::UpstreamReset)) };
        let written = write(socket, bytes, timeout, deadline).await;
        // The endpoint has received the beginning.
        written.map_err(|fault| Fault::sent(fault.reason))
    }

    /// The part of a sent request that still has to go to its [`sink`](Self::sink) while the response is
    /// awaited: these bytes, then the rest of the body; none if the request is complete.
    pub(crate) fn unsent<'r>(&self, message: &Message<'r>) -> Option<&'r [u8]> {
        match self.line {
            Line::Http1(..) | Line::FastCgi(..) => (!message.is_whole).then_some(&[]),
            // The content of a stream waits for room that the endpoint grants.
            Line::Http2(..) => (!message.is_head_only()).then(|| &message.bytes[message.head_len..]),
        }
    }

    /// The sink for the rest of the request's body.
    pub(crate) fn sink(&self, framing: Framing) -> Sink<'_> {
        match &self.line {
            Line::Http1(connection, _) => Sink::Http1 { socket: connection.socket(), framing },
            Line::Http2(_, call) => Sink::Stream(of_sent(call.as_deref()).stream().into()),
            Line::FastCgi(call, _) => Sink::Http1 { socket: call.socket(), framing: Framing::Records },
        }
    }

    /// Waits for the next response head, interim or final; it stays at the front of `buffer`, and is parsed
    /// into `response`.
    pub(crate) async fn head(
        &self,
        response: &mut Response,
        buffer: &mut Buffer,
        limits: HeadLimits,
        timer: &ResponseTimer<'_>,
    ) -> Result<(), Fault> {
        match &self.line {
            Line::Http1(connection, _) => {
                super::h1::read_response_head(connection.socket(), response, buffer, limits, timer).await
            }
            Line::Http2(_, call) => Box::pin(of_sent(call.as_deref()).head(response, buffer, timer)).await,
            Line::FastCgi(call, _) => Box::pin(call.head(response, buffer, limits, timer)).await,
        }
    }

    /// The body of the response; `buffer` holds the part that was read with the head.
    pub(crate) fn source<'b>(
        &'b self,
        body: Body,
        buffer: &'b mut Buffer,
        decoder: &'b mut BodyDecoder,
    ) -> Source<'b> {
        match &self.line {
            Line::Http1(connection, _) => Source::Http1 { socket: connection.socket(), buffer, decoder },
            Line::Http2(..) if body == Body::Empty => Source::Bytes(&[]),
            Line::Http2(_, call) => Source::stream(of_sent(call.as_deref()).stream()),
            Line::FastCgi(call, _) => {
                *decoder = call.decoder(body);
                Source::Http1 { socket: call.socket(), buffer, decoder }
            }
        }
    }

    /// Takes the decoder of the response's body back, whether at its end or not.
    pub(crate) fn note_source_left(&self, decoder: BodyDecoder) {
        if let Line::FastCgi(call, _) = &self.line {
            call.take_back(decoder);
        }
    }

    /// The endpoint's socket if no other request shares it, for use after a change of protocols.
    pub(crate) fn own_socket(&self) -> Option<&Socket> {
        match &self.line {
            Line::Http1(connection, _) => Some(connection.socket()),
            Line::Http2(..) | Line::FastCgi(..) => None,
        }
    }

    /// Whether a fault may come from an idle connection that was dead. `calls` is the number of calls made
    /// for the try.
    pub(crate) fn was_dead(&self, fault: Fault, calls: u32) -> bool {
        let may_be_dead = match self.line {
            Line::Http1(..) | Line::FastCgi(..) => self.is_reused,
            // An endpoint that shuts down may close even a fresh session, without processing the request.
            Line::Http2(..) => {
                let may_have_left = self.is_reused && fault.retry != Retry::Refused;
                (may_have_left || fault.retry == Retry::Unsent) && calls < HTTP2_SESSIONS_PER_TRY_MAX
            }
        };
        may_be_dead && fault.reason == Reason::UpstreamReset
    }

    /// The stream of a call whose head has been sent, for a conversation of its own; none in other protocols
    /// than HTTP/2.
    pub(crate) fn into_stream(self) -> Option<Box<h2::Call>> {
        match self.line {
            Line::Http2(_, call) => call,
            Line::Http1(..) | Line::FastCgi(..) => None,
        }
    }

    /// Excludes the connection from further requests.
    pub(crate) fn discard(self) {
        if let Line::Http2(session, _) = self.line {
            session.retire();
        }
    }

    /// Ends the call. A connection that `is_reusable` goes back to the pool, for as long as the endpoint
    /// keeps it open; another one is closed, with a graceful close where data in flight still has to arrive.
    pub(crate) fn finish(self, is_reusable: bool, idle_max: Option<Duration>, closes_in_order: bool) {
        let Line::Http1(mut connection, _) = self.line else { return };
        connection.closes_in_order = closes_in_order;
        if is_reusable {
            connection.idle_max = idle_max;
            self.pool.put_back(self.endpoint, connection);
        }
    }
}

impl<'r> Message<'r> {
    /// A request without a body.
    pub(crate) fn bodiless(head: &'r [u8], timeouts: &'r Timeouts) -> Self {
        Self {
            bytes: head,
            head_len: head.len(),
            params: None,
            has_body: false,
            is_whole: true,
            framing: Framing::Raw,
            takes_trailers: false,
            timeouts,
        }
    }

    /// Whether nothing follows the head in HTTP/2. A request with content ends with a DATA frame, even an
    /// empty one: servers of gRPC wait for that ("EOS" in gRPC's `PROTOCOL-HTTP2.md`).
    fn is_head_only(&self) -> bool {
        self.is_whole && self.bytes.len() == self.head_len && !self.has_body
    }
}

fn of_sent(call: Option<&h2::Call>) -> &h2::Call {
    call.expect("what follows a head is asked for once it has been sent")
}

async fn write(socket: &Socket, bytes: &[u8], timeout: Duration, deadline: &Deadline) -> Result<(), Fault> {
    let mut unwritten = Unwritten::new(&[bytes]);
    match socket.write_all(&mut unwritten, timeout, deadline).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) if unwritten.len() == bytes.len() => Err(Fault::unsent(Reason::UpstreamReset)),
        Ok(Err(_)) => Err(Fault::sent(Reason::UpstreamReset)),
        Err(Elapsed) => Err(Fault::sent(Reason::UpstreamSendTimeout)),
    }
}

async fn connect(
    pool: &Pool,
    endpoint: &Endpoint,
    check: LivenessCheck,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<PooledConnection, Fault> {
    let mut opening = pin!(pool.open(endpoint, check));
    match deadline.within(timeout, |cx| opening.as_mut().poll(cx)).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(error)) => Err(connect_fault(&error)),
        Err(Elapsed) if pool.is_short_of_ports(endpoint) => Err(Fault::unsent(Reason::PortsExhausted)),
        Err(Elapsed) => Err(Fault::unsent(Reason::ConnectTimeout)),
    }
}

async fn share_session(
    pool: &Pool,
    endpoint: &Endpoint,
    timeout: Duration,
    deadline: &Deadline,
) -> Result<Rc<Session>, Fault> {
    let mut opening = pin!(pool.session(endpoint));
    match deadline.within(timeout, |cx| opening.as_mut().poll(cx)).await {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(error)) => Err(connect_fault(&error)),
        Err(Elapsed) => Err(Fault::unsent(Reason::ConnectTimeout)),
    }
}

fn connect_fault(error: &NoConnection) -> Fault {
    Fault::unsent(error.reason())
}
