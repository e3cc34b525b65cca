//! Measures what a JSON Web Token costs: one that is verified, by algorithm, one that is refused before its
//! signature, and one that is repeated.
//!
//! Usage: `cargo run --profile quick --example tokens`.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clients::{Tokens, VerifiedToken};
use clock::Moment;
use identity::{KeySet, Origin, Terms, Token};

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The text that a signature is of, with claims as an identity provider makes them.
fn signed(algorithm: &str, number: usize) -> String {
    let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT","kid":"k"}}"#);
    let claims = format!(
        r#"{{"iss":"https://issuer.test/realms/shop","aud":["shop","account"],"sub":"user-{number}","exp":1800000300,
        "iat":1800000000,"jti":"1f0c9d64-6f4e-4a55-9c3e-{number:012}","scope":"openid profile email reports:read",
        "email":"user-{number}@example.test","email_verified":true,"groups":["staff","reports","admin"],
        "realm_access":{{"roles":["offline_access","viewer","editor"]}},"preferred_username":"user-{number}"}}"#
    );
    format!("{}.{}", encode(header), encode(claims))
}

fn per_call(count: usize, mut call: impl FnMut(usize)) -> Duration {
    let begin = Instant::now();
    (0..count).for_each(&mut call);
    begin.elapsed() / count as u32
}

fn main() {
    let random = SystemRandom::new();
    let ecdsa = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let (x, y) = ecdsa.public_key().as_ref()[1..].split_at(32);
    let ed25519 = Ed25519KeyPair::generate().expect("a key");
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let es256 = |text: &str| ecdsa.sign(&random, text.as_bytes()).expect("a signature").as_ref().to_vec();
    let eddsa = |text: &str| ed25519.sign(text.as_bytes()).as_ref().to_vec();
    let rs256 = |text: &str| {
        let mut signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).expect("a signature");
        signature
    };
    let terms = Terms {
        issuer: "https://issuer.test/realms/shop".to_owned(),
        audiences: vec!["shop".to_owned()],
        ..Terms::default()
    };
    let ed = encode(ed25519.public_key());
    // RFC 8017 appendix A.1.1: the modulus of 2048 bits is behind nine bytes of headers.
    let n = encode(&rsa.public_key().as_ref()[9..265]);
    let (x, y) = (encode(x), encode(y));
    for (name, key, sign) in [
        (
            "ES256",
            format!(r#"{{"kty":"EC","crv":"P-256","kid":"k","x":"{x}","y":"{y}"}}"#),
            &es256 as Sign<'_>,
        ),
        ("EdDSA", format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{ed}"}}"#), &eddsa),
        ("RS256", format!(r#"{{"kty":"RSA","kid":"k","n":"{n}","e":"AQAB"}}"#), &rs256),
    ] {
        let keys = KeySet::parse(format!("{{\"keys\":[{key}]}}").as_bytes(), Origin::Public).expect("keys");
        let tokens: Vec<_> = (0..1000).map(|number| signed(name, number)).collect();
        let tokens: Vec<_> = tokens.iter().map(|text| format!("{text}.{}", encode(sign(text)))).collect();
        let checked = per_call(20_000, |at| {
            let token = Token::parse(tokens[at % tokens.len()].as_bytes()).expect("a token");
            black_box(token.check(&terms, NOW).expect("it is good"));
        });
        let verified = per_call(20_000, |at| {
            let token = Token::parse(tokens[at % tokens.len()].as_bytes()).expect("a token");
            token.check(&terms, NOW).expect("it is good");
            black_box(token.verify(&keys).expect("it is good"));
        });
        println!("{name}: {} bytes, claims {checked:?}, all {verified:?}", tokens[0].len());
        repeated(&tokens, &keys);
    }
}

type Sign<'s> = &'s dyn Fn(&str) -> Vec<u8>;

fn repeated(tokens: &[String], keys: &KeySet) {
    let (cache, settings) = (Tokens::default(), [1; 32]);
    let known = |text: &String| {
        let claims = Token::parse(text.as_bytes()).and_then(|token| token.verify(keys)).expect("it is good");
        Arc::new(VerifiedToken { issuer: 0, generation: 1, until: Moment::NEVER, claims })
    };
    for text in tokens {
        cache.keep(&settings, text.as_bytes(), known(text));
    }
    let one = per_call(1_000_000, |_| {
        black_box(cache.verified(&settings, tokens[0].as_bytes(), Moment::BEGIN));
    });
    let many = per_call(1_000_000, |at| {
        let text = tokens[at % tokens.len()].as_bytes();
        assert!(cache.verified(&settings, text, Moment::BEGIN).is_some());
    });
    println!("  repeated: the same {one:?}, another of {} {many:?}", tokens.len());
}
