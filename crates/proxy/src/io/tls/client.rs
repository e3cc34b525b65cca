//! A client that connected over TLS.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use model::{HostName, TlsStream};
use observe::Handshake;
use rustls::{CommonState, HandshakeKind};
use webpki::Error;
use x509::{ClientCertificate, Purpose};

use super::provider::{suite_name, version_name};
use super::server_configs::{Selection, ServerConfig, ServerConfigs};

/// The result of a client's handshake.
pub(crate) struct ClientTls {
    /// The server name (SNI) in lower case; none if the client sent none.
    pub(crate) server_name: Option<Box<str>>,
    /// Protocol version, such as `TLSv1.3`: nginx's `$ssl_protocol`.
    pub(crate) version: &'static str,
    /// Cipher suite, such as `TLS_AES_256_GCM_SHA384`: nginx's `$ssl_cipher`.
    pub(crate) cipher: &'static str,
    /// Whether HTTP/2 was agreed on.
    pub(crate) http2: bool,
    /// Whether an earlier session was resumed.
    pub(crate) is_resumed: bool,
    /// The client's certificate; none if it was not asked for one or has none.
    pub(crate) certificate: Option<Box<ClientCertificate>>,
    /// The Gateway's listener that the connection was made for; none where that makes no difference.
    pub(crate) listener: Option<u32>,
    /// The destination of the bytes, for a connection that is not HTTP.
    pub(crate) stream: Option<Arc<TlsStream>>,
    /// The host that the server name selects; none if no host matches.
    host: Option<HostName>,
    server_config: Arc<ServerConfig>,
    /// The last verdict, and the configuration by which it was given.
    judged: RefCell<Option<(Arc<ServerConfig>, Verdict)>>,
}

/// The result of verifying a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The client has shown no certificate.
    None,
    /// An authority has signed the certificate, and it is valid.
    Good,
    /// The certificate is not valid.
    Bad {
        /// The reason in OpenSSL's words.
        why: &'static str,
        /// Its only fault is that no trusted authority has signed it.
        is_untrusted: bool,
    },
}

/// The connection was made for another host, so that the client's certificate cannot be verified for this
/// one: the answer is 421.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misdirected;

impl ClientTls {
    pub(super) fn new(facts: &CommonState, server_name: Option<Box<str>>, selection: Selection<'_>) -> Self {
        Self {
            server_name,
            version: version_name(facts.protocol_version()),
            cipher: suite_name(facts.negotiated_cipher_suite()),
            http2: facts.alpn_protocol() == Some(b"h2"),
            is_resumed: facts.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: facts.peer_certificates().and_then(ClientCertificate::new).map(Box::new),
            listener: selection.host.and_then(|host| host.tls().listener),
            stream: selection.host.and_then(|host| host.tls().stream.clone()),
            host: selection.host.map(|host| host.name().clone()),
            server_config: Arc::clone(selection.server_config),
            judged: RefCell::new(None),
        }
    }

    /// A client that has shown no certificate, in a handshake that has not been: what would have been agreed
    /// on is not known.
    pub(crate) fn imagined(server_name: Option<Box<str>>, selection: Selection<'_>) -> Self {
        Self {
            server_name,
            version: "",
            cipher: "",
            http2: false,
            is_resumed: false,
            certificate: None,
            listener: selection.host.and_then(|host| host.tls().listener),
            stream: selection.host.and_then(|host| host.tls().stream.clone()),
            host: selection.host.map(|host| host.name().clone()),
            server_config: Arc::clone(selection.server_config),
            judged: RefCell::new(None),
        }
    }

    /// How the handshake is counted.
    pub(crate) fn handshake(&self) -> Handshake {
        self.server_config.handshake(self.is_resumed)
    }

    /// The verdict on the client's certificate for a host. It is computed once, and again if the
    /// configuration of trusted authorities has changed.
    pub(crate) fn verdict(
        &self,
        host: &HostName,
        server_configs: &ServerConfigs,
        now: Duration,
    ) -> Result<Verdict, Misdirected> {
        if self.host.as_ref() != Some(host) {
            // As in nginx, a client that sent the name of a host has to stay with it, and one without a
            // name, or with a name of no host, counts as having no certificate.
            let is_of_host = self.host.as_ref().is_some_and(|host| *host != HostName::Any);
            return if is_of_host { Err(Misdirected) } else { Ok(Verdict::None) };
        }
        let server_config = server_configs.of_name(host);
        if let Some((by, verdict)) = &*self.judged.borrow()
            && Arc::ptr_eq(by, server_config)
        {
            return Ok(*verdict);
        }
        if server_config.asks_clients() && !self.server_config.asks_clients() {
            // The client was not asked for a certificate in this handshake; on another connection it will be.
            return Err(Misdirected);
        }
        let verdict = self.judge(server_config, now);
        *self.judged.borrow_mut() = Some((Arc::clone(server_config), verdict));
        Ok(verdict)
    }

    /// The last verdict.
    pub(crate) fn last_verdict(&self) -> Verdict {
        self.judged.borrow().as_ref().map_or(Verdict::None, |(_, verdict)| *verdict)
    }

    fn judge(&self, server_config: &ServerConfig, now: Duration) -> Verdict {
        match (&self.certificate, server_config.trust()) {
            (Some(certificate), Some(trust)) => {
                Verdict::of(trust.judge(certificate.chain(), Purpose::Client, now), certificate)
            }
            _ => Verdict::None,
        }
    }
}

impl Verdict {
    /// The value of nginx's `$ssl_client_verify`.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::None => "NONE".to_owned(),
            Self::Good => "SUCCESS".to_owned(),
            Self::Bad { why, .. } => format!("FAILED:{why}"),
        }
    }

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
