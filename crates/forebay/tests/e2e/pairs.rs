//! A client and an upstream of any protocol, so that one test can be about all of them.
//!
//! Must not be in here: what is expected of the proxy.

use h2::Reason;
use testkit::{
    Authority, BodyReceiver, BodySender, Call, Connection, Forebay, H2Client, H2Peer, H2Upstream, Setup,
    TlsClient, TlsServer, Trailers, Upstream,
};

use crate::setup;

/// The protocol of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) is_http2: bool,
    pub(crate) is_tls: bool,
}

pub(crate) const H1: Protocol = Protocol { is_http2: false, is_tls: false };
pub(crate) const H1_TLS: Protocol = Protocol { is_http2: false, is_tls: true };
pub(crate) const H2: Protocol = Protocol { is_http2: true, is_tls: false };
pub(crate) const H2_TLS: Protocol = Protocol { is_http2: true, is_tls: true };

/// The proxy between two protocols.
pub(crate) struct Pair {
    pub(crate) client: Protocol,
    pub(crate) forebay: Forebay,
    listener: Listener,
    tls: TlsClient,
}

enum Listener {
    Http1(Upstream, Option<TlsServer>),
    Http2(H2Upstream),
}

/// How the length of content is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    Nothing,
    /// The length is unknown beforehand.
    Open,
    /// The length is known beforehand.
    Length(usize),
}

/// The status and headers of a response; those of HTTP/1 with names in lower case.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

/// Content up to its end.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) content: Vec<u8>,
    /// The trailers; none if the content was cut off.
    pub(crate) trailers: Option<Trailers>,
}

/// A client's connection.
pub(crate) enum Client {
    Http1(Connection),
    Http2(H2Client),
}

/// A request of a client.
pub(crate) enum Exchange<'c> {
    Http1 { connection: &'c mut Connection, framing: Framing, has_body: bool, coding: Framing },
    Http2 { call: Call, body: Option<BodyReceiver> },
}

/// A request as the upstream sees it.
pub(crate) struct Peer {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authority: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    side: Side,
}

enum Side {
    Http1 { connection: Connection, request: Framing, response: Framing },
    Http2 { peer: Box<H2Peer>, sender: Option<BodySender> },
}

impl Pair {
    /// A proxy that passes bodies on as they come.
    pub(crate) fn start(client: Protocol, upstream: Protocol) -> Self {
        Self::with(client, upstream, |setup| setup.annotation("proxy-request-buffering", "off"))
    }

    /// A proxy that is set up in another way.
    pub(crate) fn with(client: Protocol, upstream: Protocol, change: impl FnOnce(Setup) -> Setup) -> Self {
        let certificate = Authority::new("authority").server(&["web.test"]);
        let server = upstream.is_tls.then(|| TlsServer::new(&certificate));
        let listener = if upstream.is_http2 {
            Listener::Http2(H2Upstream::with(h2::server::Builder::new(), server.as_ref()))
        } else {
            Listener::Http1(Upstream::new(), server)
        };
        let address = match &listener {
            Listener::Http1(upstream, _) => upstream.address(),
            Listener::Http2(upstream) => upstream.address(),
        };
        let protocol = match (upstream.is_http2, upstream.is_tls) {
            (false, false) => "HTTP",
            (false, true) => "HTTPS",
            (true, false) => "GRPC",
            (true, true) => "GRPCS",
        };
        let setup = setup()
            .endpoint(address)
            .annotation("backend-protocol", protocol)
            .annotation("proxy-body-size", "0");
        let forebay = change(setup).start();
        let tls = TlsClient::new("web.test").alpn(if client.is_http2 { &["h2"] } else { &["http/1.1"] });
        Self { client, forebay, listener, tls }
    }

    pub(crate) fn client(&self) -> Client {
        match (self.client.is_http2, self.client.is_tls) {
            (false, false) => Client::Http1(self.forebay.client()),
            (false, true) => Client::Http1(self.forebay.tls_client(&self.tls)),
            (true, false) => Client::Http2(H2Client::clear(self.forebay.address())),
            (true, true) => Client::Http2(H2Client::tls(self.forebay.https_address(), &self.tls)),
        }
    }

