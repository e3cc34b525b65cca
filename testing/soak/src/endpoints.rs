//! The endpoints of all Services: web servers of several tempers, of gRPC, of TCP and UDP, and the auth
//! service.
//!
//! Must not be in here: addresses, and who asks.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};

use crate::ask::send_http2;
use crate::content;
use crate::exchange::ID;
use crate::switch::{Parting, Switch};

/// The behaviour of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temper {
    /// Answers each request.
    Calm,
    /// Answers, and says that it is the canary.
    Canary,
    /// Answers, hangs, breaks off, fails, by the request's identifier.
    Moody,
    /// Allows requests with the right token.
    Auth,
}

/// The token that the auth service takes.
pub(crate) const TOKEN: &str = "Bearer right";
/// Header by which an endpoint says who it is.
pub(crate) const SERVED_BY: &str = "x-served-by";
/// Time for which a moody endpoint hangs, longer than `proxy-read-timeout` of its route.
const HANGS: Duration = Duration::from_secs(3);
const BODY_BYTES_MAX: usize = 16 << 20;

type Body = BoxBody<Bytes, std::io::Error>;

/// Serves HTTP/1 at an address while the switch is on.
pub(crate) async fn serve(address: SocketAddr, temper: Temper, parting: Parting, switch: Switch) {
    let with = switch.clone();
    switch.listen(address, parting, move |stream| converse(stream, temper, with.clone())).await;
}

async fn converse(stream: TcpStream, temper: Temper, switch: Switch) {
    if temper == Temper::Moody {
        // Each end of a connection is a reset.
        let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
    let service = service_fn(move |request| answer(request, temper));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = switch.until(false) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn answer(request: Request<Incoming>, temper: Temper) -> Result<Response<Body>, std::io::Error> {
    if temper == Temper::Auth {
        let is_right = request.headers().get(AUTHORIZATION).is_some_and(|token| token == TOKEN);
        let status = if is_right { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        return Ok(plain(status, Bytes::new()));
    }
    let id = request.headers().get(ID).cloned();
    if temper == Temper::Moody {
        let number = id.as_ref().and_then(|id| id.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
        match content::mixed(number) % 12 {
            0 => return Err(std::io::Error::other("no answer")),
            1 => sleep(HANGS).await,
            2 => return Ok(cut()),
            3 => return Ok(plain(StatusCode::INTERNAL_SERVER_ERROR, Bytes::from_static(b"moody"))),
            _ => {}
        }
    }
    if request.headers().contains_key(UPGRADE) {
        return Ok(tunnel(request));
    }
    let path = request.uri().path().to_owned();
    let is_cacheable = path.starts_with("/cached/");
    let mut response = match path.split('/').skip(1).collect::<Vec<_>>()[..] {
        ["blob" | "cached", key, length] => match (key.parse(), length.parse()) {
            (Ok(key), Ok(length)) => plain(StatusCode::OK, content::bytes(key, length).into()),
            _ => plain(StatusCode::BAD_REQUEST, Bytes::new()),
        },
        ["sum"] => {
            let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
            plain(StatusCode::OK, content::sum(&body[..body.len().min(BODY_BYTES_MAX)]).into())
        }
        _ => plain(StatusCode::NOT_FOUND, Bytes::new()),
    };
    let headers = response.headers_mut();
    if is_cacheable {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=5"));
    } else if let Some(id) = id {
        // An answer to another request is found out by it.
        headers.insert(ID, id);
    }
    let name = if temper == Temper::Canary { "canary" } else { "stable" };
    headers.insert(SERVED_BY, HeaderValue::from_static(name));
    Ok(response)
}

fn plain(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).map_err(|never: Infallible| match never {}).boxed());
    *response.status_mut() = status;
    response
}

/// An answer that is broken off in its body.
fn cut() -> Response<Body> {
    let pieces = [Ok(Frame::data(Bytes::from_static(b"half"))), Err(std::io::Error::other("cut"))];
    Response::new(BodyExt::boxed(StreamBody::new(futures::stream::iter(pieces))))
}

/// A tunnel in which everything comes back.
fn tunnel(request: Request<Incoming>) -> Response<Body> {
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let (mut reader, mut writer) = split(TokioIo::new(upgraded));
        let _ = copy(&mut reader, &mut writer).await;
        let _ = writer.shutdown().await;
    });
    response
}

/// Sends back what a connection of TCP brings.
pub(crate) async fn echo(mut stream: TcpStream) {
    let mut piece = vec![0; 16 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut piece).await {
        if stream.write_all(&piece[..len]).await.is_err() {
            return;
        }
    }
}

/// Sends back datagrams.
pub(crate) async fn echo_datagrams(address: SocketAddr) {
    let Ok(socket) = UdpSocket::bind(address).await else { return };
    let mut datagram = vec![0; 65_536];
    loop {
        if let Ok((len, peer)) = socket.recv_from(&mut datagram).await {
            let _ = socket.send_to(&datagram[..len], peer).await;
        }
    }
}

/// A server of gRPC that returns each message of a stream.
pub(crate) async fn echo_messages(stream: TcpStream) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let id = request.headers().get(ID).cloned();
            let mut response = Response::new(());
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
            response.headers_mut().extend(id.map(|id| (http::HeaderName::from_static(ID), id)));
            let Ok(mut out) = respond.send_response(response, false) else { return };
            let mut body = request.into_body();
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
                if send_http2(&mut out, piece, false).await.is_err() {
                    return;
                }
            }
            let trailers = HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            let _ = out.send_trailers(trailers);
        });
    }
    // The last frames are to be sent.
    let _ = timeout(Duration::from_secs(1), poll_fn(|cx| connection.poll_closed(cx))).await;
}

/// Answers each request with what is no HTTP.
pub(crate) async fn garbage(mut stream: TcpStream) {
    let mut piece = [0; 4096];
    while let Ok(1..) = stream.read(&mut piece).await {
        if stream.write_all(b"HTTP/9 what\r\n\x00\r\n\r\n").await.is_err() {
            return;
        }
    }
}
