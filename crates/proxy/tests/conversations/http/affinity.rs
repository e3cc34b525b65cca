//! Endpoints that the request itself decides: by a cookie, and by the hash of a value.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::template::Template;
use model::{
    Affinity, AffinityCookie, AffinityMode, Backend, Backends, Balance, Cluster, ClusterId, CookieText,
    HashBy, Split,
};
use testkit::{Refusing, Response, Upstream};

use super::{GET, OK, forward};
use crate::world::{World, cluster};

fn sticky(endpoints: &[SocketAddr], mode: AffinityMode, change: impl FnOnce(&mut Affinity)) -> World {
    let mut affinity = Affinity {
        mode,
        change_on_failure: false,
        cookie: AffinityCookie::default(),
        header: None,
        age_max: None,
        key: None,
    };
    change(&mut affinity);
    balanced(endpoints, Balance::Cookie(Arc::new(affinity)))
}

fn balanced(endpoints: &[SocketAddr], balance: Balance) -> World {
    World::http(endpoints, |model| {
        forward(model, |forward| forward.sets_affinity_cookie = true);
        let cluster = Cluster { balance, ..Cluster::clone(model.cluster(ClusterId(0))) };
        model.clusters.insert(ClusterId(0), Arc::new(cluster));
    })
}

fn three(upstream: &Upstream) -> [SocketAddr; 3] {
    [1, 2, 3].map(|last| upstream.endpoint(last))
}

fn cookies(response: &Response) -> Vec<String> {
    let named = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    named.map(|(_, value)| value.clone()).collect()
}

fn with_cookie(cookie: &str) -> String {
    GET.replace("\r\n\r\n", &format!("\r\nCookie: other=1; {cookie}\r\n\r\n"))
}

#[test]
fn a_client_with_a_cookie_stays_where_it_was() {
    for mode in [AffinityMode::Balanced, AffinityMode::Persistent] {
        let upstream = Upstream::everywhere();
        let world = sticky(&three(&upstream), mode, |_| ());
        let mut client = world.http_client();
        client.send(GET);
        let (mut peer, _) = upstream.accept_request();
        peer.send(OK.replace("\r\n\r\n", "\r\nSet-Cookie: own=1\r\n\r\n"));
        let response = client.read_response();
        let cookies = cookies(&response);
        assert_eq!(cookies.len(), 2, "{cookies:?}");
        let (pair, attributes) = cookies[1].split_once("; ").unwrap();
        assert_eq!(attributes, "Path=; HttpOnly");
        assert!(pair.starts_with("INGRESSCOOKIE=") && pair.contains('|'), "{pair}");
        // Its own connection to the endpoint is used again, which other endpoints do not have.
        for _ in 0..5 {
            client.send(with_cookie(pair));
            peer.read_head();
            peer.send(OK);
            let response = client.read_response();
            assert_eq!((response.status, response.header("Set-Cookie")), (200, None));
        }
    }
}

fn text(text: &str) -> CookieText {
    CookieText::new(text).unwrap()
}

