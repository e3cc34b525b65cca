//! Routes of which another service says who is let in.

use std::sync::Arc;
use std::time::Duration;

use md5::{Digest, Md5};
use model::template::Template;
use model::{
    Access, AddressSet, BasicAuth, ClusterId, ExternalAuth, ExternalAuthCache, ExternalCheck, HeaderNames,
    Networks, PasswordScheme, Satisfy, Users,
};
use testkit::{Connection, Refusing, Response, Upstream};

use super::{GET, OK, await_fault, forward, route};
use crate::world::{BRIEF, World, cluster};

const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

/// Asks `/check` of `auth.test`, with nothing set.
pub(super) fn check() -> ExternalCheck {
    ExternalCheck {
        host: template("auth.test"),
        target: template("/check"),
        method: None,
        redirect: None,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        variables: Vec::new(),
        signin: None,
        always_set_cookie: false,
        cache: None,
        script: None,
    }
}

fn asking(check: ExternalCheck) -> Access {
    let external = ExternalAuth { cluster: ClusterId(1), check: Arc::new(check) };
    Access { external: Some(external), ..Access::default() }
}

struct House {
    world: World,
    upstream: Upstream,
    auth: Upstream,
}

impl House {
    fn new(access: Access) -> Self {
        let (upstream, auth) = (Upstream::new(), Upstream::new());
        let world = World::http(&[upstream.address()], |model| {
            model.clusters.insert(ClusterId(1), Arc::new(cluster(&[auth.address()])));
            route(model, |route| route.access = Some(Box::new(access)));
        });
        Self { world, upstream, auth }
    }

    /// A client that has asked, and what the auth service has been asked.
    fn ask(&self, request: &str) -> (Connection, Connection, String) {
        let mut client = self.world.http_client();
        client.send(request);
        let (auth, question) = self.auth.accept_request();
        (client, auth, question)
    }

    /// The response to a client where the auth service gives this answer, and the endpoint is not asked.
    fn refusal(&self, answer: &str) -> testkit::Response {
        let (mut client, mut auth, _) = self.ask(GET);
        auth.send(answer);
        let response = client.read_response();
        assert!(self.upstream.is_left_alone());
        response
    }
}

