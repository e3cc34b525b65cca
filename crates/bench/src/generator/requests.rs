//! The requests that the connections of a thread send, and their addresses.
//!
//! Must not be in here: times.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Uri};

use super::GeneratorError;
use super::plan::{Plan, Protocol, Share};
use super::transport::ALPN_H2;
use crate::tls::Clients;

/// The requests of all connections of a thread.
pub(super) struct Requests {
    /// The addresses, in turn by connection, beginning with that of this thread's first connection.
    targets: Vec<SocketAddr>,
    /// TLS clients, one for each connection; none for plain TCP.
    pub(super) tls: Option<Clients>,
    keeping: Vec<u8>,
    closing: Vec<u8>,
    /// The request for HTTP/2; empty for HTTP/1.
    pub(super) head: Request<()>,
    pub(super) body: Bytes,
    pub(super) per_connection: u64,
    pub(super) is_head: bool,
}

impl Requests {
    /// The requests of a thread with this number of connections.
    pub(super) fn new(plan: &Plan, share: Share, connections: usize) -> Result<Requests, GeneratorError> {
        let (protocols, head): (&[&[u8]], _) = match plan.protocol {
            Protocol::Http1 => (&[], Request::default()),
            Protocol::Http2 { .. } => (&[ALPN_H2], head(plan)?),
        };
        let targets =
            plan.targets.iter().cycle().skip(share.index).step_by(share.of).take(plan.targets.len());
        Ok(Requests {
            targets: targets.copied().collect(),
            tls: plan.tls.as_ref().map(|tls| Clients::new(tls, protocols, connections)).transpose()?,
            keeping: plan.request(false),
            closing: plan.request(true),
            head,
            body: Bytes::copy_from_slice(&plan.body),
            per_connection: plan.requests_per_connection.unwrap_or(u64::MAX),
            is_head: plan.method == "HEAD",
        })
    }

    /// The address of the connection `token`.
    pub(super) fn target(&self, token: usize) -> SocketAddr {
        self.targets[token % self.targets.len()]
    }

    /// The request with the number `begun` on its connection, and whether it is the last one there.
    pub(super) fn nth(&self, begun: u64) -> (&[u8], bool) {
        let last = begun >= self.per_connection;
        (if last { &self.closing } else { &self.keeping }, last)
    }
}

fn head(plan: &Plan) -> Result<Request<()>, http::Error> {
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    let uri = Uri::builder().scheme(scheme).authority(&*plan.host).path_and_query(&*plan.path).build()?;
    let mut request = Request::builder().method(Method::from_bytes(plan.method.as_bytes())?).uri(uri);
    for (name, value) in &plan.headers {
        request = request.header(name, value);
    }
    if !plan.body.is_empty() {
        request = request.header(http::header::CONTENT_LENGTH, plan.body.len());
    }
    request.body(())
}
