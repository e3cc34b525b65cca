//! JSON Web Tokens of clients, and the key that verifies them.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// How long tokens are valid: longer than all measurements.
const SECONDS: u64 = 86_400;

static KEY: LazyLock<EcdsaKeyPair> = LazyLock::new(|| {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("the system has random numbers")
});

/// The key set of the issuer (RFC 7517).
pub(super) fn key_set() -> Value {
    // An uncompressed point: a byte, x and y.
    let (x, y) = KEY.public_key().as_ref()[1..].split_at(32);
    let key = json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1",
        "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
    });
    json!({"keys": [key]})
}

/// A token of the client with this number, signed by ES256.
pub(super) fn token(number: usize) -> Result<String> {
    let end = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + SECONDS;
    let head = json!({"alg": "ES256", "kid": "1", "typ": "JWT"});
    let claims = json!({
        "iss": "https://issuer.test", "aud": "web", "sub": format!("user-{number}"), "exp": end,
        "groups": ["staff", "admin"],
    });
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encoded(&head), encoded(&claims));
    let signature = KEY.sign(&SystemRandom::new(), text.as_bytes()).map_err(|_| anyhow!("no signature"))?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
