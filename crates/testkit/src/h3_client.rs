//! An HTTP/3 client that keeps to the protocol, and one of QUIC for violations.

use std::future::poll_fn;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::Code;
use h3_quinn::{BidiStream, OpenStreams};
use http::{Method, Request};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::pki_types::CertificateDer;
use quinn::{
    ClientConfig, Connecting, ConnectionError, Endpoint, RecvStream, SendStream, TokenStore, TransportConfig,
    VarInt, ZeroRttAccepted,
};
use tokio::task::JoinHandle;

use crate::h2_stream::{fields, header_map};
use crate::runtime::{driver, wait};
use crate::tls::TlsClient;
use crate::{Certificate, Response};

/// A connection of QUIC without HTTP. It ends with this value.
#[derive(Debug)]
pub struct QuicClient {
    endpoint: Endpoint,
    connection: quinn::Connection,
}

/// A connection of HTTP/3. It ends with this value.
pub struct H3Client {
    quic: QuicClient,
    requests: SendRequest<OpenStreams, Bytes>,
    driving: JoinHandle<String>,
}

/// A request that was sent, and its response.
pub struct H3Call(RequestStream<BidiStream<Bytes>, Bytes>);

/// A connection that may send before its handshake is complete.
pub struct EarlyClient {
    /// The connection, whose handshake may be in progress.
    pub quic: QuicClient,
    accepted: ZeroRttAccepted,
}

impl EarlyClient {
    /// Waits for the handshake; whether the server has taken what was sent before.
    pub fn is_accepted(&mut self) -> bool {
        wait("the handshake", &mut self.accepted)
    }
}

/// A unidirectional stream of the server.
#[derive(Debug)]
pub struct QuicReceiver(RecvStream);

impl QuicReceiver {
    /// The next bytes.
    pub fn read_exactly(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        wait("bytes", self.0.read_exact(&mut bytes)).expect("no end");
        bytes
    }
}

/// A stream of a [`QuicClient`].
#[derive(Debug)]
pub struct QuicStream {
    sender: SendStream,
    receiver: RecvStream,
}

impl QuicClient {
    /// Connects; the name of `tls` has to be one that is served.
    pub fn connect(address: SocketAddr, tls: &TlsClient) -> Self {
        Self::try_connect(address, tls).expect("a connection over QUIC")
    }

    /// The same where it may fail.
    pub fn try_connect(address: SocketAddr, tls: &TlsClient) -> Result<Self, ConnectionError> {
        wait("a connection over QUIC", Self::begin(address, tls))
    }

    /// The same with tokens of earlier connections.
    pub fn with_tokens(address: SocketAddr, tls: &TlsClient, tokens: &Arc<QuicTokens>) -> Self {
        let begun = Self::begin_with(address, tls, Some(Arc::clone(tokens)));
        wait("a connection over QUIC", begun).expect("a connection over QUIC")
    }

    async fn begin(address: SocketAddr, tls: &TlsClient) -> Result<Self, ConnectionError> {
        Self::begin_with(address, tls, None).await
    }

    async fn begin_with(
        address: SocketAddr,
        tls: &TlsClient,
        tokens: Option<Arc<QuicTokens>>,
    ) -> Result<Self, ConnectionError> {
        let (endpoint, connecting) = Self::prepare(address, tls, tokens, false);
        let connection = connecting.await?;
        Ok(Self { endpoint, connection })
    }

    /// Sends before the handshake is complete, by a session that `tls` has kept; none where it has none that
    /// allows this.
    pub fn connect_early(address: SocketAddr, tls: &TlsClient) -> Option<EarlyClient> {
        let _running = driver().enter();
        let (endpoint, connecting) = Self::prepare(address, tls, None, true);
        let (connection, accepted) = connecting.into_0rtt().ok()?;
        Some(EarlyClient { quic: Self { endpoint, connection }, accepted })
    }

    fn prepare(
        address: SocketAddr,
        tls: &TlsClient,
        tokens: Option<Arc<QuicTokens>>,
        is_early: bool,
    ) -> (Endpoint, Connecting) {
        let mut crypto = quinn::rustls::ClientConfig::clone(&tls.quic_config());
        crypto.enable_early_data = is_early;
        let crypto = QuicClientConfig::try_from(crypto).expect("a suite for Initial packets");
        let mut config = ClientConfig::new(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(VarInt::from_u32(60_000).into()));
        // A reader that reads nothing is to have little in its own buffers.
        transport.stream_receive_window(VarInt::from_u32(256 << 10));
        config.transport_config(Arc::new(transport));
        if let Some(tokens) = tokens {
            config.token_store(tokens);
        }
        let local = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let local = if address.is_ipv4() { SocketAddr::from(([0, 0, 0, 0], 0)) } else { local };
        let endpoint = Endpoint::client(local).expect("a free port");
        let name = tls.server_name(address).to_str().into_owned();
        let connecting =
            endpoint.connect_with(config, address, &name).expect("a configuration that is right");
        (endpoint, connecting)
    }

