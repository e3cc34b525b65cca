//! The cache: no client gets a response to a request that the endpoint would see differently from its own.
//!
//! The endpoint returns its view of the request in each answer: method, target, headers, body. Each request
//! is sent twice: past the cache, to learn the view of it, and through the cache, to learn for which view the
//! response was made. The two may differ only in the claims of clients that the endpoint does not name in
//! `Vary`.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use adversary::endpoint::{Endpoint, read_head};
use adversary::{Attack, Case, Random, Run, binary};
use testkit::{Forebay, H2Client, Response};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "cache-views", cases: 1500, play: views },
    Attack { name: "cache-views-trusted", cases: 1500, play: views_behind_a_trusted_hop },
];

/// The header that passes the cache by.
const PASSING: &str = "x-pass";

/// Differences that are allowed: values that are unique to a request, and clients' claims.
const FREE: &[&str] = &[
    PASSING,
    "x-request-id",
    "user-agent",
    "accept-language",
    "cookie",
    "x-forwarded-for",
    "x-real-ip",
    "x-original-forwarded-for",
];

/// The header that the endpoint names in `Vary`, for targets that have a `v`.
const VARIED: &str = "accept-language";

const TARGETS: &[&str] = &[
    "/a",
    "/A",
    "/a/",
    "//a",
    "/a//",
    "/./a",
    "/b/../a",
    "/%61",
    "/a%2fb",
    "/a%2Fb",
    "/a/b",
    "/a%252fb",
    "/a;x",
    "/a;x/../b",
    "/a?",
    "/a?x=1",
    "/a?x=1&x=2",
    "/a?x=2&x=1",
    "/a?x=%31",
    "/a?X=1",
    "/a?x=1&",
    "/a?x=1;y=2",
    "/a?x=1&y=2",
    "/a.",
    "/a%20",
    "/a%00",
    "/a%3Fx=1",
    "/a?x=1?",
    "/v",
    "/v?x",
    "/v/",
    "/account",
    "/account/x.css",
    "/account%2Fx.css",
    "/account;x.css",
    "/account/..%2fx.css",
    "/a\\b",
    "/a%5cb",
    "*",
    "http://web.test/a",
    "http://other.test/a",
    "http://web.test:8080/a",
];

const HOSTS: &[&str] = &[
    "web.test",
    "web.test",
    "web.test",
    "WEB.test",
    "web.test.",
    "web.test:80",
    "web.test:8080",
    "other.test",
];

/// Headers that one framework or another looks at, and values of them.
const HEADERS: &[&str] = &[
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Forwarded-Uri",
    "X-Forwarded-Path",
    "X-Forwarded-Url",
    "X-Forwarded-Method",
    "X-Original-URL",
    "X-Original-URI",
    "X-Original-Host",
    "X-Original-Method",
    "X-Rewrite-URL",
    "X-Override-URL",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
    "X-HTTP-Host-Override",
    "X-Host",
    "X-Scheme",
    "X-Url-Scheme",
    "X-Auth-Request-Redirect",
    "X-Client-Cert",
    "ssl-client-verify",
    "Forwarded",
    "Front-End-Https",
    "User-Agent",
    "Accept-Language",
    "Cookie",
    "X-Forwarded-For",
    "X-Real-IP",
    "X-Request-ID",
    "X-Forwarded-User",
    "X-Forwarded-Email",
    "X-Forwarded-Client-Cert",
    "X-Remote-User",
    "Remote-User",
    "X-Auth-Request-User",
    "X-Script-Name",
    "X-Forwarded-Protocol",
    "X-Original-Path",
    "X-Sendfile-Type",
    "X-Requested-With",
    "X-Api-Key",
    "X-Whatever",
];

const VALUES: &[&str] = &[
    "1",
    "2",
    "/b",
    "https",
    "http",
    "on",
    "POST",
    "evil.test",
    "evil.test:8443",
    "443",
    "host=evil.test;proto=https",
];

/// A request to compare views of.
#[derive(Debug)]
struct Question {
    method: &'static str,
    target: &'static str,
    host: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
    is_http2: bool,
}

/// The endpoint's view of a request: lines, in order.
type View = Vec<String>;

fn views(run: &Run) {
    play_all(run, "false");
}

/// Headers of a trusted hop reach the endpoint, and so belong to the key.
fn views_behind_a_trusted_hop(run: &Run) {
    play_all(run, "true");
}

fn play_all(run: &Run, trusted: &str) {
    let endpoint = Endpoint::serving(|stream| while answer(stream) {});
    let forebay = binary::setup()
        .endpoint(endpoint.address())
        .setting("forebay-cache", "true")
        .setting("forebay-cache-default-ttl", "10m")
        .setting("forebay-cache-bypass", &format!("header:{PASSING}"))
        .setting("use-forwarded-headers", trusted)
        .arguments(["--cache-memory=64m"])
        .start();
    let (cases, hits) = (Cell::new(0_u64), AtomicU64::new(0));
    run.each(|case| {
        cases.set(cases.get() + 1);
        play(case, &forebay, &hits);
    });
    let hits = hits.load(Ordering::Relaxed);
    assert!(cases.get() < 500 || hits > cases.get() / 20, "{hits} hits in {} cases try nothing", cases.get());
}

fn play(case: &mut Case, forebay: &Forebay, hits: &AtomicU64) {
    let question = Question::random(&mut case.random);
    case.sends(format!("{question:?}").as_bytes());
    let Some(own) = question.ask(forebay, true) else { return };
    let given = question.ask(forebay, false).expect("what is answered once is answered again");
    let status = given.header("cache-status").unwrap_or_default();
    if status.contains("; hit") {
        hits.fetch_add(1, Ordering::Relaxed);
    }
    let (own, given) = (view_of(&own), view_of(&given));
    compare(&question, &own, &given)
        .unwrap_or_else(|what| panic!("{what} differs ({status}):\nasked {own:#?}\ngiven {given:#?}"));
}

