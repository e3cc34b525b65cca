//! The answer of the token endpoint, and the checks of an ID token beyond its signature (`OpenID Connect`
//! Core section 3.1.3.7).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{self, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Seconds, seconds};

/// The time of tokens whose end the provider does not say.
const DEFAULT_TIME: Seconds = 3600;

/// The longest time that tokens are taken to have, and the shortest.
const TIME_MAX: Seconds = 7 * 24 * 3600;
const TIME_MIN: Seconds = 10;

/// The longest token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The tokens that the provider has given, once they have been checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Granted {
    /// The claims of the ID token; none if the provider gives no new one when tokens are renewed.
    pub claims: Option<Map<String, Value>>,
    /// The token for the next time.
    pub refresh_token: Option<String>,
    /// The ID token as it came.
    pub id_token: Option<String>,
    /// When the provider has given it.
    pub at: Seconds,
    /// Seconds from then until the tokens end.
    pub seconds: Seconds,
}

/// The tokens that the endpoint has given, not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The ID token.
    pub id_token: Option<String>,
    /// The access token; none of ours asks anything with it.
    pub access_token: Option<String>,
    /// The refresh token.
    pub refresh_token: Option<String>,
    /// Seconds until the access token ends.
    pub seconds: Seconds,
}

/// Why there are no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The provider has refused: the code or the token is not good, or not good any more.
    Refused(String),
    /// The provider's answer, or our configuration, is wrong. Asking again does not help.
    Wrong(String),
    /// The provider cannot be reached, or has a fault itself. Asking again later helps.
    Away(String),
}

#[derive(Deserialize)]
struct Answer {
    id_token: Option<String>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Value>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

impl Tokens {
    /// Reads the answer of the token endpoint.
    ///
    /// # Errors
    ///
    /// When the endpoint has refused, or its answer cannot be read.
    pub fn parse(status: u16, body: &[u8]) -> Result<Self, Failure> {
        match status {
            200 => {}
            429 | 500.. => return Err(Failure::Away(format!("the token endpoint answered {status}"))),
            _ => return Err(refusal(status, body)),
        }
        let wrong =
            |why: String| Failure::Wrong(format!("the answer of the token endpoint cannot be used: {why}"));
        let answer: Answer = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        if answer.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(wrong("token_type is not Bearer".to_owned()));
        }
        let is_long =
            |token: &Option<String>| token.as_ref().is_some_and(|token| token.len() > TOKEN_BYTES_MAX);
        if [&answer.id_token, &answer.access_token, &answer.refresh_token].into_iter().any(is_long) {
            return Err(wrong("a token is too long".to_owned()));
        }
        // Some providers give the seconds as text.
        let seconds = answer.expires_in.and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            value => seconds(&value),
        });
        let some = |token: Option<String>| token.filter(|token| !token.is_empty());
        Ok(Self {
            id_token: some(answer.id_token),
            access_token: some(answer.access_token),
            refresh_token: some(answer.refresh_token),
            seconds: seconds.unwrap_or(DEFAULT_TIME).clamp(TIME_MIN, TIME_MAX),
        })
    }
}

fn refusal(status: u16, body: &[u8]) -> Failure {
    let Ok(Refusal { error, error_description }) = serde_json::from_slice(body) else {
        return Failure::Wrong(format!("the token endpoint answered {status}"));
    };
    let text = match error_description {
        Some(description) => format!("{error}: {description}"),
        None => error.clone(),
    };
    match error.as_str() {
        "invalid_grant" => Failure::Refused(text),
        "temporarily_unavailable" | "server_error" => Failure::Away(text),
        _ => Failure::Wrong(text),
    }
}

/// The claims that an ID token has to have.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e> {
    /// The issuer, as tokens have it in `iss`.
    pub issuer: &'e str,
    /// The client's identifier, which is the audience.
    pub client_id: &'e str,
    /// The nonce of the sign-in; none when tokens are renewed.
    pub nonce: Option<&'e str>,
    /// The user of the session that is renewed.
    pub subject: Option<&'e str>,
    /// The access token that came with it.
    pub access_token: Option<&'e str>,
    /// The algorithm of the signature.
    pub algorithm: &'e str,
    /// The present time.
    pub now: Seconds,
    /// Difference between our clock and the provider's that is tolerated.
    pub leeway: Seconds,
}

