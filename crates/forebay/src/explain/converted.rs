//! The output of `forebay convert` serves the same as the Ingresses: both are compared on the same requests.

use std::fmt::Write;
use std::sync::Arc;
use std::time::SystemTime;

use control::convert::Target;
use control::{Options, convert_at, load_text_at};
use proxy::guard::Relief;
use testkit::Authority;
use testkit::manifest::tls_secret;

use super::{Objects, Question, Report, report};

/// Annotations of an Ingress, and its paths with their types.
type Case = (&'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const ROOT: &[(&str, &str)] = &[("Prefix", "/")];
const APP: &[(&str, &str)] = &[("Prefix", "/app"), ("Exact", "/exact")];
const BOTH: &[(&str, &str)] = &[("Prefix", "/"), ("Prefix", "/app/"), ("ImplementationSpecific", "/im")];
const EXPRESSION: &[(&str, &str)] = &[("ImplementationSpecific", "/app(/|$)(.*)")];

const CASES: &[Case] = &[
    (&[], ROOT),
    (&[], APP),
    (&[], BOTH),
    (&[("rewrite-target", "/")], ROOT),
    (&[("rewrite-target", "/")], APP),
    (&[("rewrite-target", "/$2")], EXPRESSION),
    (&[("rewrite-target", "/inner")], BOTH),
    (&[("use-regex", "true")], &[("ImplementationSpecific", "/a[a-p]+")]),
    (&[("use-regex", "true")], BOTH),
    (&[("app-root", "/app")], ROOT),
    (&[("app-root", "/app")], APP),
    (&[("from-to-www-redirect", "true")], ROOT),
    (&[("ssl-redirect", "false")], BOTH),
    (&[("force-ssl-redirect", "true")], BOTH),
    (&[("server-alias", "alias.test")], ROOT),
    (&[("upstream-vhost", "inner.test")], ROOT),
    (&[("x-forwarded-prefix", "/pre"), ("rewrite-target", "/$2")], EXPRESSION),
    (&[("whitelist-source-range", "192.0.2.0/24")], ROOT),
    (&[("denylist-source-range", "203.0.113.0/24")], ROOT),
    (&[("enable-cors", "true")], ROOT),
    (&[("proxy-body-size", "1m"), ("proxy-read-timeout", "7")], ROOT),
    (&[("backend-protocol", "HTTPS")], ROOT),
    (&[("permanent-redirect", "https://new.test/here")], ROOT),
    (&[("permanent-redirect", "https://new.test/here")], APP),
    (&[("temporal-redirect", "https://new.test")], ROOT),
];

const HOSTS: &[&str] = &["a.test", "www.a.test", "alias.test", "other.test"];
const TARGETS: &[&str] = &[
    "/",
    "/app",
    "/app/",
    "/app/x",
    "/app/x?q=1",
    "/apple",
    "/exact",
    "/exact/",
    "/im",
    "/image",
    "/inner",
    "/other/x",
    "/app%2Fx",
    "/APP",
];

/// The response to the client and the request to the endpoint.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: Option<u16>,
    location: Option<String>,
    has_certificate: bool,
    endpoints: Vec<String>,
    request: Vec<String>,
}

#[test]
fn what_is_made_serves_what_was_served() {
    let mut silent = String::new();
    let (mut asked, mut told) = (0, 0);
    for case in CASES {
        for is_tls in [false, true] {
            let source = manifests(case, is_tls);
            let made = converted(&source);
            let before = objects(source.clone(), "nginx");
            let after = objects(format!("{source}{made}"), "none");
            for question in questions() {
                asked += 1;
                let (then, now) = (seen(&before, &question), seen(&after, &question));
                if then == now {
                    continue;
                }
                told += 1;
                if !remark(case, &question, &then, &now).is_some_and(|remark| made.contains(remark)) {
                    let url = &question.url;
                    writeln!(silent, "{case:?} TLS {is_tls} {url}:\n  {then:?}\n  {now:?}").unwrap();
                }
            }
        }
    }
    assert!(asked > 2_000 && told > 100, "{asked} {told}");
    assert!(silent.is_empty(), "{silent}");
}