/// The first forbidden difference.
fn compare(question: &Question, own: &View, given: &View) -> Result<(), String> {
    let is_method_alike =
        own[0] == given[0] || question.method == "HEAD" && own[0] == "HEAD" && given[0] == "GET";
    if !is_method_alike || own[1] != given[1] {
        return Err("method or target".to_owned());
    }
    let varied = question.target.starts_with("/v");
    let counts = |line: &&String| {
        let name = line.split_once(": ").map_or("", |(name, _)| name);
        !FREE.contains(&name) || varied && name == VARIED
    };
    let all = |view: &View| -> Vec<String> { view[2..].iter().filter(counts).cloned().collect() };
    if all(own) != all(given) {
        return Err("what is not the client's own".to_owned());
    }
    // A page that says nothing of its freshness, and was made for a cookie, is nobody else's.
    let cookie = |view: &View| view.iter().find(|line| line.starts_with("cookie: ")).cloned();
    match cookie(given) {
        Some(theirs) if question.target.contains("account") && cookie(own).as_ref() != Some(&theirs) => {
            Err("whose account it is".to_owned())
        }
        _ => Ok(()),
    }
}

impl Question {
    fn random(random: &mut Random) -> Self {
        let count = [0, 0, 1, 1, 2][random.below(5)];
        let headers = (0..count).map(|_| (*random.pick(HEADERS), *random.pick(VALUES))).collect();
        // Targets repeat often enough for cache hits.
        let targets = if random.once_in(2) { &TARGETS[..6] } else { TARGETS };
        let hosts = if random.once_in(2) { &HOSTS[..1] } else { HOSTS };
        let is_fat = random.once_in(12);
        Self {
            method: *random
                .pick(&["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "HEAD", "get", "OPTIONS", "POST"]),
            target: *random.pick(targets),
            host: *random.pick(hosts),
            headers,
            body: if is_fat { *random.pick(&["x=1", "x=2"]) } else { "" },
            is_http2: random.once_in(3),
        }
    }

    /// None where it is refused.
    fn ask(&self, forebay: &Forebay, passes: bool) -> Option<Response> {
        let response = if self.is_http2 {
            self.ask_http2(forebay, passes)
        } else {
            Some(self.ask_http1(forebay, passes))
        }?;
        (response.status == 200).then_some(response)
    }

    fn fields(&self, passes: bool) -> Vec<(&str, &str)> {
        self.headers.iter().copied().chain(passes.then_some((PASSING, "1"))).collect()
    }

    fn ask_http1(&self, forebay: &Forebay, passes: bool) -> Response {
        let Self { method, target, host, body, .. } = self;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in self.fields(passes) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !body.is_empty() {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        let mut client = forebay.client();
        client.send(format!("{head}\r\n{body}"));
        if *method == "HEAD" { client.read_response_to_head() } else { client.read_response() }
    }

    fn ask_http2(&self, forebay: &Forebay, passes: bool) -> Option<Response> {
        // The library's URIs are stricter than what can be sent.
        if !self.target.starts_with('/') || self.target.contains('\\') {
            return None;
        }
        let client = H2Client::clear(forebay.address());
        let fields: Vec<(String, &str)> =
            self.fields(passes).into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let request = client.request(self.method, self.host, self.target, &fields);
        let mut call = client.try_send(request, self.body.is_empty()).ok()?;
        if !self.body.is_empty() {
            call.sender.try_send(self.body.as_bytes(), true).ok()?;
        }
        call.try_read_response().ok()
    }
}

/// The view that the endpoint wrote into its answer.
fn view_of(response: &Response) -> View {
    let view = response.header("x-view").expect("the endpoint says what it saw");
    view.split("\\n").map(str::to_owned).collect()
}

/// Answers a request with the endpoint's view of it. False once the connection is over.
fn answer(stream: &mut TcpStream) -> bool {
    let Some(head) = read_head(stream) else { return false };
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let (method, target) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let target = target.trim_end_matches(" HTTP/1.1");
    let mut view = vec![method.to_owned(), target.to_owned()];
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        view.push(format!("{}: {}", name.to_ascii_lowercase(), value.trim()));
    }
    let Some(body) = read_body(stream, &view) else { return false };
    view.push(format!("body {}", body.escape_ascii()));
    let freshness = if target.contains("account") {
        "Last-Modified: Sun, 01 Nov 2020 00:00:00 GMT"
    } else {
        "Cache-Control: max-age=600"
    };
    let vary = if target.starts_with("/v") { format!("Vary: {VARIED}\r\n") } else { String::new() };
    let view = view.join("\n").as_bytes().escape_ascii().to_string();
    let body = if method == "HEAD" { "" } else { "ok" };
    let answer =
        format!("HTTP/1.1 200 OK\r\n{freshness}\r\n{vary}X-View: {view}\r\nContent-Length: 2\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).is_ok()
}

fn read_body(stream: &mut TcpStream, view: &View) -> Option<Vec<u8>> {
    let value = |name: &str| view.iter().find_map(|line| line.strip_prefix(name));
    if let Some(len) = value("content-length: ") {
        let mut body = vec![0; len.parse().ok()?];
        stream.read_exact(&mut body).ok()?;
        return Some(body);
    }
    let mut body = Vec::new();
    if value("transfer-encoding: ").is_some() {
        let mut byte = [0];
        while !body.ends_with(b"0\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            body.push(byte[0]);
        }
    }
    Some(body)
}
