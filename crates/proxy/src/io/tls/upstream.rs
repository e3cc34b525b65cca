//! TLS towards endpoints: one configuration for all endpoints with the same settings.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{AlternativeName, AppProtocol, CipherSuite, UpstreamTls};
use parking_lot::Mutex;
use reactor::TcpStream;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use webpki::EndEntityCert;
use x509::{Purpose, Trust, algorithms, has_alternative_name};

use super::certificate::certified_key;
use super::client_auth::{verify_tls12_signature, verify_tls13_signature};
use super::negotiation::Negotiation;
use super::provider::{provider, versions};
use super::session::{Handshake, Session};
use crate::limits::UPSTREAM_SESSIONS_MAX;

/// The TLS configurations towards endpoints, shared by all workers. Equal settings have one
/// [`ConnectorConfig`], so that connections can be distinguished by its address.
#[derive(Default)]
pub(crate) struct ConnectorConfigs(Mutex<HashMap<Key, Arc<ConnectorConfig>>>);

/// A TLS configuration towards endpoints.
pub(crate) struct ConnectorConfig {
    settings: Arc<UpstreamTls>,
    version: AppProtocol,
    config: OnceLock<Result<ClientConfig, Error>>,
}

/// TLS towards one endpoint, with the sessions that can be resumed.
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Why there is no TLS session with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSession {
    /// The endpoint's certificate is not valid.
    BadCertificate,
    /// The handshake failed for another reason.
    HandshakeFailed,
}

#[derive(Clone)]
struct Key(Arc<UpstreamTls>, AppProtocol);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1 && (Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.name, self.0.verify, self.0.send_name, self.1).hash(state);
    }
}

impl ConnectorConfigs {
    /// The configuration for these settings. It takes a lock, so do not call it for each request.
    pub(crate) fn get(&self, settings: &Arc<UpstreamTls>, version: AppProtocol) -> Arc<ConnectorConfig> {
        let new = || ConnectorConfig { settings: Arc::clone(settings), version, config: OnceLock::new() };
        let mut configs = self.0.lock();
        Arc::clone(configs.entry(Key(Arc::clone(settings), version)).or_insert_with(|| Arc::new(new())))
    }

    /// Removes configurations that are no longer in use.
    pub(crate) fn sweep(&self) {
        self.0.lock().retain(|_, config| Arc::strong_count(config) > 1);
    }
}

impl ConnectorConfig {
    /// The TLS connector for one endpoint.
    pub(crate) fn connector(&self, address: IpAddr) -> Result<TlsConnector, NoSession> {
        let config = self.config.get_or_init(|| self.complete()).as_ref().map_err(|error| {
            tracing::debug!(%error, "endpoints cannot be spoken to over TLS");
            NoSession::HandshakeFailed
        })?;
        let mut config = config.clone();
        // Each endpoint has its own store: endpoints with the same name may have different ticket keys.
        config.resumption = Resumption::in_memory_sessions(UPSTREAM_SESSIONS_MAX);
        let named = ServerName::try_from(self.settings.name.clone()).ok().filter(|_| self.settings.send_name);
        Ok(TlsConnector {
            config: Arc::new(config),
            name: named.unwrap_or_else(|| ServerName::from(address)),
        })
    }

    fn complete(&self) -> Result<ClientConfig, Error> {
        let settings = &*self.settings;
        let suites = if settings.ciphers.is_empty() { CipherSuite::DEFAULT } else { &settings.ciphers };
        let provider = provider(suites);
        let shown = settings.certificate.as_ref().map(|certificate| certified_key(certificate, &provider));
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(settings.versions, suites))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(settings)));
        let mut config = match shown.transpose()? {
            Some(key) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
            None => config.with_no_client_auth(),
        };
        config.enable_secret_extraction = true;
        config.enable_sni = settings.send_name;
        config.alpn_protocols = match self.version {
            _ if settings.is_for_bytes => Vec::new(),
            AppProtocol::Http1 => vec![b"http/1.1".to_vec()],
            AppProtocol::Http2 => vec![b"h2".to_vec()],
            AppProtocol::FastCgi => Vec::new(),
        };
        Ok(config)
    }
}

