//! Sessions at several replicas: ended at all of them, and renewed by one.

use std::net::{Ipv4Addr, SocketAddr};

use tempfile::TempDir;
use testkit::manifest::service;
use testkit::{Canned, Forebay, Provider};

use super::browser::{Browser, HTML};
use super::{house, ingress, setup};

const SECRET: &str = "a secret that all replicas have, and nobody else";

/// Seconds of the provider's tokens.
const LIFETIME: u64 = 300;

struct House {
    provider: Provider,
    _upstream: Canned,
    _folder: TempDir,
    replicas: Vec<Forebay>,
}

/// Two replicas that know each other, on addresses of their own.
fn replicas() -> House {
    let (provider, upstream) = (Provider::start(), Canned::saying("let in"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let start = |number: u8| {
        let own = address(number);
        let setup = setup()
            .manifest("forebay.yaml", service("forebay", &[]))
            .arguments(["--replicas-service=default/forebay".to_owned()])
            .arguments([format!("--replicas-secret={}", file.display())])
            // As from a Pod: what comes from another address is no replica's.
            .arguments([format!("--replica-address={own}"), format!("--upstream-source-address={own}")]);
        house(setup, &upstream, &[ingress("a", &provider)])
    };
    let replicas: Vec<_> = [0, 1].map(start).into();
    let addresses = [0, 1].map(|number: u8| {
        SocketAddr::from((address(number), replicas[usize::from(number)].address().port()))
    });
    for one in &replicas {
        one.replace("forebay.yaml", &service("forebay", &addresses));
        one.await_that("the replicas to be known", || knows(one, &addresses));
    }
    House { provider, _upstream: upstream, _folder: folder, replicas }
}

fn knows(one: &Forebay, addresses: &[SocketAddr]) -> bool {
    let configuration = one.configuration();
    let clusters = configuration["clusters"].as_array().expect("a list");
    let own = clusters.iter().find(|one| one["name"] == "default-forebay-80");
    let known = own.and_then(|own| own["endpoints"].as_array()).map_or(0, Vec::len);
    known == addresses.len() && configuration["generation"] == configuration["acknowledged"]
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + number)
}

#[test]
fn a_session_that_has_ended_counts_at_no_replica() {
    let House { provider, replicas, .. } = &replicas();
    let mut browser = Browser::new(&replicas[0], "a.test");
    browser.sign_in(provider, "/");
    let mut copy = browser.with(&replicas[1]);
    assert_eq!(copy.get("/", "").status, 200);
    browser.get("/oauth2/sign_out", HTML);
    assert_eq!(copy.get("/", "").status, 401, "it has signed out at the other replica");
    browser.sign_in(provider, "/");
    let mut copy = browser.with(&replicas[1]);
    assert_eq!(copy.get("/", "").status, 200);
    let token = provider.logout_token(browser.session(provider).unwrap().text("sid").unwrap());
    let mut back = Browser::new(&replicas[0], "a.test");
    assert_eq!(back.post("/oauth2/backchannel_logout", &format!("logout_token={token}")).status, 200);
    assert_eq!(copy.get("/", "").status, 401, "the provider has told the other replica");
    let mut back = Browser::new(&replicas[1], "a.test");
    let again = back.post("/oauth2/backchannel_logout", &format!("logout_token={token}"));
    assert_eq!(again.status, 400, "a token counts once");
}

#[test]
fn a_session_is_renewed_once_whichever_replicas_see_it() {
    let House { provider, replicas, .. } = &replicas();
    for round in 1..=4 {
        let mut browser = Browser::new(&replicas[0], "a.test");
        browser.sign_in(provider, "/");
        browser.age(provider, LIFETIME + 10);
        provider.hold(true);
        let mut tabs: Vec<_> = (0..20).map(|number| browser.with(&replicas[number % 2])).collect();
        let statuses: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = tabs.iter_mut().map(|tab| scope.spawn(|| tab.get("/", "").status)).collect();
            provider.await_held(1);
            provider.hold(false);
            asking.into_iter().map(|one| one.join().expect("it does not panic")).collect()
        });
        assert_eq!((statuses, provider.renewals()), (vec![200; 20], round));
        let sessions: Vec<_> = tabs.iter().map(|tab| tab.session(provider).unwrap()).collect();
        assert!(sessions.iter().all(|one| one.refresh_token == sessions[0].refresh_token));
        assert!(sessions.iter().all(|one| one.text("email") == Some("ann@a.test")));
    }
}

#[test]
fn a_replica_renews_sessions_whose_home_is_gone() {
    let House { provider, replicas, .. } = &mut replicas();
    drop(replicas.pop());
    for round in 1..=6 {
        let mut browser = Browser::new(&replicas[0], "a.test");
        browser.sign_in(provider, "/");
        browser.age(provider, LIFETIME + 10);
        assert_eq!((browser.get("/", "").status, provider.renewals()), (200, round));
    }
    let mut browser = Browser::new(&replicas[0], "a.test");
    browser.sign_in(provider, "/");
    browser.get("/oauth2/sign_out", HTML);
    replicas[0].await_log("has not been told that a session has ended");
}
