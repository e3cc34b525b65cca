use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clock::Clock;
use identity::claims::Path;
use identity::{Algorithm, Rules, Terms};
use model::{Access, Satisfy, TokenPlace};

use super::*;
use crate::request::stop::Stop;
use crate::testing::{CLIENT, TWO, World, route_to};

const SECRET: [u8; 32] = [7; 32];

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    Clock::new(Clock::begin()).wall().as_secs()
}

/// A token of the issuer `joe` with these members beside `iss` and `exp`.
fn token(members: &str) -> String {
    token_until(now() + 60, members, &SECRET)
}

fn token_until(end: u64, members: &str, secret: &[u8]) -> String {
    let claims = format!(r#"{{"iss": "joe", "exp": {end}{members}}}"#);
    let signed = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", encode(tag))
}

fn jwt(keys: KeySource) -> Jwt {
    let terms = Terms {
        issuer: "joe".to_owned(),
        algorithms: [Algorithm::Hs256].into_iter().collect(),
        ..Terms::default()
    };
    Jwt {
        issuers: [JwtIssuer { terms, keys: Arc::new(keys) }].into(),
        fingerprint: [1; 32],
        place: TokenPlace::default(),
        strips: false,
        headers: vec![
            ("X-User".to_owned(), Path::parse("sub").unwrap()),
            ("X-Groups".to_owned(), Path::parse("groups").unwrap()),
        ],
        rules: None,
    }
}

fn fixed() -> Jwt {
    jwt(KeySource::fixed("Secret a/b".to_owned(), KeySet::of_secret(&SECRET).unwrap()))
}

fn world(jwt: Jwt) -> World {
    let access = Access { jwt: Some(Arc::new(jwt)), satisfy: Satisfy::All, ..Access::default() };
    let mut route = route_to(TWO);
    route.access = Some(Box::new(access));
    World::of(route)
}

fn bearer(token: &str) -> String {
    format!("GET /reports\nAuthorization: Bearer {token}")
}

/// The status of a refusal, with its challenge; 0 for a request that is let in.
fn outcome(world: &World, lines: &str) -> (u16, String) {
    world.admitted(lines, |_, target| match target {
        Ok(_) => (0, String::new()),
        Err(Stop::Answer(answer)) => {
            let challenges = answer.challenges().concat();
            (answer.status, String::from_utf8(challenges).unwrap())
        }
        Err(Stop::Fault(reason)) => (crate::request::reply::status(reason), reason.name().to_owned()),
    })
}

/// Returns the value of a header that the endpoint gets in place of the client's; none if it gets none.
fn told(world: &World, lines: &str, name: &str) -> Option<String> {
    world.admitted(lines, |admitted, _| {
        let decision = admitted.decision.as_ref().expect("a decision");
        let mut told = decision.upstream.iter();
        let (_, value) = told.find(|(known, _)| known == name).expect("it is in place of the client's");
        value.as_ref().map(|value| String::from_utf8(value.clone()).unwrap())
    })
}

#[test]
fn a_token_lets_its_client_in() {
    let world = world(fixed());
    let good = token(r#", "sub": "ann", "groups": ["a", "b"]"#);
    for _ in 0..2 {
        assert_eq!(outcome(&world, &bearer(&good)), (0, String::new()));
        assert_eq!(told(&world, &bearer(&good), "X-User"), Some("ann".to_owned()));
        assert_eq!(told(&world, &bearer(&good), "X-Groups"), Some("a,b".to_owned()));
    }
    let user = world.admitted(&bearer(&good), |admitted, _| admitted.decision.unwrap().user.clone());
    assert_eq!(user.as_deref(), Some("ann"));
    assert_eq!(outcome(&world, "GET /"), (401, "Bearer".to_owned()));
    let (status, challenge) = outcome(&world, &bearer("a.b.c"));
    assert_eq!(status, 401);
    assert_eq!(challenge, r#"Bearer error="invalid_token", error_description="The token is malformed""#);
}

#[test]
fn no_client_sets_the_headers_itself() {
    let world = world(fixed());
    let forged = "X-User: root\nX-Groups: admin";
    for lines in [format!("GET /\n{forged}"), format!("{}\n{forged}", bearer(&token("")))] {
        assert_eq!(told(&world, &lines, "X-User"), None, "{lines}");
        assert_eq!(told(&world, &lines, "X-Groups"), None, "{lines}");
    }
    let smuggled = token(r#", "sub": "ann\r\nX-Admin: yes", "groups": ["a,root"]"#);
    assert_eq!(told(&world, &bearer(&smuggled), "X-User"), None);
    assert_eq!(told(&world, &bearer(&smuggled), "X-Groups"), None);
}

#[test]
fn forged_and_expired_tokens_are_refused_each_time() {
    let world = world(fixed());
    let unsigned = format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(r#"{"iss": "joe"}"#));
    for (text, description) in [
        (token_until(now() + 60, "", &[8; 32]), "The signature of the token cannot be verified"),
        (token_until(now() - 60, "", &SECRET), "The token has expired"),
        (token(&format!(r#", "nbf": {}"#, now() + 60)), "The token is not valid yet"),
        (unsigned, "The algorithm of the token is not allowed"),
    ] {
        for _ in 0..2 {
            let (status, challenge) = outcome(&world, &bearer(&text));
            let expected = format!("Bearer error=\"invalid_token\", error_description=\"{description}\"");
            assert_eq!((status, challenge), (401, expected));
        }
    }
}

#[test]
fn a_client_with_many_forged_tokens_gets_no_further_check() {
    let world = world(fixed());
    let forged = |number: u32| bearer(&token_until(now() + 60, &format!(r#", "n": {number}"#), &[8; 32]));
    // No refusal waits, as where as many wait as may.
    let _slots: Vec<_> = std::iter::from_fn(|| world.worker.fairness.held_back.take()).collect();
    let (worker, tokens) = (&world.worker, &world.worker.clients.tokens);
    assert!(!tokens.is_suspect(CLIENT, worker.clock.now()));
    assert_eq!(outcome(&world, &forged(0)).0, 401);
    assert!(tokens.is_suspect(CLIENT, worker.clock.now()), "it was counted");
    // The second may end between the many and the next one.
    let mut statuses = (1..100).map(|number| {
        (0..100).for_each(|_| tokens.count_forged(CLIENT, worker.clock.now()));
        outcome(&world, &forged(number)).0
    });
    assert!(statuses.any(|status| status == 429));
    assert_eq!(outcome(&world, &bearer("a.b.c")).0, 401, "what costs nothing is still said");
}

#[test]
fn rules_decide_by_path_and_claims() {
    let rules = Rules::parse("GET /reports when claims.scope has \"read\"\n/open").unwrap();
    let world = world(Jwt { rules: Some(Arc::new(rules)), ..fixed() });
    let (reader, other) = (token(r#", "scope": "read""#), token(""));
    let ask =
        |target: &str, token: &str| outcome(&world, &format!("GET {target}\nAuthorization: Bearer {token}"));
    assert_eq!(ask("/reports/a?b=c", &reader).0, 0);
    assert_eq!(ask("/open/../reports", &other).0, 403, "paths are normalized");
    assert_eq!(ask("/open", &other).0, 0);
    let (status, challenge) = ask("/reports", &other);
    assert_eq!(status, 403);
    assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
    assert_eq!(ask("/elsewhere", &reader).0, 403);
}

#[test]
fn without_keys_nobody_is_let_in_and_new_keys_hold_at_once() {
    let jwt = jwt(KeySource::fetched("https://joe.test/keys".to_owned()));
    let source = Arc::clone(&jwt.issuers[0].keys);
    let unix = Duration::from_secs(now());
    // A refresh that has just failed is not repeated, so that no request waits.
    source.put(Err("away".to_owned()), unix);
    drop(source.refresh(unix));
    source.put(Err("away".to_owned()), unix);
    let world = world(jwt);
    let good = bearer(&token(""));
    assert_eq!(outcome(&world, &good), (503, "token_keys".to_owned()));
    source.put(KeySet::of_secret(&SECRET), unix);
    assert_eq!(outcome(&world, &good).0, 0);
    source.put(KeySet::of_secret(&[9; 32]), unix);
    assert_eq!(outcome(&world, &good).0, 401, "a key that is gone verifies nothing");
    source.put(KeySet::of_secret(&SECRET), unix);
    assert_eq!(outcome(&world, &good).0, 0, "and what was refused is checked anew");
}