    /// The next unidirectional stream that the server opens.
    pub fn accept_uni(&self) -> QuicReceiver {
        QuicReceiver(
            wait("a stream of the server", self.connection.accept_uni()).expect("the connection is open"),
        )
    }

    /// Whether the server has shown this certificate.
    pub fn shows(&self, certificate: &Certificate) -> bool {
        let identity = self.connection.peer_identity().expect("the handshake is complete");
        let chain = identity.downcast::<Vec<CertificateDer<'static>>>().expect("a chain");
        chain.first().is_some_and(|leaf| leaf.as_ref() == certificate.der())
    }

    /// Opens a unidirectional stream with these bytes, and leaves it open.
    pub fn send_uni(&self, bytes: &[u8]) -> SendStream {
        wait("a stream", async {
            let mut stream = self.connection.open_uni().await.expect("the connection is open");
            // The server may end the connection on the first of them.
            let _ = stream.write_all(bytes).await;
            stream
        })
    }

    /// Opens a bidirectional stream with these bytes.
    pub fn send_bi(&self, bytes: &[u8], is_end: bool) -> QuicStream {
        self.try_send_bi(bytes, is_end).expect("the connection is open")
    }

    /// The same on a connection that may have ended.
    pub fn try_send_bi(&self, bytes: &[u8], is_end: bool) -> Result<QuicStream, ConnectionError> {
        wait("a stream", async {
            let (mut sender, receiver) = self.connection.open_bi().await?;
            let _ = sender.write_all(bytes).await;
            if is_end {
                let _ = sender.finish();
            }
            Ok(QuicStream { sender, receiver })
        })
    }

    /// Waits until the server has closed the connection; the code of HTTP/3 that it gave.
    pub fn closing_code(&self) -> u64 {
        match wait("an end", self.connection.closed()) {
            ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
            other => panic!("closed otherwise: {other}"),
        }
    }

    /// Waits until the connection has ended; whether it was by a stateless reset.
    pub fn ends_by_reset(&self) -> bool {
        matches!(wait("an end", self.connection.closed()), ConnectionError::Reset)
    }

    /// Sends from another port from now on.
    pub fn rebind(&self) {
        let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).expect("a free port");
        let _running = driver().enter();
        self.endpoint.rebind(socket).expect("a socket");
    }
}

/// Tokens that a server has given to its clients. Each is used as often as it is asked for, which is more
/// often than a client may.
#[derive(Debug, Default)]
pub struct QuicTokens(Mutex<Vec<Bytes>>);

impl QuicTokens {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.lock().expect("nobody panics").is_empty()
    }
}

impl TokenStore for QuicTokens {
    fn insert(&self, _: &str, token: Bytes) {
        self.0.lock().expect("nobody panics").push(token);
    }

    fn take(&self, _: &str) -> Option<Bytes> {
        self.0.lock().expect("nobody panics").first().cloned()
    }
}

/// A handshake in progress, which ends with this value.
#[derive(Debug)]
pub struct QuicAttempt(JoinHandle<()>);

impl QuicAttempt {
    /// Begins a handshake, with tokens of earlier connections.
    pub fn new(address: SocketAddr, tls: &TlsClient, tokens: &Arc<QuicTokens>) -> Self {
        let (tls, tokens) = (tls.clone(), Arc::clone(tokens));
        Self(driver().spawn(async move {
            // It need not succeed.
            let _ = QuicClient::begin_with(address, &tls, Some(tokens)).await;
        }))
    }
}

impl Drop for QuicAttempt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for QuicClient {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0x100), b"");
    }
}

impl QuicStream {
    /// Resets the stream in the direction to the server, and asks for no response.
    pub fn cancel(&mut self) {
        let code = VarInt::from_u32(0x10c);
        let _ = self.sender.reset(code);
        let _ = self.receiver.stop(code);
    }

    /// Waits until the server has reset the stream; its code.
    pub fn reset_code(&mut self) -> u64 {
        match wait("a reset", self.receiver.read_to_end(1 << 20)) {
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => code.into_inner(),
            other => panic!("no reset: {other:?}"),
        }
    }

    /// All that the server sends on it.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        wait("an end", self.receiver.read_to_end(1 << 20)).expect("no reset")
    }
}

/// A HEADERS frame with these fields as literals, without any compression.
pub fn h3_head(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let integer = |prefix_max: usize, flags: u8, value: usize, out: &mut Vec<u8>| {
        if value < prefix_max {
            return out.push(flags | value as u8);
        }
        out.push(flags | prefix_max as u8);
        let mut left = value - prefix_max;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    };
    let mut block = vec![0, 0];
    for (name, value) in fields {
        integer(7, 0x20, name.len(), &mut block);
        block.extend_from_slice(name);
        integer(0x7f, 0, value.len(), &mut block);
        block.extend_from_slice(value);
    }
    let len = u32::try_from(block.len()).expect("a short head") | 0x8000_0000;
    [&[1][..], &len.to_be_bytes(), &block].concat()
}

