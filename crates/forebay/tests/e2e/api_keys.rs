//! Clients that show a key, from YAML: `forebay.io/auth-api-keys`.

use testkit::manifest::{Ingress, secret, service};
use testkit::{Canned, Forebay, Setup};

use crate::setup;

const REPORTS: &str = "01234567-89ab-cdef";
const BUILDS: &str = "fedcba98-7654-3210";
/// The SHA-256 of [`BUILDS`].
const BUILDS_DIGEST: &str = "sha256:53c7cc224b24ce7109cd126423d7f7012af6e123a95c58ff2af336312da67aac";

fn ingress(name: &str) -> Ingress {
    Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc")
}

fn with_keys(name: &str) -> Ingress {
    ingress(name).annotation("forebay.io/auth-api-keys", "keys")
}

fn keys(entries: &[(&str, &str)]) -> String {
    secret("keys", "Opaque", entries)
}

fn house(setup: Setup, upstream: &Canned, ingresses: &[Ingress]) -> Forebay {
    let documents = ingresses.iter().map(Ingress::document).collect::<Vec<_>>().join("---\n");
    setup
        .manifest("house.yaml", format!("{documents}---\n{}", service("svc", &[upstream.address()])))
        .manifest(
            "keys.yaml",
            keys(&[("reports", REPORTS), ("builds", &format!("{BUILDS_DIGEST}\nteam=data\n"))]),
        )
        .start()
}

fn status(forebay: &Forebay, host: &str, target: &str, field: &str) -> u16 {
    forebay.client().ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}.test\r\n{field}\r\n")).status
}

#[test]
fn a_key_lets_its_client_in_and_the_endpoint_gets_the_name() {
    let upstream = Canned::saying("let in");
    let forebay = house(
        setup().setting("log-format-upstream", "$host user=$remote_user team=$claim_team."),
        &upstream,
        &[
            with_keys("header"),
            with_keys("bearer").annotation("forebay.io/auth-api-key-header", "Authorization"),
            with_keys("query").annotation("forebay.io/auth-api-key-parameter", "api_key"),
            with_keys("bad").annotation("forebay.io/auth-api-key-header", "Host"),
            ingress("missing").annotation("forebay.io/auth-api-keys", "other"),
        ],
    );
    for (host, target, field, expected) in [
        ("header", "/", format!("X-API-Key: {REPORTS}\r\n"), 200),
        ("header", "/", format!("x-api-key: {BUILDS}\r\nX-Auth-Request-User: reports\r\n"), 200),
        ("header", "/", format!("X-API-Key: {REPORTS}0\r\n"), 401),
        ("header", "/", format!("X-API-Key: {BUILDS_DIGEST}\r\n"), 401),
        ("header", "/", format!("X-API-Key: {REPORTS}\r\nX-API-Key: {REPORTS}\r\n"), 401),
        ("header", "/", String::new(), 401),
        ("header", "/?api_key=01234567-89ab-cdef", String::new(), 401),
        ("bearer", "/", format!("Authorization: Bearer {REPORTS}\r\n"), 200),
        ("bearer", "/", format!("Authorization: {REPORTS}\r\n"), 401),
        ("query", "/?api_key=01234567-89ab-cdef", String::new(), 200),
        ("query", "/?api_key=01234567-89ab-cdef", "X-API-Key: wrong\r\n".to_owned(), 401),
        ("bad", "/", format!("X-API-Key: {REPORTS}\r\n"), 503),
        ("missing", "/", format!("X-API-Key: {REPORTS}\r\n"), 503),
    ] {
        assert_eq!(status(&forebay, host, target, &field), expected, "{host} {target} {field:?}");
    }
    let heads: Vec<_> = upstream.heads().iter().map(|head| head.to_ascii_lowercase()).collect();
    assert!(
        heads.iter().all(|head| !head.contains("\r\nx-api-key:") && !head.contains("\r\nauthorization:"))
    );
    let named = |name: &str| format!("\r\nx-auth-request-user: {name}\r\n");
    assert!(heads[0].contains(&named("reports")), "{heads:?}");
    assert!(heads[1].contains(&named("builds")) && !heads[1].contains("reports"), "{heads:?}");
    forebay.await_access_log("header.test user=builds team=data.");
    let told = forebay.client().get("bearer.test", "/");
    assert_eq!(told.header("www-authenticate").as_deref(), Some("Bearer"));
    let told = forebay.client().get("header.test", "/");
    assert_eq!(told.header("www-authenticate").as_deref(), Some("ApiKey"));
}

#[test]
fn keys_are_combined_with_passwords_and_addresses() {
    let upstream = Canned::saying("let in");
    let users = secret("users", "Opaque", &[("auth", "a:{PLAIN}secret\n")]);
    let with_password =
        |ingress: Ingress| ingress.annotation("auth-type", "basic").annotation("auth-secret", "users");
    let forebay = house(
        setup().manifest("users.yaml", users),
        &upstream,
        &[
            with_password(with_keys("all")),
            with_password(with_keys("any")).annotation("satisfy", "any"),
            with_keys("here").annotation("satisfy", "any").annotation("whitelist-source-range", "127.0.0.1"),
        ],
    );
    let key = format!("X-API-Key: {REPORTS}\r\n");
    let password = "Authorization: Basic YTpzZWNyZXQ=\r\n";
    for (host, field, expected) in [
        ("all", key.clone(), 401),
        ("all", password.to_owned(), 401),
        ("all", format!("{key}{password}"), 200),
        ("any", key, 200),
        ("any", password.to_owned(), 200),
        ("any", String::new(), 401),
        ("here", String::new(), 200),
    ] {
        assert_eq!(status(&forebay, host, "/", &field), expected, "{host} {field:?}");
    }
    let told = forebay.client().get("any.test", "/");
    assert_eq!(told.header("www-authenticate").as_deref(), Some("ApiKey, Basic realm=\"\""));
}

#[test]
fn limits_count_by_client_and_a_removed_key_is_refused() {
    let upstream = Canned::saying("let in");
    let limited = with_keys("few")
        .annotation("forebay.io/limit-key", "$remote_user")
        .annotation("forebay.io/limit-requests", "2/1h");
    let forebay = house(setup(), &upstream, &[limited, with_keys("free")]);
    let field = |key: &str| format!("X-API-Key: {key}\r\n");
    assert_eq!([0; 3].map(|_| status(&forebay, "few", "/", &field(REPORTS))), [200, 200, 429]);
    assert_eq!(status(&forebay, "few", "/", &field(BUILDS)), 200, "another client");
    forebay.replace("keys.yaml", &keys(&[("builds", BUILDS_DIGEST)]));
    forebay.await_that("the key is gone", || status(&forebay, "free", "/", &field(REPORTS)) == 401);
    assert_eq!(status(&forebay, "free", "/", &field(BUILDS)), 200);
}
