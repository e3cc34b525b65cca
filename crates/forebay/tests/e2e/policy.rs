//! Policies of Forebay's own for routes of the Gateway API: each section takes effect. That fields mean what
//! annotations mean, the tests of `control` compare.

use std::net::SocketAddr;

use testkit::manifest::{secret, service};
use testkit::{Canned, Connection, Forebay, Setup, Upstream};

use crate::{firewall, setup};

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: forebay}\n\
    spec: {controllerName: forebay.io/gateway-controller}\n---\n\
    apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: web}\n\
    spec: {gatewayClassName: forebay, listeners: [{name: http, port: 80, protocol: HTTP}]}\n---\n";

/// A route of that name for host `NAME.test`, to port 80 of Service `svc`.
fn route(name: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\n\
         spec: {{parentRefs: [{{name: web}}], hostnames: [{name}.test], rules: [{{name: own, backendRefs: [{{name: svc, port: 80}}]}}]}}\n---\n"
    )
}

/// A policy for an object, named like it.
fn policy(kind: &str, name: &str, sections: &str) -> String {
    format!(
        "apiVersion: forebay.io/v1alpha1\nkind: ForebayPolicy\nmetadata: {{name: {name}}}\n\
         spec: {{targetRefs: [{{group: gateway.networking.k8s.io, kind: {kind}, name: {name}}}], {sections}}}\n---\n"
    )
}

/// A route with a policy.
fn ruled(name: &str, sections: &str) -> String {
    route(name) + &policy("HTTPRoute", name, sections)
}

/// A Gateway, these documents, and the Service.
fn house(setup: Setup, endpoints: &[SocketAddr], documents: &[String]) -> Forebay {
    setup
        .manifest("gateway.yaml", GATEWAY.to_owned() + &documents.concat())
        .manifest("service.yaml", service("svc", endpoints))
        .start()
}

fn status(forebay: &Forebay, name: &str) -> u16 {
    forebay.client().get(&format!("{name}.test"), "/").status
}

#[test]
fn clients_are_refused_by_address_password_and_number() {
    let upstream = Canned::saying("hello");
    let users = secret("users", "Opaque", &[("auth", "a:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n")]);
    let documents = [
        route("open"),
        ruled("denied", "access: {denylistSourceRange: [127.0.0.0/8]}"),
        ruled("office", "access: {allowlistSourceRange: [192.0.2.1]}"),
        ruled("users", "auth: {type: basic, secret: users, realm: r}"),
        ruled("keys", "auth: {apiKeys: keys, apiKeyHeader: X-Key, apiKeyParameter: key}"),
        ruled("few", "limits: {requests: [2/1h]}"),
        ruled("closed", "auth: {type: basic, secret: missing}"),
        ruled("keyless", "auth: {apiKeys: missing}"),
        users,
        secret("keys", "Opaque", &[("reports", "0123456789abcdef")]),
    ];
    let forebay = house(setup(), &[upstream.address()], &documents);
    let statuses = ["open", "denied", "office", "users", "keys", "closed", "keyless"];
    assert_eq!(statuses.map(|name| status(&forebay, name)), [200, 403, 403, 401, 401, 503, 503]);
    assert_eq!(forebay.client().get("keys.test", "/?key=0123456789abcdef").status, 200);
    let right = "GET / HTTP/1.1\r\nHost: users.test\r\nAuthorization: Basic YTpzZWNyZXQ=\r\n\r\n";
    assert_eq!(forebay.client().ask(right).status, 200);
    assert_eq!([0; 3].map(|_| status(&forebay, "few")), [200, 200, 429]);
}

#[test]
fn the_most_specific_policy_counts_and_a_change_takes_effect() {
    let upstream = Canned::saying("hello");
    let of_gateway =
        |networks: &str| policy("Gateway", "web", &format!("access: {{denylistSourceRange: [{networks}]}}"));
    let documents = [route("plain"), ruled("own", "access: {denylistSourceRange: [192.0.2.1]}")];
    let forebay =
        house(setup().manifest("policy.yaml", of_gateway("127.0.0.0/8")), &[upstream.address()], &documents);
    assert_eq!([status(&forebay, "plain"), status(&forebay, "own")], [403, 200]);
    forebay.replace("policy.yaml", &of_gateway("192.0.2.2"));
    forebay.await_that("the change of the Gateway's policy", || status(&forebay, "plain") == 200);
    forebay.replace("policy.yaml", "");
    assert_eq!(status(&forebay, "own"), 200);
}

