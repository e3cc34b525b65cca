//! Certificates, and how TLS is spoken with clients and endpoints.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A certificate chain with its private key.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// DER of the certificates, the leaf first.
    #[serde(serialize_with = "digest")]
    pub chain: Vec<Vec<u8>>,
    /// The leaf's private key.
    pub key: PrivateKey,
    /// Facts about the certificate for metrics.
    pub info: CertificateInfo,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, key, info } = self;
        f.debug_struct("Certificate")
            .field("chain", &Der(chain))
            .field("key", key)
            .field("info", info)
            .finish()
    }
}

/// Encoded objects, of which only number and digest are shown: thousands of hosts have kilobytes each.
struct Der<'a>(&'a [Vec<u8>]);

impl fmt::Debug for Der<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        write!(f, "{} ({:016x})", self.0.len(), hasher.finish())
    }
}

fn digest<S: Serializer>(objects: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:?}", Der(objects)))
}

/// Facts about a certificate for metrics (ingress-nginx: `ssl_certificate_info`, `ssl_expire_time_seconds`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct CertificateInfo {
    /// Namespace of the object that has the certificate.
    pub namespace: String,
    /// Name of the object that has the certificate.
    pub object: String,
    /// Serial number in decimal digits.
    pub serial_number: String,
    /// Common name of the issuer, or empty.
    pub issuer_common_name: String,
    /// Organization of the issuer, or empty.
    pub issuer_organization: String,
    /// `RSA`, `ECDSA` or `Ed25519`.
    pub public_key_algorithm: String,
    /// End of its validity in seconds since 1970.
    pub not_after: i64,
}

/// A private key in DER, which is never shown.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct PrivateKey {
    /// Encoding of the key.
    pub encoding: KeyEncoding,
    /// The encoded key.
    #[serde(skip)]
    pub der: Vec<u8>,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?})", self.encoding)
    }
}

/// Encodings of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum KeyEncoding {
    /// `BEGIN PRIVATE KEY` (RFC 5958)
    Pkcs8,
    /// `BEGIN RSA PRIVATE KEY` (RFC 8017)
    Pkcs1,
    /// `BEGIN EC PRIVATE KEY` (RFC 5915)
    Sec1,
}

/// Certificate authorities, and their revocation lists.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Authorities {
    /// DER of their certificates.
    #[serde(serialize_with = "digest")]
    pub certificates: Vec<Vec<u8>>,
    /// DER of revocation lists.
    #[serde(serialize_with = "digest")]
    pub revocations: Vec<Vec<u8>>,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificates, revocations } = self;
        f.debug_struct("Authorities")
            .field("certificates", &Der(certificates))
            .field("revocations", &Der(revocations))
            .finish()
    }
}

/// How TLS is spoken with clients. The defaults are ingress-nginx's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlsSettings {
    /// Versions that are offered.
    pub versions: TlsVersions,
    /// Suites of TLS 1.2 that are offered, the most wanted first. TLS 1.3 has its own, as in OpenSSL.
    pub ciphers: Vec<CipherSuite>,
    /// The order of [`ciphers`](Self::ciphers) counts, not that of the client.
    pub prefer_server_ciphers: bool,
    /// Resume sessions from tickets that clients keep.
    pub session_tickets: bool,
    /// Resume sessions from the server's cache.
    pub session_cache: bool,
    /// Age after which a session is not resumed.
    pub session_timeout: Duration,
    /// For hosts without one of their own; none for one that is made up when the proxy starts.
    pub default_certificate: Option<Arc<Certificate>>,
    /// Refuse handshakes for names that are not served.
    pub reject_unknown_names: bool,
    /// Whether HTTP/2 is offered to clients.
    pub http2: bool,
    /// Whether HTTP/3 is served, on the UDP port beside each TCP port with TLS.
    pub http3: Http3,
    /// Whether hosts take requests before the handshake is complete (0-RTT), over HTTP/3, unless they say
    /// otherwise.
    pub early_data: bool,
    /// Value of `Strict-Transport-Security` on every response over TLS; none for no such header.
    pub strict_transport_security: Option<String>,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            versions: TlsVersions::default(),
            ciphers: CipherSuite::DEFAULT.to_vec(),
            prefer_server_ciphers: true,
            session_tickets: false,
            session_cache: true,
            session_timeout: Duration::from_secs(600),
            default_certificate: None,
            reject_unknown_names: false,
            http2: true,
            http3: Http3::Off,
            early_data: false,
            strict_transport_security: Some("max-age=31536000; includeSubDomains".to_owned()),
        }
    }
}

