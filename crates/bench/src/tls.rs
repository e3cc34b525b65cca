//! TLS of the load generator: version, cipher suite and session resumption; and the cost of a signature,
//! which is the lower limit for a full handshake.
//!
//! Certificates are verified only if a plan asks for it: when proxies are compared, verification would take
//! CPU time that the backend needs. Must not be in here: sockets.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group, sign};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
    version,
};

use crate::cpu::CpuTime;

/// Most tickets that are kept: TLS 1.2 sends one per session, TLS 1.3 several; the newest are kept.
pub(crate) const SESSIONS_KEPT: usize = 8;

/// TLS settings of a plan.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The name for SNI. An address is not sent.
    pub server_name: String,
    /// The certificates that are accepted.
    pub trust: Trust,
    /// The versions to offer.
    pub version: Version,
    /// The only cipher suite to offer, by its name in rustls, such as `TLS13_AES_256_GCM_SHA384`; `None` for
    /// all.
    pub suite: Option<String>,
    /// Whether each connection resumes its own last session when it is opened again, as one client does.
    /// Otherwise all handshakes are full.
    pub resume: bool,
}

/// The certificates that a client accepts.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Accepts every certificate.
    #[default]
    Anybody,
    /// Certificates for the server's name that these authorities have signed.
    Authorities(Arc<RootCertStore>),
}

/// Versions of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.3 if the server supports it, else 1.2.
    #[default]
    Any,
    /// TLS 1.2 only.
    V1_2,
    /// TLS 1.3 only.
    V1_3,
}

/// Why the settings cannot be used, or a key cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// rustls has no suite with this name.
    #[error("no cipher suite {name}; there are: {known}")]
    UnknownSuite {
        /// The invalid name.
        name: String,
        /// The names that it has.
        known: String,
    },
    /// The server's name is neither a host name nor an address.
    #[error("{0} is no server name")]
    ServerName(String),
    /// rustls refuses the settings.
    #[error(transparent)]
    Library(#[from] rustls::Error),
    /// No certificate authorities are installed on this machine.
    #[error("no certificate authorities are installed on this machine")]
    NoAuthorities,
    /// rustls cannot sign with this key.
    #[error("not a private key in PEM that can sign")]
    Key,
}

/// TLS clients made from [`Tls`], each with its own sessions.
pub struct Clients {
    server_name: ServerName<'static>,
    /// One configuration for each client, or one for all if sessions are not resumed.
    configs: Vec<Arc<ClientConfig>>,
}

impl Clients {
    /// Makes this number of clients, at least one, which offer these protocols by ALPN.
    ///
    /// # Errors
    ///
    /// When the name, the version, the suite or an authority is not valid.
    pub fn new(tls: &Tls, protocols: &[&[u8]], count: usize) -> Result<Clients, TlsError> {
        let server_name = ServerName::try_from(tls.server_name.clone())
            .map_err(|_| TlsError::ServerName(tls.server_name.clone()))?;
        let mut config = tls.config()?;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let with_sessions = || {
            let mut config = config.clone();
            config.resumption = Resumption::in_memory_sessions(SESSIONS_KEPT);
            Arc::new(config)
        };
        let configs = if tls.resume {
            (0..count.max(1)).map(|_| with_sessions()).collect()
        } else {
            vec![Arc::new(config)]
        };
        Ok(Clients { server_name, configs })
    }

    /// A new connection of the client `index`.
    ///
    /// # Errors
    ///
    /// When rustls refuses the configuration.
    pub fn begin(&self, index: usize) -> io::Result<ClientConnection> {
        let config = Arc::clone(&self.configs[index % self.configs.len()]);
        ClientConnection::new(config, self.server_name.clone()).map_err(io::Error::other)
    }

    /// A new connection over a blocking socket; the first read or write makes the handshake.
    ///
    /// # Errors
    ///
    /// The same as those of [`begin`](Self::begin).
    pub fn blocking(
        &self,
        index: usize,
        socket: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        Ok(StreamOwned::new(self.begin(index)?, socket))
    }
}

impl Trust {
    /// The authorities that are installed on this machine, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn of_system() -> Result<Trust, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(Trust::Authorities(Arc::new(roots))) }
    }
}

impl Tls {
    pub(crate) fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(self.provider()?);
        let versions: &[_] = match self.version {
            Version::Any => rustls::ALL_VERSIONS,
            Version::V1_2 => &[&version::TLS12],
            Version::V1_3 => &[&version::TLS13],
        };
        let verifier = self.verifier(&provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(config)
    }

    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        Ok(match &self.trust {
            Trust::Anybody => Arc::new(AnyCertificate),
            Trust::Authorities(roots) => {
                WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
                    .build()
                    .map_err(|_| TlsError::NoAuthorities)?
            }
        })
    }

    fn provider(&self) -> Result<CryptoProvider, TlsError> {
        // The first group is the one for the key exchange, which all servers accept without another round
        // trip. The second is offered so that OpenSSL uses a P-256 certificate in TLS 1.2 (RFC 8422 section
        // 5.1).
        let mut provider = CryptoProvider {
            kx_groups: vec![kx_group::X25519, kx_group::SECP256R1],
            ..aws_lc_rs::default_provider()
        };
        if let Some(name) = &self.suite {
            let known: Vec<_> =
                provider.cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect();
            provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()) == *name);
            if provider.cipher_suites.is_empty() {
                return Err(TlsError::UnknownSuite { name: name.clone(), known: known.join(", ") });
            }
        }
        Ok(provider)
    }
}

/// The CPU time of one signature in a full handshake with this key (PEM), measured for `duration`.
///
/// # Errors
///
/// When the key cannot be read, or is neither RSA nor ECDSA on P-256.
pub fn signature_time(key: &str, duration: Duration) -> Result<Duration, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| TlsError::Key)?;
    let key = sign::any_supported_type(&key)?;
    let schemes = [SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256];
    let signer = key.choose_scheme(&schemes).ok_or(TlsError::Key)?;
    // The length of what TLS 1.3 signs with SHA-256 (RFC 8446 section 4.4.3).
    let message = [0x20; 64 + 33 + 1 + 32];
    let cpu = || CpuTime::of_thread().map_err(|_| TlsError::Key);
    let start = Instant::now();
    let before = cpu()?;
    let mut count = 0;
    loop {
        signer.sign(&message)?;
        count += 1;
        if start.elapsed() >= duration {
            let spent = (cpu()? - before).total;
            // The scheduler counts CPU time at its ticks, so that the first readings may be zero.
            if !spent.is_zero() {
                return Ok(spent / count);
            }
        }
    }
}

/// Accepts every certificate, without CPU time.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

    use super::*;

    #[test]
    fn a_suite_is_chosen_by_name() {
        let offer =
            |suite: &str| Tls { server_name: "x.test".into(), suite: Some(suite.into()), ..Tls::default() };
        let provider = offer("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384").provider().expect("it is there");
        assert_eq!(provider.cipher_suites.len(), 1);
        let error = Clients::new(&offer("RC4"), &[], 1).err().expect("no such suite").to_string();
        assert!(error.contains("RC4") && error.contains("TLS13_AES_128_GCM_SHA256"), "{error}");
    }

    #[test]
    fn a_signature_takes_time() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key").serialize_pem();
        assert!(signature_time(&key, Duration::ZERO).expect("a key that signs") > Duration::ZERO);
        assert!(signature_time("no key", Duration::ZERO).is_err());
    }
}
