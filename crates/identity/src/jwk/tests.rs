use serde_json::json;

use super::*;

/// The modulus of RFC 7515 appendix A.2.
const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-\
                 yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-\
                 KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9\
                 _h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

fn rsa_key() -> Value {
    json!({"kty": "RSA", "kid": "r", "n": N, "e": "AQAB"})
}

/// The key of RFC 7515 appendix A.3.
fn p256_key() -> Value {
    json!({
        "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    })
}

/// The key of RFC 8037 appendix A.2.
fn ed25519_key() -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
}

fn secret_key() -> Value {
    json!({"kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"})
}

fn parse(keys: &[Value], origin: Origin) -> Result<KeySet, String> {
    KeySet::parse(json!({"keys": keys}).to_string().as_bytes(), origin)
}

fn names(keys: &KeySet) -> Vec<Vec<&'static str>> {
    keys.keys().iter().map(|key| key.algorithms().map(Algorithm::name).collect()).collect()
}

/// A key with one member changed, or removed by `null`.
fn with(mut key: Value, name: &str, value: Value) -> Value {
    let members = key.as_object_mut().unwrap();
    if value.is_null() {
        members.remove(name)
    } else {
        members.insert(name.to_owned(), value)
    };
    key
}

#[test]
fn keys_of_the_standards() {
    let keys = parse(&[rsa_key(), p256_key(), ed25519_key()], Origin::Public).unwrap();
    let of_rsa = vec!["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
    assert_eq!(names(&keys), [of_rsa, vec!["ES256"], vec!["EdDSA"]]);
    assert_eq!((keys.keys()[0].id(), keys.keys()[1].id()), (Some("r"), None));
    assert!(keys.ignored().is_empty());
    let one = parse(&[with(rsa_key(), "alg", json!("PS384"))], Origin::Public).unwrap();
    assert_eq!(names(&one), [["PS384"]]);
    let secret = parse(&[secret_key()], Origin::Secret).unwrap();
    assert_eq!(names(&secret), [["HS256", "HS384", "HS512"]]);
    assert!(!format!("{secret:?}").contains("AyM1"));
}

#[test]
fn a_key_that_cannot_be_used_is_ignored() {
    let long = "x".repeat(KEY_ID_BYTES_MAX + 1);
    for (key, why) in [
        (with(rsa_key(), "use", json!("enc")), "it is not for signatures"),
        (with(rsa_key(), "key_ops", json!(["sign"])), "it is not for verifying"),
        (with(rsa_key(), "key_ops", json!("verify")), "\"key_ops\" is no list"),
        (with(rsa_key(), "alg", json!("RSA-OAEP")), "its algorithm is not supported"),
        (with(rsa_key(), "alg", json!("ES256")), "its algorithm is for keys of another kind"),
        (with(rsa_key(), "alg", json!("HS256")), "its algorithm is for keys of another kind"),
        (with(rsa_key(), "alg", json!(1)), "\"alg\" is no text"),
        (with(rsa_key(), "n", json!(N[..200])), "an RSA key has 2048 to 8192 bits, not 1200"),
        (with(rsa_key(), "n", json!("a b")), "\"n\" is no base64url"),
        (with(rsa_key(), "e", json!("AQ")), "its exponent is not safe"),
        (with(rsa_key(), "e", json!("Ag")), "its exponent is not safe"),
        (with(rsa_key(), "e", json!("Aw")), "its exponent is not safe"),
        (with(rsa_key(), "e", Value::Null), "it has no \"e\""),
        (with(rsa_key(), "kty", json!("DSA")), "its kind or curve is not supported"),
        (with(rsa_key(), "kty", Value::Null), "it has no \"kty\""),
        (with(rsa_key(), "kid", json!(7)), "\"kid\" is no text"),
        (with(rsa_key(), "kid", json!(long)), "its identifier is too long"),
        (with(rsa_key(), "d", json!("AQ")), "it is a private key, which nobody but the issuer should have"),
        (with(p256_key(), "crv", json!("secp256k1")), "its kind or curve is not supported"),
        (with(p256_key(), "crv", json!("P-384")), "a coordinate has 48 bytes on this curve"),
        (with(p256_key(), "y", p256_key()["x"].clone()), "it is no point on its curve"),
        (with(ed25519_key(), "x", json!("11qY")), "a key of Ed25519 has 32 bytes"),
        (with(ed25519_key(), "crv", json!("X25519")), "its kind or curve is not supported"),
        (secret_key(), "it is a secret, and secrets are taken from Secrets alone"),
        (json!("key"), "it is no object"),
    ] {
        let keys = parse(&[key.clone(), with(p256_key(), "kid", json!("good"))], Origin::Public).unwrap();
        assert_eq!(keys.ignored(), [format!("key 1: {why}")], "{key}");
        assert_eq!(keys.keys().len(), 1);
    }
}

#[test]
fn one_identifier_for_one_key() {
    let other = with(p256_key(), "kid", json!("r"));
    let twin = with(rsa_key(), "alg", json!("RS256"));
    let keys = parse(&[rsa_key(), other, twin.clone()], Origin::Public).unwrap();
    assert_eq!(names(&keys), [["ES256"]], "a key of another kind may have it");
    assert_eq!(keys.ignored().len(), 2);
    assert!(parse(&[rsa_key(), rsa_key()], Origin::Public).is_ok(), "the same key twice is no contradiction");
    assert!(parse(&[rsa_key(), with(twin, "use", json!("enc"))], Origin::Public).is_ok());
}

#[test]
fn documents_that_are_no_sets() {
    for (text, why) in [
        ("[]", "it is not a JSON object"),
        ("{}", "it is no JWK Set: there is no list \"keys\""),
        ("{\"keys\": {}}", "it is no JWK Set: there is no list \"keys\""),
        ("{\"keys\": []}", "it has no keys"),
        ("{\"keys\": [], \"keys\": []}", "two members have the same name at line 1 column 24"),
        ("{\"keys\": [{}]}", "no key can be used: key 1: it has no \"kty\""),
        ("<html>", "it is not valid JSON at line 1 column 1"),
    ] {
        assert_eq!(KeySet::parse(text.as_bytes(), Origin::Public).unwrap_err(), why);
    }
    let many = vec![json!({}); KEYS_MAX + 1];
    assert!(parse(&many, Origin::Public).unwrap_err().contains("more than"));
    assert!(KeySet::parse(&vec![b' '; KEYS_BYTES_MAX + 1], Origin::Public).unwrap_err().contains("bytes"));
    let mixed = parse(&[secret_key(), p256_key()], Origin::Secret).unwrap_err();
    assert_eq!(mixed, "it has secrets beside public keys");
}

#[test]
fn secrets_are_long_enough() {
    let of = |bytes: usize| KeySet::of_secret(&vec![7; bytes]).map(|keys| names(&keys)[0].len());
    assert_eq!((of(32), of(48), of(64), of(200)), (Ok(1), Ok(2), Ok(3), Ok(3)));
    assert!(of(31).is_err() && of(0).is_err());
}

#[test]
fn sets_are_equal_by_their_keys() {
    let set = |keys: &[Value]| parse(keys, Origin::Public).unwrap();
    assert_eq!(set(&[rsa_key(), p256_key()]), set(&[rsa_key(), p256_key()]));
    assert_ne!(set(&[rsa_key(), p256_key()]), set(&[rsa_key()]));
    assert_ne!(set(&[rsa_key()]), set(&[with(rsa_key(), "kid", json!("s"))]));
    assert_ne!(set(&[rsa_key()]), set(&[with(rsa_key(), "alg", json!("RS256"))]));
}

/// RFC 8037 appendix A.4.
#[test]
fn the_example_of_ed25519() {
    let keys = parse(&[ed25519_key()], Origin::Public).unwrap();
    let text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dW\
                bhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let jws = crate::jws::Jws::parse(text.as_bytes()).unwrap();
    assert_eq!(jws.payload, b"Example of Ed25519 signing");
    assert_eq!(jws.verify(&keys), Ok(()));
}
