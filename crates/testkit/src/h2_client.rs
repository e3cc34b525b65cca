//! An HTTP/2 client that keeps to the protocol. [`FrameClient`](crate::FrameClient) is for violations.

use std::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use http::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::Response;
use crate::h2_stream::{BodyReceiver, BodySender, fields, header_map};
use crate::runtime::{driver, wait};
use crate::tls::TlsClient;
use crate::tls_info::TlsInfo;

/// A connection. It ends with this value.
#[derive(Debug)]
pub struct H2Client {
    requests: SendRequest<Bytes>,
    driving: JoinHandle<Result<(), h2::Error>>,
    scheme: &'static str,
    tls: Option<TlsInfo>,
}

/// A request that was sent, and its response.
#[derive(Debug)]
pub struct Call {
    /// The rest of the request.
    pub sender: BodySender,
    response: ResponseFuture,
}

impl H2Client {
    /// Connects with prior knowledge, in clear.
    pub fn clear(address: SocketAddr) -> Self {
        Self::with(&Builder::new(), address, None)
    }

    /// Connects over TLS, where `h2` has to be agreed upon.
    pub fn tls(address: SocketAddr, tls: &TlsClient) -> Self {
        Self::with(&Builder::new(), address, Some(tls))
    }

    /// Connects with settings of one's own.
    pub fn with(settings: &Builder, address: SocketAddr, tls: Option<&TlsClient>) -> Self {
        wait("a connection", Self::begin(settings, address, tls))
    }

    async fn begin(settings: &Builder, address: SocketAddr, tls: Option<&TlsClient>) -> Self {
        let stream = TcpStream::connect(address).await.expect("somebody listens");
        stream.set_nodelay(true).expect("a socket option");
        let Some(tls) = tls else { return Self::shake_hands(settings, stream, None).await };
        let tls = tls.clone().alpn(&["h2"]);
        let connector = TlsConnector::from(tls.config());
        let stream = connector.connect(tls.server_name(address), stream).await.expect("a handshake");
        let info = TlsInfo::of_client(stream.get_ref().1);
        assert_eq!(info.alpn.as_deref(), Some("h2"));
        Self::shake_hands(settings, stream, Some(info)).await
    }

    async fn shake_hands<S>(settings: &Builder, stream: S, tls: Option<TlsInfo>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = settings.handshake(stream).await.expect("the preface is taken");
        let scheme = if tls.is_some() { "https" } else { "http" };
        Self { requests, driving: driver().spawn(connection), scheme, tls }
    }

    /// The result of the handshake. TLS only.
    pub fn tls_info(&self) -> &TlsInfo {
        self.tls.as_ref().expect("over TLS")
    }

    /// Begins a request once a stream may be opened; `is_end` if the head is all of it.
    pub fn call(
        &self,
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
        is_end: bool,
    ) -> Call {
        self.try_send(self.request(method, host, target, headers), is_end).expect("the connection is open")
    }

    /// Asks for a tunnel to speak another protocol in (RFC 8441).
    pub fn connect(&self, protocol: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> Call {
        let open = self.requests.is_extended_connect_protocol_enabled();
        assert!(open, "the other end has not said that it understands extended CONNECT");
        let mut request = self.request("CONNECT", host, target, headers);
        request.extensions_mut().insert(Protocol::from(protocol));
        self.try_send(request, false).expect("the connection is open")
    }

    /// Whether the server has announced extended CONNECT. Its settings come before any response.
    pub fn has_extended_connect(&self) -> bool {
        self.requests.is_extended_connect_protocol_enabled()
    }

    /// Sends a request that was made elsewhere, to a server that may be gone.
    pub fn try_send(&self, request: Request<()>, is_end: bool) -> Result<Call, h2::Error> {
        let mut requests = wait("a stream", self.requests.clone().ready())?;
        let (response, sender) = requests.send_request(request, is_end)?;
        Ok(Call { sender: BodySender::new(sender), response })
    }

    /// Sends a GET and reads the response.
    pub fn get(&self, host: &str, target: &str) -> Response {
        self.call("GET", host, target, &[], true).read_response()
    }

    /// Sends a request with a body and reads the response.
    pub fn post(&self, host: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut call = self.call("POST", host, target, headers, false);
        call.sender.send(body.to_vec(), true);
        call.read_response()
    }

    /// Waits until the connection has ended; why, if not in order.
    pub fn ending(&mut self) -> Result<(), h2::Error> {
        wait("an end", &mut self.driving).expect("it does not panic")
    }

    /// A request as [`call`](Self::call) sends it.
    pub fn request(&self, method: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(method.as_bytes()).expect("a method");
        *request.uri_mut() = format!("{}://{host}{target}", self.scheme).parse().expect("a URI");
        *request.headers_mut() = header_map(headers);
        request
    }
}

impl Drop for H2Client {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

impl Call {
    /// The next interim response.
    pub fn interim(&mut self) -> Response {
        let interim = wait("an interim response", poll_fn(|cx| self.response.poll_informational(cx)));
        response(&interim.expect("not the final one").expect("a response"))
    }

    /// The final response's head, and its body as a stream.
    pub fn head(&mut self) -> Result<(Response, BodyReceiver), h2::Error> {
        let (parts, body) = wait("a response", &mut self.response)?.into_parts();
        Ok((response(&http::Response::from_parts(parts, ())), BodyReceiver::new(body)))
    }

    /// Reads the whole response.
    pub fn read_response(&mut self) -> Response {
        self.try_read_response().expect("a response")
    }

    /// Reads a response from a server that may break off.
    pub fn try_read_response(&mut self) -> Result<Response, h2::Error> {
        let (mut response, mut body) = self.head()?;
        let (bytes, trailers) = body.read_to_end();
        response.body = bytes;
        response.trailers = trailers?;
        Ok(response)
    }
}

fn response(head: &http::Response<()>) -> Response {
    Response {
        version: format!("{:?}", head.version()),
        status: head.status().as_u16(),
        reason: String::new(),
        headers: fields(head.headers()),
        body: Vec::new(),
        trailers: Vec::new(),
    }
}