/// A remark in the manifests that explains a difference; no other difference is allowed.
fn remark(case: &Case, question: &Question, then: &Seen, now: &Seen) -> Option<&'static str> {
    let has = |names: &[&str]| case.0.iter().any(|(name, _)| names.contains(name));
    let redirects = |seen: &Seen| seen.location.is_some();
    let bare = |location: &Option<String>| {
        let url = location.as_deref().unwrap_or_default().split('?').next().unwrap_or_default();
        url.trim_end_matches('/').replace(":443", "").replace(":80", "")
    };
    if has(&["backend-protocol"]) && now.status == Some(500) {
        return Some("requests are answered 500");
    }
    if question.url.starts_with("https:")
        && !redirects(now)
        && now.status == Some(404)
        && !then.has_certificate
    {
        return Some("also serves it over HTTPS");
    }
    if redirects(then) && redirects(now) && bare(&then.location) == bare(&now.location) {
        return if has(&["temporal-redirect"]) {
            Some("A slash stands behind the name")
        } else if has(&["permanent-redirect"]) {
            Some("The query of a request is kept")
        } else {
            Some("drops a slash at the end of Location")
        };
    }
    if redirects(then) && now.status == Some(404) {
        return Some("paths that no rule takes");
    }
    has(&["rewrite-target", "use-regex"]).then_some("it is a regular expression")
}

fn questions() -> impl Iterator<Item = Question> {
    let urls = ["http", "https"].into_iter().flat_map(|scheme| {
        HOSTS
            .iter()
            .flat_map(move |host| TARGETS.iter().map(move |target| format!("{scheme}://{host}{target}")))
    });
    urls.map(|url| Question {
        url,
        method: "GET".to_owned(),
        headers: vec!["Origin: https://page.test".to_owned()],
        client: "203.0.113.9".parse().expect("an address"),
        body: hyper::body::Bytes::new(),
    })
}

fn seen(objects: &Objects, question: &Question) -> Seen {
    let told: Report = report(objects, question, Relief::default(), None).expect("a request");
    let to = told.destinations.first();
    let lines = to.map(|to| to.request.lines().map(str::to_owned).collect()).unwrap_or_default();
    Seen {
        status: told.status,
        location: told.location,
        has_certificate: told.certificate.is_some_and(|one| one.starts_with("Secret")),
        endpoints: to.map(|to| to.endpoints.clone()).unwrap_or_default(),
        request: lines,
    }
}

fn converted(source: &str) -> String {
    let target =
        Target { name: "web".to_owned(), namespace: "default".to_owned(), class: "forebay".to_owned() };
    convert_at(&options("nginx"), Some(source.to_owned()), &target, now()).expect("manifests").yaml()
}

fn objects(text: String, class: &str) -> Objects {
    let translation = load_text_at(&options(class), Some(text), now()).expect("manifests");
    let snapshot = Arc::new(routing::compile(&translation.model, None, 1));
    Objects { snapshot, translation: Arc::new(translation), prefix: "nginx.ingress.kubernetes.io".into() }
}

fn options(class: &str) -> Options {
    Options { ingress_class: class.to_owned(), class_may_be_missing: true, ..Options::default() }
}

fn now() -> SystemTime {
    SystemTime::now()
}

fn manifests(case: &Case, is_tls: bool) -> String {
    let mut text = String::from(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: web\n  annotations:\n    of: test\n",
    );
    for (name, value) in case.0 {
        writeln!(text, "    nginx.ingress.kubernetes.io/{name}: {value:?}").unwrap();
    }
    text.push_str("spec:\n  ingressClassName: nginx\n");
    if is_tls {
        text.push_str("  tls: [{hosts: [a.test], secretName: tls}]\n");
    }
    text.push_str("  rules:\n  - host: a.test\n    http:\n      paths:\n");
    for (at, (kind, path)) in case.1.iter().enumerate() {
        writeln!(
            text,
            "      - {{path: {path:?}, pathType: {kind}, backend: {{service: {{name: web-{at}, port: {{number: 80}}}}}}}}"
        )
        .unwrap();
    }
    for at in 0..case.1.len() {
        write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web-{at}}}\nspec: {{ports: [{{name: http, port: 80}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: web-{at}, labels: {{kubernetes.io/service-name: web-{at}}}}}\naddressType: IPv4\n\
             ports: [{{name: http, port: 8080}}]\nendpoints: [{{addresses: [192.0.2.{}]}}]\n",
            at + 1
        )
        .unwrap();
    }
    if is_tls {
        text.push_str(&tls_secret("tls", &Authority::new("converted").server(&["a.test"])));
    }
    text
}
