//! What is known of a client that came over TLS.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use model::HostName;
use observe::Handshake;
use rustls::pki_types::CertificateDer;
use rustls::{Connection, HandshakeKind};
use webpki::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::chain::Purpose;
use super::name::rfc2253;
use super::provider::{suite_name, version_name};
use super::server_configs::{Selection, ServerConfig, ServerConfigs};

/// A client's side of the handshake.
pub(crate) struct ClientTls {
    /// The name that it asked for.
    pub(crate) server_name: Option<Box<str>>,
    /// `TLSv1.3`: nginx's `$ssl_protocol`.
    pub(crate) version: &'static str,
    /// `TLS_AES_128_GCM_SHA256`: nginx's `$ssl_cipher`.
    pub(crate) cipher: &'static str,
    /// HTTP/2 has been agreed upon.
    pub(crate) http2: bool,
    /// An earlier session was resumed.
    pub(crate) is_resumed: bool,
    /// The certificate that it has shown, if it was asked for one and has one.
    pub(crate) certificate: Option<Box<ClientCertificate>>,
    /// What is served under the name.
    host: Option<HostName>,
    server_config: Arc<ServerConfig>,
    /// The last judgement, and by whom the certificate was judged.
    judged: RefCell<Option<(Arc<ServerConfig>, Verdict)>>,
}

/// A certificate of a client.
pub(crate) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// Whose it is, as in RFC 2253.
    pub(crate) subject: String,
    /// Who has signed it, as in RFC 2253.
    pub(crate) issuer: String,
}

/// What is thought of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is none.
    None,
    /// An authority has signed it, and it is in force.
    Good,
    /// It is not good.
    Bad {
        /// Why, in OpenSSL's words.
        why: &'static str,
        /// No authority is known that has signed it; nothing else may be wrong with it.
        is_untrusted: bool,
    },
}

/// The connection was made for another host: whether a certificate is good for this one is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misdirected;

impl ClientTls {
    pub(super) fn new(tls: &Connection, server_name: Option<Box<str>>, selection: Selection<'_>) -> Self {
        Self {
            server_name,
            version: version_name(tls.protocol_version()),
            cipher: suite_name(tls.negotiated_cipher_suite()),
            http2: tls.alpn_protocol() == Some(b"h2"),
            is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: tls.peer_certificates().and_then(ClientCertificate::new).map(Box::new),
            host: selection.host.map(|host| host.name().clone()),
            server_config: Arc::clone(selection.server_config),
            judged: RefCell::new(None),
        }
    }

    /// How the handshake is counted.
    pub(crate) fn handshake(&self) -> Handshake {
        self.server_config.handshake(self.is_resumed)
    }

    /// What is thought of the client's certificate where a host is concerned. It is judged once, and again when the
    /// configuration says otherwise whom to believe.
    pub(crate) fn verdict(
        &self,
        host: &HostName,
        server_configs: &ServerConfigs,
        now: Duration,
    ) -> Result<Verdict, Misdirected> {
        if self.host.as_ref() != Some(host) {
            // nginx: who names a server in the handshake has to stay with it; who names none is taken at no word at all.
            return if self.server_name.is_some() { Err(Misdirected) } else { Ok(Verdict::None) };
        }
        let server_config = server_configs.of_name(host);
        if let Some((by, verdict)) = &*self.judged.borrow()
            && Arc::ptr_eq(by, server_config)
        {
            return Ok(*verdict);
        }
        if server_config.asks_clients() && !self.server_config.asks_clients() {
            // It has not been asked; on another connection it will be.
            return Err(Misdirected);
        }
        let verdict = self.judge(server_config, now);
        *self.judged.borrow_mut() = Some((Arc::clone(server_config), verdict));
        Ok(verdict)
    }

    /// The verdict that was returned last.
    pub(crate) fn last_verdict(&self) -> Verdict {
        self.judged.borrow().as_ref().map_or(Verdict::None, |(_, verdict)| *verdict)
    }

    fn judge(&self, server_config: &ServerConfig, now: Duration) -> Verdict {
        match (&self.certificate, server_config.trust()) {
            (Some(certificate), Some(trust)) => {
                Verdict::of(trust.judge(&certificate.chain, Purpose::Client, now), certificate)
            }
            _ => Verdict::None,
        }
    }
}

impl ClientCertificate {
    fn new(chain: &[CertificateDer<'static>]) -> Option<Self> {
        let (_, leaf) = X509Certificate::from_der(chain.first()?).ok()?;
        let (subject, issuer) = (rfc2253(leaf.subject()), rfc2253(leaf.issuer()));
        Some(Self { chain: chain.to_vec(), subject, issuer })
    }

    /// DER of the certificate itself.
    pub(crate) fn der(&self) -> &[u8] {
        self.chain.first().map_or(&[], |leaf| leaf)
    }
}

impl Verdict {
    fn of(judged: Result<(), Error>, certificate: &ClientCertificate) -> Self {
        let Err(error) = judged else { return Self::Good };
        let is_untrusted = error == Error::UnknownIssuer;
        let why = match error {
            Error::UnknownIssuer if certificate.subject == certificate.issuer => "self-signed certificate",
            Error::UnknownIssuer => "unable to verify the first certificate",
            Error::CertExpired { .. } => "certificate has expired",
            Error::CertNotValidYet { .. } => "certificate is not yet valid",
            Error::CertRevoked => "certificate revoked",
            Error::UnknownRevocationStatus => "unable to get certificate CRL",
            Error::CrlExpired { .. } => "CRL has expired",
            Error::MaximumPathDepthExceeded => "certificate chain too long",
            Error::PathLenConstraintViolated => "path length constraint exceeded",
            Error::EmptyEkuExtension | Error::RequiredEkuNotFoundContext(_) => {
                "unsuitable certificate purpose"
            }
            Error::EndEntityUsedAsCa => "invalid CA certificate",
            Error::InvalidSignatureForPublicKey => "certificate signature failure",
            Error::NameConstraintViolation => "permitted subtree violation",
            _ => "certificate verification error",
        };
        Self::Bad { why, is_untrusted }
    }
}
