//! Certificates for tests: authorities, and certificates that they sign.
//!
//! Keys are ECDSA, which costs a fraction of a millisecond to make, unless a test is about RSA.

use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, PublicKeyData, RevokedCertParams,
    RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    own: rcgen::Certificate,
    /// Of the authorities between this one and a root, this one first; empty for a root.
    between: Vec<rcgen::Certificate>,
    issued: AtomicU64,
}

/// A certificate with its chain and private key.
#[derive(Debug)]
pub struct Certificate {
    chain: Vec<rcgen::Certificate>,
    key: KeyPair,
    serial: u64,
}

impl Authority {
    /// A root authority.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = authority_params(name);
        let own = params.self_signed(&key).expect("a certificate");
        Self { issuer: Issuer::new(params, key), own, between: Vec::new(), issued: AtomicU64::new(1) }
    }

    /// An intermediate authority below this one. Certificates that it signs come with its own.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = authority_params(name);
        params.serial_number = Some(SerialNumber::from(self.next_serial()));
        let own = params.signed_by(&key, &self.issuer).expect("a certificate");
        let between = [&own].into_iter().chain(&self.between).cloned().collect();
        Self { issuer: Issuer::new(params, key), own, between, issued: AtomicU64::new(1) }
    }

    /// A server's certificate for these names or addresses.
    pub fn server(&self, names: &[&str]) -> Certificate {
        self.sign(server_params(names), KeyPair::generate().expect("a key"))
    }

    /// One with an RSA key of 2048 bits.
    pub fn rsa_server(&self, names: &[&str]) -> Certificate {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
        self.sign(server_params(names), key)
    }

    /// One that was good until the end of 2020.
    pub fn expired_server(&self, names: &[&str]) -> Certificate {
        let mut params = server_params(names);
        params.not_after = date_time_ymd(2020, 12, 31);
        self.sign(params, KeyPair::generate().expect("a key"))
    }

    /// A client's certificate; its subject is `CN=name`.
    pub fn client(&self, name: &str) -> Certificate {
        let mut params = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, KeyPair::generate().expect("a key"))
    }

    /// A client's certificate that was good until the end of 2020.
    pub fn expired_client(&self, name: &str) -> Certificate {
        let mut params = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = date_time_ymd(2020, 12, 31);
        self.sign(params, KeyPair::generate().expect("a key"))
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.own.pem()
    }

    /// A list that revokes these certificates of its.
    pub fn revoking(&self, certificates: &[&Certificate]) -> String {
        let revoked = |certificate: &&Certificate| RevokedCertParams {
            serial_number: SerialNumber::from(certificate.serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: certificates.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).and_then(|list| list.pem()).expect("a list")
    }

    fn sign(&self, mut params: CertificateParams, key: KeyPair) -> Certificate {
        let serial = self.next_serial();
        params.serial_number = Some(SerialNumber::from(serial));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let own = params.signed_by(&key, &self.issuer).expect("a certificate");
        let chain = [&own].into_iter().chain(&self.between).cloned().collect();
        Certificate { chain, key, serial }
    }

    /// A certificate for a key of which only the public half is known, with its chain as PEM.
    pub(crate) fn sign_key(&self, mut params: CertificateParams, key: &impl PublicKeyData) -> String {
        params.serial_number = Some(SerialNumber::from(self.next_serial()));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let own = params.signed_by(key, &self.issuer).expect("a certificate");
        [&own].into_iter().chain(&self.between).map(rcgen::Certificate::pem).collect()
    }

    fn next_serial(&self) -> u64 {
        self.issued.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.own.der().clone()
    }
}

impl Certificate {
    /// The chain, as a Secret has it in `tls.crt`.
    pub fn chain_pem(&self) -> String {
        self.chain.iter().map(rcgen::Certificate::pem).collect()
    }

    /// The certificate without its chain.
    pub fn pem(&self) -> String {
        self.chain[0].pem()
    }

    /// The key, as a Secret has it in `tls.key`.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The leaf, which comes first in the chain.
    pub fn der(&self) -> &[u8] {
        self.chain[0].der()
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.iter().map(|one| one.der().clone()).collect()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn server_params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names.clone()).expect("names");
    params.distinguished_name = named(&names[0]).distinguished_name;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
