//! HTTP/2 in clear with prior knowledge: a payload server that also answers gRPC, and a client for single
//! requests.
//!
//! The server is the backend of proxies that speak HTTP/2 to upstreams. Must not be in here: figures, and
//! more of gRPC than one message each way.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{RecvStream, client};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::socket;

/// The limit of Go's HTTP/2 servers, with which many backends are written.
const STREAMS_MAX: u32 = 250;
/// Larger than the largest body, so that no response waits for flow control on this side.
const WINDOW_BYTES: u32 = 4 << 20;
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Messages in the answer to a method `Stream`, each in a frame of its own.
pub const STREAMED_MESSAGES: usize = 1000;

const GRPC: &str = "application/grpc";
const GRPC_STATUS: &str = "grpc-status";
/// The prefix of every gRPC message: a byte for "not compressed", and the length in four bytes.
const GRPC_PREFIX_BYTES: usize = 5;

/// An HTTP/2 server in clear, on its own thread. Dropping it stops it and closes its connections.
///
/// It answers `/0`, `/1k`, `/10k` and `/1m` with a body of that size, and a gRPC call with the message that
/// was sent: once, or [`STREAMED_MESSAGES`] times where the method is called `Stream`.
#[derive(Debug)]
pub struct H2c {
    address: SocketAddr,
    /// Closing this channel stops the server.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// The response that [`ask`] returns.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The complete body.
    pub body: Vec<u8>,
    /// `grpc-status`, from the trailers, or from the head of a response without a body.
    pub grpc_status: Option<String>,
}

