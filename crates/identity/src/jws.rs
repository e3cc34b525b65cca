//! Signed content in the compact form (RFC 7515 section 7.1).

use crate::algorithm::Algorithm;
use crate::base64url;
use crate::json::{self, Object, Value};
use crate::jwk::KeySet;
use crate::limits::{KEY_ID_BYTES_MAX, TOKEN_BYTES_MAX, TRIES_MAX};
use crate::refusal::Refusal;

/// Signed content whose form is right, and nothing else is known of it.
#[derive(Debug)]
pub struct Jws<'t> {
    header: Object,
    algorithm: Algorithm,
    key_id: Option<String>,
    signed: &'t [u8],
    /// The content of the token, decoded.
    pub payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'t> Jws<'t> {
    /// Reads the three parts.
    ///
    /// # Errors
    ///
    /// [`Refusal::Malformed`], [`Refusal::TooLong`] or [`Refusal::Algorithm`].
    pub fn parse(text: &'t [u8]) -> Result<Self, Refusal> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let last = text.iter().rposition(|&byte| byte == b'.').ok_or(Refusal::Malformed)?;
        let (signed, signature) = (&text[..last], &text[last + 1..]);
        let first = signed.iter().position(|&byte| byte == b'.').ok_or(Refusal::Malformed)?;
        let decode = |part| base64url::decode(part).ok_or(Refusal::Malformed);
        let header = json::object(&decode(&signed[..first])?).map_err(|_| Refusal::Malformed)?;
        // An extension that has to be understood; none is (RFC 7515 section 4.1.11).
        if header.contains_key("crit") {
            return Err(Refusal::Malformed);
        }
        let Some(Value::String(algorithm)) = header.get("alg") else { return Err(Refusal::Malformed) };
        let algorithm = Algorithm::parse(algorithm).ok_or(Refusal::Algorithm)?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= KEY_ID_BYTES_MAX => Some(id.clone()),
            Some(_) => return Err(Refusal::Malformed),
        };
        let (payload, signature) = (decode(&signed[first + 1..])?, decode(signature)?);
        Ok(Self { header, algorithm, key_id, signed, payload, signature })
    }

    /// The algorithm that the header names.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The identifier of the key (`kid`).
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// The members of the header. Keys and URLs of keys in it are never used.
    pub fn header(&self) -> &Object {
        &self.header
    }

    /// Checks the signature.
    ///
    /// # Errors
    ///
    /// [`Refusal::Key`] if no key of the set may have made it, and [`Refusal::Signature`] if none has.
    pub fn verify(&self, keys: &KeySet) -> Result<(), Refusal> {
        let mut refusal = Refusal::Key;
        for key in keys.candidates(self.key_id(), self.algorithm).take(TRIES_MAX) {
            if key.verifies(self.algorithm, self.signed, &self.signature) {
                return Ok(());
            }
            refusal = Refusal::Signature;
        }
        Err(refusal)
    }
}
