//! A host with several certificates (Gateway API: `ListenerTLSConfig.certificateRefs`), of which a client is
//! shown one.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

/// The certificates of a host, of which there is at least one.
#[derive(Debug)]
pub(super) struct SeveralCertificates(pub(super) Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for SeveralCertificates {
    /// The first certificate that is for the name and that the client can verify; else the first that it can
    /// verify.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let usable = || self.0.iter().filter(|one| one.key.choose_scheme(schemes).is_some());
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let fitting = name.and_then(|name| usable().find(|one| is_for(one, &name)));
        fitting.or_else(|| usable().next()).or(self.0.first()).cloned()
    }
}

fn is_for(certificate: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let leaf = certificate.cert.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok());
    leaf.is_some_and(|leaf| leaf.verify_is_valid_for_subject_name(name).is_ok())
}
