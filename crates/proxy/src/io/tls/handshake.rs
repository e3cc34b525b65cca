//! The handshake with a client: reads its `ClientHello`, selects the host, and completes the handshake.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use observe::Reason;
use reactor::TcpStream;
use rustls::server::{Accepted, AcceptedAlert, Acceptor as HelloReader};
use rustls::{AlertDescription, Error};

use super::client::ClientTls;
use super::handshake_limiter::Entry;
use super::negotiation::Negotiation;
use super::server_configs::{CHALLENGE_PROTOCOL, Selection, ServerConfigs};
use super::session::{Handshake, Session};
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
    let hello = read_hello(&stream, buffer).await;
    let hello = match hello {
        Ok(hello) => hello,
        Err(NoHello::Http(buffer)) => return Err(Refused::PlainHttp(stream, buffer)),
        Err(NoHello::Other(refused)) => return Err(refused),
    };
    entry.pass().await;
    let name = hello.accepted.client_hello().server_name().map(Box::<str>::from);
    let is_challenge = is_challenge(&hello.accepted);
    let challenge =
        server_configs.filter(|_| is_challenge).and_then(|configs| configs.challenge(name.as_deref()));
    let select = || server_configs.and_then(|configs| configs.select(name.as_deref()));
    let Some(selection) = challenge.or_else(select) else {
        // Best effort: the connection is closed in any case.
        let _ = stream.try_write(&UNRECOGNIZED_NAME);
        return Err(Refused::Failed(Reason::UnknownServerName));
    };
    let mut handshake = Handshake::new(stream, negotiation(&hello.bytes, selection)?);
    handshake.complete(async || entry.pass().await).await.map_err(|error| Refused::by(&error))?;
    let client = ClientTls::new(handshake.facts(), name, selection);
    let session = handshake.finish().map_err(|error| Refused::Failed(reason(&error)))?;
    Ok((session, Box::new(client)))
}

/// Whether an authority verifies who serves the host.
fn is_challenge(hello: &Accepted) -> bool {
    let hello = hello.client_hello();
    hello
        .alpn()
        .is_some_and(|mut offered| offered.next() == Some(CHALLENGE_PROTOCOL) && offered.next().is_none())
}

/// A whole `ClientHello`.
struct Hello {
    accepted: Accepted,
    /// The bytes that the client has sent.
    bytes: Vec<u8>,
}

/// Why there is no `ClientHello`.
enum NoHello {
    Http(Buffer),
    Other(Refused),
}

/// Reads until the `ClientHello` is complete.
async fn read_hello(stream: &TcpStream, mut buffer: Buffer) -> Result<Hello, NoHello> {
    let mut reader = HelloReader::default();
    let mut bytes = Vec::new();
    loop {
        let is_first = bytes.is_empty();
        match poll_fn(|cx| poll_read(stream, &mut buffer, cx)).await {
            Ok(0) | Err(_) if is_first => return Err(NoHello::Other(Refused::Gone)),
            Ok(0) | Err(_) => return Err(NoHello::Other(Refused::Failed(Reason::HandshakeAborted))),
            Ok(_) if is_first && is_http(buffer.data()) => return Err(NoHello::Http(buffer)),
            Ok(_) => bytes.extend_from_slice(buffer.data()),
        }
        if let Some(accepted) = parse_hello(&mut reader, &mut buffer, stream).map_err(NoHello::Other)? {
            return Ok(Hello { accepted, bytes });
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
            return Ok(Some(hello));
        }
    }
    Ok(None)
}

/// Whether the first byte is a letter, as in a method; no TLS record begins with one.
fn is_http(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|&first| first.is_ascii_alphabetic())
}

/// The handshake with this `ClientHello`. Its first step is the one that costs CPU time: it contains the
/// signature.
fn negotiation(hello: &[u8], selection: Selection<'_>) -> Result<Negotiation, Refused> {
    let negotiation = selection.server_config.config().and_then(Negotiation::server);
    let mut negotiation = negotiation.map_err(|error| {
        tracing::warn!(%error, "a handshake cannot be answered");
        Refused::Failed(Reason::BadHandshake)
    })?;
    negotiation.receive(hello);
    Ok(negotiation)
}

impl Refused {
    /// Sends an alert, if the socket has room for it.
    fn with_alert(stream: &TcpStream, error: &Error, mut alert: AcceptedAlert) -> Self {
        let mut bytes = Vec::new();
        // Nothing fails that is written to memory.
        let _ = alert.write_all(&mut bytes);
        let _ = stream.try_write(if bytes.is_empty() { &DECODE_ERROR } else { &bytes });
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
