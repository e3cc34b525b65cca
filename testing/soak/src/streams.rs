//! Clients of what is no single exchange: tunnels of `WebSockets`, streams of gRPC, TCP and UDP services. All
//! that is sent comes back, and is compared.
//!
//! Must not be in here: clients that break rules (`rude`).

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adversary::Random;
use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::ask::send_http2;
use crate::content;
use crate::exchange::ID;
use crate::ledger::Outcome;
use crate::objects::{CALM, GRPC, TCP_PORT, UDP_PORT, https, proxy};
use crate::parts::{Part, Parts};
use crate::shared::Shared;
use crate::windows::Kind;

/// Longest wait for anything to come back.
const PATIENCE: Duration = Duration::from_secs(150);
/// Longest wait for a datagram, which may be lost.
const DATAGRAM_PATIENCE: Duration = Duration::from_secs(2);

/// Starts those that are parts of the run.
pub(crate) fn start(shared: &Arc<Shared>, parts: &Parts) {
    for (part, name, count) in [(Part::Tunnels, "tunnel", 3), (Part::Grpc, "grpc", 3), (Part::Tcp, "tcp", 1)]
    {
        let count = if parts.has(part) { count } else { 0 };
        for number in 0..count {
            tokio::spawn(repeat(Arc::clone(shared), name, number));
        }
    }
    if parts.has(Part::Udp) {
        tokio::spawn(datagrams(Arc::clone(shared)));
    }
}

async fn repeat(shared: Arc<Shared>, name: &'static str, number: u64) {
    let mut random = Random::of_case(shared.seed, name, number);
    while shared.goes_on().await {
        let since = Instant::now();
        let result = match name {
            "tunnel" => tunnel(&shared, &mut random).await,
            "grpc" => grpc(&shared, &mut random).await,
            _ => tcp(&mut random).await,
        };
        let during = |kind| shared.windows.overlaps(kind, since);
        match result {
            Ok(()) => shared.count(name),
            // Descriptors may also be missing for the connection to the endpoint.
            Err(_) if during(Kind::Kill) || during(Kind::Descriptors) || during(Kind::Memory) => {
                shared.count("streams that were excused");
            }
            // A connection is closed at the end of a process just when its client uses it.
            Err(error) if during(Kind::Restart) && error.kind() == UNANSWERED => {
                shared.count("streams that were excused");
            }
            Err(error) => {
                shared.report.fault(format!("{name} {number}, after {:.1?}: {error}", since.elapsed()));
            }
        }
        sleep(Duration::from_millis(20 + random.below(300) as u64)).await;
    }
}

/// A tunnel through which messages go and come back.
async fn tunnel(shared: &Shared, random: &mut Random) -> io::Result<()> {
    let id = shared.ledger.begin(CALM);
    let result = timeout(PATIENCE, tunnel_of(id, random)).await.unwrap_or_else(|_| Err(late()));
    let outcome = if result.is_ok() { Outcome::Answered(101) } else { Outcome::Broken };
    shared.ledger.end(id, outcome);
    result
}

async fn tunnel_of(id: u64, random: &mut Random) -> io::Result<()> {
    let mut stream = TcpStream::connect(proxy(lab::Network::HTTP)).await?;
    let head = format!(
        "GET /chat HTTP/1.1\r\nHost: {CALM}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c29ha3NvYWtzb2Frc29haw==\r\n{ID}: {id}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.map_err(unanswered)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.map_err(unanswered)?);
    }
    if !answer.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(format!("no tunnel: {:?}", String::from_utf8_lossy(&answer))));
    }
    converse(&mut stream, random).await?;
    stream.shutdown().await?;
    match stream.read_u8().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        other => Err(io::Error::other(format!("instead of an end: {other:?}"))),
    }
}

/// A connection of the TCP service.
async fn tcp(random: &mut Random) -> io::Result<()> {
    let conversation = async {
        let mut stream = TcpStream::connect(proxy(TCP_PORT)).await?;
        converse(&mut stream, random).await
    };
    timeout(PATIENCE, conversation).await.unwrap_or_else(|_| Err(late()))
}

/// Sends messages, each of which has to come back.
async fn converse(stream: &mut TcpStream, random: &mut Random) -> io::Result<()> {
    for _ in 0..=random.below(20) {
        let message = content::bytes(random.number(), 1 + random.below(20_000));
        stream.write_all(&message).await?;
        let mut answer = vec![0; message.len()];
        stream.read_exact(&mut answer).await?;
        if content::sum(&answer) != content::sum(&message) {
            return Err(io::Error::other("another message came back"));
        }
        sleep(Duration::from_millis(random.below(200) as u64)).await;
    }
    Ok(())
}

