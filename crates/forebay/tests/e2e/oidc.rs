//! Sign-in at a provider of `OpenID Connect`: `forebay.io/auth-oidc-issuer`.

mod attacks;
mod browser;
mod console;
mod logout;
mod renewal;
mod replicas;

use serde_json::json;
use testkit::manifest::{Ingress, secret, service};
use testkit::{CLIENT, Canned, Forebay, Provider, Setup};

use crate::setup;
use browser::{Browser, HTML, KEY};

/// Another key of the cookies.
const OTHER_KEY: &str = "fedcba9876543210fedcba9876543210";

fn ingress(name: &str, provider: &Provider) -> Ingress {
    with_sign_in(Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc"), provider)
}

fn with_sign_in(ingress: Ingress, provider: &Provider) -> Ingress {
    ingress
        .annotation("forebay.io/auth-oidc-issuer", &provider.issuer())
        .annotation("forebay.io/auth-oidc-client-id", CLIENT.0)
        .annotation("forebay.io/auth-oidc-client-secret", "client")
        .annotation("forebay.io/auth-oidc-session-secret", "session")
        .annotation(
            "forebay.io/auth-oidc-claims-to-headers",
            "X-Auth-Request-User: sub, X-Auth-Request-Email: email, X-Auth-Request-Groups: groups",
        )
}

fn house(setup: Setup, upstream: &Canned, ingresses: &[Ingress]) -> Forebay {
    let documents = ingresses.iter().map(Ingress::document).collect::<Vec<_>>().join("---\n");
    setup
        .manifest("house.yaml", format!("{documents}---\n{}", service("svc", &[upstream.address()])))
        .manifest("client.yaml", secret("client", "Opaque", &[("client-secret", CLIENT.1)]))
        .manifest("session.yaml", secret("session", "Opaque", &[("one", KEY)]))
        .start()
}

#[test]
fn a_browser_signs_in_and_the_endpoint_learns_who_it_is() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let logging = setup().setting("log-format-upstream", "$request_uri user=$remote_user mail=$claim_email");
    let forebay = house(logging, &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    let told = browser.get("/page?x=1", HTML);
    assert_eq!((told.status, told.header("cache-control").as_deref()), (302, Some("no-store")), "{told:?}");
    let sent_to = told.header("location").unwrap();
    assert!(upstream.heads().is_empty());
    let back = provider.sign_in(&sent_to);
    assert!(back.starts_with("http://a.test/oauth2/callback?"), "{back}");
    let told = browser.follow(&back);
    assert_eq!(told.header("location").as_deref(), Some("/page?x=1"), "{told:?}");
    browser.set_cookie("theme", "dark");
    let told = browser.get("/page?x=1", "X-Auth-Request-User: root\r\nX-Auth-Request-Groups: root\r\n");
    assert_eq!(told.said(), (200, "let in"));
    let head = upstream.heads()[0].to_ascii_lowercase();
    for line in [
        "x-auth-request-user: u-1",
        "x-auth-request-email: ann@a.test",
        "x-auth-request-groups: staff,admin",
        "cookie: theme=dark",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
    assert!(!head.contains("root") && !head.contains("__host-"), "{head}");
    forebay.await_access_log("/page?x=1 user=u-1 mail=ann@a.test");
    for cookie in browser.set_cookies() {
        for attribute in ["__Host-forebay-", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.to_ascii_lowercase().contains("domain"), "{cookie}");
    }
}

#[test]
fn only_a_page_for_somebody_leads_to_the_provider() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    for (method, fields, expected) in [
        ("GET", HTML, 302),
        ("HEAD", HTML, 302),
        ("GET", "Accept: */*\r\nSec-Fetch-Mode: navigate\r\n", 302),
        ("GET", "Accept: text/html\r\nSec-Fetch-Mode: cors\r\n", 401),
        ("GET", "Accept: text/html\r\nX-Requested-With: XMLHttpRequest\r\n", 401),
        ("GET", "Accept: application/json\r\n", 401),
        ("GET", "", 401),
        ("POST", "Accept: text/html\r\nContent-Length: 0\r\n", 401),
        ("PUT", "Accept: text/html\r\nContent-Length: 0\r\n", 401),
    ] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        let mut client = forebay.client();
        client.send(request);
        let told = client.read_response_to_head();
        assert_eq!(told.status, expected, "{method} {fields:?}");
        assert_eq!(told.header("www-authenticate").is_some(), expected == 401);
        assert_eq!(told.header("set-cookie").is_some(), expected == 302);
    }
    assert!(upstream.heads().is_empty());
}

