//! `forebay explain`: what it says is what happens.

use std::net::SocketAddr;

use serde_json::Value;
use testkit::manifest::{Ingress, config_map, secret, service, tls_secret};
use testkit::{Authority, Canned, Connection, Forebay, TlsClient};

use crate::commands::run;
use crate::setup;

/// The request line and headers of a request, besides its host.
#[derive(Clone, Copy)]
struct Request {
    method: &'static str,
    target: &'static str,
    headers: &'static [&'static str],
}

const TARGETS: &[&str] =
    &["/", "/app", "/app/", "/app//x/%2e/y?a=b&c=%20", "/app/admin", "/%2e%2e/up", "/healthz"];

const REQUESTS: &[(&str, &[&str])] = &[
    ("GET", &[]),
    ("POST", &["Content-Length: 0"]),
    ("TRACE", &[]),
    ("GET", &["Authorization: Basic YTpi", "X-Request-ID: mine"]),
    ("GET", &["Authorization: Basic YTpj", "Cookie: canary=always; key=7"]),
    ("GET", &["X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Canary: always"]),
    ("OPTIONS", &["Origin: https://page.test", "User-Agent: bad bot"]),
    ("GET", &["Expect: nonsense"]),
    ("GET", &["Odd name: x"]),
    ("POST", &["Content-Length: 3000000"]),
];

/// Hosts, each with annotations of its own.
const HOSTS: &[(&str, &[(&str, &str)])] = &[
    ("plain.test", &[]),
    ("rewrite.test", &[("rewrite-target", "/new"), ("x-forwarded-prefix", "/app")]),
    ("redirect.test", &[("permanent-redirect", "https://other.test/x?y=z")]),
    ("root.test", &[("app-root", "/start"), ("upstream-vhost", "inner.test")]),
    ("tls.test", &[("force-ssl-redirect", "true")]),
    ("basic.test", &[("auth-type", "basic"), ("auth-secret", "users"), ("auth-realm", "here")]),
    (
        "any.test",
        &[
            ("auth-type", "basic"),
            ("auth-secret", "users"),
            ("satisfy", "any"),
            ("whitelist-source-range", "10.0.0.0/8"),
        ],
    ),
    ("denied.test", &[("whitelist-source-range", "10.0.0.0/8")]),
    (
        "allowed.test",
        &[("whitelist-source-range", "127.0.0.0/8"), ("limit-rps", "100"), ("limit-rpm", "10000")],
    ),
    ("cors.test", &[("enable-cors", "true"), ("cors-allow-origin", "https://page.test")]),
    ("closed.test", &[("auth-type", "basic"), ("auth-secret", "missing")]),
    ("tls-auth.test", &[("auth-tls-secret", "default/missing")]),
    ("size.test", &[("proxy-body-size", "10")]),
    ("auth.test", &[("auth-url", "http://yes.default.svc/check?to=$request_uri")]),
    (
        "errors.test",
        &[
            ("custom-http-errors", "403,413"),
            ("default-backend", "errors"),
            ("denylist-source-range", "127.0.0.1"),
        ],
    ),
    (
        "snippet.test",
        &[(
            "configuration-snippet",
            "if ($arg_a) { return 302 /elsewhere; }\nproxy_set_header X-Path $uri;\nadd_header X-Said yes;",
        )],
    ),
    ("server.test", &[("server-snippet", "rewrite ^/app$ /moved last;\nlocation /app/admin { deny all; }")]),
    ("canary.test", &[]),
    ("hash.test", &[("upstream-hash-by", "$cookie_key")]),
];

struct World {
    forebay: Forebay,
    upstreams: [Canned; 4],
    _yes: Canned,
}