impl TlsConnector {
    /// Makes a handshake over a connection.
    pub(crate) async fn handshake(&self, stream: TcpStream) -> Result<Box<Session>, NoSession> {
        let negotiation = Negotiation::client(Arc::clone(&self.config), self.name.clone());
        let mut handshake = Handshake::new(stream, negotiation.map_err(|error| reason(&error))?);
        handshake.complete(async || {}).await.map_err(|error: io::Error| {
            let tls = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
            tls.map_or(NoSession::HandshakeFailed, reason)
        })?;
        handshake.finish().map_err(|error| reason(&error))
    }
}

fn reason(error: &Error) -> NoSession {
    tracing::debug!(%error, "handshake with an endpoint failed");
    match error {
        Error::InvalidCertificate(_) => NoSession::BadCertificate,
        _ => NoSession::HandshakeFailed,
    }
}

/// Verifies the certificates of endpoints.
#[derive(Debug)]
pub(super) struct Verifier {
    /// None if any certificate is accepted.
    demands: Option<Demands>,
}

#[derive(Debug)]
struct Demands {
    trust: Trust,
    /// Names of which the certificate must have one. Configured names that no certificate can have are left
    /// out: without any, every certificate is refused.
    names: Vec<Name>,
}

/// A name that a certificate may have.
#[derive(Debug)]
enum Name {
    Server(ServerName<'static>),
    /// All host names with this ending, which begins with a dot.
    Below(String),
    Uri(String),
}

impl Verifier {
    pub(super) fn new(settings: &UpstreamTls) -> Self {
        let demands = settings.verify.then(|| Demands {
            trust: Trust::new(&settings.authorities, settings.depth),
            names: Name::of(settings),
        });
        Self { demands }
    }
}

impl Name {
    fn of(settings: &UpstreamTls) -> Vec<Self> {
        if settings.alternative_names.is_empty() {
            return Self::server(&settings.name).into_iter().collect();
        }
        let of = |name: &AlternativeName| match name {
            AlternativeName::Uri(uri) => Some(Self::Uri(uri.clone())),
            AlternativeName::Dns(name) => match name.strip_prefix('*') {
                Some(below) => Some(Self::Below(below.to_ascii_lowercase())),
                None => Self::server(name),
            },
        };
        settings.alternative_names.iter().filter_map(of).collect()
    }

    fn server(name: &str) -> Option<Self> {
        ServerName::try_from(name.to_owned()).ok().map(Self::Server)
    }

    fn is_of(&self, leaf: &CertificateDer<'_>) -> Result<bool, webpki::Error> {
        match self {
            Self::Server(name) => {
                match EndEntityCert::try_from(leaf)?.verify_is_valid_for_subject_name(name) {
                    Ok(()) => Ok(true),
                    Err(webpki::Error::CertNotValidForName(_)) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Self::Below(end) => {
                let is_below =
                    |name: &str| name.to_ascii_lowercase().ends_with(end) && name.len() > end.len();
                has_alternative_name(
                    leaf,
                    |name| matches!(name, x509::AlternativeName::Dns(name) if is_below(name)),
                )
            }
            Self::Uri(uri) => has_alternative_name(
                leaf,
                |name| matches!(name, x509::AlternativeName::Uri(own) if own == *uri),
            ),
        }
    }
}

impl Demands {
    fn judge(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).cloned().collect();
        self.trust.judge(&chain, Purpose::Server, Duration::from_secs(now.as_secs()))?;
        for name in &self.names {
            if name.is_of(leaf)? {
                return Ok(());
            }
        }
        Err(webpki::Error::UnsupportedNameType)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.demands.as_ref().map_or(Ok(()), |demands| demands.judge(leaf, intermediates, now));
        judged.map_err(|error| CertificateError::Other(OtherError(Arc::new(error))))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