#[test]
fn rules_say_what_those_who_have_signed_in_may_request() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let rules = "/admin when claims.groups has \"admin\"\nGET /\n";
    let ruled = ingress("a", &provider).annotation("forebay.io/auth-oidc-rules", rules);
    let forebay = house(setup(), &upstream, &[ruled]);
    let mut admin = Browser::new(&forebay, "a.test");
    admin.sign_in(&provider, "/admin");
    provider.set_claims(json!({"sub": "u-2", "groups": ["staff"]}));
    let mut other = Browser::new(&forebay, "a.test");
    other.sign_in(&provider, "/");
    assert_eq!(admin.get("/admin/users", "").status, 200);
    assert_eq!([other.get("/admin/users", "").status, other.get("/x", "").status], [403, 200]);
}

#[test]
fn claims_that_the_id_token_lacks_are_those_of_the_userinfo_endpoint() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    provider.set_thin();
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/", "").status, 200);
    let head = upstream.heads()[0].to_ascii_lowercase();
    assert!(head.contains("\r\nx-auth-request-email: ann@a.test\r\n"), "{head}");
}

#[test]
fn a_session_with_many_claims_is_in_several_cookies_or_leaves_some_out() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let groups: Vec<_> = (0..400).map(|number| format!("group-{number}")).collect();
    let mut claims = json!({"sub": "u-1", "email": "ann@a.test", "groups": groups});
    for number in 0..60 {
        claims[format!("other-{number}")] = "something that nobody needs".into();
    }
    provider.set_claims(claims);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    assert_eq!(browser.cookies().len(), 2, "{:?}", browser.cookies().keys());
    assert_eq!(browser.get("/", "").status, 200);
    let head = upstream.heads()[0].to_ascii_lowercase();
    assert!(head.contains("group-0,group-1,") && head.contains("group-399\r\n"), "{head}");
    provider.set_claims(json!({"sub": "u-1"}));
    let mut lasting = browser.at("a.test");
    let told = lasting.get("/oauth2/sign_out", HTML);
    assert!(lasting.cookies().is_empty(), "{told:?}");
}

#[test]
fn metrics_count_sessions_by_provider() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    browser.get("/oauth2/sign_out", HTML);
    let issuer = provider.issuer();
    for result in ["signed_in", "signed_out"] {
        let labels = [("issuer", issuer.as_str()), ("result", result)];
        forebay.await_metric("forebay_oidc_sessions_total", &labels, 1);
    }
    forebay.await_metric("forebay_oidc_provider_up", &[("issuer", &issuer)], 1);
}

#[test]
fn a_key_is_enough_where_any_check_suffices() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let any =
        ingress("a", &provider).annotation("forebay.io/auth-api-keys", "keys").annotation("satisfy", "any");
    let with_keys = setup().manifest("keys.yaml", secret("keys", "Opaque", &[("robot", "k-1")]));
    let forebay = house(with_keys, &upstream, &[any]);
    let mut browser = Browser::new(&forebay, "a.test");
    assert_eq!(browser.get("/", "X-Api-Key: k-1\r\n").status, 200);
    assert!(upstream.heads()[0].to_ascii_lowercase().contains("x-auth-request-user: robot"));
    assert_eq!(browser.get("/", HTML).status, 302);
    let told = browser.get("/", "");
    assert_eq!(
        (told.status, told.header("www-authenticate")),
        (401, Some("ApiKey, OpenIDConnect".to_owned()))
    );
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/", "").status, 200);
}