impl World {
    fn new() -> Self {
        let upstreams = ["one", "two", "next", "errors"].map(Canned::saying);
        let yes = Canned::saying("");
        let [one, two, next, errors] = upstreams.each_ref().map(Canned::address);
        let mut documents: Vec<_> =
            HOSTS.iter().map(|(host, annotations)| ingress(host, annotations)).collect();
        documents.extend([
            Ingress::new("canary-next")
                .path("canary.test", "Prefix", "/app", "next")
                .annotation("canary", "true")
                .annotation("canary-by-header", "X-Canary")
                .annotation("canary-by-cookie", "canary")
                .document(),
            Ingress::new("exact").path("exact.test", "Exact", "/app/", "web").document(),
            Ingress::new("none").path("none.test", "Prefix", "/", "none").document(),
            service("web", &[one, two]),
            service("next", &[next]),
            service("errors", &[errors]),
            service("none", &[]),
            service("yes", &[yes.address()]),
            secret("users", "Opaque", &[("auth", "a:{PLAIN}b")]),
        ]);
        let forebay = setup()
            .setting("allow-snippet-annotations", "true")
            .setting("annotations-risk-level", "Critical")
            .setting("block-user-agents", "bad bot")
            .setting("add-headers", "default/added")
            .manifest("added.yaml", config_map("added", &[("X-Added", "$host")]))
            .manifest("web.yaml", documents.concat())
            .start();
        Self { forebay, upstreams, _yes: yes }
    }

    fn explain(&self, host: &str, request: Request) -> Value {
        let Request { method, target, headers } = request;
        let url = format!("http://{host}:{}{target}", self.forebay.address().port());
        let headers: Vec<_> = headers.iter().map(|header| format!("&header={}", encode(header))).collect();
        let asked = format!("/explain?method={method}&url={}{}", encode(&url), headers.concat());
        let response = self.forebay.admin(&asked);
        assert_eq!(response.status, 200, "{asked}: {}", response.text());
        serde_json::from_slice(&response.body).expect("JSON")
    }

    /// Sends the request, and returns the head of the response, and that which each upstream got.
    fn send(&self, host: &str, request: Request) -> (String, Vec<(SocketAddr, String)>) {
        let Request { method, target, headers } = request;
        let before: Vec<_> = self.upstreams.iter().map(|one| one.heads().len()).collect();
        let port = self.forebay.address().port();
        let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
        let mut client = Connection::to(self.forebay.address());
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}\r\n"));
        let head = client.read_head();
        let of = |(one, before): (&Canned, usize)| {
            one.heads().into_iter().skip(before).map(|head| (one.address(), head)).collect::<Vec<_>>()
        };
        (head, self.upstreams.iter().zip(before).flat_map(of).collect())
    }
}

fn ingress(host: &str, annotations: &[(&str, &str)]) -> String {
    let name = host.split('.').next().expect("a name");
    let ingress = Ingress::new(name).path(host, "Prefix", "/app", "web");
    annotations.iter().fold(ingress, |ingress, (name, value)| ingress.annotation(name, value)).document()
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat()
}

