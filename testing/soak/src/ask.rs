//! One client's connection of any protocol, and requests over it. Errors say how far a request came.
//!
//! Must not be in here: which requests, and whether an answer is right.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::Reason;
use http::Version;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::exchange::{Answer, Broken, Failure, Request, Target};
use crate::http3::Http3;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http1,
    Http1Tls,
    Http2,
    Http2Tls,
    Http3,
}

/// Longest time for an exchange. Nothing takes that long, on however busy a machine, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(150);
/// Connects that are tried for one request: a connection may end just before it is used.
const CONNECTS_MAX: u32 = 3;

/// A client, with a connection or without.
pub(crate) struct Client {
    wire: Wire,
    target: Target,
    open: Option<Open>,
    /// When the connection that was used last was made.
    connected: Option<Instant>,
}

enum Open {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(h2::client::SendRequest<Bytes>),
    Http3(Http3),
}

impl Wire {
    pub(crate) fn is_tls(self) -> bool {
        !matches!(self, Wire::Http1 | Wire::Http2)
    }

    fn alpn(self) -> &'static [u8] {
        match self {
            Wire::Http1 | Wire::Http1Tls => b"http/1.1",
            Wire::Http2 | Wire::Http2Tls => b"h2",
            Wire::Http3 => b"h3",
        }
    }
}

impl Client {
    pub(crate) fn new(wire: Wire, target: &Target) -> Client {
        Client { wire, target: target.clone(), open: None, connected: None }
    }

    /// When the connection that was used last was begun.
    pub(crate) fn connected(&self) -> Option<Instant> {
        self.connected
    }

    pub(crate) fn wire(&self) -> Wire {
        self.wire
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Sends a request and reads the answer. A request that has not reached the server is sent again over a
    /// new connection, as every client does.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Answer, Broken> {
        let asked = timeout(PATIENCE, self.ask_patiently(request)).await;
        asked.unwrap_or_else(|_| {
            self.open = None;
            Err(Broken::Cut(format!("no answer within {PATIENCE:?}")))
        })
    }

    async fn ask_patiently(&mut self, request: &Request) -> Result<Answer, Broken> {
        let mut connects = 0;
        loop {
            let mut open = if let Some(open) = self.open.take() {
                open
            } else {
                connects += 1;
                self.connected = Some(Instant::now());
                let connected = self.connect(request.server_name).await;
                connected.map_err(|error| Broken::Refused(error.to_string()))?
            };
            let asked = match &mut open {
                Open::Http1(sender) => ask_http1(sender, request).await,
                Open::Http2(sender) => ask_http2(sender, request, self.wire).await,
                Open::Http3(http3) => http3.ask(request).await,
            };
            match asked {
                Ok(answer) => {
                    self.open = Some(open);
                    return Ok(answer);
                }
                Err(failure) if failure.is_unsent && connects < CONNECTS_MAX => {}
                Err(failure) => return Err(failure.broken),
            }
        }
    }

    async fn connect(&self, host: &'static str) -> io::Result<Open> {
        if self.wire == Wire::Http3 {
            return Http3::connect(&self.target, host).await.map(Open::Http3);
        }
        let address = if self.wire.is_tls() { self.target.https } else { self.target.http };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        if !self.wire.is_tls() {
            return self.begin(stream).await;
        }
        let connector = TlsConnector::from(Arc::new(self.target.tls_for(self.wire.alpn())));
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let stream = connector.connect(name, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if agreed.as_deref() != Some(self.wire.alpn()) {
            return Err(io::Error::other(format!("{:?} was not agreed upon, but {agreed:?}", self.wire)));
        }
        self.begin(stream).await
    }

    async fn begin<S>(&self, stream: S) -> io::Result<Open>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if matches!(self.wire, Wire::Http1 | Wire::Http1Tls) {
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (sender, connection) = handshake.map_err(io::Error::other)?;
            tokio::spawn(connection);
            return Ok(Open::Http1(sender));
        }
        let (sender, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Open::Http2(sender))
    }
}

// === HTTP/1 ===

async fn ask_http1(
    sender: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    request: &Request,
) -> Result<Answer, Failure> {
    let unsent = |error: hyper::Error| Failure { is_unsent: true, broken: Broken::Silent(causes(&error)) };
    sender.ready().await.map_err(unsent)?;
    let head = request.head(&request.target, Version::HTTP_11, true);
    let sent = sender.send_request(head.map(|()| Full::new(request.body.clone()))).await;
    let response = sent.map_err(|error| Failure {
        is_unsent: error.is_canceled(),
        broken: Broken::Silent(causes(&error)),
    })?;
    let (parts, mut content) = response.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = content.frame().await {
        let frame = frame.map_err(|error| Failure::cut(&causes(&error), body.len()))?;
        body.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        request.linger().await;
    }
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
}

// === HTTP/2 ===

async fn ask_http2(
    sender: &mut h2::client::SendRequest<Bytes>,
    request: &Request,
    wire: Wire,
) -> Result<Answer, Failure> {
    let scheme = if wire.is_tls() { "https" } else { "http" };
    let uri = format!("{scheme}://{}{}", request.host, request.target);
    let head = request.head(&uri, Version::HTTP_2, false);
    let unsent = |error: h2::Error| Failure { is_unsent: true, broken: Broken::Silent(error.to_string()) };
    poll_fn(|cx| sender.poll_ready(cx)).await.map_err(unsent)?;
    let (response, mut content) = sender.send_request(head, request.body.is_empty()).map_err(unsent)?;
    let sending = async {
        // A server may answer before it has read everything, and then takes no more.
        let _ = send_http2(&mut content, request.body.clone(), true).await;
    };
    let reading = async {
        let silent = |error: h2::Error| Failure {
            is_unsent: is_unprocessed(&error),
            broken: Broken::Silent(error.to_string()),
        };
        let (parts, mut content) = response.await.map_err(silent)?.into_parts();
        let mut body = Vec::new();
        while let Some(piece) = content.data().await {
            let piece = piece.map_err(|error| Failure::cut(&error.to_string(), body.len()))?;
            let _ = content.flow_control().release_capacity(piece.len());
            body.extend_from_slice(&piece);
            request.linger().await;
        }
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    };
    tokio::join!(sending, reading).1
}

/// Sends content as fast as the windows permit; `ends` if it is the last one.
pub(crate) async fn send_http2(
    stream: &mut h2::SendStream<Bytes>,
    mut body: Bytes,
    ends: bool,
) -> Result<(), h2::Error> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        match poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(capacity) => {
                let piece = body.split_to(capacity?.min(body.len()));
                let is_end = ends && body.is_empty();
                stream.send_data(piece, is_end)?;
            }
            None => return Err(Reason::CANCEL.into()),
        }
    }
    Ok(())
}

/// Whether the server has said that it has not processed the request (RFC 9113, sections 6.8 and 8.7).
fn is_unprocessed(error: &h2::Error) -> bool {
    error.is_go_away() && error.reason() == Some(Reason::NO_ERROR)
        || error.reason() == Some(Reason::REFUSED_STREAM)
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
