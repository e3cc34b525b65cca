//! The handshake with a client: reads its `ClientHello`, selects the host, and completes the handshake.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use observe::Reason;
use reactor::TcpStream;
use rustls::server::{Accepted, AcceptedAlert, Acceptor as HelloReader};
use rustls::{AlertDescription, Connection, Error};

use super::client::ClientTls;
use super::handshake_limiter::Entry;
use super::server_configs::{Selection, ServerConfigs};
use super::session::{Now, Session};
use crate::io::buffer::Buffer;

/// Why there is no TLS session.
pub(crate) enum Refused {
    /// The client sent plain HTTP. The buffer holds what it has sent.
    PlainHttp(TcpStream, Buffer),
    /// The handshake failed. An alert was sent, if the socket had room for it.
    Failed(Reason),
    /// The client has closed the connection without having sent anything.
    Gone,
}

/// Fatal `unrecognized_name` (RFC 6066 section 3), in a record of its own.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// Fatal `decode_error` (RFC 8446 section 6.2), for what rustls has no alert for.
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// Makes a handshake. The caller has to limit its time. `buffer` is used to receive the `ClientHello`.
/// Without configurations, since the listener is gone, no name is served.
pub(crate) async fn accept(
    stream: TcpStream,
    server_configs: Option<&ServerConfigs>,
    entry: &Entry<'_>,
    buffer: Buffer,
) -> Result<(Box<Session>, Box<ClientTls>), Refused> {
    let (stream, hello) = read_hello(stream, buffer).await?;
    entry.pass().await;
    let name = hello.client_hello().server_name().map(Box::<str>::from);
    let Some(selection) = server_configs.and_then(|configs| configs.select(name.as_deref())) else {
        // Best effort: the connection is closed in any case.
        let _ = stream.try_write(&UNRECOGNIZED_NAME);
        return Err(Refused::Failed(Reason::UnknownServerName));
    };
    let mut session = begin(stream, hello, selection)?;
    while session.tls().is_handshaking() {
        poll_fn(|cx| session.poll_flush(cx)).await.map_err(|error| Refused::by(&error))?;
        poll_fn(|cx| session.poll_receive(cx)).await.map_err(|error| Refused::by(&error))?;
        if session.is_next_step_costly() {
            entry.pass().await;
        }
        session.process().map_err(|error| Refused::by(&error))?;
    }
    let client = ClientTls::new(session.tls(), name, selection);
    Ok((session, Box::new(client)))
}

/// Reads until the `ClientHello` is complete.
async fn read_hello(stream: TcpStream, mut buffer: Buffer) -> Result<(TcpStream, Accepted), Refused> {
    let mut reader = HelloReader::default();
    let mut is_first = true;
    loop {
        match poll_fn(|cx| poll_read(&stream, &mut buffer, cx)).await {
            Ok(0) | Err(_) if is_first => return Err(Refused::Gone),
            Ok(0) | Err(_) => return Err(Refused::Failed(Reason::HandshakeAborted)),
            Ok(_) if is_first && is_http(buffer.data()) => return Err(Refused::PlainHttp(stream, buffer)),
            Ok(_) => is_first = false,
        }
        if let Some(hello) = parse_hello(&mut reader, &mut buffer, &stream)? {
            return Ok((stream, hello));
        }
    }
}

fn poll_read(stream: &TcpStream, buffer: &mut Buffer, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    // An idle connection holds no buffer.
    buffer.reserve_small();
    let read = stream.poll_read(cx, buffer.free());
    if read.is_pending() {
        buffer.release();
    }
    let len = ready!(read)?;
    buffer.filled(len);
    Poll::Ready(Ok(len))
}

/// Passes the received bytes to rustls.
fn parse_hello(
    reader: &mut HelloReader,
    buffer: &mut Buffer,
    stream: &TcpStream,
) -> Result<Option<Accepted>, Refused> {
    while !buffer.is_empty() {
        // rustls limits a message to 64 KiB.
        let len = reader.read_tls(&mut buffer.data()).map_err(|_| Refused::Failed(Reason::BadHandshake))?;
        buffer.consume(len);
        if let Some(hello) =
            reader.accept().map_err(|(error, alert)| Refused::with_alert(stream, &error, alert))?
        {
            // A client sends nothing after its `ClientHello` before it is answered. Any such bytes are
            // dropped, and the handshake fails.
            buffer.consume(buffer.len());
            return Ok(Some(hello));
        }
    }
    Ok(None)
}

/// Whether the first byte is a letter, as in a method; no TLS record begins with one.
fn is_http(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|&first| first.is_ascii_alphabetic())
}

/// Answers the `ClientHello`, which is the part that costs CPU time: it contains the signature.
fn begin(stream: TcpStream, hello: Accepted, selection: Selection<'_>) -> Result<Box<Session>, Refused> {
    let config = selection.server_config.config().map_err(|error| {
        tracing::warn!(%error, "a handshake cannot be answered");
        Refused::Failed(Reason::BadHandshake)
    })?;
    match hello.into_connection(config) {
        Ok(tls) => Ok(Box::new(Session::new(stream, Connection::Server(tls)))),
        Err((error, alert)) => Err(Refused::with_alert(&stream, &error, alert)),
    }
}

impl Refused {
    /// Sends an alert, if the socket has room for it.
    fn with_alert(stream: &TcpStream, error: &Error, mut alert: AcceptedAlert) -> Self {
        if matches!(alert.write(&mut Now(stream)), Ok(0)) {
            let _ = stream.try_write(&DECODE_ERROR);
        }
        Self::Failed(reason(error))
    }

    fn by(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
        Self::Failed(tls.map_or(Reason::HandshakeAborted, reason))
    }
}

/// The reason by which a failed handshake is counted.
fn reason(error: &Error) -> Reason {
    tracing::debug!(%error, "handshake failed");
    match error {
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Reason::NoCommonTlsParameters,
        // Alerts of clients that do not accept our certificate.
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate,
        ) => Reason::CertificateRefused,
        _ => Reason::BadHandshake,
    }
}
