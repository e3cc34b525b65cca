//! Tests of tokens: the claims that are asked for, malformed tokens, and signatures that do not count.
//!
//! Must not be in here: how keys are read, and rules about claims.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::jwk::Origin;
use crate::limits::TOKEN_BYTES_MAX;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const SECRET: [u8; 64] = [42; 64];

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token with a signature by HMAC.
fn by_secret(header: &str, claims: &str, secret: &[u8]) -> String {
    let signed = format!("{}.{}", encode(header), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", encode(tag))
}

fn token(claims: &Value) -> String {
    by_secret(r#"{"alg":"HS256","typ":"JWT"}"#, &claims.to_string(), &SECRET)
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.test", "sub": "ann", "aud": "shop", "exp": NOW.as_secs() + 60,
        "nbf": NOW.as_secs() - 60, "iat": NOW.as_secs() - 60,
    })
}

fn terms() -> Terms {
    Terms {
        issuer: "https://issuer.test".to_owned(),
        audiences: vec!["shop".to_owned(), "api".to_owned()],
        algorithms: [Algorithm::Hs256].into_iter().collect(),
        leeway: Duration::from_secs(30),
        required: Vec::new(),
    }
}

fn verified(token: &str, terms: &Terms, keys: &KeySet) -> Result<Object, Refusal> {
    let token = Token::parse(token.as_bytes())?;
    token.check(terms, NOW)?;
    token.verify(keys)
}

fn outcome(token: &str) -> Result<Object, Refusal> {
    verified(token, &terms(), &KeySet::of_secret(&SECRET).unwrap())
}

/// The claims with one changed, or removed by `null`.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let members = claims.as_object_mut().unwrap();
    if value.is_null() {
        members.remove(name)
    } else {
        members.insert(name.to_owned(), value)
    };
    claims
}

#[test]
fn a_token_lets_in_until_it_ends() {
    let text = token(&claims());
    assert_eq!(outcome(&text).unwrap()["sub"], "ann");
    let token = Token::parse(text.as_bytes()).unwrap();
    assert_eq!(token.check(&terms(), NOW), Ok(NOW + Duration::from_secs(90)));
    assert_eq!((token.issuer(), token.key_id()), (Some("https://issuer.test"), None));
}

#[test]
fn claims_that_are_asked_for() {
    let now = NOW.as_secs();
    for (name, value, expected) in [
        ("exp", json!(now - 29), None),
        ("exp", json!(now - 30), Some(Refusal::Expired)),
        ("exp", json!(now as f64 + 0.5), None),
        ("exp", json!(-5), Some(Refusal::Expired)),
        ("exp", json!(1e300), None),
        ("exp", json!("1900000000"), Some(Refusal::Malformed)),
        ("exp", Value::Null, Some(Refusal::Expired)),
        ("nbf", json!(now + 30), None),
        ("nbf", json!(now + 31), Some(Refusal::Early)),
        ("nbf", json!([]), Some(Refusal::Malformed)),
        ("nbf", Value::Null, None),
        ("iat", json!(now + 31), Some(Refusal::Early)),
        ("iat", Value::Null, None),
        ("iss", json!("https://issuer.test/"), Some(Refusal::Issuer)),
        ("iss", json!(["https://issuer.test"]), Some(Refusal::Issuer)),
        ("iss", Value::Null, Some(Refusal::Issuer)),
        ("aud", json!(["other", "api"]), None),
        ("aud", json!("other"), Some(Refusal::Audience)),
        ("aud", json!(["other", 1]), Some(Refusal::Audience)),
        ("aud", json!([]), Some(Refusal::Audience)),
        ("aud", Value::Null, Some(Refusal::Audience)),
    ] {
        let found = outcome(&token(&with(name, value.clone())));
        assert_eq!(found.as_ref().err(), expected.as_ref(), "{name}: {value}");
    }
    let mut terms = terms();
    terms.required = vec![Expression::parse("claims.sub == \"bob\"").unwrap()];
    let keys = KeySet::of_secret(&SECRET).unwrap();
    assert_eq!(verified(&token(&claims()), &terms, &keys), Err(Refusal::Claims));
    terms.required.clear();
    terms.audiences.clear();
    assert!(verified(&token(&with("aud", Value::Null)), &terms, &keys).is_ok());
}

