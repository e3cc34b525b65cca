//! Reads certificates, keys and authorities from PEM, and checks that they belong together.
//!
//! Never in here: the objects that hold them, clocks, and the hosts that a certificate serves.

mod key;
mod names;

use std::fmt;
use std::sync::{Arc, LazyLock};

use model::{Authorities, Certificate, CertificateInfo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate, X509Name};

use crate::names::NsName;
use names::Names;

/// A certificate with its private key, the names that it is for, and the time in which it is valid.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: Arc<Certificate>,
    names: Names,
    not_before: i64,
}

impl Pair {
    /// Reads `tls.crt` and `tls.key` of an object: the leaf first, then the intermediate certificates.
    pub(crate) fn parse(owner: &NsName, chain: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain = certificates(chain).map_err(|why| format!("tls.crt {why}"))?;
        let leaf = inspect(&chain[0]).map_err(|why| format!("tls.crt {why}"))?;
        let (key, public_key_algorithm) =
            key::parse(key, leaf.public_key()).map_err(|why| format!("tls.key {why}"))?;
        let first = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let issuer = leaf.issuer();
        let info = CertificateInfo {
            namespace: owner.namespace.clone(),
            object: owner.name.clone(),
            serial_number: leaf.tbs_certificate.serial.to_string(),
            issuer_common_name: first(common_name(issuer)),
            issuer_organization: first(issuer.iter_organization().find_map(|it| it.as_str().ok())),
            public_key_algorithm: public_key_algorithm.to_owned(),
            not_after: leaf.validity().not_after.timestamp(),
        };
        let (names, not_before) = (Names::of(&leaf), leaf.validity().not_before.timestamp());
        Ok(Self { certificate: Arc::new(Certificate { chain, key, info }), names, not_before })
    }

    /// Whether the certificate is for a host, by ingress-nginx's rules.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        self.names.cover(host)
    }

    /// The names that the certificate is for, as text for messages.
    pub(crate) fn names(&self) -> &impl fmt::Display {
        &self.names
    }

    /// The names that the certificate is for, one by one.
    pub(crate) fn each_name(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// First second of validity, since 1970.
    pub(crate) fn not_before(&self) -> i64 {
        self.not_before
    }

    /// Last second of validity, since 1970.
    pub(crate) fn not_after(&self) -> i64 {
        self.certificate.info.not_after
    }
}

/// Reads `ca.crt` and `ca.crl`.
pub(crate) fn authorities(trusted: &[u8], revoked: Option<&[u8]>) -> Result<Authorities, String> {
    let certificates = certificates(trusted).map_err(|why| format!("ca.crt {why}"))?;
    for der in &certificates {
        inspect(der).map_err(|why| format!("ca.crt {why}"))?;
    }
    let revocations = match revoked {
        Some(pem) => revocations(pem).map_err(|why| format!("ca.crl {why}"))?,
        None => Vec::new(),
    };
    Ok(Authorities { certificates, revocations })
}

/// The authorities of the system that Forebay runs on, as OpenSSL finds them (`SSL_CERT_FILE`,
/// `SSL_CERT_DIR`). They are read once.
pub(crate) fn authorities_of_system() -> Arc<Authorities> {
    static READ: LazyLock<Arc<Authorities>> = LazyLock::new(|| {
        let loaded = rustls_native_certs::load_native_certs();
        for error in loaded.errors {
            tracing::warn!(%error, "certificates of the system's authorities cannot be read");
        }
        let certificates = loaded.certs.iter().map(|der| der.to_vec()).collect();
        Arc::new(Authorities { certificates, revocations: Vec::new() })
    });
    Arc::clone(&READ)
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found.iter().map(|der| der.to_vec()).collect()),
        Ok(_) => Err("holds no certificate in PEM".to_owned()),
        Err(_) => Err("is broken PEM".to_owned()),
    }
}

fn revocations(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|_| "is broken PEM".to_owned())?;
    if found.is_empty() {
        return Err("holds no revocation list in PEM".to_owned());
    }
    for der in &found {
        CertificateRevocationList::from_der(der)
            .map_err(|_| "holds something that is no revocation list".to_owned())?;
    }
    Ok(found.iter().map(|der| der.to_vec()).collect())
}

fn inspect(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(_) => Err("holds something that is no X.509 certificate".to_owned()),
    }
}

fn common_name<'a>(name: &'a X509Name<'_>) -> Option<&'a str> {
    name.iter_common_name().find_map(|it| it.as_str().ok())
}

/// The UTC date of a second since 1970.
pub(crate) fn date(second: i64) -> String {
    let time = x509_parser::time::ASN1Time::from_timestamp(second).map(|time| time.to_datetime());
    time.map_or_else(
        |_| "an unknown time".to_owned(),
        |at| {
            format!(
                "{:04}-{:02}-{:02} {:02}:{:02} UTC",
                at.year(),
                u8::from(at.month()),
                at.day(),
                at.hour(),
                at.minute()
            )
        },
    )
}

#[cfg(test)]
mod tests;
