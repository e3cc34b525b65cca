//! JSON Web Keys (RFC 7517): the keys that an issuer's tokens are checked with.

mod roca;

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, VerificationAlgorithm,
};

use crate::algorithm::{Algorithm, Kind};
use crate::base64url;
use crate::json::{self, Object, Value};
use crate::limits::{KEY_ID_BYTES_MAX, KEYS_BYTES_MAX, KEYS_MAX, RSA_BITS_MAX, RSA_BITS_MIN};

/// Where keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Anybody may read it: a URL, or a `ConfigMap`. A secret in it is none, and is not used.
    Public,
    /// A Secret, which may have the secrets of HMAC.
    Secret,
}

/// The usable keys of an issuer.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    ignored: Vec<String>,
}

/// A key that can be used.
pub struct Key {
    id: Option<String>,
    kind: Kind,
    /// The key as each algorithm needs it.
    forms: Vec<(Algorithm, Form)>,
    /// A digest that is the same for equal keys, and does not show secrets.
    fingerprint: [u8; 32],
}

enum Form {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

impl KeySet {
    /// Reads a JWK Set. A key that cannot be used is ignored, as RFC 7517 section 5 asks for, and named among
    /// [`ignored`](Self::ignored).
    ///
    /// # Errors
    ///
    /// When the document is no JWK Set, or none of its keys can be used.
    pub fn parse(document: &[u8], origin: Origin) -> Result<Self, String> {
        if document.len() > KEYS_BYTES_MAX {
            return Err(format!("the document has more than {KEYS_BYTES_MAX} bytes"));
        }
        let members = json::object(document)?;
        let Some(Value::Array(listed)) = members.get("keys") else {
            return Err("it is no JWK Set: there is no list \"keys\"".to_owned());
        };
        if listed.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        let (mut keys, mut ignored) = (Vec::new(), Vec::new());
        for (at, key) in listed.iter().enumerate() {
            let read = match key {
                _ if is_ambiguous(key, listed) => Err("another key has the same identifier".to_owned()),
                Value::Object(key) => Key::new(key, origin),
                _ => Err("it is no object".to_owned()),
            };
            match read {
                Ok(key) => keys.push(key),
                Err(why) => ignored.push(format!("key {}: {why}", at + 1)),
            }
        }
        let secrets = keys.iter().filter(|key| key.kind == Kind::Secret).count();
        if secrets != 0 && secrets != keys.len() {
            return Err("it has secrets beside public keys".to_owned());
        }
        match (keys.is_empty(), ignored.is_empty()) {
            (true, true) => Err("it has no keys".to_owned()),
            (true, false) => Err(format!("no key can be used: {}", ignored.join("; "))),
            _ => Ok(Self { keys, ignored }),
        }
    }

    /// A set of one secret, as text in a Secret may be.
    ///
    /// # Errors
    ///
    /// When the secret is too short for all algorithms.
    pub fn of_secret(secret: &[u8]) -> Result<Self, String> {
        let key = Key::of_secret(None, secret, &[Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512])?;
        Ok(Self { keys: vec![key], ignored: Vec::new() })
    }

    /// The keys of the set.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The keys that were ignored, each with the reason.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// A digest of the keys, which is the same for equal sets.
    pub fn fingerprint(&self) -> [u8; 32] {
        let parts: Vec<_> = self.keys.iter().map(|key| key.fingerprint.as_slice()).collect();
        fingerprint(&parts)
    }

    /// The keys that may have signed a token: those with its identifier; without one in the key or in the
    /// token, all that have the algorithm.
    pub(crate) fn candidates<'k>(
        &'k self,
        id: Option<&'k str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'k Key> {
        let fits = move |key: &&Key| match (id, key.id()) {
            (Some(wanted), Some(known)) => wanted == known,
            _ => true,
        };
        self.keys.iter().filter(fits).filter(move |key| key.form(algorithm).is_some())
    }
}

impl PartialEq for KeySet {
    fn eq(&self, other: &Self) -> bool {
        let of = |set: &Self| -> Vec<_> {
            set.keys.iter().map(|key| (key.id.clone(), key.fingerprint, key.forms.len())).collect()
        };
        of(self) == of(other)
    }
}

impl Key {
    /// Its identifier (`kid`).
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The kind of the key.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The algorithms that it may be used with.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.forms.iter().map(|(algorithm, _)| *algorithm)
    }