#[test]
fn the_cookie_has_the_attributes_that_are_asked_for() {
    let upstream = Upstream::new();
    let world = sticky(&[upstream.address()], AffinityMode::Balanced, |affinity| {
        affinity.cookie = AffinityCookie {
            name: text("route"),
            path: Some(text("/shop")),
            domain: Some(text("web.test")),
            max_age: Some(60),
            same_site: Some(text("lax")),
            is_secure: true,
            ..AffinityCookie::default()
        };
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    let cookie = client.read_response().header("Set-Cookie").unwrap();
    let (_, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Max-Age=60; Domain=web.test; Path=/shop; Secure; HttpOnly; SameSite=lax");
}

#[test]
fn a_new_client_is_given_another_endpoint_where_its_first_one_fails() {
    let (nobody, upstream) = (Refusing::default(), Upstream::new());
    let world = sticky(&[nobody.address(), upstream.address()], AffinityMode::Persistent, |_| ());
    let mut client = world.http_client();
    let mut peer = None;
    let mut cookies = Vec::new();
    for _ in 0..8 {
        client.send(GET);
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.read_head();
        peer.send(OK);
        let response = client.read_response();
        cookies.extend(self::cookies(&response));
    }
    assert_eq!(cookies.len(), 8);
    assert!(cookies.iter().all(|cookie| *cookie == cookies[0]), "{cookies:?}");
}

#[test]
fn equal_values_lead_to_one_endpoint() {
    for subset in [None, Some(1)] {
        let upstream = Upstream::everywhere();
        let hash_by = HashBy { key: Template::parse("$arg_user").unwrap(), subset };
        let world = balanced(&three(&upstream), Balance::Hash(Arc::new(hash_by)));
        let mut client = world.http_client();
        let ask = GET.replace("/a", "/a?user=ann");
        client.send(&ask);
        let (mut peer, _) = upstream.accept_request();
        peer.send(OK);
        assert_eq!(client.read_response().header("Set-Cookie"), None);
        for _ in 0..5 {
            client.send(&ask);
            peer.read_head();
            peer.send(OK);
            assert_eq!(client.read_response().status, 200);
        }
    }
}

#[test]
fn an_answer_of_ours_carries_the_cookie_too() {
    let nobody = Refusing::default();
    let world = sticky(&[nobody.address()], AffinityMode::Persistent, |_| ());
    let response = world.http_client().ask(GET);
    assert_eq!((response.status, cookies(&response).len()), (502, 1));
}

#[test]
fn a_header_names_the_endpoint_where_cookies_do_not() {
    let upstream = Upstream::everywhere();
    let world = sticky(&three(&upstream), AffinityMode::Persistent, |affinity| {
        affinity.header = model::HeaderName::new("X-Session").ok();
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    let response = client.read_response();
    assert_eq!(cookies(&response), [""; 0]);
    let session = response.header("X-Session").unwrap();
    // Its own connection to the endpoint is used again, which other endpoints do not have.
    for _ in 0..5 {
        client.send(GET.replace("\r\n\r\n", &format!("\r\nX-Session: {session}\r\n\r\n")));
        peer.read_head();
        peer.send(OK);
        let response = client.read_response();
        assert_eq!((response.status, response.header("X-Session")), (200, None));
    }
}

#[test]
fn a_session_that_is_too_old_begins_anew() {
    let upstream = Upstream::new();
    let world = sticky(&[upstream.address()], AffinityMode::Persistent, |affinity| {
        affinity.age_max = Some(Duration::from_secs(600));
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send(OK);
    let cookie = client.read_response().header("Set-Cookie").unwrap();
    let (pair, _) = cookie.split_once("; ").unwrap();
    let (begin, since) = pair.rsplit_once('|').unwrap();
    let old = format!("{begin}|{}", since.parse::<u64>().unwrap() - 600);
    for (pair, is_new) in [(pair, false), (&old, true), (begin, true)] {
        client.send(with_cookie(pair));
        peer.read_head();
        peer.send(OK);
        assert_eq!(client.read_response().header("Set-Cookie").is_some(), is_new, "{pair}");
    }
}

#[test]
fn a_client_stays_with_its_backend_whatever_the_weights_are() {
    let (first, second) = (Upstream::new(), Upstream::new());
    let weights = |model: &mut model::Model, weights: [u32; 2]| {
        let backends = (0..).zip(weights).map(|(id, weight)| Backend::new(ClusterId(id), weight)).collect();
        forward(model, |forward| forward.backends = Backends::Split(Split::new(backends).unwrap()));
    };
    let mut world = World::http(&[first.address()], |model| {
        forward(model, |forward| forward.sets_affinity_cookie = true);
        for (id, (name, upstream)) in (0..).zip([("first", &first), ("second", &second)]) {
            let affinity = Affinity {
                mode: AffinityMode::Persistent,
                change_on_failure: true,
                cookie: AffinityCookie::default(),
                header: None,
                age_max: None,
                key: None,
            };
            let balance = Balance::Cookie(Arc::new(affinity));
            let one = Cluster { name: name.to_owned(), balance, ..cluster(&[upstream.address()]) };
            model.clusters.insert(ClusterId(id), Arc::new(one));
        }
        weights(model, [1, 0]);
    });
    let mut client = world.http_client();
    client.send(GET);
    let (mut peer, _) = first.accept_request();
    peer.send(OK);
    let cookie = client.read_response().header("Set-Cookie").unwrap();
    let (pair, _) = cookie.split_once("; ").unwrap();
    world.change(|model| weights(model, [1, 1000]));
    for _ in 0..5 {
        client.send(with_cookie(pair));
        peer.read_head();
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    assert!(second.is_left_alone());
}
