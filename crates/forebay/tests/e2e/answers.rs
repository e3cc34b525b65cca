//! Answers of Forebay's own in place of endpoints': fixed ones, maintenance, and those of single backends.

use testkit::manifest::{config_map, service};
use testkit::{Canned, Forebay};

use crate::{GET, setup};

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: forebay}\n\
    spec: {controllerName: forebay.io/gateway-controller}\n---\n\
    apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: web}\n\
    spec: {gatewayClassName: forebay, listeners: [{name: http, port: 80, protocol: HTTP}]}\n---\n";

/// A route for host `NAME.test` with these rules, in YAML's flow style.
fn route(name: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\n\
         spec: {{parentRefs: [{{name: web}}], hostnames: [{name}.test], rules: [{rules}]}}\n---\n"
    )
}

/// A policy that filters name.
fn policy(name: &str, sections: &str) -> String {
    format!(
        "apiVersion: forebay.io/v1alpha1\nkind: ForebayPolicy\nmetadata: {{name: {name}}}\nspec: {{{sections}}}\n---\n"
    )
}

fn named(policy: &str) -> String {
    format!(
        "{{type: ExtensionRef, extensionRef: {{group: forebay.io, kind: ForebayPolicy, name: {policy}}}}}"
    )
}

fn gateway(upstream: &Canned, documents: &[String]) -> Forebay {
    setup()
        .manifest("gateway.yaml", GATEWAY.to_owned() + &documents.concat())
        .manifest("service.yaml", service("svc", &[upstream.address()]))
        .start()
}

const BACKEND: &str = "backendRefs: [{name: svc, port: 80}]";

