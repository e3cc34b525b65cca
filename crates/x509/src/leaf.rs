//! Parts of a certificate that a handshake asks for.

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// A name among the alternative names of a certificate (RFC 5280 section 4.2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeName<'a> {
    /// A DNS name.
    Dns(&'a str),
    /// A uniform resource identifier.
    Uri(&'a str),
}

/// The public key of a certificate of any version of X.509. webpki has none of a certificate of version 1.
pub fn public_key<'a>(certificate: &'a CertificateDer<'_>) -> Option<SubjectPublicKeyInfoDer<'a>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(SubjectPublicKeyInfoDer::from(certificate.tbs_certificate.subject_pki.raw))
}

/// Whether a certificate has an alternative name that satisfies a condition.
///
/// # Errors
///
/// [`webpki::Error::BadDer`] if the certificate or its names cannot be read.
pub fn has_alternative_name(
    certificate: &CertificateDer<'_>,
    is_it: impl Fn(AlternativeName<'_>) -> bool,
) -> Result<bool, webpki::Error> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| webpki::Error::BadDer)?;
    let names = certificate.subject_alternative_name().map_err(|_| webpki::Error::BadDer)?;
    let satisfies = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => is_it(AlternativeName::Dns(name)),
        GeneralName::URI(uri) => is_it(AlternativeName::Uri(uri)),
        _ => false,
    };
    Ok(names.is_some_and(|names| names.value.general_names.iter().any(satisfies)))
}
