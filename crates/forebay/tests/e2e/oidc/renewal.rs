//! Sessions that are renewed, and providers that are away meanwhile.

use testkit::{Canned, Provider};

use super::browser::{Browser, HTML};
use super::{house, ingress, setup};

/// Seconds of the provider's tokens, and of the time that sessions last without it.
const LIFETIME: u64 = 300;
const GRACE: u64 = 300;

#[test]
fn a_hundred_requests_at_once_renew_a_session_once() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup().arguments(["--workers=3"]), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    browser.age(&provider, LIFETIME + 10);
    provider.hold(true);
    let mut tabs: Vec<_> = (0..100).map(|_| browser.at("a.test")).collect();
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = tabs.iter_mut().map(|tab| scope.spawn(|| tab.get("/", "").status)).collect();
        provider.await_held(1);
        provider.hold(false);
        asking.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    assert_eq!(statuses, [200; 100]);
    assert_eq!(provider.renewals(), 1);
    // The tab whose answer was lost still has the old cookie; the others go on with the new one.
    assert_eq!(browser.get("/", "").status, 200);
    assert_eq!(provider.renewals(), 1);
    let token = |tab: &Browser<'_>| tab.session(&provider).and_then(|session| session.refresh_token);
    assert!(tabs.iter().all(|tab| token(tab) == token(&browser) && token(tab).is_some()));
}

#[test]
fn a_session_that_ends_soon_is_renewed_before() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    assert_eq!((browser.get("/", "").status, provider.renewals()), (200, 0));
    browser.age(&provider, LIFETIME - 30);
    assert_eq!((browser.get("/", "").status, provider.renewals()), (200, 1));
    let session = browser.session(&provider).unwrap();
    assert!(session.renewed >= session.begun + LIFETIME - 40, "the sign-in was earlier");
    assert_eq!((browser.get("/", "").status, provider.renewals()), (200, 1));
}

#[test]
fn nobody_is_signed_out_because_the_provider_is_away() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    provider.set_away(true);
    assert_eq!(browser.get("/", "").status, 200);
    let mut soon = browser.at("a.test");
    soon.age(&provider, LIFETIME - 10);
    assert_eq!(soon.get("/", "").status, 200);
    let mut ended = browser.at("a.test");
    ended.age(&provider, LIFETIME + GRACE - 60);
    assert_eq!(ended.get("/", "").status, 200, "within the grace");
    let mut late = browser.at("a.test");
    late.age(&provider, LIFETIME + GRACE + 1);
    let told = late.get("/", "");
    assert_eq!((told.status, told.header("retry-after").as_deref()), (503, Some("5")));
    assert_eq!(browser.at("a.test").get("/", "").status, 200, "others are not concerned");
    provider.set_away(false);
    forebay.await_that("the session is renewed", || late.get("/", "").status == 200);
    assert_eq!(ended.get("/", "").status, 200);
}

#[test]
fn a_session_ends_where_the_provider_says_so() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    provider.end_sessions();
    browser.age(&provider, LIFETIME + 10);
    assert_eq!([browser.get("/", HTML).status, browser.get("/", "").status], [302, 401]);
    assert_eq!(provider.renewals(), 1, "the provider is not asked again and again");
}

#[test]
fn the_longest_time_of_a_session_holds_whatever_the_provider_says() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let short = ingress("a", &provider).annotation("forebay.io/auth-oidc-session-max-age", "1h");
    let forebay = house(setup(), &upstream, &[short]);
    let mut browser = Browser::new(&forebay, "a.test");
    browser.sign_in(&provider, "/");
    browser.age(&provider, 3590);
    let mut late = browser.at("a.test");
    assert_eq!(browser.get("/", "").status, 200);
    late.age(&provider, 20);
    assert_eq!((late.get("/", "").status, provider.renewals()), (401, 1));
}

#[test]
fn a_provider_that_is_away_at_the_start_is_found_later() {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    provider.set_away(true);
    let forebay = house(setup(), &upstream, &[ingress("a", &provider)]);
    let mut browser = Browser::new(&forebay, "a.test");
    let told = browser.get("/", HTML);
    assert_eq!((told.status, told.header("retry-after").as_deref()), (503, Some("5")));
    provider.set_away(false);
    forebay.await_that("the provider is known", || browser.get("/", HTML).status == 302);
    browser.sign_in(&provider, "/");
    assert_eq!(browser.get("/", "").status, 200);
}