impl H3Client {
    /// Connects; `h3` has to be agreed upon.
    pub fn connect(address: SocketAddr, tls: &TlsClient) -> Self {
        let quic = QuicClient::connect(address, tls);
        let connection = h3_quinn::Connection::new(quic.connection.clone());
        let begun = wait("the settings", h3::client::new(connection));
        let (mut connection, requests) = begun.expect("a connection of HTTP/3");
        let driving =
            driver().spawn(async move { poll_fn(|cx| connection.poll_close(cx)).await.to_string() });
        Self { quic, requests, driving }
    }

    /// The connection below.
    pub fn quic(&self) -> &QuicClient {
        &self.quic
    }

    /// Begins a request, of which the head is sent.
    pub fn call(&self, method: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> H3Call {
        self.try_call(method, host, target, headers).expect("the connection is open")
    }

    /// The same on a connection that may have ended, or takes no more requests.
    pub fn try_call(
        &self,
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<H3Call, String> {
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(method.as_bytes()).expect("a method");
        *request.uri_mut() = format!("https://{host}{target}").parse().expect("a URI");
        *request.headers_mut() = header_map(headers);
        let mut requests = self.requests.clone();
        let stream = wait("a stream", requests.send_request(request));
        stream.map(H3Call).map_err(|error| error.to_string())
    }

    /// Sends a GET and reads the response.
    pub fn get(&self, host: &str, target: &str) -> Response {
        let mut call = self.call("GET", host, target, &[]);
        call.finish();
        call.read_response()
    }

    /// Sends a request with a body, and reads the response at the same time.
    pub fn post(&self, host: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.call("POST", host, target, headers).exchange(body)
    }

    /// Waits until the connection has ended; why.
    pub fn ending(&mut self) -> String {
        wait("an end", &mut self.driving).expect("it does not panic")
    }
}

impl Drop for H3Client {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

impl H3Call {
    /// Sends a part of the body.
    pub fn send(&mut self, data: &[u8]) {
        wait("room", self.0.send_data(Bytes::copy_from_slice(data))).expect("the stream is open");
    }

    /// Ends the request.
    pub fn finish(&mut self) {
        wait("room", self.0.finish()).expect("the stream is open");
    }

    /// Ends the request with trailers.
    pub fn send_trailers(&mut self, fields: &[(&str, &str)]) {
        wait("room", self.0.send_trailers(header_map(fields))).expect("the stream is open");
        self.finish();
    }

    /// Gives the request and its response up.
    pub fn cancel(mut self) {
        self.0.stop_stream(Code::H3_REQUEST_CANCELLED);
        self.0.stop_sending(Code::H3_REQUEST_CANCELLED);
    }

    /// The head of the response.
    pub fn read_head(&mut self) -> Response {
        self.try_read_head().expect("a response")
    }

    /// The same where the connection may end before.
    pub fn try_read_head(&mut self) -> Result<Response, String> {
        let response = wait("a response", self.0.recv_response()).map_err(|error| format!("{error:?}"))?;
        Ok(Response {
            version: format!("{:?}", response.version()),
            status: response.status().as_u16(),
            reason: String::new(),
            headers: fields(response.headers()),
            body: Vec::new(),
            trailers: Vec::new(),
        })
    }

    /// The next piece of the response's body; none at its end.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let piece = wait("content", self.0.recv_data()).expect("no reset");
        piece.map(|mut piece| piece.copy_to_bytes(piece.remaining()).to_vec())
    }

    /// Whether no more content comes within this time.
    pub fn is_quiet_for(&mut self, time: Duration) -> bool {
        wait("silence", async { tokio::time::timeout(time, self.0.recv_data()).await.is_err() })
    }

    /// The whole response.
    pub fn read_response(&mut self) -> Response {
        let mut response = self.read_head();
        while let Some(piece) = self.read() {
            response.body.extend(piece);
        }
        let trailers = wait("trailers", self.0.recv_trailers()).expect("no reset");
        response.trailers = trailers.map(|trailers| fields(&trailers)).unwrap_or_default();
        response
    }

    /// Sends a body and reads the response at the same time.
    pub fn exchange(self, body: &[u8]) -> Response {
        let (mut sender, receiver) = self.0.split();
        let body = Bytes::copy_from_slice(body);
        let sending = driver().spawn(async move {
            sender.send_data(body).await?;
            sender.finish().await
        });
        let (head, content) = wait("a response", async move {
            let mut receiver = receiver;
            let head = receiver.recv_response().await.expect("a response");
            let mut content = Vec::new();
            while let Some(mut piece) = receiver.recv_data().await.expect("no reset") {
                content.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
            }
            (head, content)
        });
        wait("the request", sending).expect("it does not panic").expect("the request is taken");
        Response {
            version: format!("{:?}", head.version()),
            status: head.status().as_u16(),
            reason: String::new(),
            headers: fields(head.headers()),
            body: content,
            trailers: Vec::new(),
        }
    }
}
