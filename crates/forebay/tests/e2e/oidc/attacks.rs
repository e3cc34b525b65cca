//! Attacks on sign-ins: forged, replayed and foreign cookies and states let nobody in.

use testkit::manifest::Ingress;
use testkit::{Canned, Provider};

use super::browser::{Browser, HTML, names};
use super::{house, ingress, setup, with_sign_in};

#[test]
fn a_callback_belongs_to_the_sign_in_of_its_browser() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider), ingress("b", &provider)]);
    let mut victim = Browser::new(&forebay, "a.test");
    let location = victim.get("/", HTML).header("location").unwrap();
    let back = provider.sign_in(&location);
    let target = back.strip_prefix("http://a.test").unwrap();
    let fails = |browser: &mut Browser<'_>, target: &str| {
        let told = browser.get(target, HTML);
        assert_eq!(told.status, 400, "{target}: {told:?}");
        assert!(told.text().starts_with("Sign-in failed: "), "{told:?}");
        let set = told.header("set-cookie").unwrap_or_default();
        assert!(!set.contains(&names(&provider).session), "{target}: {told:?}");
    };
    // Without the cookie; at another host; with another sign-in's cookie; with another state.
    fails(&mut Browser::new(&forebay, "a.test"), target);
    fails(&mut victim.at("b.test"), target);
    let mut attacker = Browser::new(&forebay, "a.test");
    attacker.get("/", HTML);
    fails(&mut attacker, target);
    let (code, state) = target.split_once("&state=").unwrap();
    let forged: String = state.chars().rev().collect();
    fails(&mut victim.at("a.test"), &format!("{code}&state={forged}"));
    let same_begin = format!("{}{}", &state[..16], "A".repeat(state.len() - 16));
    fails(&mut victim.at("a.test"), &format!("{code}&state={same_begin}"));
    fails(&mut victim.at("a.test"), &format!("{target}&state={state}"));
    fails(&mut victim.at("a.test"), &format!("{target}&iss=https%3A%2F%2Fevil.test"));
    fails(&mut victim.at("a.test"), "/oauth2/callback");
    let mut copy = victim.at("a.test");
    assert_eq!(victim.get(target, HTML).status, 302);
    assert_eq!(victim.get("/", "").status, 200);
    // Again: the browser has no sign-in any more, and a copy of its cookie has no code.
    fails(&mut victim.at("a.test"), target.split('&').next().unwrap());
    fails(&mut copy, target);
    assert_eq!(victim.post(target, "").status, 405);
}

#[test]
fn errors_of_the_provider_are_a_page_without_its_markup() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    let location = browser.get("/", HTML).header("location").unwrap();
    let back = provider.sign_in(&location);
    let state = back.split_once("&state=").unwrap().1;
    let query = "error=access_denied&error_description=%3Cscript%3E";
    let told = browser.get(&format!("/oauth2/callback?{query}&state={state}"), HTML);
    assert_eq!(told.status, 403);
    assert!(told.header("content-type").unwrap().starts_with("text/plain"), "{told:?}");
    assert!(told.text().contains("the provider says: <script>."), "{told:?}");
    assert!(browser.cookies().is_empty(), "the sign-in is over");
}

#[test]
fn a_sign_in_returns_to_its_own_host() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    for (target, expected) in [
        ("//evil.test/x", "/"),
        ("/\\evil.test", "/"),
        ("/ok?next=//evil.test", "/ok?next=//evil.test"),
        (&format!("/{}", "a".repeat(3000)), "/"),
    ] {
        let mut browser = Browser::new(&forebay, "a.test");
        let told = browser.try_sign_in(&provider, target);
        assert_eq!(told.header("location").as_deref(), Some(expected), "{target}");
    }
}

#[test]
fn a_session_is_new_after_each_sign_in() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut attacker = Browser::new(&forebay, "a.test");
    attacker.sign_in(&provider, "/");
    let planted = attacker.session(&provider).unwrap().id;
    let mut victim = attacker.at("a.test");
    let location = victim.at("a.test").get("/oauth2/sign_out", HTML).header("location");
    assert!(location.is_some());
    let told = victim.get("/", HTML);
    let back = provider.sign_in(&told.header("location").unwrap());
    assert_eq!(victim.follow(&back).status, 302);
    assert_ne!(victim.session(&provider).unwrap().id, planted);
    assert_eq!(attacker.get("/", "").status, 401);
}

#[test]
fn changed_cookies_and_those_of_others_are_no_session() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider), ingress("b", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    let name = names(&provider).session;
    let good = browser.cookies()[&name].clone();
    assert_eq!(browser.get("/", "").status, 200);
    assert_eq!(browser.at("b.test").get("/", "").status, 401);
    let mut cut = good.clone();
    cut.pop();
    let mut other = good.clone().into_bytes();
    let last = other.len() - 9;
    other[last] = if other[last] == b'A' { b'B' } else { b'A' };
    for bad in [
        &cut,
        "",
        "1.",
        "2.",
        "9.",
        &good[2..],
        &format!("2.{}", &good[2..]),
        &String::from_utf8(other).unwrap(),
    ] {
        let mut forger = browser.at("a.test");
        forger.set_cookie(&name, bad);
        assert_eq!(forger.get("/", "").status, 401, "{bad}");
    }
    let twice = format!("Cookie: {name}={good}\r\nCookie: {name}={cut}\r\n");
    assert_eq!(Browser::new(&forebay, "a.test").get("/", &twice).status, 401);
    assert_eq!(browser.get("/", "").status, 200);
}

#[test]
fn no_spelling_of_a_header_is_the_clients() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    provider.set_claims(serde_json::json!({"sub": "u-1"}));
    let lenient = setup().setting("enable-underscores-in-headers", "true");
    let forebay = house(lenient, &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    let forged = "X_Auth_Request_User: root\r\nX-Auth_Request-Groups: root\r\nx-auth-request-email: root\r\n";
    assert_eq!(browser.get("/", forged).status, 200);
    let head = upstream.heads()[0].to_ascii_lowercase();
    assert!(head.contains("\r\nx-auth-request-user: u-1\r\n") && !head.contains("root"), "{head}");
}

#[test]
fn sign_ins_in_progress_are_bounded() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    for _ in 0..20 {
        assert_eq!(browser.get("/", HTML).status, 302);
    }
    assert_eq!(browser.cookies().len(), identity::oidc::cookies::LOGINS_MAX);
    let location = browser.get("/last", HTML).header("location").unwrap();
    let told = browser.follow(&provider.sign_in(&location));
    assert_eq!(told.header("location").as_deref(), Some("/last"));
}

#[test]
fn the_endpoints_are_there_whatever_the_paths_are() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let only = Ingress::new("only").path("only.test", "Exact", "/private", "svc");
    let expression = Ingress::new("re").path("re.test", "ImplementationSpecific", "/(.*)", "svc");
    let forebay = house(
        setup(),
        &upstream,
        &[
            with_sign_in(only, &provider),
            with_sign_in(expression, &provider).annotation("use-regex", "true"),
            Ingress::new("open").path("only.test", "Prefix", "/", "svc"),
        ],
    );
    for (host, target) in [("only.test", "/private"), ("re.test", "/any")] {
        let mut browser = Browser::new(&forebay, host);
        browser.sign_in(&provider, target);
        assert_eq!(browser.get(target, "").status, 200, "{host}");
        assert_eq!(browser.get("/oauth2/sign_out", HTML).status, 302, "{host}");
    }
    assert_eq!(forebay.client().get("only.test", "/open").status, 200);
}
