//! Verifies certificate chains as nginx with OpenSSL does.
//!
//! webpki does the work, but it refuses some leaves that OpenSSL accepts: those of X.509 version 1, which
//! `openssl x509 -req` makes without an extensions file, and those that are authorities themselves. If an
//! authority has signed such a leaf directly, it is verified here.

use std::time::Duration;

use model::Authorities;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use webpki::{
    BorrowedCertRevocationList, CertRevocationList, EndEntityCert, Error, ExpirationPolicy, KeyUsage,
    RawPublicKeyEntity, RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy, VerifiedPath,
    anchor_from_trusted_cert,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

/// Trusted authorities and their revocation lists, in webpki's form.
#[derive(Debug)]
pub struct Trust {
    anchors: Vec<TrustAnchor<'static>>,
    authorities: Vec<CertificateDer<'static>>,
    revocations: Vec<CertRevocationList<'static>>,
    revocations_der: Vec<Vec<u8>>,
    /// A revocation list could not be read, so that it is not known what it revokes. All certificates are
    /// refused then.
    is_incomplete: bool,
    /// Most certificates between the leaf and an authority.
    depth: usize,
}

/// The purpose for which a certificate is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client authenticates itself.
    Client,
    /// A server authenticates itself.
    Server,
}

impl Trust {
    /// Authorities, with at most `depth` certificates between a leaf and one of them.
    pub fn new(authorities: &Authorities, depth: u32) -> Self {
        let ders: Vec<CertificateDer<'static>> =
            authorities.certificates.iter().cloned().map(CertificateDer::from).collect();
        let anchors = ders.iter().filter_map(|der| Some(anchor_from_trusted_cert(der).ok()?.to_owned()));
        let revocations: Vec<_> = authorities
            .revocations
            .iter()
            .filter_map(|der| Some(BorrowedCertRevocationList::from_der(der).ok()?.to_owned().ok()?.into()))
            .collect();
        Self {
            anchors: anchors.collect(),
            is_incomplete: revocations.len() < authorities.revocations.len(),
            revocations,
            revocations_der: authorities.revocations.clone(),
            authorities: ders,
            depth: depth as usize,
        }
    }

    /// The names of the authorities in DER, by which clients choose a certificate.
    pub fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.anchors.iter().map(|anchor| anchor.subject.as_ref())
    }

    /// Verifies a chain, which begins with the leaf, at a time since 1970.
    ///
    /// # Errors
    ///
    /// The first fault of the chain.
    pub fn judge(&self, chain: &[CertificateDer<'_>], purpose: Purpose, now: Duration) -> Result<(), Error> {
        let (leaf, intermediates) = chain.split_first().ok_or(Error::UnknownIssuer)?;
        if self.is_incomplete {
            return Err(Error::UnknownRevocationStatus);
        }
        match self.judge_path(leaf, intermediates, purpose, now) {
            Err(Error::UnsupportedCertVersion | Error::CaUsedAsEndEntity) => {
                self.judge_directly(leaf, purpose, now)
            }
            judged => judged,
        }
    }

    fn judge_path(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        purpose: Purpose,
        now: Duration,
    ) -> Result<(), Error> {
        let leaf = EndEntityCert::try_from(leaf)?;
        let is_short_enough = |path: &VerifiedPath<'_>| {
            let is_longer = path.intermediate_certificates().count() > self.depth;
            if is_longer { Err(Error::MaximumPathDepthExceeded) } else { Ok(()) }
        };
        let revocations: Vec<&CertRevocationList<'_>> = self.revocations.iter().collect();
        // nginx, `ssl_crl`: every certificate of the chain needs a revocation list that has not expired.
        let revocation = RevocationOptionsBuilder::new(&revocations).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let usage = match purpose {
            Purpose::Client => KeyUsage::client_auth(),
            Purpose::Server => KeyUsage::server_auth(),
        };
        let path = leaf.verify_for_usage(
            algorithms().all,
            &self.anchors,
            intermediates,
            UnixTime::since_unix_epoch(now),
            usage,
            revocation,
            Some(&is_short_enough),
        );
        path.map(|_| ())
    }

    /// Verifies a leaf that an authority has signed directly.
    fn judge_directly(
        &self,
        leaf: &CertificateDer<'_>,
        purpose: Purpose,
        now: Duration,
    ) -> Result<(), Error> {
        let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| Error::BadDer)?;
        let is_signer = |authority: &X509Certificate<'_>| {
            authority.subject().as_raw() == leaf.issuer().as_raw()
                && verifies(authority, leaf.tbs_certificate.as_ref(), leaf.signature_value.as_ref())
        };
        let parsed = self.authorities.iter().filter_map(|der| Some(X509Certificate::from_der(der).ok()?.1));
        let authority = parsed.into_iter().find(is_signer).ok_or(Error::UnknownIssuer)?;
        check_validity(&leaf, now)?;
        check_usage(&leaf, purpose)?;
        if self.revocations_der.is_empty() { Ok(()) } else { self.check_revocation(&leaf, &authority, now) }
    }

    fn check_revocation(
        &self,
        leaf: &X509Certificate<'_>,
        authority: &X509Certificate<'_>,
        now: Duration,
    ) -> Result<(), Error> {
        let parsed = self
            .revocations_der
            .iter()
            .filter_map(|der| Some(CertificateRevocationList::from_der(der).ok()?.1));
        let list = parsed
            .into_iter()
            .find(|list| {
                list.issuer().as_raw() == leaf.issuer().as_raw()
                    && verifies(authority, list.tbs_cert_list.as_ref(), list.signature_value.as_ref())
            })
            .ok_or(Error::UnknownRevocationStatus)?;
        let seconds = now.as_secs().cast_signed();
        if let Some(next) = list.next_update().filter(|next| next.timestamp() < seconds) {
            let (time, next_update) = (unix(seconds), unix(next.timestamp()));
            return Err(Error::CrlExpired { time, next_update });
        }
        let is_revoked = list.iter_revoked_certificates().any(|one| one.raw_serial() == leaf.raw_serial());
        if is_revoked { Err(Error::CertRevoked) } else { Ok(()) }
    }
}

fn check_validity(leaf: &X509Certificate<'_>, now: Duration) -> Result<(), Error> {
    let seconds = now.as_secs().cast_signed();
    let (begin, end) = (leaf.validity().not_before.timestamp(), leaf.validity().not_after.timestamp());
    if seconds < begin {
        return Err(Error::CertNotValidYet { time: unix(seconds), not_before: unix(begin) });
    }
    if seconds > end {
        return Err(Error::CertExpired { time: unix(seconds), not_after: unix(end) });
    }
    Ok(())
}

fn check_usage(leaf: &X509Certificate<'_>, purpose: Purpose) -> Result<(), Error> {
    let usage = leaf.extended_key_usage().map_err(|_| Error::MalformedExtensions)?;
    let is_meant = usage.is_none_or(|usage| match purpose {
        _ if usage.value.any => true,
        Purpose::Client => usage.value.client_auth,
        Purpose::Server => usage.value.server_auth,
    });
    if is_meant { Ok(()) } else { Err(Error::EmptyEkuExtension) }
}

fn unix(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap_or(0)))
}

/// Whether the certificate's key made this signature, with any of the supported algorithms.
fn verifies(certificate: &X509Certificate<'_>, message: &[u8], signature: &[u8]) -> bool {
    let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
    algorithms().all.iter().any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok())
}

/// The supported signature algorithms.
pub fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}