/// Checks the claims of an ID token whose signature is good.
///
/// # Errors
///
/// When a claim is missing or is not what it has to be.
pub fn check_claims(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let time = |name: &str| claims.get(name).and_then(seconds);
    if text("iss") != Some(expected.issuer) {
        return Err("iss is not the issuer".to_owned());
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !audiences.contains(&expected.client_id) {
        return Err("aud does not have the client".to_owned());
    }
    if claims.contains_key("azp") || audiences.len() > 1 {
        let is_ours = text("azp").is_none_or(|azp| azp == expected.client_id);
        if !is_ours || claims.get("azp").is_some_and(|azp| !azp.is_string()) {
            return Err("azp is not the client".to_owned());
        }
    }
    let subject = text("sub").filter(|subject| !subject.is_empty()).ok_or("sub is missing")?;
    if expected.subject.is_some_and(|known| known != subject) {
        return Err("sub is another user than that of the session".to_owned());
    }
    let ends = time("exp").ok_or("exp is missing")?;
    if expected.now >= ends.saturating_add(expected.leeway) {
        return Err(format!("it has ended {} seconds ago", expected.now - ends));
    }
    for name in ["iat", "nbf"] {
        if let Some(begins) =
            time(name).filter(|&begins| begins > expected.now.saturating_add(expected.leeway))
        {
            return Err(format!("{name} is {} seconds in the future", begins - expected.now));
        }
    }
    if let Some(nonce) = expected.nonce {
        let own = text("nonce").ok_or("nonce is missing")?;
        verify_slices_are_equal(own.as_bytes(), nonce.as_bytes())
            .map_err(|_| "nonce is that of another sign-in")?;
    }
    if let (Some(hash), Some(token)) = (text("at_hash"), expected.access_token)
        && half_hash(expected.algorithm, token).is_some_and(|own| own != hash)
    {
        return Err("at_hash is not that of the access token".to_owned());
    }
    Ok(())
}

/// The left half of the digest of a token, by the algorithm of the signature; none if it is not known.
fn half_hash(algorithm: &str, token: &str) -> Option<String> {
    let with = match algorithm {
        "RS256" | "ES256" | "PS256" | "HS256" => &digest::SHA256,
        "RS384" | "ES384" | "PS384" | "HS384" => &digest::SHA384,
        "RS512" | "ES512" | "PS512" | "HS512" | "EdDSA" | "Ed25519" => &digest::SHA512,
        _ => return None,
    };
    let digest = digest(with, token.as_bytes());
    let bytes = digest.as_ref();
    Some(URL_SAFE_NO_PAD.encode(&bytes[..bytes.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Seconds = 1_000_000;

    fn expected() -> Expected<'static> {
        Expected {
            issuer: "https://issuer.test",
            client_id: "client",
            nonce: Some("n-0"),
            subject: None,
            access_token: Some("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"),
            algorithm: "RS256",
            now: NOW,
            leeway: 60,
        }
    }

    fn check(change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let mut claims = serde_json::json!({
            "iss": "https://issuer.test", "aud": "client", "sub": "u", "nonce": "n-0",
            "exp": NOW + 300, "iat": NOW,
            // The example of OpenID Connect Core, appendix A.3.
            "at_hash": "77QmUPtjPfzWtF2AnpK9RQ",
        });
        change(&mut claims);
        check_claims(claims.as_object().unwrap(), &expected())
    }

    #[test]
    fn an_id_token_is_for_this_client_and_this_sign_in() {
        check(|_| ()).unwrap();
        check(|it| it["aud"] = serde_json::json!(["other", "client"])).unwrap();
        check(|it| it["azp"] = "client".into()).unwrap();
        for (name, value) in [
            ("iss", Value::from("https://issuer.test/")),
            ("iss", Value::Null),
            ("aud", "other".into()),
            ("aud", serde_json::json!([])),
            ("aud", serde_json::json!({"client": 1})),
            ("azp", "other".into()),
            ("azp", 1.into()),
            ("sub", "".into()),
            ("sub", 1.into()),
            ("nonce", "n-1".into()),
            ("nonce", Value::Null),
            ("exp", Value::Null),
            ("exp", "soon".into()),
            ("at_hash", "77QmUPtjPfzWtF2AnpK9RR".into()),
        ] {
            assert!(check(|it| it[name] = value.clone()).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn clocks_may_differ_by_a_minute() {
        check(|it| it["exp"] = (NOW - 59).into()).unwrap();
        check(|it| it["iat"] = (NOW + 60).into()).unwrap();
        assert!(check(|it| it["exp"] = (NOW - 60).into()).is_err());
        assert!(check(|it| it["iat"] = (NOW + 61).into()).is_err());
        assert!(check(|it| it["nbf"] = (NOW + 61).into()).is_err());
    }

    #[test]
    fn a_renewed_token_is_of_the_same_user() {
        let claims =
            serde_json::json!({"iss": "https://issuer.test", "aud": "client", "sub": "u", "exp": NOW + 1});
        let of = |subject| {
            let expected = Expected { nonce: None, subject: Some(subject), ..expected() };
            check_claims(claims.as_object().unwrap(), &expected)
        };
        assert!(of("u").is_ok() && of("v").is_err());
    }

    #[test]
    fn answers_of_the_endpoint() {
        let tokens = Tokens::parse(
            200,
            br#"{"id_token":"a","access_token":"b","token_type":"bearer","expires_in":"300"}"#,
        );
        let tokens = tokens.unwrap();
        assert_eq!(
            (tokens.id_token.as_deref(), tokens.seconds, tokens.refresh_token),
            (Some("a"), 300, None)
        );
        let default = Tokens::parse(200, b"{}").unwrap();
        assert_eq!(default.seconds, DEFAULT_TIME);
        assert_eq!(Tokens::parse(200, br#"{"expires_in":-5}"#).unwrap().seconds, TIME_MIN);
        let long = format!(r#"{{"id_token":"{}"}}"#, "a".repeat(TOKEN_BYTES_MAX + 1));
        for (status, body, is_refused, is_away) in [
            (400, r#"{"error":"invalid_grant","error_description":"gone"}"#, true, false),
            (400, r#"{"error":"invalid_request"}"#, false, false),
            (401, r#"{"error":"invalid_client"}"#, false, false),
            (404, "<html>", false, false),
            (503, "", false, true),
            (429, "", false, true),
            (200, "<html>", false, false),
            (200, r#"{"token_type":"mac"}"#, false, false),
            (200, &long, false, false),
        ] {
            let failure = Tokens::parse(status, body.as_bytes()).unwrap_err();
            assert_eq!(matches!(failure, Failure::Refused(_)), is_refused, "{failure:?}");
            assert_eq!(matches!(failure, Failure::Away(_)), is_away, "{failure:?}");
        }
    }
}
