//! JSON Web Tokens (RFC 7519) that are signed, by the practices of RFC 8725.
//!
//! What a token says is compared first, and its signature is checked last: a token that no key could make
//! valid costs no cryptography.

use std::time::Duration;

use serde::Serialize;

use crate::algorithm::{Algorithm, Algorithms};
use crate::claims::Expression;
use crate::json::{self, Object, Value};
use crate::jwk::KeySet;
use crate::jws::Jws;
use crate::refusal::Refusal;

/// A token whose form is right, and nothing else is known of it.
#[derive(Debug)]
pub struct Token<'t> {
    jws: Jws<'t>,
    claims: Object,
}

/// The terms that tokens of an issuer have to meet.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Terms {
    /// The issuer, as `iss` has it: compared byte by byte.
    pub issuer: String,
    /// The token is for one of them (`aud`); empty if that is not asked.
    pub audiences: Vec<String>,
    /// Algorithms that are allowed.
    pub algorithms: Algorithms,
    /// By how much the issuer's clock may be off.
    pub leeway: Duration,
    /// Conditions that the claims have to satisfy, all of them.
    pub required: Vec<Expression>,
}

impl<'t> Token<'t> {
    /// Reads a token.
    ///
    /// # Errors
    ///
    /// [`Refusal::Malformed`], [`Refusal::TooLong`] or [`Refusal::Algorithm`].
    pub fn parse(token: &'t [u8]) -> Result<Self, Refusal> {
        let jws = Jws::parse(token)?;
        let claims = json::object(&jws.payload).map_err(|_| Refusal::Malformed)?;
        Ok(Self { jws, claims })
    }

    /// The algorithm that its header names.
    pub fn algorithm(&self) -> Algorithm {
        self.jws.algorithm()
    }

    /// The identifier of its key (`kid`).
    pub fn key_id(&self) -> Option<&str> {
        self.jws.key_id()
    }

    /// The issuer that it names (`iss`).
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// Its claims, of which nothing is known to be true before [`verify`](Self::verify).
    pub fn unverified(&self) -> &Object {
        &self.claims
    }

    /// Compares what the token says with what is asked, at a time since 1970. This is cheap, and says nothing
    /// about who has made the token. Returns until when the token is valid.
    ///
    /// # Errors
    ///
    /// The reason why the token is not accepted.
    pub fn check(&self, terms: &Terms, now: Duration) -> Result<Duration, Refusal> {
        if !terms.algorithms.contains(self.algorithm()) {
            return Err(Refusal::Algorithm);
        }
        if self.issuer() != Some(&terms.issuer) {
            return Err(Refusal::Issuer);
        }
        let until = self.times(terms.leeway, now)?;
        if !terms.audiences.is_empty() && !self.is_for(&terms.audiences) {
            return Err(Refusal::Audience);
        }
        if !terms.required.iter().all(|condition| condition.holds(&self.claims)) {
            return Err(Refusal::Claims);
        }
        Ok(until)
    }

    /// Checks the signature. Returns the claims.
    ///
    /// # Errors
    ///
    /// [`Refusal::Key`] if no key of the set may have signed the token, and [`Refusal::Signature`] if none
    /// has.
    pub fn verify(self, keys: &KeySet) -> Result<Object, Refusal> {
        self.jws.verify(keys)?;
        Ok(self.claims)
    }

    /// Whether some key of the set may have signed the token.
    pub fn has_key_in(&self, keys: &KeySet) -> bool {
        keys.candidates(self.key_id(), self.algorithm()).next().is_some()
    }

    fn times(&self, leeway: Duration, now: Duration) -> Result<Duration, Refusal> {
        let until = self.date("exp")?.ok_or(Refusal::Expired)?.saturating_add(leeway);
        if now >= until {
            return Err(Refusal::Expired);
        }
        for name in ["nbf", "iat"] {
            if self.date(name)?.is_some_and(|begin| begin > now.saturating_add(leeway)) {
                return Err(Refusal::Early);
            }
        }
        Ok(until)
    }

    /// A `NumericDate` (RFC 7519 section 2): seconds since 1970, which may have a fraction.
    fn date(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        let Some(value) = self.claims.get(name) else { return Ok(None) };
        let Value::Number(number) = value else { return Err(Refusal::Malformed) };
        if let Some(seconds) = number.as_u64() {
            return Ok(Some(Duration::from_secs(seconds)));
        }
        let seconds = number.as_f64().ok_or(Refusal::Malformed)?;
        // A date before 1970 is long ago.
        let date = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        Ok(Some(date))
    }

    /// `aud` is one text, or a list of them (RFC 7519 section 4.1.3).
    fn is_for(&self, audiences: &[String]) -> bool {
        let is_one =
            |value: &Value| value.as_str().is_some_and(|name| audiences.iter().any(|known| known == name));
        match self.claims.get("aud") {
            Some(Value::Array(names)) => names.iter().any(is_one),
            Some(name) => is_one(name),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