#[test]
fn the_service_is_told_of_the_request_and_not_sent_its_body() {
    let headers = vec![("X-Own".to_owned(), template("$request_method $uri"))];
    let house = House::new(asking(ExternalCheck {
        target: template("/check?of=$uri"),
        request_headers: headers,
        ..check()
    }));
    let (mut client, mut auth, question) = house.ask(
        "POST /a%0d%0aX:?b HTTP/1.1\r\nHost: web.test:81\r\nCookie: c\r\nX-Forwarded-Proto: no\r\n\
         X-Own: forged\r\nContent-Length: 4\r\n\r\nbody",
    );
    assert!(question.starts_with("GET /check?of=/a%0D%0AX: HTTP/1.1\r\nHost: auth.test\r\n"), "{question}");
    for field in [
        "X-Original-URL: http://web.test:81/a%0d%0aX:?b",
        "X-Original-Method: POST",
        "X-Sent-From: nginx-ingress-controller",
        "X-Real-IP: 127.0.0.1",
        "X-Forwarded-For: 127.0.0.1",
        "X-Auth-Request-Redirect: /a%0d%0aX:?b",
        "Cookie: c",
        "X-Own: POST /aX:",
    ] {
        assert!(question.contains(&format!("\r\n{field}\r\n")), "{field}: {question}");
    }
    assert!(question.contains("\r\nX-Request-ID: "), "{question}");
    for absent in ["X-Forwarded-Proto", "Content-Length", "X-Original-URI", "X-Scheme", "forged"] {
        assert!(!question.contains(absent), "{absent}: {question}");
    }
    auth.send(NO_CONTENT);
    let (mut peer, head) = house.upstream.accept_request();
    assert!(head.contains("\r\nX-Own: forged\r\n"), "headers for the service are for it alone: {head}");
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    // The connection to the service is kept.
    client.send(GET);
    auth.read_head();
    auth.send(NO_CONTENT);
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn a_method_of_its_own_brings_two_more_headers() {
    let house = House::new(asking(ExternalCheck {
        method: Some("HEAD".to_owned()),
        redirect: Some(template("https://web.test/back")),
        ..check()
    }));
    let (mut client, mut auth, question) = house.ask(GET);
    assert!(question.starts_with("HEAD /check HTTP/1.1\r\n"), "{question}");
    for field in ["X-Original-URI: /a", "X-Scheme: http", "X-Auth-Request-Redirect: https://web.test/back"] {
        assert!(question.contains(&format!("\r\n{field}\r\n")), "{field}: {question}");
    }
    auth.send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
    house.upstream.accept_request().0.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn only_refusals_are_passed_on_and_all_else_lets_nobody_in() {
    for (answer, status) in [
        ("401 No\r\nWWW-Authenticate: Bearer a\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\nwhy", 401),
        ("403 No\r\nContent-Length: 0\r\n\r\n", 403),
        ("302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 500),
        ("500 No\r\nContent-Length: 0\r\n\r\n", 500),
        ("nonsense\r\n\r\n", 500),
        ("200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 500),
    ] {
        let house = House::new(asking(check()));
        let response = house.refusal(&format!("HTTP/1.1 {answer}"));
        assert_eq!(response.status, status, "{answer}");
        let challenge = (status == 401).then_some("Bearer a");
        assert_eq!(response.header("WWW-Authenticate").as_deref(), challenge);
        assert_eq!((response.header("Set-Cookie"), response.header("Location")), (None, None), "{answer}");
        if status == 500 {
            await_fault(&house.world, "auth_failed");
        }
    }
}

#[test]
fn a_service_that_is_down_or_slow_lets_nobody_in() {
    let mut house = House::new(asking(check()));
    house.world.change(|model| {
        forward(model, |forward| (forward.timeouts.read, forward.timeouts.connect) = (BRIEF, BRIEF));
    });
    let (mut client, _auth, _) = house.ask(GET);
    assert_eq!(client.read_response().status, 500);
    let nobody = Refusing::default();
    house.world.change(|model| model.clusters.insert(ClusterId(1), Arc::new(cluster(&[nobody.address()]))));
    assert_eq!(house.world.http_client().ask(GET).status, 500);
    house.world.change(|model| model.clusters.insert(ClusterId(1), Arc::new(cluster(&[]))));
    assert_eq!(house.world.http_client().ask(GET).status, 500);
    assert!(house.upstream.is_left_alone());
}

#[test]
fn a_body_without_end_is_not_read_to_its_end() {
    let house = House::new(asking(check()));
    let (mut client, mut auth, _) = house.ask(GET);
    auth.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    auth.send(vec![b'x'; 200_000]);
    house.upstream.accept_request().0.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

#[test]
fn headers_of_the_answer_take_the_place_of_the_clients() {
    let names = vec!["X-User".to_owned(), "X-Role".to_owned()];
    let house = House::new(asking(ExternalCheck { response_headers: names, ..check() }));
    let (mut client, mut auth, _) =
        house.ask("GET /a HTTP/1.1\r\nHost: web.test\r\nx-user: forged\r\nX-ROLE: forged\r\n\r\n");
    auth.send(
        "HTTP/1.1 200 OK\r\nx-user: alice\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n",
    );
    let (mut peer, head) = house.upstream.accept_request();
    assert!(head.contains("\r\nX-User: alice\r\n") && !head.contains("forged"), "{head}");
    peer.send("HTTP/1.1 200 OK\r\nSet-Cookie: e=f\r\nContent-Length: 0\r\n\r\n");
    let head = client.read_head();
    for cookie in ["a=b", "c=d", "e=f"] {
        assert!(head.contains(&format!("\r\nSet-Cookie: {cookie}\r\n")), "{head}");
    }
    assert!(!head.contains("alice"), "{head}");
    // Statuses that nginx's `add_header` knows, and no others.
    client.send(GET);
    auth.read_head();
    auth.send("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n");
    peer.read_head();
    peer.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().header("Set-Cookie"), None);
}

#[test]
fn who_is_not_known_may_be_sent_to_sign_in() {
    let signin = template("https://in.test/?rd=$pass_access_scheme://$http_host$escaped_request_uri");
    let house = House::new(asking(ExternalCheck { signin: Some(signin), ..check() }));
    let response = house.refusal("HTTP/1.1 401 No\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(response.status, 302);
    assert_eq!(response.header("Location").as_deref(), Some("https://in.test/?rd=http://web.test%2Fa"));
    assert_eq!(response.header("Set-Cookie").as_deref(), Some("a=b"));
    let house = House::new(asking(ExternalCheck { signin: Some(template("https://in.test/")), ..check() }));
    assert_eq!(house.refusal("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n").status, 403);
}

#[test]
fn answers_are_kept_for_those_with_the_same_key() {
    let cache = ExternalAuthCache {
        key: template("$http_authorization"),
        durations: vec![(vec![200, 401], Duration::from_mins(5))],
    };
    let house = House::new(asking(ExternalCheck { cache: Some(cache), ..check() }));
    let request = |user: &str| format!("GET /a HTTP/1.1\r\nHost: web.test\r\nAuthorization: {user}\r\n\r\n");
    let (mut client, mut auth, _) = house.ask(&request("a"));
    auth.send("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 401);
    assert_eq!(client.ask(&request("a")).status, 401, "without a question");
    client.send(request("b"));
    auth.read_head();
    auth.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n");
    let (mut peer, _) = house.upstream.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    client.send(request("b"));
    auth.read_head();
    auth.send("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().status, 403, "what must not be kept is asked anew");
}

/// A service may read another value than the key has, or none: its answer is that of nobody else.
#[test]
fn no_answer_is_kept_under_what_the_service_may_not_have_read() {
    for (key, asked) in [
        ("$http_x_tenant", "GET /a HTTP/1.1\r\nConnection: X-Tenant\r\nX-Tenant: blue"),
        ("$http_x_tenant", "GET /a HTTP/1.1\r\nX_Tenant: blue"),
        ("$http_x_tenant", "GET /a HTTP/1.1\r\nX-Tenant: blue\r\nX-Tenant: red"),
        ("$cookie_tenant", "GET /a HTTP/1.1\r\nCookie: TENANT=blue"),
        ("$cookie_tenant", "GET /a HTTP/1.1\r\nCookie: tenant=blue; tenant=red"),
        ("$arg_tenant", "GET /a?TENANT=blue HTTP/1.1"),
        ("$arg_tenant", "GET /a?tenant=blue&ten%61nt=red HTTP/1.1"),
    ] {
        let cache = ExternalAuthCache {
            key: template(key),
            durations: vec![(vec![200, 401], Duration::from_mins(5))],
        };
        let access = asking(ExternalCheck { cache: Some(cache), ..check() });
        let (upstream, auth) = (Upstream::new(), Upstream::new());
        let world = World::http(&[upstream.address()], |model| {
            model.settings.client.header_names = HeaderNames::Underscores;
            model.clusters.insert(ClusterId(1), Arc::new(cluster(&[auth.address()])));
            route(model, |route| route.access = Some(Box::new(access)));
        });
        let clear = match key {
            "$http_x_tenant" => "GET /a HTTP/1.1\r\nX-Tenant: blue",
            "$cookie_tenant" => "GET /a HTTP/1.1\r\nCookie: tenant=blue",
            _ => "GET /a?tenant=blue HTTP/1.1",
        };
        for request in [asked, clear] {
            let mut client = world.http_client();
            client.send(format!("{request}\r\nHost: web.test\r\n\r\n"));
            let (mut service, _) = auth.accept_request();
            service.send("HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(client.read_response().status, 401, "{request}");
        }
        let known = world.http_client().ask(&format!("{clear}\r\nHost: web.test\r\n\r\n"));
        assert_eq!(known.status, 401, "without a question");
    }
}

#[test]
fn one_of_several_checks_may_suffice() {
    let networks = |network: &str| {
        let allowed = Some(Arc::new(AddressSet::new(&[network.parse().unwrap()])));
        Some(Networks { allowed, ..Networks::default() })
    };
    let any = |network| Access { networks: networks(network), satisfy: Satisfy::Any, ..asking(check()) };
    let house = House::new(any("127.0.0.1/32"));
    let mut client = house.world.http_client();
    client.send(GET);
    house.upstream.accept_request().0.send(OK);
    assert_eq!(client.read_response().status, 200);
    assert!(house.auth.is_left_alone(), "the address suffices");
    for (answer, status) in [("401", 401), ("403", 403), ("204", 200)] {
        let house = House::new(any("10.0.0.0/8"));
        let (mut client, mut auth, _) = house.ask(GET);
        auth.send(format!("HTTP/1.1 {answer} X\r\nContent-Length: 0\r\n\r\n"));
        if status == 200 {
            house.upstream.accept_request().0.send(OK);
        }
        assert_eq!(client.read_response().status, status, "{answer}");
    }
    let all = Access { networks: networks("10.0.0.0/8"), ..asking(check()) };
    let house = House::new(all);
    assert_eq!(house.world.http_client().ask(GET).status, 403);
    assert!(house.auth.is_left_alone(), "the address comes first");
}

// === passwords ===

/// `a` with the password `secret`, and `b` with `plain`.
fn password() -> Access {
    let user = |name: &str, hash: &str| (name.to_owned(), hash.to_owned());
    let users = vec![user("a", "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0"), user("b", "{PLAIN}plain")];
    let users = Arc::new(Users::new(users, [1; 32]));
    let scheme = PasswordScheme::Basic;
    Access { basic: Some(BasicAuth { scheme, realm: "Members".to_owned(), users }), ..Access::default() }
}

fn with(authorization: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: web.test\r\nAuthorization: {authorization}\r\n\r\n")
}

/// `a:secret` and `b:plain`.
const RIGHT: [&str; 2] = ["Basic YTpzZWNyZXQ=", "basic YjpwbGFpbg=="];

#[test]
fn who_knows_a_password_is_let_in_and_the_endpoint_does_not_learn_it() {
    let house = House::new(password());
    let mut client = house.world.http_client();
    let mut peer = None;
    for authorization in [RIGHT[0], RIGHT[0], RIGHT[1]] {
        client.send(with(authorization));
        let peer = peer.get_or_insert_with(|| house.upstream.accept());
        let head = peer.read_head();
        assert!(!head.to_lowercase().contains("authorization"), "{head}");
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
}

#[test]
fn everybody_else_is_asked_for_one() {
    let house = House::new(password());
    let mut client = house.world.http_client();
    for request in [
        GET.to_owned(),
        with("Basic YTp3cm9uZw=="),
        with("Basic Yzpub2JvZHk="),
        with("Basic nonsense"),
        with("Bearer YTpzZWNyZXQ="),
        GET.replace("GET", "OPTIONS"),
    ] {
        let response = client.ask(&request);
        assert_eq!(response.status, 401, "{request}");
        assert_eq!(response.header("WWW-Authenticate").as_deref(), Some("Basic realm=\"Members\""));
    }
    assert!(house.upstream.is_left_alone());
}

#[test]
fn a_changed_password_counts_at_once() {
    let mut house = House::new(password());
    let mut client = house.world.http_client();
    client.send(with(RIGHT[0]));
    house.upstream.accept_request().0.send(OK);
    assert_eq!(client.read_response().status, 200);
    house.world.change(|model| {
        route(model, |route| {
            let users = vec![("a".to_owned(), "$1$saltsalt$9xy1btjgzLYfb7hivXtC/x".to_owned())];
            let users = Arc::new(Users::new(users, [2; 32]));
            route.access = Some(Box::new(Access {
                basic: Some(BasicAuth { scheme: PasswordScheme::Basic, realm: String::new(), users }),
                ..Access::default()
            }));
        });
    });
    let response = house.world.http_client().ask(&with(RIGHT[0]));
    assert_eq!(
        (response.status, response.header("WWW-Authenticate").as_deref()),
        (401, Some("Basic realm=\"\""))
    );
}

#[test]
fn a_password_or_an_address_may_suffice() {
    let allowed = |network: &str| Some(Arc::new(AddressSet::new(&[network.parse().unwrap()])));
    for (network, satisfy, status) in [
        ("127.0.0.1/32", Satisfy::Any, 200),
        ("127.0.0.1/32", Satisfy::All, 401),
        ("10.0.0.0/8", Satisfy::Any, 401),
        ("10.0.0.0/8", Satisfy::All, 403),
    ] {
        let networks = Some(Networks { allowed: allowed(network), ..Networks::default() });
        let house = House::new(Access { networks, satisfy, ..password() });
        let mut client = house.world.http_client();
        client.send(GET);
        if status == 200 {
            house.upstream.accept_request().0.send(OK);
        }
        assert_eq!(client.read_response().status, status, "{network} {satisfy:?}");
    }
}

#[test]
fn questions_are_logged_only_where_that_is_wanted() {
    for auth in [false, true] {
        let mut house = House::new(asking(check()));
        house.world.change(|model| model.settings.access_log.auth = auth);
        house.refusal("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
        let address = house.auth.address().to_string();
        let log = house.world.stop();
        let of_service: Vec<_> = log.lines().filter(|line| line.contains(&address)).collect();
        assert_eq!(of_service.len(), usize::from(auth), "{log}");
        assert!(of_service.iter().all(|line| line.contains("\"GET /a HTTP/1.1\" 401 ")), "{log}");
        assert_eq!(log.lines().count(), 1 + usize::from(auth), "{log}");
    }
}

// === passwords that are not sent ===

fn md5(text: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(text).into()))
}

/// `a` with the password `secret`.
fn digest() -> Access {
    let users = vec![("a".to_owned(), md5("a:Members:secret"))];
    let users = Arc::new(Users::new(users, [1; 32]));
    let scheme = PasswordScheme::Digest;
    Access { basic: Some(BasicAuth { scheme, realm: "Members".to_owned(), users }), ..Access::default() }
}

/// A request for `/a` of a client that has been given this nonce.
fn digested(password: &str, nonce: &str, count: u32) -> String {
    let (nc, hash, request) = (format!("{count:08x}"), md5(&format!("a:Members:{password}")), md5("GET:/a"));
    let response = md5(&format!("{hash}:{nonce}:{nc}:c:auth:{request}"));
    with(&format!(
        "Digest username=\"a\", realm=\"Members\", nonce=\"{nonce}\", uri=\"/a\", qop=auth, nc={nc}, cnonce=\"c\", \
         response=\"{response}\", algorithm=MD5"
    ))
}

/// The nonce of a challenge, and whether an answer was right but for the nonce.
fn challenge(response: &Response) -> (String, bool) {
    assert_eq!(response.status, 401);
    let challenge = response.header("WWW-Authenticate").unwrap();
    let rest = challenge.strip_prefix("Digest algorithm=\"MD5\", qop=\"auth\", realm=\"Members\", nonce=\"");
    let (nonce, rest) = rest.unwrap_or_else(|| panic!("{challenge}")).split_once('"').unwrap();
    (nonce.to_owned(), rest == ", stale=\"true\"")
}

#[test]
fn a_password_may_be_shown_without_being_sent() {
    let house = House::new(digest());
    let mut client = house.world.http_client();
    let (nonce, is_stale) = challenge(&client.ask(GET));
    assert!(!is_stale);
    let mut peer = None;
    for count in [1, 2, 7] {
        client.send(digested("secret", &nonce, count));
        let peer = peer.get_or_insert_with(|| house.upstream.accept());
        let head = peer.read_head();
        assert!(!head.to_lowercase().contains("authorization"), "{head}");
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
    for count in [2, 20] {
        let (other, is_stale) = challenge(&client.ask(&digested("secret", &nonce, count)));
        assert!(is_stale && other != nonce, "no request is good twice, and no nonce for ever");
    }
    let other_target = digested("secret", &nonce, 3).replacen("GET /a ", "GET /b ", 1);
    let wrong = digested("wrong", &nonce, 3);
    for request in [&wrong, &other_target, &with(RIGHT[0]), &with("Digest nonsense")] {
        assert!(!challenge(&client.ask(request)).1, "{request}");
    }
    let (_, is_stale) = challenge(&client.ask(&digested("secret", "dcd98b7102dd2f0e8b11d0f600bfb0c093", 1)));
    assert!(is_stale, "a nonce of somebody else, such as another replica");
}

#[test]
fn the_time_of_the_whole_request_ends_the_question_too() {
    let (upstream, auth) = (Upstream::new(), Upstream::new());
    let world = World::http(&[upstream.address()], |model| {
        model.clusters.insert(ClusterId(1), Arc::new(cluster(&[auth.address()])));
        forward(model, |forward| forward.timeouts.request = Some(BRIEF));
        route(model, |route| route.access = Some(Box::new(asking(check()))));
    });
    let mut client = world.http_client();
    client.send(GET);
    let _silent = auth.accept_request();
    assert_eq!(client.read_response().status, 504);
    assert!(upstream.is_left_alone());
}

#[test]
fn one_request_asks_for_all_with_its_key() {
    let durations = vec![(Vec::new(), Duration::from_secs(60))];
    let cache = Some(ExternalAuthCache { key: template("$http_authorization"), durations });
    let house = House::new(asking(ExternalCheck { cache, ..check() }));
    let (first, mut service, _) = house.ask(GET);
    let mut second = house.world.http_client();
    second.send(GET);
    assert!(house.auth.is_left_alone(), "the answer is on its way");
    service.send(NO_CONTENT);
    for mut client in [first, second] {
        let (mut peer, _) = house.upstream.accept_request();
        peer.send(OK);
        drop(peer);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
}