/// A stream of gRPC in both directions.
async fn grpc(shared: &Shared, random: &mut Random) -> io::Result<()> {
    let id = shared.ledger.begin(GRPC);
    let result = timeout(PATIENCE, grpc_of(shared, id, random)).await.unwrap_or_else(|_| Err(late()));
    let outcome = if result.is_ok() { Outcome::Answered(200) } else { Outcome::Broken };
    shared.ledger.end(id, outcome);
    result
}

async fn grpc_of(shared: &Shared, id: u64, random: &mut Random) -> io::Result<()> {
    let connector = TlsConnector::from(Arc::new(shared.target.tls_for(b"h2")));
    let name = ServerName::try_from(GRPC).map_err(io::Error::other)?;
    let stream = connector.connect(name, TcpStream::connect(https()).await?).await.map_err(unanswered)?;
    let (sender, connection) = h2::client::handshake(stream).await.map_err(unanswered)?;
    tokio::spawn(connection);
    let request = http::Request::post(format!("https://{GRPC}/soak.Echo/Stream"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header(ID, id.to_string())
        .body(())
        .map_err(io::Error::other)?;
    let mut sender = sender.ready().await.map_err(unanswered)?;
    let (response, mut out) = sender.send_request(request, false).map_err(unanswered)?;
    let mut body = None;
    let mut response = Some(response);
    for _ in 0..=random.below(20) {
        let message = framed(&content::bytes(random.number(), 1 + random.below(20_000)));
        let sent = send_http2(&mut out, message.clone(), false).await;
        sent.map_err(|error| if body.is_none() { unanswered(error) } else { io::Error::other(error) })?;
        if let Some(response) = response.take() {
            let (head, stream) = response.await.map_err(unanswered)?.into_parts();
            if head.status != 200 {
                return Err(io::Error::other(format!("status {}", head.status)));
            }
            body = Some(stream);
        }
        let Some(stream) = &mut body else { return Err(late()) };
        let answer = read_exactly(stream, message.len()).await?;
        if content::sum(&answer) != content::sum(&message) {
            return Err(io::Error::other("another message came back"));
        }
        sleep(Duration::from_millis(random.below(200) as u64)).await;
    }
    out.send_data(Bytes::new(), true).map_err(io::Error::other)?;
    let Some(mut stream) = body else { return Err(late()) };
    if stream.data().await.is_some() {
        return Err(io::Error::other("content after the last message"));
    }
    let trailers = stream.trailers().await.map_err(io::Error::other)?;
    let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
    if status.is_none_or(|status| status != "0") {
        return Err(io::Error::other(format!("trailers {trailers:?}")));
    }
    Ok(())
}

/// A message of gRPC: not compressed, with its length.
fn framed(message: &[u8]) -> Bytes {
    let length = (message.len() as u32).to_be_bytes();
    [&[0][..], &length, message].concat().into()
}

async fn read_exactly(stream: &mut h2::RecvStream, len: usize) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    while answer.len() < len {
        let Some(piece) = stream.data().await else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        let piece = piece.map_err(io::Error::other)?;
        let _ = stream.flow_control().release_capacity(piece.len());
        answer.extend_from_slice(&piece);
    }
    Ok(answer)
}

/// Datagrams of the UDP service. One may be lost, but none may be another one.
async fn datagrams(shared: Arc<Shared>) {
    let mut random = Random::of_case(shared.seed, "datagrams", 0);
    let mut answer = vec![0; 65_536];
    while shared.goes_on().await {
        // A socket of its own for some of them is a session of its own.
        let Ok(socket) = UdpSocket::bind(("0.0.0.0", 0)).await else { continue };
        for _ in 0..=random.below(30) {
            let datagram = content::bytes(random.number(), 8 + random.below(1200));
            let _ = socket.send_to(&datagram, proxy(UDP_PORT)).await;
            match timeout(DATAGRAM_PATIENCE, socket.recv_from(&mut answer)).await {
                Ok(Ok((len, _))) if answer[..len] == datagram => shared.count("datagrams"),
                Ok(Ok((len, _))) => {
                    shared.report.fault(format!("another datagram came back, of {len} bytes"));
                }
                // A late answer must not be taken for the next answer.
                _ => {
                    shared.count("datagrams lost");
                    break;
                }
            }
            sleep(Duration::from_millis(random.below(50) as u64)).await;
        }
    }
}

/// The kind of an error before an answer.
const UNANSWERED: io::ErrorKind = io::ErrorKind::NotConnected;

fn unanswered(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(UNANSWERED, error)
}

fn late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
