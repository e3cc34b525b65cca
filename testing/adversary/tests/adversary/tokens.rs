//! Forged JSON Web Tokens: none lets anybody in, and no claim can be sent as a header.
//!
//! Each case forges a token in one of the ways that libraries have fallen for: other algorithms, the public
//! key as a secret, keys that the token itself brings, key ids with paths and queries, members twice, changed
//! bytes. A good token goes through beside it, with headers of the claims' names in other spellings.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::sync::LazyLock;

use adversary::endpoint::Endpoint;
use adversary::{Attack, Case, Random, Run, binary};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use testkit::Forebay;
use testkit::manifest::secret;

use crate::decided::{EVIL, answer, check, spelled};

pub(crate) const ATTACKS: &[Attack] = &[Attack { name: "tokens", cases: 600, play }];

/// The claims of a token that lets its client in; no clock of a machine is past its end.
const CLAIMS: &str =
    r#"{"iss":"https://issuer.test","aud":"web","sub":"alice","role":"reader","exp":4102444800}"#;

/// Key ids that some verifier has taken for a path, a query or an address.
const KEY_IDS: &[&str] = &[
    "",
    "2",
    "1 ",
    "1\\u0000",
    "../../../../dev/null",
    "/dev/null",
    "' OR 1=1 --",
    "1' UNION SELECT 'k",
    "|whoami",
    "http://127.0.0.1:1/",
    "*",
    "[]",
];

/// The issuer's key, and one of somebody else.
static OURS: LazyLock<EcdsaKeyPair> = LazyLock::new(key);
static THEIRS: LazyLock<EcdsaKeyPair> = LazyLock::new(key);

