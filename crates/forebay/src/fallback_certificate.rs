//! The certificate that hosts without their own show where no default one is configured.

use anyhow::Context;
use model::{Certificate, CertificateInfo, KeyEncoding, PrivateKey};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

/// Makes the certificate. It has the names of ingress-nginx's, but an ECDSA key, which takes no time to make.
pub(crate) fn make() -> anyhow::Result<Certificate> {
    signed().context("cannot make the fallback certificate")
}

fn signed() -> Result<Certificate, rcgen::Error> {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Acme Co");
    name.push(DnType::CommonName, "Kubernetes Ingress Controller Fake Certificate");
    let mut params = CertificateParams::new(vec!["ingress.local".to_owned()])?;
    params.distinguished_name = name;
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Certificate {
        chain: vec![certificate.der().to_vec()],
        key: PrivateKey { encoding: KeyEncoding::Pkcs8, der: key.serialize_der() },
        info: CertificateInfo::default(),
    })
}