    /// Takes the next request.
    pub(crate) fn accept(&self) -> Peer {
        match &self.listener {
            Listener::Http1(upstream, None) => Peer::of_http1(upstream.accept()),
            Listener::Http1(upstream, Some(tls)) => Peer::of_http1(upstream.accept_tls(tls)),
            Listener::Http2(upstream) => Peer::of_http2(upstream.accept_request()),
        }
    }

    pub(crate) fn is_left_alone(&self) -> bool {
        match &self.listener {
            Listener::Http1(upstream, _) => upstream.is_left_alone(),
            Listener::Http2(upstream) => upstream.is_left_alone(),
        }
    }
}

impl Client {
    /// Sends the head of a request.
    pub(crate) fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        framing: Framing,
    ) -> Exchange<'_> {
        let length = framing.length();
        let mut headers = headers.to_vec();
        headers.extend(length.as_deref().map(|length| ("content-length", length)));
        match self {
            Self::Http1(connection) => {
                if framing == Framing::Open {
                    headers.push(("transfer-encoding", "chunked"));
                }
                let start = format!("{method} {path} HTTP/1.1\r\nHost: web.test\r\n");
                connection.send(start + &lines(&headers) + "\r\n");
                Exchange::Http1 { connection, framing, has_body: method != "HEAD", coding: Framing::Nothing }
            }
            Self::Http2(client) => {
                let call = client.call(method, "web.test", path, &headers, framing == Framing::Nothing);
                Exchange::Http2 { call, body: None }
            }
        }
    }

    /// A request without content.
    pub(crate) fn get(&mut self, path: &str) -> Exchange<'_> {
        self.begin("GET", path, &[], Framing::Nothing)
    }
}

impl Exchange<'_> {
    pub(crate) fn send(&mut self, content: &[u8]) {
        match self {
            Self::Http1 { connection, framing, .. } => connection.send(framed(*framing, content)),
            Self::Http2 { call, .. } => call.sender.send(content.to_vec(), false),
        }
    }

    /// Ends the request.
    pub(crate) fn finish(&mut self, trailers: &[(&str, &str)]) {
        match self {
            Self::Http1 { connection, framing, .. } => connection.send(last(*framing, trailers)),
            Self::Http2 { call, .. } if trailers.is_empty() => call.sender.send("", true),
            Self::Http2 { call, .. } => call.sender.send_trailers(trailers),
        }
    }

    pub(crate) fn interim(&mut self) -> Head {
        match self {
            Self::Http1 { connection, .. } => Head::read(connection),
            Self::Http2 { call, .. } => {
                let interim = call.interim();
                Head { status: interim.status, headers: interim.headers }
            }
        }
    }

    /// The head of the final response.
    pub(crate) fn head(&mut self) -> Head {
        match self {
            Self::Http1 { connection, has_body, coding, .. } => {
                let head = Head::read(connection);
                let is_empty = !*has_body || matches!(head.status, 204 | 304);
                *coding = if is_empty { Framing::Nothing } else { Framing::of(&head.headers) };
                head
            }
            Self::Http2 { call, body } => {
                let (response, receiver) = call.head().expect("a response");
                *body = Some(receiver);
                Head { status: response.status, headers: response.headers }
            }
        }
    }

    pub(crate) fn read_exactly(&mut self, len: usize) -> Vec<u8> {
        match self {
            Self::Http1 { connection, coding, .. } => read_exactly(connection, coding, len),
            Self::Http2 { body, .. } => body.as_mut().expect("after the head").read_exactly(len),
        }
    }

    pub(crate) fn read_to_end(&mut self) -> Received {
        match self {
            Self::Http1 { connection, coding, .. } => Received::from_http1(connection, *coding),
            Self::Http2 { body, .. } => Received::from_http2(body.as_mut().expect("after the head")),
        }
    }

    /// The whole response: its head and content.
    pub(crate) fn response(&mut self) -> (Head, Received) {
        (self.head(), self.read_to_end())
    }
}

impl Client {
    /// Goes away in the middle of a request that has been begun.
    pub(crate) fn abort(self) {
        match self {
            Self::Http1(connection) => connection.reset(),
            Self::Http2(client) => drop(client),
        }
    }
}

