//! TLS for either end of a connection: settings, and results of handshakes.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme, SupportedProtocolVersion,
};

use crate::certificate::{Authority, Certificate};
use crate::session::Session;
use crate::{Connection, Upstream};

/// TLS settings of a client. It keeps the sessions that it gets, and accepts any certificate unless it is
/// given authorities: tests look at the chain.
#[derive(Clone, Debug)]
pub struct TlsClient {
    name: Option<String>,
    alpn: Vec<Vec<u8>>,
    versions: Vec<&'static SupportedProtocolVersion>,
    suite: Option<&'static str>,
    certificate: Option<Arc<Certificate>>,
    believes: Option<CertificateDer<'static>>,
    /// Does not look at the certificate at all.
    is_blind: bool,
    resumption: Resumption,
    config: OnceLock<Arc<ClientConfig>>,
}

/// How an upstream speaks TLS. It keeps sessions and gives tickets.
#[derive(Clone, Debug)]
pub struct TlsServer {
    pub(crate) config: Arc<ServerConfig>,
}

impl TlsClient {
    /// Asks for a name.
    pub fn new(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::nameless() }
    }

    /// Asks for no name.
    pub fn nameless() -> Self {
        Self {
            name: None,
            alpn: Vec::new(),
            versions: vec![&TLS13, &TLS12],
            suite: None,
            certificate: None,
            believes: None,
            is_blind: false,
            resumption: Resumption::in_memory_sessions(64),
            config: OnceLock::new(),
        }
    }

    /// Offers these protocols.
    #[must_use]
    pub fn alpn(self, protocols: &[&str]) -> Self {
        let alpn = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { alpn, ..self.unbuilt() }
    }

    /// Offers TLS 1.2 only.
    #[must_use]
    pub fn only_12(self) -> Self {
        Self { versions: vec![&TLS12], ..self.unbuilt() }
    }

    /// Offers TLS 1.3 only.
    #[must_use]
    pub fn only_13(self) -> Self {
        Self { versions: vec![&TLS13], ..self.unbuilt() }
    }

    /// Offers only this suite, named as in [`TlsInfo::suite`](crate::TlsInfo::suite), and only its version.
    #[must_use]
    pub fn suite(self, name: &'static str) -> Self {
        let version = if name.starts_with("TLS13_") { &TLS13 } else { &TLS12 };
        Self { suite: Some(name), versions: vec![version], ..self.unbuilt() }
    }

    /// Resumes sessions of TLS 1.2 from the server's cache, not by tickets.
    #[must_use]
    pub fn session_ids_only(self) -> Self {
        let resumption = self.resumption.clone().tls12_resumption(Tls12Resumption::SessionIdOnly);
        Self { resumption, ..self.unbuilt() }
    }

    /// Presents a certificate if one is requested.
    #[must_use]
    pub fn certificate(self, certificate: &Arc<Certificate>) -> Self {
        Self { certificate: Some(Arc::clone(certificate)), ..self.unbuilt() }
    }

    /// Does not look at the certificate at all, which may have extensions that nobody knows.
    #[must_use]
    pub fn blind(self) -> Self {
        Self { is_blind: true, ..self.unbuilt() }
    }

    /// Believes this authority and no other.
    #[must_use]
    pub fn believing(self, authority: &Authority) -> Self {
        Self { believes: Some(authority.der()), ..self.unbuilt() }
    }

    /// Connects, and shakes hands.
    pub fn connect(&self, address: SocketAddr) -> Connection {
        self.try_connect(address).unwrap_or_else(|error| panic!("no handshake with {address}: {error}"))
    }

    /// Connects and performs a handshake that the server may refuse. An alert is an error of kind
    /// `InvalidData`.
    pub fn try_connect(&self, address: SocketAddr) -> io::Result<Connection> {
        self.handshake(TcpStream::connect(address)?)
    }

    /// Performs a handshake on a connection on which data was sent before, such as a PROXY header.
    pub fn upgrade(&self, connection: Connection) -> io::Result<Connection> {
        self.handshake(connection.into_stream())
    }

    fn handshake(&self, stream: TcpStream) -> io::Result<Connection> {
        let name = self.server_name(stream.peer_addr()?);
        let session = ClientConnection::new(self.config(), name).map_err(io::Error::other)?;
        Session::begin(stream, session.into()).map(Connection::tls)
    }

    /// The configuration for QUIC, with the protocol `h3` if it offers none. A session is resumed with the
    /// configuration that it was made with only, which is kept where these are the settings already.
    pub(crate) fn quic_config(&self) -> Arc<ClientConfig> {
        let is_for_quic = self.versions.iter().all(|version| version.version == TLS13.version);
        if is_for_quic && !self.alpn.is_empty() {
            return self.config();
        }
        let tls = self.clone().only_13();
        if tls.alpn.is_empty() { tls.alpn(&["h3"]).config() } else { tls.config() }
    }

    fn unbuilt(self) -> Self {
        Self { config: OnceLock::new(), ..self }
    }

    pub(crate) fn server_name(&self, peer: SocketAddr) -> ServerName<'static> {
        match &self.name {
            Some(name) => ServerName::try_from(name.clone()).expect("a name"),
            None => ServerName::from(peer.ip()),
        }
    }

    /// The settings, for a transport of the caller's own.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(self.config.get_or_init(|| Arc::new(self.build())))
    }

    fn build(&self) -> ClientConfig {
        let mut provider = aws_lc_rs::default_provider();
        if let Some(name) = self.suite {
            provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()) == name);
        }
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.versions)
            .expect("suites for the versions");
        let verifier: Arc<dyn ServerCertVerifier> = match &self.believes {
            Some(authority) => WebPkiServerVerifier::builder_with_provider(roots(authority), provider)
                .build()
                .expect("an authority"),
            None => Arc::new(Credulous { provider, is_blind: self.is_blind }),
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.certificate {
            Some(one) => builder.with_client_auth_cert(one.chain(), one.key()).expect("a certificate"),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&self.alpn);
        config.resumption = self.resumption.clone();
        config.enable_sni = self.name.is_some();
        config
    }
}