/// A head without the lines that differ from request to request, or that are about the connection.
fn lines(head: &str) -> Vec<&str> {
    let differs =
        |line: &&str| ["Date: ", "Connection: ", "X-Request-ID: "].iter().any(|name| line.starts_with(name));
    head.lines().filter(|line| !line.is_empty() && !differs(line)).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The explanation is compared with the proxy's behaviour: the head of the answer to the last byte, and the
/// heads that the endpoints get.
#[test]
fn what_is_said_is_what_is_done() {
    let world = World::new();
    let hosts = HOSTS.iter().map(|(host, _)| *host).chain(["exact.test", "none.test", "nobody.test"]);
    let (mut answered, mut forwarded) = (0, 0);
    for host in hosts {
        for &target in TARGETS {
            for &(method, headers) in REQUESTS {
                let request = Request { method, target, headers };
                let told = world.explain(host, request);
                let awaits_body = headers.iter().any(|header| header.ends_with("000"));
                let destinations = told["destinations"].as_array().expect("a list");
                if awaits_body && !destinations.is_empty() {
                    continue;
                }
                let (head, sent) = world.send(host, request);
                let what = format!("{method} {host} {target} {headers:?}: {told:#}\n{head}\n{sent:#?}");
                match destinations.as_slice() {
                    [] => {
                        answered += 1;
                        assert_eq!(lines(&head), lines(text(&told, "answer")), "{what}");
                        assert!(sent.is_empty(), "{what}");
                    }
                    [to] => {
                        forwarded += 1;
                        let [(address, sent)] = sent.as_slice() else { panic!("{what}") };
                        assert_eq!(lines(sent), lines(text(to, "request")), "{what}");
                        let endpoints = to["endpoints"].as_array().expect("a list");
                        assert!(endpoints.iter().any(|one| *one == address.to_string()), "{what}");
                    }
                    more => panic!("{} destinations: {what}", more.len()),
                }
            }
        }
    }
    assert!(answered > 300 && forwarded > 200, "{answered} {forwarded}");
}

#[test]
fn steps_have_the_annotations_and_keys_that_put_them_there() {
    let world = World::new();
    let told = world.explain("rewrite.test", Request { method: "GET", target: "/app/x", headers: &[] });
    let steps = told["steps"].as_array().expect("a list");
    let of = |name: &str| {
        steps.iter().find(|step| text(step, "step") == name).unwrap_or_else(|| panic!("{told:#}"))
    };
    let rewrite = of("rewrite");
    assert_eq!(
        (text(rewrite, "verdict"), text(rewrite, "text")),
        ("changes", "the endpoint is asked for /new")
    );
    let from = &rewrite["from"][0];
    assert_eq!(
        (text(from, "name"), text(from, "object")),
        ("rewrite-target", "Ingress default/rewrite"),
        "{told:#}"
    );
    assert!(text(from, "file").ends_with("web.yaml") && from["line"].as_u64() > Some(0), "{told:#}");
    let from = &of("blocked headers")["from"][0];
    assert_eq!(text(from, "object"), "ConfigMap default/settings", "{told:#}");
    for (name, is_default) in
        [("rewrite", false), ("blocked headers", false), ("route", false), ("timeouts", true)]
    {
        assert_eq!(of(name)["isDefault"], is_default, "{name}: {told:#}");
    }
    let names: Vec<_> = steps.iter().map(|step| text(step, "step")).collect();
    assert_eq!(
        names,
        [
            "blocked headers",
            "route",
            "body length",
            "rewrite",
            "backend",
            "headers to the endpoint",
            "timeouts",
            "tries"
        ]
    );
    assert_eq!(told["isServed"], true);
}

#[test]
fn steps_have_the_fields_of_the_rule_that_put_them_there() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gateway.yaml");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("route.yaml");
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: fields, namespace: shop}\nspec:\n  \
                 parentRefs: [{name: public}]\n  hostnames: [fields.example.com]\n  rules:\n  - filters:\n    \
                 - type: RequestHeaderModifier\n      requestHeaderModifier: {set: [{name: x-a, value: b}]}\n    \
                 timeouts: {request: 7s}\n    retry: {attempts: 2}\n    backendRefs: [{name: web, port: 80}]\n";
    std::fs::write(&file, route).expect("it is written");
    let file = file.to_str().expect("a path of text");
    let (code, stdout, stderr) = run(&[
        "explain",
        "http://fields.example.com/",
        "--manifests",
        example,
        "--manifests",
        file,
        "--endpoints",
        "shop/web=192.0.2.1:80",
    ]);
    for said in [
        format!("filters: RequestHeaderModifier (HTTPRoute shop/fields, {file}:9)"),
        format!("timeouts: {{\"request\":\"7s\"}} (HTTPRoute shop/fields, {file}:8)"),
        format!("retry: {{\"codes\":[],\"attempts\":2}} (HTTPRoute shop/fields, {file}:8)"),
    ] {
        assert!(stdout.contains(&said), "{code} {said}: {stdout}{stderr}");
    }
}