#[test]
fn several_providers_and_hosts() {
    let (one, two) = (Provider::start(), Provider::start());
    let upstream = Canned::saying("let in");
    let path = |name: &str, path: &str, provider: &Provider| {
        with_sign_in(Ingress::new(name).path("both.test", "Prefix", path, "svc"), provider)
    };
    let forebay = house(
        setup(),
        &upstream,
        &[path("one", "/one", &one), path("two", "/two", &two), ingress("c", &one)],
    );
    let mut browser = Browser::new(&forebay, "both.test");
    browser.sign_in(&one, "/one");
    assert_eq!([browser.get("/one", "").status, browser.get("/two", "").status], [200, 401]);
    browser.sign_in(&two, "/two");
    assert_eq!([browser.get("/one", "").status, browser.get("/two", "").status], [200, 200]);
    let mut elsewhere = browser.at("c.test");
    assert_eq!(elsewhere.get("/", "").status, 401, "a cookie of another host");
    elsewhere.sign_in(&one, "/");
    assert_eq!(elsewhere.get("/", "").status, 200);
}

#[test]
fn endpoints_of_other_paths_get_no_cookie_of_a_session() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let open = Ingress::new("open").path("a.test", "Prefix", "/open", "svc");
    let elsewhere = Ingress::new("elsewhere").path("b.test", "Prefix", "/", "svc");
    let forebay = house(setup(), &upstream, &[ingress("a", &provider), open, elsewhere]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/open", "").status, 200);
    browser.set_cookie("theme", "dark");
    assert_eq!(browser.get("/open/x", "").status, 200);
    assert_eq!(browser.at("b.test").get("/", "").status, 200);
    let heads: Vec<_> = upstream.heads().iter().map(|head| head.to_ascii_lowercase()).collect();
    assert!(!heads[0].contains("\r\ncookie:"), "{}", heads[0]);
    assert!(heads[1].contains("\r\ncookie: theme=dark\r\n"), "{}", heads[1]);
    assert!(heads[2].contains("__host-forebay-session"), "a host without a sign-in: {}", heads[2]);
}

#[test]
fn what_cannot_be_enforced_closes_the_path_and_says_why() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let bare = |name: &str| Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc");
    let forebay = house(
        setup(),
        &upstream,
        &[
            bare("few").annotation("forebay.io/auth-oidc-issuer", &provider.issuer()),
            ingress("gone", &provider).annotation("forebay.io/auth-oidc-session-secret", "missing"),
            ingress("clear", &provider).annotation("forebay.io/auth-oidc-issuer", "http://issuer.test"),
            ingress("same", &provider).annotation("forebay.io/auth-oidc-logout-path", "/oauth2/callback"),
        ],
    );
    for host in ["few", "gone", "clear", "same"] {
        assert_eq!(forebay.client().get(&format!("{host}.test"), "/").status, 503, "{host}");
        let callback = forebay.client().get(&format!("{host}.test"), "/oauth2/callback").status;
        assert_eq!(callback, 503, "{host}");
    }
    let log = forebay.log().join("\n");
    for text in ["it needs auth-oidc-client-id and auth-oidc-session-secret too", "missing is missing"] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn keys_of_cookies_are_changed_and_nobody_notices() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    forebay.replace("session.yaml", &secret("session", "Opaque", &[("one", KEY), ("current", OTHER_KEY)]));
    let mut other = Browser::new(&forebay, "a.test");
    other.sign_in(&provider, "/");
    forebay.replace("session.yaml", &secret("session", "Opaque", &[("current", OTHER_KEY)]));
    forebay.await_that("the old key is gone", || browser.get("/", "").status == 401);
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/", "").status, 200);
}

#[test]
fn the_provider_changes_its_key_and_its_clock_is_a_minute_off() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    for clock in [0, 60, -60] {
        provider.set_clock(clock);
        let mut browser = Browser::new(&forebay, "a.test");
        browser.sign_in(&provider, "/");
        assert_eq!(browser.get("/", "").status, 200, "{clock}");
    }
    provider.change_key();
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/", "").status, 200, "another key");
    provider.set_clock(3600);
    let told = Browser::new(&forebay, "a.test").try_sign_in(&provider, "/");
    assert_eq!(told.status, 500, "an hour is too much: {told:?}");
    forebay.await_log("in the future");
}
