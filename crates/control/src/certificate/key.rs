//! Private keys: the supported kinds, and whether a key belongs to a certificate.

use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
};
use model::{KeyEncoding, PrivateKey};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_PKCS1_RSAENCRYPTION,
    OID_SIG_ED25519, Oid,
};
use x509_parser::x509::SubjectPublicKeyInfo;

/// Reads a private key and checks that it belongs to this public key. Returns the key and its kind.
pub(super) fn parse(
    pem: &[u8],
    public: &SubjectPublicKeyInfo<'_>,
) -> Result<(PrivateKey, &'static str), String> {
    let key = match PrivateKeyDer::from_pem_slice(pem) {
        Ok(PrivateKeyDer::Pkcs8(key)) => encoded(KeyEncoding::Pkcs8, key.secret_pkcs8_der()),
        Ok(PrivateKeyDer::Pkcs1(key)) => encoded(KeyEncoding::Pkcs1, key.secret_pkcs1_der()),
        Ok(PrivateKeyDer::Sec1(key)) => encoded(KeyEncoding::Sec1, key.secret_sec1_der()),
        // The parser's error is not passed on: it may quote bytes of the key.
        _ => return Err("holds no private key in PEM without a passphrase".to_owned()),
    };
    let kind = Kind::of(public).ok_or("is for a kind of certificate that is not supported")?;
    let own = kind.public_key(&key).ok_or_else(|| format!("is no {} key that can be used", kind.name()))?;
    if own != *public.subject_public_key.data {
        return Err("does not belong to the certificate".to_owned());
    }
    Ok((key, kind.name()))
}

fn encoded(encoding: KeyEncoding, der: &[u8]) -> PrivateKey {
    PrivateKey { encoding, der: der.to_vec() }
}

/// Kinds of keys that rustls can sign with.
enum Kind {
    Rsa,
    Ecdsa(&'static EcdsaSigningAlgorithm),
    Ed25519,
}

impl Kind {
    fn of(public: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let algorithm = &public.algorithm;
        let of = |oid: &Oid<'_>| algorithm.algorithm == *oid;
        if of(&OID_PKCS1_RSAENCRYPTION) {
            Some(Self::Rsa)
        } else if of(&OID_SIG_ED25519) {
            Some(Self::Ed25519)
        } else if of(&OID_KEY_TYPE_EC_PUBLIC_KEY) {
            let curve = algorithm.parameters.as_ref()?.as_oid().ok()?;
            let curves = [
                (OID_EC_P256, &ECDSA_P256_SHA256_ASN1_SIGNING),
                (OID_NIST_EC_P384, &ECDSA_P384_SHA384_ASN1_SIGNING),
                (OID_NIST_EC_P521, &ECDSA_P521_SHA512_ASN1_SIGNING),
            ];
            curves.into_iter().find(|(oid, _)| *oid == curve).map(|(_, signing)| Self::Ecdsa(signing))
        } else {
            None
        }
    }

    /// The name of the kind in Go, which ingress-nginx's metrics use too.
    fn name(&self) -> &'static str {
        match self {
            Self::Rsa => "RSA",
            Self::Ecdsa(_) => "ECDSA",
            Self::Ed25519 => "Ed25519",
        }
    }

    /// The public key of a private key, encoded as in a certificate. None if the kind is not supported, the
    /// key is too small (RSA below 2048 bits), or the key cannot be decoded.
    fn public_key(&self, key: &PrivateKey) -> Option<Vec<u8>> {
        Some(match (self, key.encoding) {
            (Self::Rsa, KeyEncoding::Pkcs8) => {
                rsa::KeyPair::from_pkcs8(&key.der).ok()?.public_key().as_ref().to_vec()
            }
            (Self::Rsa, KeyEncoding::Pkcs1) => {
                rsa::KeyPair::from_der(&key.der).ok()?.public_key().as_ref().to_vec()
            }
            (Self::Ecdsa(signing), KeyEncoding::Pkcs8) => {
                EcdsaKeyPair::from_pkcs8(signing, &key.der).ok()?.public_key().as_ref().to_vec()
            }
            (Self::Ecdsa(signing), KeyEncoding::Sec1) => {
                EcdsaKeyPair::from_private_key_der(signing, &key.der).ok()?.public_key().as_ref().to_vec()
            }
            (Self::Ed25519, KeyEncoding::Pkcs8) => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key.der).ok()?;
                pair.public_key().as_ref().to_vec()
            }
            _ => return None,
        })
    }
}
