//! Access control of a path, from YAML, for all protocols of clients; and the headers of answers, by the
//! place where ingress-nginx adds them.

use std::time::{Duration, Instant};

use md5::{Digest, Md5};
use testkit::manifest::{Ingress, secret, service};
use testkit::{Canned, Forebay, H2Client, Response, Setup, TlsClient};

use crate::setup;

/// A client's way to ask: HTTP/1 and HTTP/2, in clear and over TLS.
const WAYS: [&str; 4] = ["HTTP/1", "HTTP/1 over TLS", "HTTP/2", "HTTP/2 over TLS"];

fn ask(forebay: &Forebay, way: &str, host: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    send(forebay, way, "GET", host, target, fields)
}

fn send(
    forebay: &Forebay,
    way: &str,
    method: &str,
    host: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Response {
    let tls = TlsClient::new(host);
    if way.starts_with("HTTP/2") {
        let client = match way {
            "HTTP/2" => H2Client::clear(forebay.address()),
            _ => H2Client::tls(forebay.https_address(), &tls.alpn(&["h2"])),
        };
        return client.call(method, host, target, fields, true).read_response();
    }
    let mut client = if way == "HTTP/1" { forebay.client() } else { forebay.tls_client(&tls) };
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let fields = fields.concat();
    client.ask(&format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
}

/// A host for each Ingress, named like it, and these documents.
fn house(setup: Setup, upstream: &Canned, ingresses: &[Ingress], more: &str) -> Forebay {
    let documents = ingresses.iter().map(Ingress::document).collect::<Vec<_>>().join("---\n");
    setup
        .manifest(
            "house.yaml",
            format!("{documents}---\n{}---\n{more}", service("svc", &[upstream.address()])),
        )
        .start()
}

fn ingress(name: &str) -> Ingress {
    Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc")
}

/// `a` with the password `secret`.
fn users() -> String {
    secret("users", "Opaque", &[("auth", "a:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n")])
}

const RIGHT: (&str, &str) = ("authorization", "Basic YTpzZWNyZXQ=");
const WRONG: (&str, &str) = ("authorization", "Basic YTp3cm9uZw==");
/// The window of time in which wrong passwords of a client are counted.
const WINDOW: Duration = Duration::from_secs(10);
const AUTH: &str = "http://auth.default.svc.cluster.local/check";

fn with_password(ingress: Ingress) -> Ingress {
    ingress.annotation("auth-type", "basic").annotation("auth-secret", "users")
}

#[test]
fn lists_and_passwords_hold_for_all_clients() {
    let upstream = Canned::saying("let in");
    let here = |ingress: Ingress| ingress.annotation("whitelist-source-range", "127.0.0.0/8, ::1");
    let elsewhere = |ingress: Ingress| ingress.annotation("whitelist-source-range", "10.0.0.0/8");
    let any = |ingress: Ingress| ingress.annotation("satisfy", "any");
    let forebay = house(
        setup(),
        &upstream,
        &[
            here(ingress("here")),
            elsewhere(ingress("elsewhere")),
            ingress("denied").annotation("denylist-source-range", "127.0.0.1"),
            with_password(ingress("password")),
            any(with_password(here(ingress("any-here")))),
            any(with_password(elsewhere(ingress("any-elsewhere")))),
            with_password(elsewhere(ingress("all-elsewhere"))),
        ],
        &users(),
    );
    for way in WAYS {
        for (host, fields, status) in [
            ("here.test", None, 200),
            ("elsewhere.test", None, 403),
            ("denied.test", None, 403),
            ("password.test", None, 401),
            ("password.test", Some(WRONG), 401),
            ("password.test", Some(RIGHT), 200),
            ("any-here.test", None, 200),
            ("any-elsewhere.test", None, 401),
            ("any-elsewhere.test", Some(RIGHT), 200),
            ("all-elsewhere.test", Some(RIGHT), 403),
        ] {
            let response = ask(&forebay, way, host, "/", fields.as_slice());
            assert_eq!(response.status, status, "{way}: {host} {fields:?}");
            let challenge = response.header("www-authenticate");
            assert_eq!(challenge.as_deref(), (status == 401).then_some("Basic realm=\"\""), "{way}: {host}");
        }
    }
    assert!(upstream.heads().iter().all(|head| !head.to_ascii_lowercase().contains("\r\nauthorization:")));
}

#[test]
fn guesses_of_passwords_are_refused_and_others_are_served() {
    let upstream = Canned::saying("let in");
    let ingresses = [with_password(ingress("password")), ingress("open")];
    let forebay = house(setup(), &upstream, &ingresses, &users());
    let right = || ask(&forebay, "HTTP/1", "password.test", "/", &[RIGHT]).status;
    assert_eq!(right(), 200);
    // Any characters of Base64 behind `a:w`; no more than 20 are tried in each of two windows of time.
    let begun = Instant::now();
    let refused = (0..60).find_map(|number| {
        let guess = format!("Basic YTp3{number:04}");
        let response = ask(&forebay, "HTTP/1", "password.test", "/", &[("authorization", &guess)]);
        (response.status != 401).then_some(response)
    });
    let Some(refused) = refused else {
        // The thread that verifies passwords yields the CPU to all others: where there are many, it does not
        // come to 20 in a window.
        assert!(begun.elapsed() > WINDOW, "there is no end of the guesses");
        return;
    };
    assert_eq!(refused.status, 429);
    let wait: u32 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=11).contains(&wait), "{wait}");
    assert_eq!(right(), 200, "it is known");
    assert_eq!(ask(&forebay, "HTTP/1", "open.test", "/", &[]).status, 200);
}