#[test]
fn an_ingress_answers_by_itself() {
    let upstream = Canned::saying("endpoint");
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("forebay.io/direct-response", "410")
        .annotation("forebay.io/direct-response-body", "This is gone.")
        .annotation("forebay.io/direct-response-headers", "Cache-Control: no-store\nX-Since: 2026")
        .start();
    let answer = forebay.get("/");
    assert_eq!((answer.status, answer.text()), (410, "This is gone."));
    assert_eq!(answer.header("Content-Type").as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(
        (answer.header("Cache-Control").as_deref(), answer.header("X-Since").as_deref()),
        (Some("no-store"), Some("2026"))
    );
    let head = forebay.client().ask("HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert_eq!((head.status, head.header("Content-Length").as_deref()), (410, Some("13")));
    assert!(upstream.heads().is_empty());
}

#[test]
fn maintenance_spares_some_clients_and_ends_by_itself() {
    let upstream = Canned::saying("endpoint");
    let start = |annotations: &[(&str, &str)]| {
        let setup = setup()
            .endpoint(upstream.address())
            .annotation("forebay.io/maintenance", "true")
            .annotation("forebay.io/maintenance-page", "page")
            .manifest(
                "page.yaml",
                config_map("page", &[("body", "<h1>soon</h1>"), ("content-type", "text/html")]),
            );
        annotations.iter().fold(setup, |setup, (name, value)| setup.annotation(name, value)).start()
    };
    let forebay = start(&[("forebay.io/maintenance-retry-after", "2m")]);
    let page = forebay.get("/");
    assert_eq!((page.status, page.text()), (503, "<h1>soon</h1>"));
    assert_eq!(
        (page.header("Content-Type").as_deref(), page.header("Retry-After").as_deref()),
        (Some("text/html"), Some("120"))
    );
    let told = forebay.admin("/explain?url=http%3A%2F%2Fweb.test%2F");
    assert!(told.text().contains("the route is under maintenance"), "{}", told.text());
    assert!(told.text().contains("forebay.io/maintenance"), "{}", told.text());

    let forebay = start(&[("forebay.io/maintenance-allow", "127.0.0.0/8")]);
    assert_eq!(forebay.get("/").text(), "endpoint");
    let forebay = start(&[("forebay.io/maintenance-until", "2026-01-01T00:00:00Z")]);
    assert_eq!(forebay.get("/").text(), "endpoint", "it is over");
    let forebay = start(&[("forebay.io/maintenance-from", "2999-01-01T00:00:00Z")]);
    assert_eq!(forebay.get("/").text(), "endpoint", "it has not begun");
    let forebay = start(&[("forebay.io/maintenance-until", "2999-01-01T00:00:00Z")]);
    let seconds: u64 = forebay.get("/").header("Retry-After").expect("the end is known").parse().unwrap();
    assert!(seconds > 1_000_000_000, "{seconds}");
}

#[test]
fn an_answer_whose_content_is_missing_closes_the_route_until_it_is_there() {
    let upstream = Canned::saying("endpoint");
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("forebay.io/direct-response", "200")
        .annotation("forebay.io/direct-response-body-from", "page")
        .start();
    assert_eq!(forebay.get("/").status, 503);
    forebay.replace("page.yaml", &config_map("page", &[("body", "here")]));
    forebay.await_that("the content to be used", || forebay.get("/").text() == "here");
    assert!(upstream.heads().is_empty());
}

#[test]
fn filters_of_rules_name_policies_and_answer() {
    let upstream = Canned::saying("endpoint");
    let rules = [
        format!("{{matches: [{{path: {{value: /gone}}}}], filters: [{}], {BACKEND}}}", named("gone")),
        format!("{{matches: [{{path: {{value: /closed}}}}], filters: [{}], {BACKEND}}}", named("closed")),
        format!("{{matches: [{{path: {{value: /missing}}}}], filters: [{}], {BACKEND}}}", named("none")),
        "{matches: [{path: {value: /robots.txt}}], filters: [{type: DirectResponse, directResponse: \
         {statusCode: 200, body: {string: 'User-agent: *'}}}]}"
            .to_owned(),
        "{matches: [{path: {value: /json}}], filters: [{type: DirectResponse, directResponse: \
         {statusCode: 404, body: {string: '{}'}}}, {type: ResponseHeaderModifier, responseHeaderModifier: \
         {set: [{name: Content-Type, value: application/json}]}}]}"
            .to_owned(),
        "{matches: [{path: {value: /empty}}], filters: [{type: DirectResponse, directResponse: {statusCode: 204}}]}"
            .to_owned(),
        format!("{{{BACKEND}}}"),
    ];
    let documents = [
        policy("gone", "directResponse: {status: 410, body: gone}"),
        policy("closed", "maintenance: {enabled: true}"),
        route("own", &rules.join(", ")),
    ];
    let forebay = gateway(&upstream, &documents);
    let get = |path: &str| forebay.client().get("own.test", path);
    let said = |path: &str| (get(path).status, get(path).text().to_owned());
    assert_eq!(said("/gone"), (410, "gone".to_owned()));
    assert_eq!(get("/closed").status, 503);
    assert_eq!(get("/missing").status, 500);
    assert_eq!(said("/robots.txt"), (200, "User-agent: *".to_owned()));
    let json = get("/json");
    assert_eq!(
        (json.status, json.text(), json.header("Content-Type").as_deref()),
        (404, "{}", Some("application/json"))
    );
    assert_eq!(said("/empty"), (204, String::new()));
    assert_eq!(said("/"), (200, "endpoint".to_owned()));
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn single_backends_redirect_answer_and_allow_origins() {
    let upstream = Canned::saying("endpoint");
    let backend = |filter: &str| format!("backendRefs: [{{name: svc, port: 80, filters: [{filter}]}}]");
    let rule =
        |path: &str, filter: &str| format!("{{matches: [{{path: {{value: {path}}}}}], {}}}", backend(filter));
    let redirect = "{type: RequestRedirect, requestRedirect: {hostname: new.test, statusCode: 301, \
                    path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}";
    let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test'], allowMethods: [PUT]}}";
    let rewrite = "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /other}}}";
    let rules = [
        rule("/old", redirect),
        rule("/cors", cors),
        rule("/rewritten", rewrite),
        rule("/gone", &named("gone")),
    ];
    let documents =
        [policy("gone", "directResponse: {status: 410, body: gone}"), route("web", &rules.join(", "))];
    let forebay = gateway(&upstream, &documents);
    let moved = forebay.client().get("web.test", "/old/a?b=c");
    let location = moved.header("Location").expect("a redirect");
    assert_eq!(moved.status, 301);
    assert!(location.starts_with("http://new.test") && location.ends_with("/new/a?b=c"), "{location}");
    assert_eq!(forebay.client().get("web.test", "/gone").text(), "gone");
    assert!(upstream.heads().is_empty());
    let preflight = "OPTIONS /cors HTTP/1.1\r\nHost: web.test\r\nOrigin: https://a.test\r\n\
                     Access-Control-Request-Method: PUT\r\n\r\n";
    let allowed = forebay.client().ask(preflight);
    assert_eq!(
        (allowed.status, allowed.header("Access-Control-Allow-Methods").as_deref()),
        (204, Some("PUT"))
    );
    assert!(upstream.heads().is_empty(), "a preflight needs no endpoint");
    let get =
        GET.replacen("GET /", "GET /cors", 1).replacen("\r\n\r\n", "\r\nOrigin: https://a.test\r\n\r\n", 1);
    let read = forebay.client().ask(&get);
    assert_eq!(read.header("Access-Control-Allow-Origin").as_deref(), Some("https://a.test"));
    assert_eq!(forebay.client().get("web.test", "/rewritten").status, 200);
    assert!(upstream.heads()[1].starts_with("GET /other HTTP/1.1\r\n"), "{:?}", upstream.heads());
}
