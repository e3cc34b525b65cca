//! The cookbook of snippets, docs/snippets.md: each entry is applied as it stands on the page, and each line
//! of its tables is a request.

mod page;

use testkit::manifest::{Ingress, config_map, secret, service};
use testkit::{Canned, Forebay, Response, Setup};

use crate::setup;
use page::{Entry, Expected, Row, Variant};

/// The host of the page, which each entry has as one of its own.
const HOST: &str = "example.com";

/// The endpoints, as the page describes them.
struct Endpoints {
    web: Canned,
    other: Canned,
    auth: Canned,
}

impl Endpoints {
    fn new() -> Self {
        Self { web: Canned::choosing(web), other: Canned::saying("other"), auth: Canned::choosing(auth) }
    }

    fn services(&self) -> String {
        service("web", &[self.web.address()])
            + &service("other", &[self.other.address()])
            + &service("auth", &[self.auth.address()])
            + &secret("users", "Opaque", &[("auth", "alice:{PLAIN}secret\n")])
            + &config_map("fastcgi", &[("SCRIPT_FILENAME", "/app/index.php")])
    }
}

fn web(head: &str) -> Vec<u8> {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let answer = |status: &str, fields: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}\r\n{body}").into_bytes()
    };
    match path {
        "/page" => answer(
            "200 OK",
            "Content-Type: text/html\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1\"\r\n",
            "<html><head></head><body><a href=\"/a\">a</a> <a href=\"/b\">b</a></body></html>",
        ),
        "/style.css" => answer("200 OK", "Content-Type: text/css\r\n", "a { background: url(/a.png) }"),
        "/login" => answer("200 OK", "Set-Cookie: session=1; Path=/\r\n", "in"),
        "/moved" => answer("302 Found", "Location: http://backend.internal/new\r\n", ""),
        "/missing" => answer("404 Not Found", "Content-Type: text/plain\r\n", "missing"),
        "/broken" => answer("500 Internal Server Error", "Content-Type: text/plain\r\n", "broken"),
        "/headers" => answer(
            "200 OK",
            "Content-Type: text/html\r\nServer: Apache\r\nX-Powered-By: PHP/8\r\nX-Frame-Options: DENY\r\nCache-Control: no-store\r\n",
            "ok",
        ),
        _ => answer("200 OK", "Content-Type: text/html\r\n", "ok"),
    }
}

/// Lets everybody in but those who say that they are nobody.
fn auth(head: &str) -> Vec<u8> {
    if head.to_ascii_lowercase().contains("cookie: nobody") {
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()
    } else {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Auth-Request-User: alice\r\nX-Auth-Request-Email: alice@example.org\r\nSet-Cookie: token=t; Path=/\r\n\r\n".to_vec()
    }
}

fn host_of(entry: &Entry) -> String {
    format!("n{}.test", entry.number)
}

/// The manifest of an entry's Ingress.
fn ingress(entry: &Entry, variant: &Variant) -> String {
    let host = host_of(entry);
    let ingress = Ingress::new(&format!("n{}", entry.number)).path(&host, "Prefix", "/", "web");
    let annotations = variant.settings.iter().filter(|(key, _)| key.contains('/'));
    annotations
        .fold(ingress, |ingress, (key, value)| ingress.annotation(key, &value.replace(HOST, &host)))
        .document()
}

fn allowed(endpoints: &Endpoints) -> Setup {
    setup()
        .setting("allow-snippet-annotations", "true")
        .setting("annotations-risk-level", "Critical")
        .arguments(["--cache-memory=16m"])
        .manifest("services.yaml", endpoints.services())
        .manifest("web.yaml", "")
}

fn needs_settings(variant: &Variant) -> bool {
    variant.settings.iter().any(|(key, _)| !key.contains('/'))
}

/// Starts a Forebay with one entry, whose keys of the `ConfigMap` hold for all hosts.
fn alone(endpoints: &Endpoints, entry: &Entry, variant: &Variant) -> Forebay {
    let keys = variant.settings.iter().filter(|(key, _)| !key.contains('/'));
    let setup = allowed(endpoints).manifest("one.yaml", ingress(entry, variant));
    keys.fold(setup, |setup, (key, value)| setup.setting(key, &value.replace(HOST, &host_of(entry)))).start()
}

/// Makes the requests of a variant's tables, and returns what is not as the page says.
fn check(forebay: &Forebay, endpoints: &Endpoints, entry: &Entry, variant: &Variant) -> Vec<String> {
    assert!(!variant.rows.is_empty(), "{}: no request shows what it does", entry.title);
    variant.rows.iter().flat_map(|row| check_row(forebay, endpoints, entry, row)).collect()
}

