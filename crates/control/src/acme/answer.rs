//! Answers to challenges, in the form in which the proxy serves them.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::{Certificate, CertificateInfo, KeyEncoding, PrivateKey};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};

use super::entry::Challenge;
use super::settings::ChallengeKind;

/// The answer to a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The content of a path below `/.well-known/acme-challenge/`.
    Http {
        /// The last element of the path.
        token: String,
        /// The content of that path: the key authorization.
        content: String,
    },
    /// The certificate that is shown to a client that only speaks `acme-tls/1`.
    TlsAlpn(Arc<Certificate>),
}

impl Answer {
    /// The answer for a host. Every replica makes it by itself from what is stored.
    pub(super) fn of(host: &str, challenge: &Challenge) -> Result<Self, String> {
        match ChallengeKind::named(&challenge.kind) {
            Some(ChallengeKind::Http01) => {
                let (token, content) = (challenge.token.clone(), challenge.authorization.clone());
                if is_token(&token) {
                    Ok(Self::Http { token, content })
                } else {
                    Err(format!(
                        "the authority's token {token:?} has other characters than those of base64url"
                    ))
                }
            }
            Some(ChallengeKind::TlsAlpn01) => {
                let made = certificate(host, &challenge.authorization).map_err(|error| error.to_string())?;
                Ok(Self::TlsAlpn(Arc::new(made)))
            }
            None => Err(format!("challenges of type {:?} are not known", challenge.kind)),
        }
    }
}

/// "A token has characters of base64url" (RFC 8555 section 8.3), so that it is one element of a path.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A self-signed certificate for the host with the digest of the key authorization (RFC 8737 section 3).
fn certificate(host: &str, authorization: &str) -> Result<Certificate, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    let digest = digest(&SHA256, authorization.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    let certificate = params.self_signed(&key)?;
    let info = CertificateInfo { object: format!("challenge for {host}"), ..CertificateInfo::default() };
    let key = PrivateKey { encoding: KeyEncoding::Pkcs8, der: key.serialize_der() };
    Ok(Certificate { chain: vec![certificate.der().to_vec()], key, info })
}
