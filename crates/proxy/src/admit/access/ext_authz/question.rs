//! The question to an authorization service: the request as an endpoint would get it after the checks before.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use deciders::grpc;
use deciders::proto::auth::{self, AttributeContext, CheckRequest, HttpRequest, Peer, TlsSession};
use deciders::proto::{Address, SocketAddress, Time};
use model::{ALWAYS_SEEN, AuthzCheck, AuthzProtocol, ExtAuthz, Timeouts};
use wire::Known;
use wire::h2::lines;

use super::body::SeenBody;
use crate::admit::Targeted;
use crate::body::Framing;
use crate::io::buffer::Buffer;
use crate::io::tls::Verdict as CertificateVerdict;
use crate::request::decision::Decision;
use crate::request::head::{HeadEdits, HeadWriter, RequestOptions, write_request_head};
use crate::route::client_certificate;
use crate::upstream::Message;

/// Says whether the service sees only a part of the body.
const PARTIAL_BODY: &str = "x-envoy-auth-partial-body";

/// A question as it is sent: its head as HTTP/1, and its body.
pub(super) struct Question {
    bytes: Vec<u8>,
    head_len: usize,
    is_grpc: bool,
}

/// The request as the service sees it.
struct Seen<'s> {
    targeted: &'s Targeted<'s>,
    check: &'s AuthzCheck,
    /// The client's head as an endpoint would get it.
    head: Buffer,
    body: Option<&'s SeenBody>,
}

impl Question {
    /// The question about a request after the checks so far.
    pub(super) fn new(
        targeted: &Targeted<'_>,
        authz: &ExtAuthz,
        decision: &Decision,
        body: Option<&SeenBody>,
    ) -> Self {
        let check = &*authz.check;
        let seen = Seen { targeted, check, head: head_for_endpoint(targeted, decision), body };
        match &check.protocol {
            AuthzProtocol::Grpc { authority, context } => seen.in_grpc(authority, context),
            AuthzProtocol::Http { prefix, .. } => seen.in_http(prefix),
        }
    }

    /// The question for a call.
    pub(super) fn message<'q>(&'q self, timeouts: &'q Timeouts) -> Message<'q> {
        Message {
            bytes: &self.bytes,
            head_len: self.head_len,
            params: None,
            has_body: self.bytes.len() > self.head_len,
            is_whole: true,
            framing: Framing::Raw,
            takes_trailers: self.is_grpc,
            timeouts,
        }
    }
}

