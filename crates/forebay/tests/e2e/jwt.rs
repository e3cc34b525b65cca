//! Clients that show JSON Web Tokens, from YAML: `forebay.io/auth-jwt`.

use serde_json::{Value, json};
use testkit::issuer::now;
use testkit::manifest::{Ingress, secret, service};
use testkit::{Canned, Forebay, Issuer, Setup};

use crate::setup;

fn ingress(name: &str) -> Ingress {
    Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc")
}

fn issuers(issuer: &Issuer) -> String {
    json!([{"issuer": issuer.name(), "jwks": issuer.jwks(), "audiences": ["shop"]}]).to_string()
}

fn with_tokens(name: &str, issuer: &Issuer) -> Ingress {
    ingress(name).annotation("forebay.io/auth-jwt", &issuers(issuer))
}

fn house(setup: Setup, upstream: &Canned, ingresses: &[Ingress]) -> Forebay {
    let documents = ingresses.iter().map(Ingress::document).collect::<Vec<_>>().join("---\n");
    setup.manifest("house.yaml", format!("{documents}---\n{}", service("svc", &[upstream.address()]))).start()
}

fn status(forebay: &Forebay, host: &str, target: &str, fields: &str) -> u16 {
    forebay.client().ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}.test\r\n{fields}\r\n")).status
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn ann() -> Value {
    json!({"aud": "shop", "sub": "ann", "groups": ["staff", "admin"], "scope": "read"})
}

#[test]
fn a_token_lets_its_client_in_and_the_endpoint_gets_claims() {
    let (upstream, issuer) = (Canned::saying("let in"), Issuer::start());
    let claims = "X-User: sub, X-Groups: groups";
    let forebay = house(
        setup().setting("log-format-upstream", "$host user=$remote_user scope=$claim_scope"),
        &upstream,
        &[
            with_tokens("plain", &issuer).annotation("forebay.io/auth-jwt-claims-to-headers", claims),
            with_tokens("cookie", &issuer)
                .annotation("forebay.io/auth-jwt-cookie", "token")
                .annotation("forebay.io/auth-jwt-query", "access_token")
                .annotation("forebay.io/auth-jwt-strip", "true"),
            ingress("missing").annotation("forebay.io/auth-jwt", "[{issuer: a, secret: nowhere}]"),
            ingress("bad").annotation("forebay.io/auth-jwt", "[{issuer: a, jwks: 'http://a.test/'}]"),
        ],
    );
    let token = issuer.token(&ann());
    let forged = format!("X-User: root\r\nX_Groups: admin\r\nx-user: root\r\n{}", bearer(&token));
    for (host, target, fields, expected) in [
        ("plain", "/", forged, 200),
        ("plain", "/", bearer(&token), 200),
        ("plain", "/", String::new(), 401),
        ("plain", "/?access_token=a.b.c", String::new(), 401),
        ("cookie", "/a?b=c", format!("Cookie: x=y; token={token}\r\n"), 200),
        ("cookie", "/", format!("Cookie: token=a.b.c\r\n{}", bearer(&token)), 200),
        ("missing", "/", bearer(&token), 503),
        ("bad", "/", bearer(&token), 503),
    ] {
        assert_eq!(status(&forebay, host, target, &fields), expected, "{host} {target} {fields:?}");
    }
    assert_eq!(status(&forebay, "cookie", &format!("/a?access_token={token}&b=c"), ""), 200);
    let heads = upstream.heads();
    let values = |head: &str, name: &str| -> Vec<String> {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let alike = lines.filter(|(known, _)| known.replace('_', "-").eq_ignore_ascii_case(name));
        alike.map(|(_, value)| value.to_owned()).collect()
    };
    assert_eq!(values(&heads[0], "x-user"), ["ann"], "{}", heads[0]);
    assert_eq!(values(&heads[0], "x-groups"), ["staff,admin"], "{}", heads[0]);
    assert_eq!(values(&heads[1], "authorization").len(), 1, "the token is kept");
    assert_eq!(values(&heads[2], "cookie"), ["x=y"]);
    assert!(values(&heads[3], "cookie").is_empty() && values(&heads[3], "authorization").is_empty());
    assert!(heads[4].starts_with("GET /a?b=c HTTP/1.1"), "{}", heads[4]);
    assert_eq!(issuer.fetches(), 1, "equal issuers share their keys");
    forebay.await_access_log("plain.test user=ann scope=read");
    let metrics = forebay.metrics();
    assert_eq!(metrics.sum("forebay_jwt_tokens_total", &[("result", "absent")]), 2);
    assert!(metrics.sum("forebay_jwt_tokens_total", &[("result", "repeated")]) > 0);
    assert_eq!(metrics.sum("forebay_jwt_key_fetches_total", &[("result", "fetched")]), 1);
}