/// The MD5 of a text, as digest authentication writes it.
fn md5(text: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(text).into()))
}

/// The `Authorization` of a client with this password and nonce, for `GET /a`.
fn digested(password: &str, nonce: &str, count: u32) -> String {
    let (hash, request) = (md5(&format!("a:Members:{password}")), md5("GET:/a"));
    let response = md5(&format!("{hash}:{nonce}:{count:08x}:c:auth:{request}"));
    format!(
        "Digest username=\"a\", realm=\"Members\", nonce=\"{nonce}\", uri=\"/a\", qop=auth, nc={count:08x}, \
         cnonce=\"c\", response=\"{response}\""
    )
}

/// The nonce of a 401, and whether the password was right and only the nonce was not.
fn nonce(response: &Response) -> (String, bool) {
    assert_eq!(response.status, 401);
    let challenge = response.header("www-authenticate").expect("a challenge");
    let begin = "Digest algorithm=\"MD5\", qop=\"auth\", realm=\"Members\", nonce=\"";
    let rest = challenge.strip_prefix(begin).unwrap_or_else(|| panic!("{challenge}"));
    let (nonce, rest) = rest.split_once('"').expect("the end of the nonce");
    (nonce.to_owned(), rest == ", stale=\"true\"")
}

#[test]
fn a_password_is_shown_by_its_digest() {
    let upstream = Canned::saying("let in");
    let digest = ingress("digest").annotation("auth-type", "digest").annotation("auth-secret", "users");
    let users = format!("a:Members:{}\nb:Others:{}\n", md5("a:Members:secret"), md5("b:Others:secret"));
    let forebay = house(
        setup(),
        &upstream,
        &[digest.annotation("auth-realm", "Members")],
        &secret("users", "Opaque", &[("auth", &users)]),
    );
    for way in WAYS {
        let ask =
            |credentials: &str| ask(&forebay, way, "digest.test", "/a", &[("authorization", credentials)]);
        let (first, is_stale) = nonce(&ask("Basic YTpzZWNyZXQ="));
        assert!(!is_stale, "{way}: another scheme");
        assert!(!nonce(&ask(&digested("wrong", &first, 1))).1, "{way}: a wrong password");
        for count in [1, 2] {
            assert_eq!(ask(&digested("secret", &first, count)).status, 200, "{way}: {count}");
        }
        let (next, is_stale) = nonce(&ask(&digested("secret", &first, 2)));
        assert!(is_stale && next != first, "{way}: a request that is replayed");
        assert_eq!(ask(&digested("secret", &first, 3)).status, 200, "{way}: the nonce goes on");
        assert_eq!(ask(&digested("secret", &next, 1)).status, 200, "{way}: and so does the other one");
        let forged = next.chars().rev().collect::<String>();
        assert!(nonce(&ask(&digested("secret", &forged, 1))).1, "{way}: a nonce that is not ours");
        assert!(
            !nonce(&ask(&digested("secret", &next, 2).replace("username=\"a\"", "username=\"b\""))).1,
            "{way}"
        );
    }
    assert!(upstream.heads().iter().all(|head| !head.to_ascii_lowercase().contains("\r\nauthorization:")));
}