    fn form(&self, algorithm: Algorithm) -> Option<&Form> {
        self.forms.iter().find(|(known, _)| *known == algorithm).map(|(_, form)| form)
    }

    /// Whether this key has made the signature of a message.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match self.form(algorithm) {
            Some(Form::Public(key)) => key.verify_sig(message, signature).is_ok(),
            Some(Form::Secret(key)) => hmac::verify(key, message, signature).is_ok(),
            None => false,
        }
    }

    fn new(key: &Object, origin: Origin) -> Result<Self, String> {
        let id = text(key, "kid")?.map(str::to_owned);
        if id.as_ref().is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
            return Err("its identifier is too long".to_owned());
        }
        if let Some(usage) = text(key, "use")?
            && usage != "sig"
        {
            return Err("it is not for signatures".to_owned());
        }
        if let Some(operations) = key.get("key_ops") {
            let operations = operations.as_array().ok_or("\"key_ops\" is no list")?;
            if !operations.iter().any(|operation| operation == "verify") {
                return Err("it is not for verifying".to_owned());
            }
        }
        let only = match text(key, "alg")? {
            Some(name) => Some(Algorithm::parse(name).ok_or("its algorithm is not supported")?),
            None => None,
        };
        let kty = text(key, "kty")?.ok_or("it has no \"kty\"")?;
        if kty != "oct" && key.contains_key("d") {
            return Err("it is a private key, which nobody but the issuer should have".to_owned());
        }
        let kind = match (kty, text(key, "crv")?) {
            ("RSA", _) => Kind::Rsa,
            ("EC", Some("P-256")) => Kind::P256,
            ("EC", Some("P-384")) => Kind::P384,
            ("EC", Some("P-521")) => Kind::P521,
            ("OKP", Some("Ed25519")) => Kind::Ed25519,
            ("oct", _) if origin == Origin::Secret => Kind::Secret,
            ("oct", _) => return Err("it is a secret, and secrets are taken from Secrets alone".to_owned()),
            _ => return Err("its kind or curve is not supported".to_owned()),
        };
        if only.is_some_and(|only| only.kind() != kind) {
            return Err("its algorithm is for keys of another kind".to_owned());
        }
        let wanted: Vec<_> = Algorithm::ALL
            .into_iter()
            .filter(|algorithm| algorithm.kind() == kind && only.is_none_or(|only| only == *algorithm))
            .collect();
        match kind {
            Kind::Secret => Self::of_secret(id, &bytes(key, "k")?, &wanted),
            Kind::Rsa => Self::of_rsa(id, bytes(key, "n")?, bytes(key, "e")?, &wanted),
            Kind::Ed25519 => Self::of_bytes(id, kind, &bytes(key, "x")?, &wanted),
            Kind::P256 => Self::of_point(id, kind, 32, key, &wanted),
            Kind::P384 => Self::of_point(id, kind, 48, key, &wanted),
            Kind::P521 => Self::of_point(id, kind, 66, key, &wanted),
        }
    }

    fn of_secret(id: Option<String>, secret: &[u8], wanted: &[Algorithm]) -> Result<Self, String> {
        let hash = |algorithm| match algorithm {
            Algorithm::Hs256 => Some((hmac::HMAC_SHA256, 32)),
            Algorithm::Hs384 => Some((hmac::HMAC_SHA384, 48)),
            Algorithm::Hs512 => Some((hmac::HMAC_SHA512, 64)),
            _ => None,
        };
        // RFC 7518 section 3.2: a key has at least the size of the hash.
        let forms: Vec<_> = wanted
            .iter()
            .filter_map(|&algorithm| {
                let (hash, bytes) = hash(algorithm)?;
                (secret.len() >= bytes)
                    .then(|| (algorithm, Form::Secret(Box::new(hmac::Key::new(hash, secret)))))
            })
            .collect();
        if forms.is_empty() {
            return Err("the secret is too short: HS256 needs 32 bytes, HS384 48 and HS512 64".to_owned());
        }
        Ok(Self { id, kind: Kind::Secret, forms, fingerprint: fingerprint(&[secret]) })
    }

    fn of_rsa(id: Option<String>, n: Vec<u8>, e: Vec<u8>, wanted: &[Algorithm]) -> Result<Self, String> {
        let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(format!("an RSA key has {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, not {bits}"));
        }
        // An exponent of 3 is allowed by the standards, and was behind forged signatures; 1 signs nothing.
        if e.last().is_none_or(|last| last % 2 == 0) || matches!(e.as_slice(), [0..=3]) {
            return Err("its exponent is not safe".to_owned());
        }
        if roca::is_affected(&n) {
            return Err("it was made by a library whose keys can be factored (ROCA)".to_owned());
        }
        let fingerprint = fingerprint(&[&n, &e]);
        let components = RsaPublicKeyComponents { n, e };
        let mut forms = Vec::new();
        for &algorithm in wanted {
            let Some(parameters) = rsa(algorithm) else { continue };
            let key = components.to_parsed_public_key(parameters);
            forms.push((algorithm, Form::Public(key.map_err(|_| "it is no RSA key")?)));
        }
        Ok(Self { id, kind: Kind::Rsa, forms, fingerprint })
    }

    fn of_point(
        id: Option<String>,
        kind: Kind,
        size: usize,
        key: &Object,
        wanted: &[Algorithm],
    ) -> Result<Self, String> {
        let (x, y) = (bytes(key, "x")?, bytes(key, "y")?);
        if x.len() != size || y.len() != size {
            return Err(format!("a coordinate has {size} bytes on this curve"));
        }
        // SEC 1 section 2.3.3: 4 stands for a point with both coordinates.
        Self::of_bytes(id, kind, &[&[4][..], &x, &y].concat(), wanted)
    }

    fn of_bytes(id: Option<String>, kind: Kind, bytes: &[u8], wanted: &[Algorithm]) -> Result<Self, String> {
        if kind == Kind::Ed25519 && bytes.len() != 32 {
            return Err("a key of Ed25519 has 32 bytes".to_owned());
        }
        let mut forms = Vec::new();
        for &algorithm in wanted {
            let Some(verification) = curve(algorithm) else { continue };
            let key = ParsedPublicKey::new(verification, bytes);
            forms.push((algorithm, Form::Public(key.map_err(|_| "it is no point on its curve")?)));
        }
        Ok(Self { id, kind, forms, fingerprint: fingerprint(&[bytes]) })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithms: Vec<_> = self.algorithms().map(Algorithm::name).collect();
        formatter
            .debug_struct("Key")
            .field("id", &self.id)
            .field("algorithms", &algorithms)
            .finish_non_exhaustive()
    }
}

/// Whether another key of a list has the same identifier, kind and use, and differs: it is not known which
/// one a token means.
fn is_ambiguous(key: &Value, listed: &[Value]) -> bool {
    let means_same =
        |other: &Value| ["kid", "kty", "use"].iter().all(|name| key.get(name) == other.get(name));
    key.get("kid").is_some() && listed.iter().any(|other| other != key && means_same(other))
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
        Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
        Algorithm::Es512 => &ECDSA_P521_SHA512_FIXED,
        Algorithm::EdDsa => &ED25519,
        _ => return None,
    })
}

fn text<'k>(key: &'k Object, name: &str) -> Result<Option<&'k str>, String> {
    match key.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{name:?} is no text")),
    }
}

fn bytes(key: &Object, name: &str) -> Result<Vec<u8>, String> {
    let encoded = text(key, name)?.ok_or_else(|| format!("it has no {name:?}"))?;
    base64url::decode(encoded.as_bytes())
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| format!("{name:?} is no base64url"))
}

fn fingerprint(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests;