#[test]
fn what_is_no_token_for_us_is_refused_with_a_reason() {
    let upstream = Canned::saying("let in");
    let (issuer, other) = (Issuer::start(), Issuer::start());
    let forebay = house(setup(), &upstream, &[with_tokens("shop", &issuer)]);
    let with = |name: &str, value: Value| {
        let mut claims = ann();
        claims[name] = value;
        issuer.token(&claims)
    };
    let public = issuer.key_set();
    for (token, expected) in [
        (issuer.token(&ann()), None),
        (with("exp", json!(now() - 50)), None),
        (with("exp", json!(now() - 70)), Some("The token has expired")),
        (with("nbf", json!(now() + 50)), None),
        (with("nbf", json!(now() + 90)), Some("The token is not valid yet")),
        (with("aud", json!("other")), Some("The token is for another audience")),
        (with("iss", json!("https://evil.test")), Some("The issuer of the token is not trusted")),
        (other.token(&ann()), Some("The issuer of the token is not trusted")),
        (
            other.token_with(&json!({"alg": "ES256", "kid": "1"}), &{
                let mut claims = ann();
                claims["iss"] = issuer.name().into();
                claims
            }),
            Some("The signature of the token cannot be verified"),
        ),
        (
            issuer.token_with(&json!({"alg": "HS256", "kid": "1", "jwk": public}), &ann()),
            Some("The algorithm of the token is not allowed"),
        ),
        (
            issuer.token_with(&json!({"alg": "none"}), &ann()),
            Some("The algorithm of the token is not allowed"),
        ),
        (
            issuer.token_with(&json!({"alg": "ES256", "crit": ["b64"]}), &ann()),
            Some("The token is malformed"),
        ),
        ("a.b.c".to_owned(), Some("The token is malformed")),
    ] {
        let told =
            forebay.client().ask(&format!("GET / HTTP/1.1\r\nHost: shop.test\r\n{}\r\n", bearer(&token)));
        let challenge =
            expected.map(|why| format!("Bearer error=\"invalid_token\", error_description=\"{why}\""));
        assert_eq!(told.status, if expected.is_some() { 401 } else { 200 }, "{expected:?}");
        assert_eq!(told.header("www-authenticate"), challenge);
    }
}

#[test]
fn rotated_keys_hold_at_once_and_the_last_ones_while_the_issuer_is_away() {
    let (upstream, issuer) = (Canned::saying("let in"), Issuer::start());
    issuer.hold(true);
    let forebay = house(setup(), &upstream, &[with_tokens("shop", &issuer)]);
    let first = bearer(&issuer.token(&ann()));
    // The first request waits for the first keys.
    let mut waiting = forebay.client();
    waiting.send(format!("GET / HTTP/1.1\r\nHost: shop.test\r\n{first}\r\n"));
    issuer.hold(false);
    assert_eq!(waiting.read_response().status, 200);

    issuer.add_key();
    let second = bearer(&issuer.token(&ann()));
    assert_eq!(status(&forebay, "shop", "/", &second), 200, "an unknown key has the keys fetched");
    assert_eq!((status(&forebay, "shop", "/", &first), issuer.fetches()), (200, 2));

    issuer.set_away(true);
    issuer.add_key();
    let third = bearer(&issuer.token(&ann()));
    assert_eq!(status(&forebay, "shop", "/", &third), 401);
    assert_eq!(status(&forebay, "shop", "/", &second), 200, "the last good keys stay");
    assert_eq!(issuer.fetches(), 2, "no key is looked for again within ten seconds");
    let told: Value = serde_json::from_slice(&forebay.admin("/console/issuers").body).expect("JSON");
    let [known] = told.as_array().expect("a list").as_slice() else { panic!("{told}") };
    assert_eq!((&known["name"], &known["source"]), (&issuer.name().into(), &issuer.jwks().into()));
    assert_eq!((&known["keys"], &known["objects"]), (&json!(["1", "2"]), &json!(["default/shop"])));
    assert_eq!((&known["fetches"], &known["failure"]), (&json!(2), &Value::Null));
}