#[test]
fn it_is_explained_which_field_refuses_a_request() {
    let upstream = Canned::saying("hello");
    let documents = [ruled("denied", "access: {denylistSourceRange: [127.0.0.0/8]}")];
    let forebay = house(setup(), &[upstream.address()], &documents);
    let told = forebay.admin("/explain?url=http%3A%2F%2Fdenied.test%2F");
    assert_eq!(told.status, 200);
    let told: serde_json::Value = serde_json::from_str(told.text()).unwrap();
    let steps = told["steps"].as_array().unwrap();
    let mut sources = steps.iter().flat_map(|step| step["from"].as_array().unwrap());
    let source = sources.find(|source| source["name"] == "access.denylistSourceRange").unwrap();
    assert_eq!(
        (&source["value"], &source["object"]),
        (&"127.0.0.0/8".into(), &"ForebayPolicy default/denied".into())
    );
    assert!(
        source["file"].as_str().unwrap().ends_with("gateway.yaml") && source["line"].is_u64(),
        "{source}"
    );
}

#[test]
fn caches_compression_and_files_are_asked_for() {
    let text = "compressible ".repeat(100);
    let upstream = Canned::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("site")).unwrap();
    std::fs::write(root.path().join("site/index.html"), "a file").unwrap();
    let documents = [
        ruled("kept", "cache: {enabled: true}"),
        ruled("small", "compression: {codings: [gzip]}"),
        ruled("files", "files: {folder: site}"),
    ];
    let files_root = format!("--files-root={}", root.path().display());
    let setup = setup().arguments(["--cache-memory=8m".to_owned(), files_root]);
    let forebay = house(setup, &[upstream.address()], &documents);
    assert_eq!([status(&forebay, "kept"), status(&forebay, "kept")], [200, 200]);
    assert_eq!(upstream.heads().len(), 1, "the second is answered from the cache");
    let asking = "GET / HTTP/1.1\r\nHost: small.test\r\nAccept-Encoding: gzip\r\n\r\n";
    let response = forebay.client().ask(asking);
    assert_eq!(response.header("content-encoding").as_deref(), Some("gzip"));
    assert_eq!(forebay.client().get("files.test", "/").said(), (200, "a file"));
}

#[test]
fn requests_and_responses_are_passed_on_as_policies_say() {
    let upstream = Canned::answering(
        "HTTP/1.1 302 Found\r\nLocation: http://inner.test/a\r\nSet-Cookie: a=b; Path=/inner\r\nContent-Length: 0\r\n\r\n",
    );
    let documents = [
        ruled("small", "bodies: {bodySize: \"10\"}"),
        ruled("named", "headers: {upstreamVhost: inner.test}"),
        ruled(
            "rewritten",
            "responses: {redirectFrom: \"http://inner.test/\", redirectTo: \"http://outer.test/\"}",
        ),
        ruled("traced", "tracing: {enabled: true}"),
        ruled("silent", "logging: {accessLog: false}"),
    ];
    let forebay = house(setup(), &[upstream.address()], &documents);
    let mut client = forebay.client();
    let long = client.ask("POST / HTTP/1.1\r\nHost: small.test\r\nContent-Length: 11\r\n\r\n");
    assert_eq!(long.status, 413);
    assert_eq!(status(&forebay, "named"), 302);
    let head = upstream.heads().pop().unwrap();
    assert!(head.contains("\r\nHost: inner.test\r\n"), "{head}");
    let response = forebay.client().get("rewritten.test", "/");
    assert_eq!(response.header("location").as_deref(), Some("http://outer.test/a"));
    assert_eq!(status(&forebay, "traced"), 302);
    let head = upstream.heads().pop().unwrap().to_ascii_lowercase();
    assert!(head.contains("\r\ntraceparent: "), "{head}");
    forebay.client().get("silent.test", "/quiet");
    forebay.client().get("named.test", "/loud");
    forebay.await_access_log("/loud");
    assert!(forebay.log().iter().all(|line| !line.contains("/quiet")));
}