#[test]
fn an_auth_service_is_asked_for_all_clients() {
    let upstream = Canned::saying("let in");
    let auth = Canned::answering(
        "HTTP/1.1 401 No\r\nWWW-Authenticate: Foo\r\nSet-Cookie: c=1\r\nContent-Length: 0\r\n\r\n",
    );
    let asking = |name: &str| ingress(name).annotation("auth-url", AUTH);
    let forebay = house(
        setup(),
        &upstream,
        &[
            asking("refused"),
            asking("signin")
                .annotation("auth-signin", "https://login.test/in")
                .annotation("enable-cors", "true"),
            with_password(asking("any")).annotation("satisfy", "any"),
        ],
        &format!("{}---\n{}", users(), service("auth", &[auth.address()])),
    );
    for way in WAYS {
        let response = ask(&forebay, way, "refused.test", "/", &[]);
        assert_eq!(
            (response.status, response.header("www-authenticate").as_deref()),
            (401, Some("Foo")),
            "{way}"
        );
        assert_eq!(response.header("set-cookie"), None);
        let response = ask(&forebay, way, "signin.test", "/a?b", &[]);
        let scheme = if way.ends_with("TLS") { "https" } else { "http" };
        assert_eq!(response.status, 302, "{way}");
        let location = format!("https://login.test/in?rd={scheme}://signin.test%2Fa%3Fb");
        assert_eq!(response.header("location"), Some(location));
        assert_eq!(response.header("set-cookie").as_deref(), Some("c=1"));
        assert_eq!(response.header("access-control-allow-origin").as_deref(), Some("*"));
        assert_eq!(response.header("strict-transport-security"), None, "nginx answers in another location");
        let response = ask(&forebay, way, "any.test", "/", &[WRONG]);
        let challenges = response.header("www-authenticate");
        assert_eq!((response.status, challenges.as_deref()), (401, Some("Basic realm=\"\", Foo")), "{way}");
        assert_eq!(ask(&forebay, way, "any.test", "/", &[RIGHT]).status, 200, "{way}");
    }
}

/// As the documentation of `oauth2-proxy` has it: `$host`, whose `/oauth2` another Ingress leads to the
/// service.
#[test]
fn the_service_behind_the_host_itself_is_asked() {
    let upstream = Canned::saying("let in");
    let auth = Canned::answering("HTTP/1.1 202 Yes\r\nX-User: somebody\r\nContent-Length: 0\r\n\r\n");
    let asking = |name: &str, host: &str| {
        let ingress = Ingress::new(name).path(host, "Prefix", "/", "svc");
        let ingress = ingress.annotation("auth-url", "https://$host/oauth2/auth");
        ingress.annotation("auth-response-headers", "X-User")
    };
    let service_of = |name: &str, host: &str| Ingress::new(name).path(host, "Prefix", "/oauth2", "auth");
    let forebay = house(
        setup(),
        &upstream,
        &[
            asking("exact", "exact.test"),
            service_of("exact-auth", "exact.test"),
            asking("wildcard", "*.apps.test"),
            service_of("wildcard-auth", "*.apps.test"),
            asking("closed", "*.closed.test"),
        ],
        &service("auth", &[auth.address()]),
    );
    for way in WAYS {
        for (host, status) in
            [("exact.test", 200), ("a.apps.test", 200), ("b.apps.test", 200), ("a.closed.test", 503)]
        {
            assert_eq!(
                ask(&forebay, way, host, "/page", &[("cookie", "c=1")]).status,
                status,
                "{way}: {host}"
            );
        }
    }
    let questions = auth.heads();
    for host in ["exact.test", "a.apps.test", "b.apps.test"] {
        let begin = format!("GET /oauth2/auth HTTP/1.1\r\nHost: {host}\r\n");
        let of_host: Vec<_> = questions.iter().filter(|head| head.starts_with(&begin)).collect();
        assert_eq!(of_host.len(), WAYS.len(), "{questions:?}");
        assert!(
            of_host.iter().all(|head| head.to_lowercase().contains("\r\ncookie: c=1\r\n")),
            "{of_host:?}"
        );
    }
    let heads = upstream.heads();
    assert!(heads.iter().all(|head| head.contains("\r\nX-User: somebody\r\n")), "{heads:?}");
}

