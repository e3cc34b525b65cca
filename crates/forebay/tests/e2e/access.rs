//! Who may use a path, from YAML, whatever a client speaks; and which headers the answers have, by where ingress-nginx makes them.

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

/// "HSTS on every response of a location": in nginx, not on what is answered before one is found or after it was left, nor are there
/// the headers of its CORS.
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