#[test]
fn failing_endpoints_are_handled_as_policies_say() {
    let failing = Canned::answering("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let pages = Canned::saying("sorry");
    let documents = [
        ruled("once", "retries: {conditions: \"off\"}"),
        ruled("again", "retries: {conditions: http_503, tries: 3}"),
        ruled("paged", "errors: {httpErrors: [503], defaultBackend: pages}"),
        service("pages", &[pages.address()]),
    ];
    let forebay = house(setup(), &[failing.address()], &documents);
    let asked = |name: &str| {
        let before = failing.heads().len();
        assert_eq!(status(&forebay, name), 503);
        failing.heads().len() - before
    };
    assert_eq!(asked("once"), 1);
    assert_eq!(asked("again"), 3, "a try for each that the policy allows");
    assert_eq!(forebay.client().get("paged.test", "/").text(), "sorry");
}

#[test]
fn slow_endpoints_are_handled_as_policies_say() {
    let upstream = Upstream::new();
    let documents = [
        ruled("slow", "timeouts: {read: 1}, retries: {conditions: \"off\"}"),
        ruled("full", "overload: {mode: enforce, concurrency: \"1\", queueTimeout: \"0\"}"),
    ];
    let forebay = house(setup(), &[upstream.address()], &documents);
    let mut client = forebay.client();
    client.send("GET / HTTP/1.1\r\nHost: slow.test\r\n\r\n");
    let (_waiting, _) = upstream.accept_request();
    assert_eq!(client.read_response().status, 504);
    let mut first: Connection = forebay.client();
    first.send("GET / HTTP/1.1\r\nHost: full.test\r\n\r\n");
    let (mut endpoint, _) = upstream.accept_request();
    assert_eq!(status(&forebay, "full"), 503, "the endpoint has as many as it may have");
    endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(first.read_response().status, 200);
}

#[test]
fn a_firewall_refuses_and_an_exclusion_lets_one_argument_pass() {
    let (folder, upstream) = (firewall::rules(), Canned::saying("hello"));
    let documents = [
        policy("Gateway", "web", "waf: {mode: 'On', coreRules: true}"),
        route("plain"),
        ruled(
            "own",
            "waf: {exclusions: [{rules: [942100], targets: ['ARGS:sql']}, \
             {tags: [attack-sqli], path: {value: /free}}]}",
        ),
        ruled("reported", "waf: {mode: DetectionOnly}"),
        ruled("off", "waf: {mode: 'Off'}"),
        ruled("closed", "waf: {exclusions: [{rules: [x]}]}"),
    ];
    let setup = setup().arguments(["--waf-rules".into(), folder.path().as_os_str().to_owned()]);
    let forebay = house(setup, &[upstream.address()], &documents);
    let injected = |name: &str, target: &str| {
        forebay.client().get(&format!("{name}.test"), &format!("{target}={}", firewall::INJECTION)).status
    };
    assert_eq!(forebay.client().get("plain.test", "/?q=shoes").status, 200);
    for (name, target, expected) in [
        ("plain", "/?q", 403),
        ("plain", "/?sql", 403),
        ("own", "/?q", 403),
        ("own", "/?sql", 200),
        ("own", "/free?q", 200),
        ("own", "/free/a?q", 200),
        ("own", "/freedom?q", 403),
        ("own", "/free/../other?q", 403),
        ("own", "/other/%2e%2e/free?q", 200),
        ("reported", "/?q", 200),
        ("off", "/?q", 200),
        ("closed", "/", 503),
    ] {
        assert_eq!(injected(name, target), expected, "{name}{target}");
    }
}

#[test]
fn a_paranoia_level_takes_precedence_over_the_setup_of_the_core_rules() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Canned::saying("hello"));
    let level = "SecAction \"id:900000,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=1\"";
    std::fs::write(folder.path().join("crs-setup.conf"), level).unwrap();
    let rule = "SecRule TX:blocking_paranoia_level|TX:detection_paranoia_level \"@eq 2\" \"id:901999,phase:1,deny,status:418\"";
    std::fs::write(folder.path().join("REQUEST-901-INITIALIZATION.conf"), rule).unwrap();
    let documents = [
        ruled("usual", "waf: {mode: 'On', coreRules: true}"),
        ruled("second", "waf: {mode: 'On', coreRules: true, paranoiaLevel: 2}"),
    ];
    let setup = setup().arguments(["--waf-rules".into(), folder.path().as_os_str().to_owned()]);
    let forebay = house(setup, &[upstream.address()], &documents);
    assert_eq!([status(&forebay, "usual"), status(&forebay, "second")], [200, 418]);
}
