//! The requests that the connections of a thread send, and their addresses.
//!
//! Must not be in here: times.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::GeneratorError;
use super::h3::QuicClients;
use super::plan::{Plan, Protocol, Share};
use super::texts::Texts;
use super::transport::ALPN_H2;
use crate::tls::Clients;

/// The requests of all connections of a thread.
pub(super) struct Requests {
    /// The addresses, in turn by connection, beginning with that of this thread's first connection.
    targets: Vec<SocketAddr>,
    /// TLS clients over TCP, one for each connection; none for plain TCP.
    pub(super) tls: Option<Clients>,
    /// The same for HTTP/3.
    pub(super) quic: Option<QuicClients>,
    texts: Arc<Texts>,
    /// The variant of the next request. The threads begin at different ones.
    next: Cell<usize>,
    pub(super) body: Bytes,
    pub(super) per_connection: u64,
    pub(super) is_head: bool,
}

impl Requests {
    /// The requests of a thread with this number of connections.
    pub(super) fn new(
        plan: &Plan,
        texts: &Arc<Texts>,
        share: Share,
        connections: usize,
    ) -> Result<Requests, GeneratorError> {
        let tcp =
            |protocols| plan.tls.as_ref().map(|tls| Clients::new(tls, protocols, connections)).transpose();
        let (tls, quic) = match plan.protocol {
            Protocol::Http1 => (tcp(&[])?, None),
            Protocol::Http2 { .. } => (tcp(&[ALPN_H2])?, None),
            Protocol::Http3 { .. } => {
                let tls = plan.tls.as_ref().ok_or(GeneratorError::Clear)?;
                (None, Some(QuicClients::new(tls, connections)?))
            }
        };
        let targets =
            plan.targets.iter().cycle().skip(share.index).step_by(share.of).take(plan.targets.len());
        Ok(Requests {
            targets: targets.copied().collect(),
            tls,
            quic,
            texts: Arc::clone(texts),
            next: Cell::new(plan.variants.len() * share.index / share.of),
            body: Bytes::copy_from_slice(&plan.body),
            per_connection: plan.requests_per_connection.unwrap_or(u64::MAX),
            is_head: plan.method == "HEAD",
        })
    }

    /// The address of the connection `token`.
    pub(super) fn target(&self, token: usize) -> SocketAddr {
        self.targets[token % self.targets.len()]
    }

    /// The number of the next request's variant.
    pub(super) fn next_variant(&self) -> usize {
        let next = self.next.get();
        let after = next + 1;
        self.next.set(if after < self.texts.keeping.len() { after } else { 0 });
        next
    }

    /// The request with the number `begun` on its connection, and whether it is the last one there.
    pub(super) fn nth(&self, begun: u64, variant: usize) -> (&[u8], bool) {
        let last = begun >= self.per_connection;
        (if last { &self.texts.closing[variant] } else { &self.texts.keeping[variant] }, last)
    }

    /// The next request for HTTP/2.
    pub(super) fn next_head(&self) -> Request<()> {
        self.texts.heads[self.next_variant()].clone()
    }

    /// The frames of the next request for HTTP/3.
    pub(super) fn next_frames(&self) -> Bytes {
        self.texts.frames[self.next_variant()].clone()
    }
}
