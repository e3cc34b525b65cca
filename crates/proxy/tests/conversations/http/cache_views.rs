//! Selection of stored responses: no request gets one that was made for another request.

use std::time::Duration;

use model::CacheKeyQuery;

use super::GET;
use super::cache::{House, get};

const KEPT: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 10\r\n\r\n0123456789";

/// Whether an endpoint sees a parameter there, or which, depends on what it is made with.
#[test]
fn a_query_that_can_be_read_in_two_ways_passes() {
    let house = House::with(|policy| policy.query = CacheKeyQuery::Named(vec!["page".to_owned()]));
    let request = |query: &str| format!("GET /a?{query} HTTP/1.1\r\nHost: web.test\r\n\r\n");
    house.ask(&request("page=1"), KEPT);
    for query in ["x;page=1", "page=1;x", "page[]=1", "+page=1", "PAGE=1", "p%61g%65%00=1", "%7zage=1"] {
        let (response, _) = house.ask(&request(query), KEPT);
        assert_eq!(response.header("cache-status").unwrap(), "forebay; fwd=bypass", "{query}");
    }
    assert_eq!(house.hit(&request("page=1&x[]=1")).status, 200);
}

/// Names of namespaces and Services may have dashes.
#[test]
fn services_whose_names_look_alike_share_nothing() {
    let mut house = House::new();
    let mut serve = |identity: &str| {
        house.world.change(|model| {
            let mut clusters: Vec<_> = model.clusters.iter().map(|(_, one)| (**one).clone()).collect();
            clusters[0].name = "shop-web-api-80".to_owned();
            clusters[0].identity = identity.to_owned();
            model.clusters = clusters.into_iter().collect();
        });
        house.ask(GET, KEPT)
    };
    serve("shop/web-api:80");
    serve("shop-web/api:80");
}

/// A response to a request with an unknown header is only for requests with the same header.
#[test]
fn what_was_made_for_an_unknown_header_is_for_no_other() {
    let house = House::new();
    let with = |tenant: &str| get(&format!("X-Tenant: {tenant}\r\n"));
    let answer = |text: &str| KEPT.replace("0123456789", text);
    house.ask(&with("1"), &answer("one_______"));
    house.ask(GET, KEPT);
    house.ask(&with("2"), &answer("two_______"));
    for (request, text) in
        [(&with("1"), "one_______"), (&with("2"), "two_______"), (&GET.to_owned(), "0123456789")]
    {
        assert_eq!(house.hit(request).said(), (200, text));
    }
    // Clients that make up headers push out what was made for each other.
    for number in 0..40 {
        house.ask(&get(&format!("X-Made-Up: {number}\r\n")), KEPT);
    }
    assert_eq!(house.hit(GET).said(), (200, "0123456789"));
    // A change changes it for all.
    house.ask(
        "POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    );
    house.ask(GET, KEPT);
    house.ask(&with("1"), KEPT);
}

#[test]
fn headers_that_the_route_calls_harmless_are() {
    let house = House::with(|policy| policy.harmless_headers = vec!["x-nonce".to_owned()]);
    house.ask(&get("X-Nonce: 1\r\n"), KEPT);
    assert_eq!(house.hit(&get("X-Nonce: 2\r\n")).status, 200);
    assert_eq!(house.hit(GET).status, 200);
}

/// A page for a key is not everybody's because the route guesses how long it is fresh, and not its client's
/// for as long.
#[test]
fn a_guess_holds_for_requests_without_unknown_headers() {
    let bare = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nme";
    let house = House::with(|policy| policy.default_ttl = Some(Duration::from_secs(60)));
    let with_key = get("X-Api-Key: 1\r\n");
    house.ask(&with_key, bare);
    house.ask(&with_key, bare);
    house.ask(GET, bare);
    assert_eq!(house.hit(GET).said(), (200, "me"));
}

/// 416 and 400 may be about the part alone.
#[test]
fn an_answer_to_a_part_is_not_for_the_whole() {
    for status in [416, 400, 404] {
        let house = House::new();
        let answer =
            format!("HTTP/1.1 {status} No\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n");
        house.ask(&get("Range: bytes=99-\r\n"), &answer);
        assert_eq!(house.ask(GET, KEPT).0.said(), (200, "0123456789"), "{status}");
    }
}

/// The next client must send the same values that the endpoint looked at.
#[test]
fn vary_means_what_the_endpoint_saw() {
    let varying = |name: &str| KEPT.replace("ETag", &format!("Vary: {name}\r\nETag"));
    for (name, first, second) in [
        // Of what it saw, the next client says nothing.
        ("X-App", "Connection: x-app\r\nX-App: 1\r\n", "X-App: 1\r\n"),
        ("X-Real-IP", "X-Real-IP: 192.0.2.1\r\n", "X-Real-IP: 192.0.2.1\r\n"),
        ("X-Forwarded-For", "", ""),
        ("X-Request-ID", "X-Request-ID: 1\r\n", "X-Request-ID: 1\r\n"),
        // Of two that a client likes as much, servers give the first.
        ("Accept-Language", "Accept-Language: de, en\r\n", "Accept-Language: en, de\r\n"),
        ("Accept-Encoding", "Accept-Encoding: br, gzip\r\n", "Accept-Encoding: gzip, br\r\n"),
    ] {
        let house = House::new();
        house.ask(&get(first), &varying(name));
        let other = varying(name).replace("0123456789", "9876543210");
        assert_eq!(house.ask(&get(second), &other).0.said(), (200, "9876543210"), "{name}");
    }
}