impl TlsServer {
    /// Shows a certificate.
    pub fn new(certificate: &Certificate) -> Self {
        Self::build(certificate, None, &[&TLS13, &TLS12])
    }

    /// Shows a certificate, and wants one that this authority has signed.
    pub fn asking(certificate: &Certificate, authority: &Authority) -> Self {
        Self::build(certificate, Some(authority), &[&TLS13, &TLS12])
    }

    /// Shows a certificate, and speaks TLS 1.2 only.
    pub fn only_12(certificate: &Certificate) -> Self {
        Self::build(certificate, None, &[&TLS12])
    }

    /// Shows a certificate, and speaks TLS 1.3 only.
    pub fn only_13(certificate: &Certificate) -> Self {
        Self::build(certificate, None, &[&TLS13])
    }

    /// Speaks these protocols.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::make_mut(&mut self.config).alpn_protocols = protocols;
        self
    }

    /// Resumes no session.
    #[must_use]
    pub fn forgetful(mut self) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        self
    }

    fn build(
        certificate: &Certificate,
        authority: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("suites for the versions");
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots(&authority.der()), provider);
                builder.with_client_cert_verifier(verifier.build().expect("an authority"))
            }
        };
        let mut config = builder
            .with_single_cert(certificate.chain(), certificate.key())
            .expect("a key for its certificate");
        config.session_storage = ServerSessionMemoryCache::new(64);
        Self { config: Arc::new(config) }
    }
}

impl Upstream {
    /// Takes the next connection and shakes hands on it.
    pub fn accept_tls(&self, server: &TlsServer) -> Connection {
        self.try_accept_tls(server)
            .unwrap_or_else(|error| panic!("no handshake at {}: {error}", self.address()))
    }

    /// Accepts the next connection and performs a handshake that the client may refuse.
    pub fn try_accept_tls(&self, server: &TlsServer) -> io::Result<Connection> {
        let session = ServerConnection::new(Arc::clone(&server.config)).map_err(io::Error::other)?;
        Session::begin(self.accept().into_stream(), session.into()).map(Connection::tls)
    }
}

fn roots(authority: &CertificateDer<'static>) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).expect("an authority");
    Arc::new(roots)
}

/// Believes any certificate whose key the other end has.
#[derive(Debug)]
struct Credulous {
    provider: Arc<CryptoProvider>,
    /// The key does not matter either.
    is_blind: bool,
}

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.is_blind {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
