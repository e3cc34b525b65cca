//! Asks clients for a certificate in the handshake.
//!
//! Every certificate is accepted if the client has its private key. It is verified afterwards, since a bad certificate is answered
//! with an HTTP response and not with a TLS alert, as in nginx.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureScheme,
};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::chain::{Trust, algorithms};

/// Accepts any certificate, or none.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    subjects: Vec<DistinguishedName>,
}

impl AnyCertificate {
    pub(super) fn new(trust: &Trust) -> Self {
        // rustls needs the names with their outer tag, webpki has them without.
        Self { subjects: trust.subjects().map(DistinguishedName::in_sequence).collect() }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

/// Checks that the peer has the certificate's private key. rustls' own functions refuse certificates of X.509 version 1.
pub(super) fn verify_tls12_signature(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    // The scheme does not name a curve, so that several algorithms are possible (RFC 5246 section 7.4.1.4.1).
    verify_signature(message, leaf, signature, usize::MAX)
}

/// As [`verify_tls12_signature`], for TLS 1.3.
pub(super) fn verify_tls13_signature(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    use SignatureScheme::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512};
    // These schemes are allowed in certificates only (RFC 8446 section 4.2.3).
    if matches!(signature.scheme, RSA_PKCS1_SHA256 | RSA_PKCS1_SHA384 | RSA_PKCS1_SHA512) {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    // The scheme names the curve, so that only the first algorithm is possible.
    verify_signature(message, leaf, signature, 1)
}

fn verify_signature(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms_max: usize,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let key = SubjectPublicKeyInfoDer::from(leaf.public_key().raw);
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
    let mapping = algorithms().mapping;
    let (_, candidates) = mapping
        .iter()
        .find(|(scheme, _)| *scheme == signature.scheme)
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let is_valid = candidates
        .iter()
        .take(algorithms_max)
        .any(|algorithm| key.verify_signature(*algorithm, message, signature.signature()).is_ok());
    if is_valid {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(CertificateError::BadSignature.into())
    }
}