#[test]
fn forms_that_are_no_tokens() {
    let good = token(&claims());
    let parts: Vec<_> = good.split('.').collect();
    let claims = claims().to_string();
    let headed = |header: &str| by_secret(header, &claims, &SECRET);
    for (text, refusal) in [
        (String::new(), Refusal::Malformed),
        ("..".to_owned(), Refusal::Malformed),
        (parts[..2].join("."), Refusal::Malformed),
        (format!("{good}.x"), Refusal::Malformed),
        (format!("{good}="), Refusal::Malformed),
        (format!(" {good}"), Refusal::Malformed),
        (good.replace('.', ".."), Refusal::Malformed),
        (headed("{}"), Refusal::Malformed),
        (headed(r#"{"alg":1}"#), Refusal::Malformed),
        (headed(r#"{"alg":"HS256","alg":"HS256"}"#), Refusal::Malformed),
        (headed(r#"{"alg":"HS256","crit":["exp"],"exp":1}"#), Refusal::Malformed),
        (headed(r#"{"alg":"HS256","crit":[]}"#), Refusal::Malformed),
        (headed(r#"{"alg":"HS256","kid":["a"]}"#), Refusal::Malformed),
        (headed(r#"{"alg":"HS256","kid":null}"#), Refusal::Malformed),
        (headed(&format!(r#"{{"alg":"HS256","kid":"{}"}}"#, "a".repeat(600))), Refusal::Malformed),
        (headed(r#"{"alg":"none"}"#), Refusal::Algorithm),
        (headed(r#"{"alg":"nOnE"}"#), Refusal::Algorithm),
        (headed(r#"{"alg":"HS384"}"#), Refusal::Algorithm),
        (by_secret(r#"{"alg":"HS256"}"#, "[]", &SECRET), Refusal::Malformed),
        (by_secret(r#"{"alg":"HS256"}"#, r#"{"iss":"a","iss":"b"}"#, &SECRET), Refusal::Malformed),
        ("a".repeat(TOKEN_BYTES_MAX + 1), Refusal::TooLong),
        ("a.".repeat(500_000), Refusal::TooLong),
        (format!("{}.{}.", encode(r#"{"alg":"none"}"#), parts[1]), Refusal::Algorithm),
    ] {
        assert_eq!(outcome(&text), Err(refusal), "{}", &text[..text.len().min(300)]);
    }
    let typed = headed(r#"{"alg":"HS256","typ":"at+jwt","jku":"https://evil.test","kid":"../../dev/null"}"#);
    assert!(outcome(&typed).is_ok(), "a key without an identifier may have signed it");
}

#[test]
fn signatures_that_are_not_the_issuers() {
    let forged = by_secret(r#"{"alg":"HS256"}"#, &claims().to_string(), &[1; 64]);
    assert_eq!(outcome(&forged), Err(Refusal::Signature));
    let good = token(&claims());
    let unsigned = format!("{}.", good.rsplit_once('.').unwrap().0);
    assert_eq!(outcome(&unsigned), Err(Refusal::Signature));
    let other = by_secret(r#"{"alg":"HS256","kid":"b"}"#, &claims().to_string(), &SECRET);
    let document = json!({"keys": [{"kty": "oct", "kid": "a", "k": encode(SECRET)}]}).to_string();
    let keys = KeySet::parse(document.as_bytes(), Origin::Secret).unwrap();
    assert_eq!(verified(&other, &terms(), &keys), Err(Refusal::Key));
}

#[test]
fn a_public_key_is_no_secret() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = pair.public_key().as_ref();
    let (x, y) = point[1..].split_at(32);
    let key = json!({"kty": "EC", "crv": "P-256", "kid": "k", "x": encode(x), "y": encode(y)});
    let document = json!({"keys": [key]}).to_string();
    let keys = KeySet::parse(document.as_bytes(), Origin::Public).unwrap();
    let mut terms = terms();
    terms.algorithms = Algorithm::ALL.into_iter().collect();
    for secret in [point.to_vec(), point[1..].to_vec(), document.into_bytes(), key.to_string().into_bytes()] {
        let confused = by_secret(r#"{"alg":"HS256","kid":"k"}"#, &claims().to_string(), &secret);
        assert_eq!(verified(&confused, &terms, &keys), Err(Refusal::Key));
    }
    let signed = format!("{}.{}", encode(r#"{"alg":"ES256","kid":"k"}"#), encode(claims().to_string()));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    assert!(verified(&format!("{signed}.{}", encode(signature)), &terms, &keys).is_ok());
    assert_eq!(verified(&format!("{signed}.{}", encode([0; 64])), &terms, &keys), Err(Refusal::Signature));
}

#[test]
fn no_algorithm_takes_the_place_of_another() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key())});
    let keys = KeySet::parse(json!({"keys": [key]}).to_string().as_bytes(), Origin::Public).unwrap();
    let mut terms = Terms { algorithms: Algorithms::default(), ..terms() };
    for (name, is_right) in [("EdDSA", true), ("Ed25519", true), ("ES256", false), ("RS256", false)] {
        let signed =
            format!("{}.{}", encode(format!("{{\"alg\":\"{name}\"}}")), encode(claims().to_string()));
        let text = format!("{signed}.{}", encode(pair.sign(signed.as_bytes())));
        assert_eq!(verified(&text, &terms, &keys).is_ok(), is_right, "{name}");
    }
    terms.algorithms = [Algorithm::Es256].into_iter().collect();
    let signed = format!("{}.{}", encode(r#"{"alg":"EdDSA"}"#), encode(claims().to_string()));
    let text = format!("{signed}.{}", encode(pair.sign(signed.as_bytes())));
    assert_eq!(verified(&text, &terms, &keys), Err(Refusal::Algorithm));
}

/// RFC 7515 appendix A.1, with the key of that example.
#[test]
fn the_example_of_the_standard() {
    let text = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6\
                Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let document = json!({"keys": [{"kty": "oct", "k": key}]}).to_string();
    let keys = KeySet::parse(document.as_bytes(), Origin::Secret).unwrap();
    let token = Token::parse(text.as_bytes()).unwrap();
    let terms = Terms { issuer: "joe".to_owned(), audiences: Vec::new(), ..terms() };
    assert_eq!(token.check(&terms, NOW), Err(Refusal::Expired));
    assert!(token.check(&terms, Duration::from_secs(1_300_819_300)).is_ok());
    assert_eq!(token.verify(&keys).unwrap()["http://example.com/is_root"], true);
}

proptest! {
    #[test]
    fn nothing_made_up_is_accepted(text in "[A-Za-z0-9_.-]{0,200}") {
        prop_assert!(outcome(&text).is_err());
    }

    #[test]
    fn no_change_of_a_token_is_accepted(at in 0usize..400, byte in any::<u8>()) {
        let good = token(&claims());
        let mut changed = good.clone().into_bytes();
        let at = at % changed.len();
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        let keys = KeySet::of_secret(&SECRET).unwrap();
        let result = Token::parse(&changed).and_then(|token| {
            token.check(&terms(), NOW)?;
            token.verify(&keys)
        });
        prop_assert!(result.is_err());
    }
}
