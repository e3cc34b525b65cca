//! The end of sessions, here and at the provider.

use testkit::{Canned, Provider};

use super::browser::{Browser, HTML};
use super::{house, ingress, setup};

#[test]
fn a_client_signs_out_here_and_at_the_provider() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let with_bye = ingress("a", &provider).annotation("forebay.io/auth-oidc-post-logout-redirect", "/bye");
    let forebay = house(setup(), &upstream, &[with_bye]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    let mut stolen = browser.at("a.test");
    assert_eq!(stolen.get("/", "").status, 200);
    let told = browser.get("/oauth2/sign_out", HTML);
    let location = told.header("location").unwrap();
    assert_eq!(told.status, 302);
    assert!(location.starts_with(&format!("{}/end?id_token_hint=ey", provider.issuer())), "{location}");
    assert!(location.ends_with("&client_id=client&post_logout_redirect_uri=http%3A%2F%2Fa.test%2Fbye"));
    assert!(browser.cookies().is_empty());
    assert_eq!(browser.get("/", "").status, 401);
    assert_eq!(stolen.get("/", "").status, 401, "a copy of the cookie counts no more");
    let again = browser.get("/oauth2/sign_out", HTML);
    assert_eq!((again.status, again.header("location").as_deref()), (302, Some("/bye")));
}

#[test]
fn signing_out_leads_to_no_other_host() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    for (query, location) in [
        ("", None),
        ("?rd=%2Fbye", Some("/bye")),
        ("?rd=https%3A%2F%2Fevil.test", None),
        ("?rd=%2F%2Fevil.test", None),
        ("?rd=%2F%5Cevil.test", None),
    ] {
        let told = browser.get(&format!("/oauth2/sign_out{query}"), HTML);
        let status = if location.is_some() { 302 } else { 200 };
        assert_eq!((told.status, told.header("location").as_deref()), (status, location), "{query}");
    }
    assert_eq!(browser.post("/oauth2/sign_out", "").status, 200);
}

#[test]
fn the_provider_ends_a_session() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    let sid = browser.session(&provider).unwrap().text("sid").unwrap().to_owned();
    let mut other = Browser::new(&forebay, "a.test");
    other.sign_in(&provider, "/");
    let token = provider.logout_token(&sid);
    let mut back = Browser::new(&forebay, "a.test");
    let path = "/oauth2/backchannel_logout";
    for bad in ["", "logout_token=", "logout_token=a.b.c", &format!("logout_token={token}x")] {
        assert_eq!(back.post(path, bad).status, 400, "{bad}");
    }
    let id_token = provider.token(serde_json::json!({"sub": "u-1", "sid": sid, "jti": "x"}));
    assert_eq!(back.post(path, &format!("logout_token={id_token}")).status, 400, "it ends nothing");
    assert_eq!(browser.get("/", "").status, 200);
    let told = back.post(path, &format!("logout_token={token}"));
    assert_eq!((told.status, told.header("cache-control").as_deref()), (200, Some("no-store")), "{told:?}");
    assert_eq!([browser.get("/", "").status, other.get("/", "").status], [401, 200]);
    assert_eq!(back.post(path, &format!("logout_token={token}")).status, 400, "a token counts once");
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/", "").status, 200, "a new session");
    assert_eq!(back.get(path, HTML).status, 405);
    assert_eq!(back.post(path, &format!("logout_token={}", "a".repeat(100_000))).status, 400);
}