/// Whether HTTP/3 is served, and whom responses tell of it (`Alt-Svc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Http3 {
    /// It is not served.
    #[default]
    Off,
    /// Clients of hosts that others have reached over HTTP/3, and a few of the others.
    Auto,
    /// Clients of all hosts.
    On,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TlsVersions {
    /// TLS 1.2 (RFC 5246)
    pub v12: bool,
    /// TLS 1.3 (RFC 8446)
    pub v13: bool,
}

impl Default for TlsVersions {
    fn default() -> Self {
        Self { v12: true, v13: true }
    }
}

/// Names and suites: one entry per suite.
macro_rules! suites {
    ($($variant:ident = $openssl:literal,)*) => {
        /// A TLS 1.2 suite with forward secrecy and authenticated encryption: others are not supported.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum CipherSuite {
            $(#[doc = concat!("`", $openssl, "`")] $variant,)*
        }

        impl CipherSuite {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that OpenSSL gives it, as `ssl-ciphers` has it.
            pub fn openssl_name(self) -> &'static str {
                match self {
                    $(Self::$variant => $openssl,)*
                }
            }
        }
    };
}

suites! {
    EcdheEcdsaAes128Gcm = "ECDHE-ECDSA-AES128-GCM-SHA256",
    EcdheRsaAes128Gcm = "ECDHE-RSA-AES128-GCM-SHA256",
    EcdheEcdsaAes256Gcm = "ECDHE-ECDSA-AES256-GCM-SHA384",
    EcdheRsaAes256Gcm = "ECDHE-RSA-AES256-GCM-SHA384",
    EcdheEcdsaChaCha20 = "ECDHE-ECDSA-CHACHA20-POLY1305",
    EcdheRsaChaCha20 = "ECDHE-RSA-CHACHA20-POLY1305",
}

impl CipherSuite {
    /// In ingress-nginx's order.
    pub const DEFAULT: &[Self] = Self::ALL;
}

/// An alternative name of a certificate (RFC 5280 section 4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum AlternativeName {
    /// The name of a host, or `*.` and a domain for all names below it.
    Dns(String),
    /// A URI, letter by letter.
    Uri(String),
}

/// How TLS is spoken with endpoints (nginx: `proxy_ssl_*`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpstreamTls {
    /// The client certificate for endpoints that request one.
    pub certificate: Option<Arc<Certificate>>,
    /// Authorities that may have signed the endpoint's certificate. Without `verify` any certificate is
    /// accepted.
    pub authorities: Arc<Authorities>,
    /// Whether endpoints have to show a certificate of an authority for [`name`](Self::name).
    pub verify: bool,
    /// Most certificates between the endpoint's and an authority's.
    pub depth: u32,
    /// The name that the certificate has to be for, and that is sent if one is sent.
    pub name: String,
    /// Names of which the certificate has to have one instead of [`name`](Self::name); empty to check that.
    pub alternative_names: Vec<AlternativeName>,
    /// Send the name (RFC 6066 section 3).
    pub send_name: bool,
    /// Versions that are offered.
    pub versions: TlsVersions,
    /// TLS 1.2 suites that are offered; empty for all.
    pub ciphers: Vec<CipherSuite>,
    /// Connections carry the bytes of a stream: no protocol is offered (RFC 7301).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_for_bytes: bool,
}
