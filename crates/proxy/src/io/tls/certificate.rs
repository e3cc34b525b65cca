//! Makes rustls certificates from those of the model.

use std::sync::Arc;

use model::{Certificate, KeyEncoding};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

/// A certificate in rustls' form. An error if rustls cannot use its key.
pub(super) fn certified_key(
    certificate: &Certificate,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, Error> {
    let der = certificate.key.der.clone();
    let key = match certificate.key.encoding {
        KeyEncoding::Pkcs8 => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)),
        KeyEncoding::Pkcs1 => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(der)),
        KeyEncoding::Sec1 => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(der)),
    };
    let chain: Vec<_> = certificate.chain.iter().cloned().map(CertificateDer::from).collect();
    if chain.is_empty() {
        return Err(Error::NoCertificatesPresented);
    }
    let certified = CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?);
    match certified.keys_match() {
        // Other errors are about certificates of X.509 version 1: webpki does not read them, but they can be
        // shown.
        Err(error @ Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(error),
        _ => Ok(Arc::new(certified)),
    }
}