impl Peer {
    fn of_http1(mut connection: Connection) -> Self {
        let head = connection.read_head();
        let (start, _) = head.split_once("\r\n").expect("a line");
        let (method, path) = start.trim_end_matches(" HTTP/1.1").split_once(' ').expect("a target");
        let headers = headers(&head);
        let named = |name| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            authority: named("host").expect("a host"),
            side: Side::Http1 { connection, request: Framing::of(&headers), response: Framing::Nothing },
            headers,
        }
    }

    fn of_http2(peer: H2Peer) -> Self {
        let request = &peer.request;
        let path = request.uri().path_and_query().expect("a path");
        let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.to_string(), value.to_str().expect("text").to_owned())
        };
        Self {
            method: request.method().to_string(),
            path: path.to_string(),
            authority: request.uri().authority().expect("an authority").to_string(),
            headers: request.headers().iter().map(text).collect(),
            side: Side::Http2 { peer: Box::new(peer), sender: None },
        }
    }

    /// All values of a header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let values = self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| &**value);
        let values: Vec<_> = values.collect();
        if values.is_empty() { None } else { Some(values.join(", ")) }
    }

    pub(crate) fn read_exactly(&mut self, len: usize) -> Vec<u8> {
        match &mut self.side {
            Side::Http1 { connection, request, .. } => read_exactly(connection, request, len),
            Side::Http2 { peer, .. } => peer.body.read_exactly(len),
        }
    }

    pub(crate) fn read_to_end(&mut self) -> Received {
        match &mut self.side {
            Side::Http1 { connection, request, .. } => Received::from_http1(connection, *request),
            Side::Http2 { peer, .. } => Received::from_http2(&mut peer.body),
        }
    }

    pub(crate) fn interim(&mut self, status: u16, headers: &[(&str, &str)]) {
        match &mut self.side {
            Side::Http1 { connection, .. } => {
                connection.send(format!("HTTP/1.1 {status} Interim\r\n{}\r\n", lines(headers)));
            }
            Side::Http2 { peer, .. } => peer.interim(status, headers),
        }
    }

    /// Sends the head of the response. Connections of HTTP/1 are not kept, so that each request comes on its
    /// own.
    pub(crate) fn respond(&mut self, status: u16, headers: &[(&str, &str)], framing: Framing) {
        let length = framing.length();
        let mut headers = headers.to_vec();
        headers.extend(length.as_deref().map(|length| ("content-length", length)));
        match &mut self.side {
            Side::Http1 { connection, response, .. } => {
                headers.push(("connection", "close"));
                match framing {
                    Framing::Open => headers.push(("transfer-encoding", "chunked")),
                    Framing::Nothing if !matches!(status, 204 | 304) && self.method != "HEAD" => {
                        headers.push(("content-length", "0"));
                    }
                    _ => {}
                }
                *response = framing;
                connection.send(format!("HTTP/1.1 {status} Final\r\n{}\r\n", lines(&headers)));
            }
            Side::Http2 { peer, sender } => {
                *sender = Some(peer.respond(status, &headers, framing == Framing::Nothing));
            }
        }
    }

    pub(crate) fn send(&mut self, content: &[u8]) {
        match &mut self.side {
            Side::Http1 { connection, response, .. } => connection.send(framed(*response, content)),
            Side::Http2 { sender, .. } => {
                sender.as_mut().expect("after the head").send(content.to_vec(), false);
            }
        }
    }

    /// Ends the response.
    pub(crate) fn finish(&mut self, trailers: &[(&str, &str)]) {
        match &mut self.side {
            Side::Http1 { connection, response, .. } => connection.send(last(*response, trailers)),
            Side::Http2 { sender, .. } => {
                let sender = sender.as_mut().expect("after the head");
                if trailers.is_empty() { sender.send("", true) } else { sender.send_trailers(trailers) }
            }
        }
    }

    /// Sends a whole response.
    pub(crate) fn answer(&mut self, status: u16, content: &[u8]) {
        self.respond(status, &[], Framing::Length(content.len()));
        self.send(content);
        self.finish(&[]);
    }

    /// Breaks the response off.
    pub(crate) fn break_off(self) {
        match self.side {
            Side::Http1 { connection, .. } => connection.reset(),
            Side::Http2 { sender, .. } => sender.expect("after the head").reset(Reason::INTERNAL_ERROR),
        }
    }

    /// Waits until nobody waits for an answer any more.
    pub(crate) fn await_abort(&mut self) {
        match &mut self.side {
            Side::Http1 { connection, .. } => drop(connection.read_to_end()),
            // It may be the connection that has ended.
            Side::Http2 { peer, sender: None } => drop(peer.await_reset()),
            Side::Http2 { sender: Some(sender), .. } => drop(sender.await_reset()),
        }
    }
}