impl H2c {
    /// Serves at `address` (port 0: any free one).
    ///
    /// # Errors
    ///
    /// When it cannot listen on the address, or no thread can be started.
    pub fn bind(address: SocketAddr) -> io::Result<H2c> {
        let listener = socket::listen(address)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = single_threaded()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let thread = thread::Builder::new().name("h2c".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! { () = accept(listener) => {}, _ = stopped => {} }
            });
        })?;
        Ok(H2c { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Blocks until the process ends.
    pub fn serve_forever(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for H2c {
    fn drop(&mut self) {
        self.stop.take();
        self.join();
    }
}

/// `message` with the prefix of gRPC.
pub fn grpc_frame(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// Requests `path` from a server, or calls the gRPC method `path` with a message. Blocks until the response
/// is complete.
///
/// # Errors
///
/// When the server cannot be reached, or its response is not complete or not valid.
pub fn ask(address: SocketAddr, host: &str, path: &str, message: Option<&[u8]>) -> io::Result<Answer> {
    let request = request(host, path, message.is_some()).map_err(io::Error::other)?;
    let body = message.map(|message| Bytes::from(grpc_frame(message)));
    single_threaded()?.block_on(async {
        let answer = timeout(ANSWER_LIMIT, exchange(address, request, body));
        answer.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    })
}

fn single_threaded() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

async fn accept(listener: TcpListener) {
    loop {
        // A connection that was closed before it was accepted does not matter.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    }
}

/// Serves one connection, until its client ends it or violates the protocol.
async fn serve(stream: TcpStream) {
    let handshake = server::Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .handshake(stream);
    let Ok(mut connection) = handshake.await else { return };
    let bodies = Bodies::default();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let is_grpc =
            request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == GRPC.as_bytes());
        if is_grpc {
            let times = if request.uri().path().ends_with("/Stream") { STREAMED_MESSAGES } else { 1 };
            tokio::spawn(answer_call(request.into_body(), respond, times));
        } else {
            // This fails only if the client has gone away.
            let _ = bodies.answer(request.uri().path(), &mut respond);
        }
    }
}

/// The static bodies.
struct Bodies([(&'static str, Bytes); 4]);

impl Default for Bodies {
    fn default() -> Bodies {
        let sizes = [("/0", 0), ("/1k", 1024), ("/10k", 10 * 1024), ("/1m", 1024 * 1024)];
        Bodies(sizes.map(|(path, size)| (path, vec![b'x'; size].into())))
    }
}

impl Bodies {
    fn answer(&self, path: &str, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
        let body = self.0.iter().find(|(name, _)| *name == path).map(|(_, body)| body.clone());
        let mut head = Response::new(());
        *head.status_mut() = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let body = body.unwrap_or_default();
        head.headers_mut().insert("content-length", HeaderValue::from(body.len()));
        head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let mut stream = respond.send_response(head, body.is_empty())?;
        if body.is_empty() { Ok(()) } else { stream.send_data(body, true) }
    }
}

/// Answers a call with the message that it received, so many times.
async fn answer_call(mut body: RecvStream, mut respond: SendResponse<Bytes>, times: usize) {
    let Ok(message) = collect(&mut body).await else { return };
    let mut head = Response::new(());
    head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    let Ok(mut stream) = respond.send_response(head, false) else { return };
    // `INVALID_ARGUMENT` and `OK`.
    let status = if is_one_message(&message) { "0" } else { "3" };
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    let message = Bytes::from(message);
    for _ in 0..times {
        if stream.send_data(message.clone(), false).is_err() {
            return;
        }
        // This message leaves before the next one: a stream of events has one at a time.
        tokio::task::yield_now().await;
    }
    let _ = stream.send_trailers(trailers);
}

fn is_one_message(bytes: &[u8]) -> bool {
    bytes.len() >= GRPC_PREFIX_BYTES && grpc_frame(&bytes[GRPC_PREFIX_BYTES..]) == bytes
}

async fn collect(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn request(host: &str, path: &str, is_grpc: bool) -> Result<Request<()>, http::Error> {
    let request = Request::builder().uri(format!("http://{host}{path}"));
    let request = if is_grpc {
        request.method(Method::POST).header(CONTENT_TYPE, GRPC).header("te", "trailers")
    } else {
        request
    };
    request.body(())
}

async fn exchange(address: SocketAddr, request: Request<()>, body: Option<Bytes>) -> io::Result<Answer> {
    let (sender, connection) =
        client::handshake(TcpStream::connect(address).await?).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let mut sender = sender.ready().await.map_err(io::Error::other)?;
    let (answer, mut stream) = sender.send_request(request, body.is_none()).map_err(io::Error::other)?;
    if let Some(body) = body {
        stream.send_data(body, true).map_err(io::Error::other)?;
    }
    let (head, mut body) = answer.await.map_err(io::Error::other)?.into_parts();
    let bytes = collect(&mut body).await.map_err(io::Error::other)?;
    let trailers = body.trailers().await.map_err(io::Error::other)?.unwrap_or_default();
    let grpc_status = trailers.get(GRPC_STATUS).or(head.headers.get(GRPC_STATUS));
    let grpc_status = grpc_status.and_then(|status| status.to_str().ok()).map(Into::into);
    Ok(Answer { status: head.status.as_u16(), body: bytes, grpc_status })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> H2c {
        H2c::bind(([127, 0, 0, 1], 0).into()).expect("a free port")
    }

    #[test]
    fn bodies_have_their_sizes() {
        let server = server();
        for (path, status, size) in
            [("/0", 200, 0), ("/1k", 200, 1024), ("/1m", 200, 1 << 20), ("/x", 404, 0)]
        {
            let answer = ask(server.local_addr(), "x.test", path, None).expect("an answer");
            assert_eq!(
                (answer.status, answer.body.len(), answer.grpc_status),
                (status, size, None),
                "{path}"
            );
        }
    }

    #[test]
    fn a_call_is_answered_with_its_message_and_a_status() {
        let server = server();
        let answer = ask(server.local_addr(), "x.test", "/a.B/C", Some(b"hello")).expect("an answer");
        assert_eq!(answer, Answer { status: 200, body: grpc_frame(b"hello"), grpc_status: Some("0".into()) });
    }

    #[test]
    fn a_stream_has_its_message_many_times() {
        let server = server();
        // The client of the h2 crate takes many small frames for an attack.
        let message = [b'x'; 1000];
        let answer = ask(server.local_addr(), "x.test", "/a.B/Stream", Some(&message)).expect("an answer");
        assert_eq!(answer.body, grpc_frame(&message).repeat(STREAMED_MESSAGES));
        assert_eq!(answer.grpc_status.as_deref(), Some("0"));
    }
}