#[test]
fn what_is_not_known_is_said_to_be_so() {
    let canned = Canned::saying("ok");
    let forebay = setup()
        .endpoint(canned.address())
        .annotation("auth-url", "http://auth.default.svc/check")
        .annotation("auth-signin", "https://login.test/in")
        .annotation("limit-rps", "5")
        .manifest("auth.yaml", service("auth", &[canned.address()]) + &service("next", &[canned.address()]))
        .manifest(
            "canary.yaml",
            Ingress::new("canary")
                .path("web.test", "Prefix", "/", "next")
                .annotation("canary", "true")
                .annotation("canary-weight", "30")
                .document(),
        )
        .start();
    let told = forebay.admin("/explain?url=http://web.test/x");
    let told: Value = serde_json::from_slice(&told.body).expect("JSON");
    let unknown = |step: &&Value| text(step, "verdict") == "unknown";
    let steps: Vec<_> = told["steps"].as_array().expect("a list").iter().filter(unknown).collect();
    let names: Vec<_> = steps.iter().map(|step| text(step, "step")).collect();
    assert_eq!(names, ["backend", "limits", "auth service"], "{told:#}");
    let said = text(steps[2], "text");
    assert!(
        said.contains("GET /check of auth.default.svc") && said.contains("401: 302 to https://login.test/in"),
        "{said}"
    );
    assert!(said.contains("403: 403") && said.contains("anything else: 500"), "{said}");
    let choices: Vec<_> =
        told["destinations"].as_array().expect("a list").iter().map(|to| text(to, "choice")).collect();
    assert_eq!(choices, ["mainline, by chance: 70 of 100", "canary, by chance: 30 of 100"]);
    assert_eq!(canned.connections(), 0, "nobody is asked");
}

#[test]
fn a_trace_is_told_with_what_is_not_known_of_it() {
    const CLIENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let canned = Canned::saying("ok");
    let forebay = setup()
        .endpoint(canned.address())
        .annotation("enable-opentelemetry", "true")
        .setting("otlp-collector-host", "127.0.0.1")
        .setting("otel-sampler", "TraceIdRatioBased")
        .setting("otel-sampler-ratio", "0.25")
        .start();
    let explain = |more: &str| {
        let told = forebay.admin(&format!("/explain?url=http://web.test/x{more}"));
        let told: Value = serde_json::from_slice(&told.body).expect("JSON");
        let steps = told["steps"].as_array().expect("a list");
        let step = steps.iter().find(|step| text(step, "step") == "tracing").expect("a step").clone();
        let from = step["from"].as_array().expect("a list");
        assert!(from.iter().any(|from| text(from, "name") == "enable-opentelemetry"), "{told:#}");
        let request = text(&told["destinations"][0], "request").to_owned();
        let line = request.lines().find_map(|line| line.strip_prefix("traceparent: ")).map(str::to_owned);
        (text(&step, "verdict").to_owned(), text(&step, "text").to_owned(), line.expect("a traceparent"))
    };
    let (verdict, said, line) = explain("");
    assert_eq!((&*verdict, &*said), ("unknown", "the span begins a trace; by chance it is sent: 25 % are"));
    assert_eq!(line, "00-(made for each request)-(made for each request)-(by chance 00 or 01)");
    let (verdict, said, line) = explain(&format!("&header={}", encode(&format!("traceparent: {CLIENT}"))));
    assert_eq!((&*verdict, &*said), ("changes", "the span is a child of the client's; it is sent"));
    assert_eq!(line, "00-0af7651916cd43dd8448eb211c80319c-(made for each request)-01");
}