fn check_row(forebay: &Forebay, endpoints: &Endpoints, entry: &Entry, row: &Row) -> Vec<String> {
    let host = host_of(entry);
    let own = |text: &str| text.replace(HOST, &host);
    let mut head = format!("{} HTTP/1.1\r\n", own(&row.line));
    if !row.fields.iter().any(|field| field.starts_with("Host: ")) {
        head.extend(["Host: ", &host, "\r\n"]);
    }
    row.fields.iter().for_each(|field| head.extend([&*own(field), "\r\n"]));
    head += "\r\n";
    let before = endpoints.web.heads().len();
    let mut client = forebay.client();
    let is_closed = row.expected.iter().any(|one| matches!(one, Expected::Closed));
    if is_closed {
        client.send(&head);
        let (bytes, _) = client.read_to_end();
        assert!(bytes.is_empty(), "{}: {} is answered", entry.title, row.line);
        return Vec::new();
    }
    let response = client.ask(&head);
    let told = endpoints.web.heads().get(before..).and_then(<[String]>::last).cloned().unwrap_or_default();
    let wrong = row.expected.iter().filter_map(|one| differs(one, &response, &told, &own));
    wrong.map(|what| format!("{}. {}: {}: {what}", entry.number, entry.title, row.line)).collect()
}

/// The difference from the expectation, if there is one.
fn differs(
    expected: &Expected,
    response: &Response,
    told: &str,
    own: &impl Fn(&str) -> String,
) -> Option<String> {
    let of_endpoint = |name: &str| {
        let fields = told.lines().skip(1).filter_map(|line| line.split_once(": "));
        let values: Vec<_> = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).collect();
        (!values.is_empty()).then(|| values.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(", "))
    };
    let text = String::from_utf8_lossy(&response.body).into_owned();
    let (is_so, found) = match expected {
        Expected::Status(status) => (response.status == *status, response.status.to_string()),
        Expected::Closed => (false, "an answer".to_owned()),
        Expected::Header(name, value) => {
            let found = response.header(name);
            (found.as_deref() == Some(&*own(value)), format!("{found:?}"))
        }
        Expected::NoHeader(name) => (response.header(name).is_none(), format!("{:?}", response.header(name))),
        Expected::Text(expected) => (text == own(expected), text),
        Expected::Part(part) => (text.contains(&own(part)), text),
        Expected::Line(line) => (told.starts_with(&own(line)), told.to_owned()),
        Expected::Told(name, value) => {
            let found = of_endpoint(name);
            (found.as_deref() == Some(&*own(value)), format!("{found:?}"))
        }
        Expected::NotTold(name) => (of_endpoint(name).is_none(), told.to_owned()),
    };
    (!is_so).then(|| format!("{expected:?}, but {found}"))
}

#[test]
fn the_page_has_a_hundred_snippets_and_refuses_few() {
    let entries = page::read();
    assert!(
        entries.iter().enumerate().all(|(at, entry)| entry.number == at + 1),
        "the numbers follow each other"
    );
    let refused = entries.iter().filter(|entry| entry.refusal.is_some()).count();
    let works = entries.len() - refused;
    assert!(works >= 90 && refused <= 10, "{works} work, {refused} are refused");
    for entry in entries.iter().filter(|entry| entry.refusal.is_some()) {
        assert!(entry.instead.is_some(), "{}: nothing takes its place", entry.title);
    }
}

#[test]
fn snippets_of_ingresses_work_as_the_page_says() {
    let (endpoints, entries) = (Endpoints::new(), page::read());
    let here = entries.iter().filter(|entry| entry.refusal.is_none() && !needs_settings(&entry.written));
    let here: Vec<_> = here.collect();
    let manifests: String = here.iter().map(|entry| ingress(entry, &entry.written)).collect();
    let forebay = allowed(&endpoints).manifest("all.yaml", manifests).start();
    let wrong: Vec<_> =
        here.iter().flat_map(|entry| check(&forebay, &endpoints, entry, &entry.written)).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), forebay.log().join("\n"));
}

#[test]
fn snippets_of_the_config_map_work_as_the_page_says() {
    let (endpoints, entries) = (Endpoints::new(), page::read());
    let mut wrong = Vec::new();
    for entry in entries.iter().filter(|entry| entry.refusal.is_none() && needs_settings(&entry.written)) {
        let forebay = alone(&endpoints, entry, &entry.written);
        wrong.extend(check(&forebay, &endpoints, entry, &entry.written));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_refused_names_the_way_out_and_that_works() {
    let (endpoints, entries) = (Endpoints::new(), page::read());
    let mut wrong = Vec::new();
    for entry in &entries {
        let (Some(message), Some(instead)) = (&entry.refusal, &entry.instead) else { continue };
        let closed = alone(&endpoints, entry, &entry.written);
        assert_eq!(closed.client().get(&host_of(entry), "/").status, 503, "{}", entry.title);
        closed.await_log(message);
        drop(closed);
        let forebay = alone(&endpoints, entry, instead);
        wrong.extend(check(&forebay, &endpoints, entry, instead));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