#[test]
fn an_issuer_that_was_never_there_lets_nobody_in() {
    let (upstream, issuer) = (Canned::saying("let in"), Issuer::start());
    issuer.set_away(true);
    let forebay = house(setup(), &upstream, &[with_tokens("shop", &issuer), ingress("free")]);
    let token = bearer(&issuer.token(&ann()));
    forebay.await_that("the keys were asked for", || issuer.fetches() > 0);
    assert_eq!(status(&forebay, "shop", "/", &token), 503);
    assert_eq!(status(&forebay, "shop", "/", ""), 401, "without a token there is nothing to verify");
    assert_eq!(status(&forebay, "free", "/", ""), 200);
    issuer.set_away(false);
    forebay.await_that("the keys are there", || status(&forebay, "shop", "/", &token) == 200);
}

#[test]
fn tokens_are_combined_with_other_checks_and_rules() {
    let (upstream, issuer) = (Canned::saying("let in"), Issuer::start());
    let users = secret("users", "Opaque", &[("auth", "a:{PLAIN}secret\n")]);
    let with_password =
        |ingress: Ingress| ingress.annotation("auth-type", "basic").annotation("auth-secret", "users");
    let keys = secret("keys", "Opaque", &[("builds", "01234567-89ab-cdef")]);
    let rules = "GET /reports when claims.scope has \"read\"\n/admin when claims.groups has \"root\"";
    let forebay = house(
        setup().manifest("users.yaml", users).manifest("keys.yaml", keys),
        &upstream,
        &[
            with_password(with_tokens("any", &issuer)).annotation("satisfy", "any"),
            with_password(with_tokens("all", &issuer).annotation("forebay.io/auth-jwt-header", "X-Token")),
            with_tokens("both", &issuer).annotation("forebay.io/auth-api-keys", "keys"),
            with_tokens("rules", &issuer).annotation("forebay.io/auth-jwt-rules", rules),
            with_tokens("few", &issuer)
                .annotation("forebay.io/limit-key", "$claim_sub")
                .annotation("forebay.io/limit-requests", "2/1h"),
        ],
    );
    let (token, password) = (issuer.token(&ann()), "Authorization: Basic YTpzZWNyZXQ=\r\n");
    for (host, target, fields, expected) in [
        ("any", "/", bearer(&token), 200),
        ("any", "/", password.to_owned(), 200),
        ("any", "/", String::new(), 401),
        ("all", "/", password.to_owned(), 401),
        ("all", "/", format!("X-Token: {token}\r\n"), 401),
        ("all", "/", format!("X-Token: {token}\r\n{password}"), 200),
        ("both", "/", bearer(&token), 401),
        ("both", "/", "X-Api-Key: 01234567-89ab-cdef\r\n".to_owned(), 401),
        ("both", "/", format!("X-Api-Key: 01234567-89ab-cdef\r\n{}", bearer(&token)), 200),
        ("rules", "/reports/a", bearer(&token), 200),
        ("rules", "/admin", bearer(&token), 403),
        ("rules", "/reports/../admin", bearer(&token), 403),
        ("rules", "/", bearer(&token), 403),
        ("few", "/", bearer(&token), 200),
        ("few", "/", bearer(&token), 200),
        ("few", "/", bearer(&token), 429),
    ] {
        assert_eq!(status(&forebay, host, target, &fields), expected, "{host} {target} {fields:?}");
    }
    let told = forebay.client().get("any.test", "/");
    assert_eq!(told.header("www-authenticate").as_deref(), Some("Bearer, Basic realm=\"\""));
}

#[test]
fn keys_from_a_secret_are_replaced_with_it() {
    let upstream = Canned::saying("let in");
    let (one, other) = (Issuer::start(), Issuer::start());
    let text = json!([{"issuer": "shop", "secret": "keys"}]).to_string();
    let keys = |issuer: &Issuer| secret("keys", "Opaque", &[("jwks.json", &issuer.key_set())]);
    let forebay = house(
        setup().manifest("keys.yaml", keys(&one)),
        &upstream,
        &[ingress("shop").annotation("forebay.io/auth-jwt", &text)],
    );
    let token = |issuer: &Issuer| bearer(&issuer.token(&json!({"iss": "shop"})));
    assert_eq!([&one, &other].map(|issuer| status(&forebay, "shop", "/", &token(issuer))), [200, 401]);
    let old = token(&one);
    assert_eq!(status(&forebay, "shop", "/", &old), 200);
    forebay.replace("keys.yaml", &keys(&other));
    forebay.await_that("the key is gone", || status(&forebay, "shop", "/", &old) == 401);
    assert_eq!(status(&forebay, "shop", "/", &token(&other)), 200);
    forebay.replace("keys.yaml", &secret("keys", "Opaque", &[("jwks.json", "{}")]));
    forebay.await_that("a Secret without keys closes the path", || {
        status(&forebay, "shop", "/", &token(&other)) == 503
    });
}