#[test]
fn certificates_and_passthrough_are_told() {
    let authority = Authority::new("authority");
    let (own, fallback) = (authority.server(&["web.test"]), authority.server(&["rest.test"]));
    let canned = Canned::saying("ok");
    let forebay = setup()
        .endpoint(canned.address())
        .tls("web.test")
        .manifest("certificate.yaml", tls_secret("certificate", &own) + &tls_secret("rest", &fallback))
        .manifest(
            "through.yaml",
            Ingress::new("through")
                .path("through.test", "Prefix", "/", "web")
                .annotation("ssl-passthrough", "true")
                .document(),
        )
        .arguments(["--default-ssl-certificate=default/rest", "--enable-ssl-passthrough"])
        .start();
    let explain = |url: &str| -> Value {
        let response = forebay.admin(&format!("/explain?url={url}"));
        serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("{}", response.text()))
    };
    for (name, certificate, secret) in [("web.test", &own, "certificate"), ("other.test", &fallback, "rest")]
    {
        let told = explain(&format!("https://{name}/"));
        assert_eq!(told["certificate"], format!("Secret default/{secret}"), "{told:#}");
        assert!(forebay.tls_client(&TlsClient::new(name)).tls_info().shows(certificate), "{name}");
    }
    let told = explain("https://through.test/");
    assert!(text(&told, "outcome").contains("passed through to tls-default-web-80"), "{told:#}");
    let told = explain("http://web.test/a");
    assert_eq!((&told["status"], &told["isServed"]), (&308.into(), &true.into()), "{told:#}");
}

#[test]
fn the_command_reads_files_and_asks_a_running_one() {
    let canned = Canned::saying("ok");
    let forebay =
        setup().endpoint(canned.address()).annotation("denylist-source-range", "10.0.0.0/8").start();
    let manifests = forebay.manifests();
    let manifests = manifests.to_str().expect("a path of text");
    let admin = format!("--admin=http://{}", forebay.admin_address());
    for source in [&["--manifests", manifests][..], &[&admin]] {
        let explain = |arguments: &[&str]| run(&[&["explain"], arguments, source].concat());
        let (code, stdout, stderr) = explain(&["http://web.test/a?b", "-H", "X-One: 1"]);
        assert_eq!((code, &*stderr), (0, ""), "{stdout}");
        for said in [
            "Ingress default/web",
            "web.yaml:",
            "GET /a?b HTTP/1.1",
            "X-One: 1",
            &canned.address().to_string(),
        ] {
            assert!(stdout.contains(said), "{said}: {stdout}");
        }
        let (code, stdout, _) = explain(&["http://web.test/", "--client-ip", "10.1.2.3", "--output", "json"]);
        let told: Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(
            (code, &told["status"], text(&told, "reason")),
            (1, &403.into(), "address_denied"),
            "{told:#}"
        );
        let last = told["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
        assert_eq!(
            (text(last, "verdict"), text(&last["from"][0], "name")),
            ("answers", "denylist-source-range")
        );
        for wrong in [&["ftp://web.test"][..], &["http://web.test", "-H", "X"], &["http://web.test/a b"]] {
            let (code, stdout, stderr) = explain(wrong);
            assert_eq!((code, &*stdout, stderr.lines().count()), (2, "", 1), "{wrong:?}: {stderr}");
        }
    }
    assert_eq!(canned.connections(), 0);
}

#[test]
fn questions_to_the_admin_server_are_bounded() {
    let forebay = setup().start();
    for (query, status) in [
        ("", 400),
        ("?url=nonsense", 400),
        ("?url=http://web.test/&colour=red", 400),
        ("?url=http://web.test/&client-ip=me", 400),
        (&format!("?url=http://web.test/&header={}", encode(&format!("X: {}", "x".repeat(17_000)))), 400),
        (&format!("?url=http://web.test/&header={}", encode(&format!("X: {}", "x".repeat(15_000)))), 200),
    ] {
        let response = forebay.admin(&format!("/explain{query}"));
        assert_eq!(response.status, status, "{}: {}", query.len(), response.text());
    }
}

/// Each question has threads and TLS configurations of its own: one is answered at a time, and few wait.
#[test]
fn no_more_questions_wait_than_may() {
    let forebay = setup().start();
    let question =
        "GET /explain?url=http://web.test/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut askers: Vec<_> = (0..40).map(|_| Connection::to(forebay.admin_address())).collect();
    for asker in &mut askers {
        asker.send(question);
    }
    let statuses: Vec<_> = askers.iter_mut().map(|asker| asker.read_response().status).collect();
    let count = |status| statuses.iter().filter(|&&one| one == status).count();
    assert!(count(200) > 0 && count(503) > 0 && count(200) + count(503) == 40, "{statuses:?}");
}