impl Head {
    fn read(connection: &mut Connection) -> Self {
        let head = connection.read_head();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.unwrap_or_else(|| panic!("no status: {head:?}")), headers: headers(&head) }
    }

    /// All values of a header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let values = self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| &**value);
        let values: Vec<_> = values.collect();
        if values.is_empty() { None } else { Some(values.join(", ")) }
    }
}

impl Framing {
    fn length(self) -> Option<String> {
        if let Self::Length(length) = self { Some(length.to_string()) } else { None }
    }

    /// Of a message of HTTP/1.
    fn of(headers: &[(String, String)]) -> Self {
        let named = |name| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        match (named("transfer-encoding"), named("content-length")) {
            (Some(_), None) => Self::Open,
            (None, Some(length)) => Self::Length(length.parse().expect("a length")),
            (None, None) => Self::Nothing,
            (Some(_), Some(_)) => panic!("framed twice: {headers:?}"),
        }
    }
}

impl Received {
    fn from_http2(body: &mut BodyReceiver) -> Self {
        let (content, trailers) = body.read_to_end();
        Self { content, trailers: trailers.ok() }
    }

    fn from_http1(connection: &mut Connection, framing: Framing) -> Self {
        let mut content = Vec::new();
        let trailers = match framing {
            Framing::Nothing => Some(Vec::new()),
            Framing::Open => read_chunks(connection, &mut content).ok(),
            Framing::Length(len) => {
                let whole = connection.try_read_exactly(len);
                whole.ok().map(|whole| {
                    content = whole;
                    Vec::new()
                })
            }
        };
        Self { content, trailers }
    }
}

fn read_chunks(connection: &mut Connection, content: &mut Vec<u8>) -> std::io::Result<Trailers> {
    loop {
        let len = usize::from_str_radix(&connection.try_read_line()?, 16).expect("a chunk's size");
        if len == 0 {
            break;
        }
        content.extend(connection.try_read_exactly(len)?);
        assert_eq!(connection.try_read_line()?, "", "after a chunk");
    }
    let mut trailers = Vec::new();
    loop {
        match connection.try_read_line()? {
            line if line.is_empty() => return Ok(trailers),
            line => trailers.push(field(&line)),
        }
    }
}

/// Reads content that comes in whole chunks.
fn read_exactly(connection: &mut Connection, framing: &mut Framing, len: usize) -> Vec<u8> {
    if let Framing::Length(left) = framing {
        *left -= len;
        return connection.read_exactly(len);
    }
    let mut content = Vec::new();
    while content.len() < len {
        let size = usize::from_str_radix(&connection.read_line(), 16).expect("a chunk's size");
        content.extend(connection.read_exactly(size));
        assert_eq!(connection.read_line(), "", "after a chunk");
    }
    assert_eq!(content.len(), len, "no more was sent");
    content
}

fn framed(framing: Framing, content: &[u8]) -> Vec<u8> {
    match framing {
        Framing::Open => [format!("{:x}\r\n", content.len()).as_bytes(), content, b"\r\n"].concat(),
        _ => content.to_vec(),
    }
}

fn last(framing: Framing, trailers: &[(&str, &str)]) -> String {
    if framing == Framing::Open { format!("0\r\n{}\r\n", lines(trailers)) } else { String::new() }
}

fn lines(headers: &[(&str, &str)]) -> String {
    headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect()
}

fn headers(head: &str) -> Vec<(String, String)> {
    head.trim_end().split("\r\n").skip(1).map(field).collect()
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').expect("a field");
    (name.to_ascii_lowercase(), value.trim().to_owned())
}
