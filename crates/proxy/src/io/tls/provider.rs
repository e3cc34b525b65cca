//! The offer in a handshake: cipher suites, versions, key exchange groups.

use std::sync::Arc;

use model::{CipherSuite, TlsVersions};
use rustls::crypto::aws_lc_rs::cipher_suite as suite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

/// TLS 1.3 has three suites, which are always offered, as by OpenSSL. The cheapest comes first: SHA-256, of
/// which a handshake needs dozens, has CPU instructions of its own.
const TLS13_SUITES: [SupportedCipherSuite; 3] =
    [suite::TLS13_AES_128_GCM_SHA256, suite::TLS13_AES_256_GCM_SHA384, suite::TLS13_CHACHA20_POLY1305_SHA256];

/// The cryptography with these suites for TLS 1.2. The key exchange group is the client's first choice among
/// X25519, P-256, P-384 and X25519MLKEM768.
pub(super) fn provider(suites: &[CipherSuite]) -> Arc<CryptoProvider> {
    let cipher_suites = TLS13_SUITES.into_iter().chain(suites.iter().copied().map(supported)).collect();
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn supported(suite: CipherSuite) -> SupportedCipherSuite {
    match suite {
        CipherSuite::EcdheEcdsaAes128Gcm => suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaAes128Gcm => suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheEcdsaAes256Gcm => suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaAes256Gcm => suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaChaCha20 => suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheRsaChaCha20 => suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

/// The versions to offer: TLS 1.2 only if there is a suite for it. If no version is left, TLS 1.3 is
/// offered, since TLS needs one.
pub(super) fn versions(
    versions: TlsVersions,
    suites: &[CipherSuite],
) -> Vec<&'static SupportedProtocolVersion> {
    match (versions.v12 && !suites.is_empty(), versions.v13) {
        (true, true) => vec![&TLS13, &TLS12],
        (true, false) => vec![&TLS12],
        (false, _) => vec![&TLS13],
    }
}

/// The name in nginx's `$ssl_protocol`.
pub(super) fn version_name(version: Option<ProtocolVersion>) -> &'static str {
    match version {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    }
}

/// The name in nginx's `$ssl_cipher`, which is that of OpenSSL.
pub(super) fn suite_name(suite: Option<SupportedCipherSuite>) -> &'static str {
    let Some(suite) = suite else { return "" };
    if suite == suite::TLS13_AES_128_GCM_SHA256 {
        "TLS_AES_128_GCM_SHA256"
    } else if suite == suite::TLS13_AES_256_GCM_SHA384 {
        "TLS_AES_256_GCM_SHA384"
    } else if suite == suite::TLS13_CHACHA20_POLY1305_SHA256 {
        "TLS_CHACHA20_POLY1305_SHA256"
    } else {
        let known = CipherSuite::ALL.iter().find(|&&one| supported(one) == suite);
        known.map_or("", |one| one.openssl_name())
    }
}