impl Seen<'_> {
    fn in_grpc(&self, authority: &str, context: &[(String, String)]) -> Question {
        let mut head = Buffer::small(&self.targeted.worker.buffers);
        let mut edits = HeadEdits::default();
        if let Some(trace) = &self.targeted.trace {
            trace.tell(&mut edits);
        }
        let mut writer = HeadWriter::new(&mut head, 0);
        writer.write([
            b"POST ",
            auth::CHECK.as_bytes(),
            b" HTTP/1.1\r\nHost: ",
            authority.as_bytes(),
            b"\r\n",
        ]);
        writer.field("Content-Type", grpc::CONTENT_TYPE.as_bytes());
        writer.field("TE", b"trailers");
        writer.field("User-Agent", b"forebay");
        writer.field("grpc-timeout", grpc::timeout(self.check.timeout).as_bytes());
        writer.edits(&edits);
        writer.end();
        let mut bytes = head.data().to_vec();
        let head_len = bytes.len();
        grpc::write(&CheckRequest { attributes: Some(self.attributes(context)) }, &mut bytes);
        Question { bytes, head_len, is_grpc: true }
    }

    fn attributes(&self, context: &[(String, String)]) -> AttributeContext {
        let (targeted, now) = (self.targeted, self.targeted.worker.clock.unix());
        let time = Time {
            seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(now.subsec_nanos()).unwrap_or(0),
        };
        let (client, tls) = (targeted.forwarded.client, targeted.conn.tls.as_deref());
        let source = SocketAddr::new(client, targeted.conn.peer.port());
        let certificate = tls
            .filter(|tls| tls.last_verdict() == CertificateVerdict::Good)
            .and_then(|tls| tls.certificate.as_ref());
        let server_name = tls.and_then(|tls| tls.server_name.as_deref());
        AttributeContext {
            source: Some(Peer {
                address: Some(address(source)),
                principal: certificate.map(|shown| shown.subject.clone()).unwrap_or_default(),
                certificate: String::new(),
            }),
            destination: Some(Peer { address: Some(address(targeted.conn.local)), ..Peer::default() }),
            request: Some(auth::Request { time: Some(time), http: Some(self.http()) }),
            context_extensions: context.iter().cloned().collect(),
            tls_session: server_name.map(|name| TlsSession { sni: name.to_owned() }),
        }
    }

    fn http(&self) -> HttpRequest {
        let (targeted, parsed) = (self.targeted, self.targeted.parsed);
        let size = match parsed.fields.content_length {
            Some(length) => i64::try_from(length).unwrap_or(i64::MAX),
            None if parsed.fields.chunked => -1,
            None => 0,
        };
        let (body, raw_body) = match self.body.map(|seen| String::from_utf8(seen.bytes.clone())) {
            None => (String::new(), Vec::new()),
            Some(Ok(text)) => (text, Vec::new()),
            Some(Err(invalid)) => (String::new(), invalid.into_bytes()),
        };
        HttpRequest {
            id: targeted.id.as_bytes().map(text).unwrap_or_default(),
            method: text(targeted.method()),
            headers: self.headers(),
            path: text(targeted.sent_target()),
            host: text(targeted.host()),
            scheme: text(targeted.forwarded.scheme),
            size,
            protocol: crate::admit::firewall::protocol(targeted.routed.request).replace("/2.0", "/2"),
            body,
            raw_body,
            header_map: None,
        }
    }

    /// The headers, with the pseudo-headers of HTTP/2 as Envoy has them.
    fn headers(&self) -> BTreeMap<String, String> {
        let targeted = self.targeted;
        let mut headers = BTreeMap::<String, String>::new();
        let pseudo = [
            (":authority", targeted.host()),
            (":method", targeted.method()),
            (":path", targeted.sent_target()),
            (":scheme", targeted.forwarded.scheme),
        ];
        let pseudo = pseudo.into_iter().map(|(name, value)| (name.as_bytes(), value));
        for (name, value) in pseudo.chain(self.fields()).filter(|(name, _)| self.is_allowed(name)) {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            match headers.get_mut(&name) {
                Some(values) => {
                    values.push(',');
                    values.push_str(&String::from_utf8_lossy(value));
                }
                None => {
                    headers.insert(name, text(value));
                }
            }
        }
        if let Some(body) = self.body {
            headers.insert(PARTIAL_BODY.to_owned(), body.is_partial.to_string());
        }
        headers
    }

    /// The fields of the head that pass, without those that other values replace.
    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let is_own = |name: &[u8]| name.eq_ignore_ascii_case(PARTIAL_BODY.as_bytes());
        let fields = lines(self.head.data());
        let fields = fields.filter(move |(known, name, _)| *known != Known::Host && !is_own(name));
        fields.map(|(_, name, value)| (name, value))
    }

    fn is_allowed(&self, name: &[u8]) -> bool {
        let Some(allowed) = &self.check.allowed_headers else { return true };
        allowed.iter().any(|allowed| name.eq_ignore_ascii_case(allowed.as_bytes()))
    }

    fn in_http(&self, prefix: &str) -> Question {
        let targeted = self.targeted;
        let body = self.body.map_or(&[][..], |seen| &seen.bytes);
        let target = Some(targeted.sent_target()).filter(|target| target.starts_with(b"/")).unwrap_or(b"/");
        let mut head = Buffer::small(&targeted.worker.buffers);
        let mut writer = HeadWriter::new(&mut head, self.head.len());
        let method = targeted.method();
        writer.write([
            method,
            b" ",
            prefix.as_bytes(),
            target,
            b" HTTP/1.1\r\nHost: ",
            targeted.host(),
            b"\r\n",
        ]);
        for (name, value) in self.fields() {
            let is_seen = name.eq_ignore_ascii_case(ALWAYS_SEEN.as_bytes()) || self.is_allowed(name);
            if is_seen && Known::of(name) != Known::ContentLength {
                writer.write([name, b": ", value, b"\r\n"]);
            }
        }
        if let Some(body) = self.body {
            writer.field(PARTIAL_BODY, body.is_partial.to_string().as_bytes());
        }
        writer.field("Content-Length", itoa::Buffer::new().format(body.len()).as_bytes());
        writer.end();
        let bytes = [head.data(), body].concat();
        Question { head_len: bytes.len() - body.len(), bytes, is_grpc: false }
    }
}

/// The client's head as an endpoint would get it, with the changes of the checks so far. Credentials that a
/// check keeps from the endpoint are shown: a service may be the one that they are for.
fn head_for_endpoint(targeted: &Targeted<'_>, decision: &Decision) -> Buffer {
    let settings = targeted.config.settings();
    let mut edits = HeadEdits::default();
    let access = targeted.route.and_then(|route| route.access.as_deref());
    if let Some(demand) = access.and_then(|access| access.client_certificate.as_ref()) {
        client_certificate::tell(demand, targeted.conn.tls.as_deref(), &mut edits);
    }
    for (name, value) in &decision.upstream {
        match value {
            Some(value) => edits.set(name, value.as_slice()),
            None if name.eq_ignore_ascii_case(ALWAYS_SEEN) => {}
            None => edits.remove(name),
        }
    }
    let options = RequestOptions {
        forwarded: &targeted.forwarded,
        host: Some(targeted.host()),
        target: None,
        last_lines: None,
        request_id: targeted.id.as_bytes(),
        original_uri: settings.forwarded.original_uri,
        connection: None,
        is_upgrade: false,
        names: settings.client.header_names,
        is_bodiless: false,
        is_http_1_0: false,
        awaits_length: true,
    };
    let mut bytes = Buffer::small(&targeted.worker.buffers);
    write_request_head(targeted.head, targeted.parsed, &options, &edits, &mut bytes);
    bytes
}

fn address(address: SocketAddr) -> Address {
    Address {
        socket_address: Some(SocketAddress {
            protocol: 0,
            address: address.ip().to_canonical().to_string(),
            port_value: u32::from(address.port()),
        }),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