/// A token that lets its client in.
static GOOD: LazyLock<String> =
    LazyLock::new(|| signed(&OURS, r#"{"alg":"ES256","kid":"1","typ":"JWT"}"#, CLAIMS));

fn key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("the system has random numbers")
}

/// The issuers of a route whose keys are in the Secret `jwks`.
pub(crate) const ISSUERS: &str =
    "- issuer: https://issuer.test\n  audiences: [web]\n  algorithms: [ES256]\n  secret: jwks\n";

/// The keys of the issuer.
pub(crate) fn key_set() -> String {
    format!(r#"{{"keys":[{}]}}"#, public(&OURS))
}

/// A token with good claims, whose signature is wrong and another one for each number.
pub(crate) fn wrongly_signed(number: u64) -> String {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!("{}.{}", encoded(br#"{"alg":"ES256","kid":"1"}"#), encoded(CLAIMS.as_bytes()))
    });
    let mut signature = [1; 64];
    signature[..8].copy_from_slice(&(number | (1 << 62)).to_be_bytes());
    format!("{}.{}", *TEXT, encoded(&signature))
}

fn play(run: &Run) {
    let endpoint = Endpoint::serving(|stream: &mut TcpStream| while answer(stream) {});
    let forebay = binary::setup()
        .endpoint(endpoint.address())
        .setting("enable-underscores-in-headers", "true")
        .setting("ignore-invalid-headers", "false")
        .annotation("forebay.io/auth-jwt", ISSUERS)
        .annotation("forebay.io/auth-jwt-claims-to-headers", "X-User: sub, X-Role: role")
        .manifest("keys.yaml", secret("jwks", "Opaque", &[("jwks.json", &key_set())]))
        .start();
    let known = format!("GET / HTTP/1.1\r\nHost: web.test\r\nAuthorization: Bearer {}\r\n\r\n", *GOOD);
    assert_eq!(forebay.client().ask(&known).status, 200, "a good token is refused");
    run.each(|case| play_case(case, &forebay));
}

fn play_case(case: &mut Case, forebay: &Forebay) {
    let token = forged(&mut case.random);
    let request = request(&mut case.random, &token);
    case.sends(request.as_bytes());
    let response = forebay.client().ask(&request);
    // Whoever forges many within a second gets 429 for tokens that are not known.
    assert!(matches!(response.status, 400 | 401 | 429), "{} for a forged token", response.status);
    assert!(response.header("x-view").is_none(), "the endpoint was asked with a forged token");
    let request = self::request(&mut case.random, &GOOD);
    case.sends(request.as_bytes());
    let response = forebay.client().ask(&request);
    match response.status {
        200 => {
            check(&response);
            let view = response.header("x-view").expect("the endpoint says what it saw");
            assert!(view.contains("x-user: alice") && view.contains("x-role: reader"), "{view:?}");
        }
        status => assert_eq!(status, 400, "a good token is refused"),
    }
}

/// A token that nobody may take for a good one.
fn forged(random: &mut Random) -> String {
    let good = signed(&OURS, r#"{"alg":"ES256","kid":"1"}"#, CLAIMS);
    let claims = claims(random);
    match random.below(11) {
        0 => {
            let name = *random.pick(&["none", "None", "NONE", "nOnE", "", "null"]);
            let head = format!(r#"{{"alg":"{name}","kid":"1"}}"#);
            let signature = random.pick(&["", "AAAA"]);
            format!("{}.{}.{signature}", encoded(head.as_bytes()), encoded(claims.as_bytes()))
        }
        1 => by_secret(random, &claims),
        2 => {
            let id = *random.pick(KEY_IDS);
            signed(&THEIRS, &format!(r#"{{"alg":"ES256","kid":"{id}"}}"#), &claims)
        }
        3 => {
            let key = public(&THEIRS);
            signed(&THEIRS, &format!(r#"{{"alg":"ES256","kid":"1","jwk":{key}}}"#), &claims)
        }
        4 => {
            let member = *random.pick(&["jku", "x5u"]);
            signed(
                &THEIRS,
                &format!(r#"{{"alg":"ES256","kid":"1","{member}":"http://127.0.0.1:1/"}}"#),
                &claims,
            )
        }
        5 => signed(&OURS, r#"{"alg":"ES256","kid":"1","crit":["exp"],"exp":1}"#, CLAIMS),
        6 => signed(&OURS, r#"{"alg":"ES256","kid":"1","b64":false,"crit":["b64"]}"#, CLAIMS),
        7 => signed(&OURS, r#"{"alg":"ES256","kid":"1"}"#, &wrong_claims(random)),
        8 => {
            let mut bytes = good.into_bytes();
            let at = random.below(bytes.len());
            let other = *random.pick(b"ABCDEFabcdef0123456789-_.=+/ ~");
            if bytes[at] == other {
                bytes.truncate(at);
            } else {
                bytes[at] = other;
            }
            String::from_utf8(bytes).expect("visible characters")
        }
        9 => {
            // The signature of zeros that Java's verifiers took (CVE-2022-21449), and ones of wrong lengths.
            let text = good.rsplit_once('.').expect("a token has dots").0;
            let length = *random.pick(&[0, 1, 32, 63, 64, 65, 72]);
            format!("{text}.{}", encoded(&vec![0; length]))
        }
        _ => format!("{good}{}", random.pick(&[".", ".e30", "..", ".e30.e30"])),
    }
}

/// A token that is signed with what everybody knows, as if that were a secret.
fn by_secret(random: &mut Random, claims: &str) -> String {
    let der = OURS.public_key().as_der().expect("a public key has this form");
    let der = der.as_ref().to_vec();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&der));
    let (point, jwk) = (OURS.public_key().as_ref().to_vec(), public(&OURS).into_bytes());
    let secrets = [der, pem.into_bytes(), point, jwk, Vec::new(), b"secret".to_vec()];
    let key = hmac::Key::new(hmac::HMAC_SHA256, random.pick::<Vec<u8>>(&secrets));
    let text = format!("{}.{}", encoded(br#"{"alg":"HS256","kid":"1"}"#), encoded(claims.as_bytes()));
    format!("{text}.{}", encoded(hmac::sign(&key, text.as_bytes()).as_ref()))
}

fn claims(random: &mut Random) -> String {
    let role = random.pick(&["reader", "admin"]);
    CLAIMS.replace("reader", role)
}

/// Claims by which a well-signed token lets nobody in.
fn wrong_claims(random: &mut Random) -> String {
    let changes = [
        ("4102444800", "1"),
        ("4102444800", "\"4102444800\""),
        ("4102444800", "-4102444800"),
        ("4102444800", "4102444800,\"nbf\":4102444799"),
        ("\"web\"", "\"other\""),
        ("\"web\"", "[]"),
        ("\"web\"", "\"web \""),
        ("\"web\"", "{\"web\":\"web\"}"),
        ("https://issuer.test", "https://issuer.test/"),
        ("https://issuer.test", "https://issuer.test.evil.test"),
        ("\"sub\"", "\"iss\":\"https://evil.test\",\"sub\""),
        ("\"sub\"", "\"exp\":1,\"sub\""),
        ("}", ""),
        ("{", "[{"),
    ];
    let (from, to) = random.pick(&changes);
    CLAIMS.replacen(from, to, 1)
}

/// A request with the token, and with values of the client's own for the headers of claims.
fn request(random: &mut Random, token: &str) -> String {
    let mut text = "POST / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n".to_owned();
    for at in 0..random.below(4) {
        let name = *random.pick(&["X-User", "X-Role"]);
        let _ = write!(text, "{}: {EVIL}{at}\r\n", spelled(random, name));
    }
    let _ = write!(text, "Authorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
    if random.once_in(2) {
        let _ = write!(text, "{}: {EVIL}\r\n", spelled(random, "X-User"));
    }
    text + "\r\n"
}

fn signed(key: &EcdsaKeyPair, head: &str, claims: &str) -> String {
    let text = format!("{}.{}", encoded(head.as_bytes()), encoded(claims.as_bytes()));
    let signature = key.sign(&SystemRandom::new(), text.as_bytes()).expect("the system has random numbers");
    format!("{text}.{}", encoded(signature.as_ref()))
}

/// A public key as a JSON Web Key (RFC 7518 section 6.2).
fn public(key: &EcdsaKeyPair) -> String {
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let (x, y) = (encoded(x), encoded(y));
    format!(r#"{{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"1","x":"{x}","y":"{y}"}}"#)
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
