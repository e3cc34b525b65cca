//! Requests for a client certificate in the handshake.
//!
//! Every certificate is accepted if the client has its private key. It is verified afterwards, since a bad
//! certificate is answered with an HTTP response and not with a TLS alert, as in nginx; unless the host
//! requires a handshake that fails without a good one.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureScheme,
};
use webpki::RawPublicKeyEntity;
use x509::{Purpose, Trust, algorithms, public_key};

/// Accepts any certificate, or none; or good ones only.
#[derive(Debug)]
pub(super) struct Certificates {
    subjects: Vec<DistinguishedName>,
    /// The authorities of good certificates, where no others are accepted.
    required: Option<Arc<Trust>>,
}

impl Certificates {
    pub(super) fn any(trust: &Trust) -> Self {
        // rustls needs the names with their outer tag, webpki has them without.
        Self { subjects: trust.subjects().map(DistinguishedName::in_sequence).collect(), required: None }
    }

    pub(super) fn good(trust: &Arc<Trust>) -> Self {
        Self { required: Some(Arc::clone(trust)), ..Self::any(trust) }
    }
}

impl ClientCertVerifier for Certificates {
    fn client_auth_mandatory(&self) -> bool {
        self.required.is_some()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(trust) = &self.required {
            let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).cloned().collect();
            let now = Duration::from_secs(now.as_secs());
            trust.judge(&chain, Purpose::Client, now).map_err(|why| certificate_error(&why))?;
        }
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

/// The alert that the client gets.
fn certificate_error(why: &webpki::Error) -> Error {
    use webpki::Error as Why;
    let error = match why {
        Why::CertExpired { .. } => CertificateError::Expired,
        Why::CertNotValidYet { .. } => CertificateError::NotValidYet,
        Why::CertRevoked => CertificateError::Revoked,
        Why::UnknownIssuer => CertificateError::UnknownIssuer,
        _ => CertificateError::BadEncoding,
    };
    error.into()
}

/// Checks that the peer has the certificate's private key. rustls' own functions refuse certificates of
/// X.509 version 1.
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
    let key = public_key(leaf).ok_or(CertificateError::BadEncoding)?;
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