/// "HSTS on every response of a location": in nginx, not on what is answered before one is found or after it
/// was left, nor are there the headers of its CORS.
#[test]
fn answers_have_the_headers_of_where_they_are_made() {
    let upstream = Canned::answering("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    let page = Canned::saying("page");
    let shared = |name: &str| ingress(name).annotation("enable-cors", "true");
    let below = |name: &str| {
        Ingress::new(name)
            .path(&format!("{name}.test"), "Prefix", "/x/", "svc")
            .annotation("enable-cors", "true")
    };
    let forebay = house(
        setup().setting("block-user-agents", "bad"),
        &upstream,
        &[
            shared("plain"),
            shared("denied").annotation("denylist-source-range", "0.0.0.0/0,::/0"),
            below("slash"),
            below("closed-host").annotation("auth-tls-secret", "none"),
            shared("closed").annotation("auth-method", "FOO").annotation("auth-url", AUTH),
            shared("root").annotation("app-root", "/app"),
            shared("page").annotation("custom-http-errors", "404").annotation("default-backend", "page"),
            below("long").annotation("proxy-body-size", "1"),
        ],
        &service("page", &[page.address()]),
    );
    let over_tls = ["HTTP/1 over TLS", "HTTP/2 over TLS"];
    for way in over_tls {
        for (method, host, target, fields, status, (has_hsts, has_cors)) in [
            ("GET", "plain.test", "/", &[][..], 404, (true, true)),
            ("GET", "plain.test", "/", &[("user-agent", "bad")], 403, (false, false)),
            ("TRACE", "plain.test", "/", &[], 405, (false, false)),
            ("GET", "plain.test", "/../x", &[], 400, (false, false)),
            ("GET", "denied.test", "/", &[], 403, (true, true)),
            ("GET", "slash.test", "/x", &[], 301, (true, true)),
            ("GET", "closed-host.test", "/y", &[], 403, (false, false)),
            ("GET", "closed-host.test", "/x", &[], 403, (false, false)),
            ("GET", "closed.test", "/", &[], 503, (true, false)),
            ("GET", "root.test", "/", &[], 302, (false, false)),
            ("GET", "page.test", "/", &[], 200, (false, false)),
            ("GET", "none.test", "/", &[], 404, (true, false)),
            ("GET", "none.test", "/healthz", &[], 200, (false, false)),
        ] {
            let response = send(&forebay, way, method, host, target, fields);
            let has = |name| response.header(name).is_some();
            assert_eq!(response.status, status, "{way}: {method} {host}{target}");
            let found = (has("strict-transport-security"), has("access-control-allow-origin"));
            assert_eq!(found, (has_hsts, has_cors), "{way}: {method} {host}{target}");
        }
    }
    let mut client = forebay.client();
    let response = client.ask("POST /x HTTP/1.1\r\nHost: long.test\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(response.status, 413, "nginx looks at the length before it redirects");
}
