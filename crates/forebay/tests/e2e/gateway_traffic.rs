//! `XBackendTrafficPolicy`: clients that stay with an endpoint whatever the route, and retries that end at
//! the bound of a Service.

use std::net::SocketAddr;

use testkit::manifest::service;
use testkit::{Canned, Forebay, Moody, Setup};

use crate::commands::run;
use crate::gateway::{HTTP, gateway};
use crate::setup;

const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

/// A route with these rules.
fn route(rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: web}}\n\
         spec: {{parentRefs: [{{name: web}}], rules: [{rules}]}}\n"
    )
}

/// A policy for Service `web`.
fn policy(spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\n\
         metadata: {{name: web}}\nspec:\n  targetRefs: [{{group: \"\", kind: Service, name: web}}]\n  {spec}\n"
    )
}

fn serving(rules: &str, spec: &str, endpoints: &[SocketAddr]) -> Setup {
    setup()
        .manifest("web.yaml", service("web", endpoints))
        .manifest("gateway.yaml", gateway(HTTP))
        .manifest("route.yaml", route(rules))
        .manifest("policy.yaml", policy(spec))
}

/// The endpoint that answers a request with this line, and the cookie that it sets.
fn ask(forebay: &Forebay, path: &str, line: &str) -> (String, Option<String>) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: web.test\r\n{line}\r\n");
    let response = forebay.client().ask(&request);
    assert_eq!(response.status, 200);
    (response.text().to_owned(), response.header("set-cookie"))
}

/// The cookie of a response as a line of the next request.
fn cookie_line(cookie: &str) -> String {
    format!("Cookie: {}\r\n", cookie.split(';').next().expect("a cookie"))
}

const RULES: &str = "{matches: [{path: {value: /a}}], backendRefs: [{name: web, port: 80}]}, \
                     {matches: [{path: {value: /b}}], backendRefs: [{name: web, port: 80}]}, \
                     {matches: [{path: {value: /own}}], sessionPersistence: {sessionName: own}, \
                     backendRefs: [{name: web, port: 80}]}";

fn named() -> [Canned; 3] {
    ["one", "two", "three"].map(Canned::saying)
}

#[test]
fn a_client_stays_with_its_endpoint_on_all_routes_to_the_service() {
    let endpoints = named();
    let session = "sessionPersistence: {absoluteTimeout: 1h, cookie: {name: kept, lifetimeType: Permanent}}";
    let forebay = serving(RULES, session, &endpoints.each_ref().map(Canned::address))
        .arguments(["--workers=2"])
        .start();
    let (first, cookie) = ask(&forebay, "/a", "");
    let cookie = cookie.expect("a cookie");
    assert!(cookie.starts_with("kept=") && cookie.contains("; Max-Age=3600; Path=/; "), "{cookie}");
    for path in ["/a", "/b", "/a/deeper"] {
        for _ in 0..4 {
            assert_eq!(ask(&forebay, path, &cookie_line(&cookie)), (first.clone(), None), "{path}");
        }
    }
    // A rule's own comes before the policy, whose cookie means nothing there.
    let (_, own) = ask(&forebay, "/own", &cookie_line(&cookie));
    assert!(own.expect("a cookie").starts_with("own="));
    forebay.replace("policy.yaml", "");
    forebay.await_that("the policy to be gone", || ask(&forebay, "/a", "").1.is_none());
}

#[test]
fn a_client_stays_with_the_endpoint_that_its_header_names() {
    let endpoints = named();
    let session = "sessionPersistence: {type: Header, header: {name: X-Session}}";
    let forebay = serving(RULES, session, &endpoints.each_ref().map(Canned::address)).start();
    let response = forebay.client().get("web.test", "/a");
    let (first, session) = (response.text().to_owned(), response.header("x-session").expect("a session"));
    for path in ["/a", "/b"] {
        for _ in 0..4 {
            let line = format!("X-Session: {session}\r\n");
            assert_eq!(ask(&forebay, path, &line), (first.clone(), None), "{path}");
        }
    }
}

const TRIED_TWICE: &str = "{retry: {attempts: 1, codes: [500]}, backendRefs: [{name: web, port: 80}]}";

/// Statuses of so many requests, each on a connection of its own, so that all workers get some.
fn statuses(forebay: &Forebay, count: usize) -> Vec<u16> {
    (0..count).map(|_| forebay.client().get("web.test", "/").status).collect()
}

fn of_status(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|one| **one == status).count()
}

#[test]
fn all_workers_have_one_bound_for_retries_and_what_is_beyond_it_is_503() {
    const REQUESTS: usize = 60;
    let endpoints = [Moody::saying(FAILED), Moody::saying(FAILED)];
    let bound = "retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 5, interval: 1h}}";
    let forebay = serving(TRIED_TWICE, bound, &endpoints.each_ref().map(Moody::address))
        .arguments(["--workers=3"])
        .start();
    let statuses = statuses(&forebay, REQUESTS);
    assert_eq!((of_status(&statuses, 500), of_status(&statuses, 503)), (5, REQUESTS - 5), "{statuses:?}");
    assert_eq!(endpoints.iter().map(Moody::requests).sum::<usize>(), REQUESTS + 5);
    let refused = REQUESTS as u64 - 5;
    forebay.await_metric("forebay_faults_total", &[("reason", "retry_budget")], refused);
    forebay.await_metric("forebay_overload_retries_denied_total", &[], refused);
    // Without the policy the failed try is the response again.
    forebay.replace("policy.yaml", "");
    forebay.await_that("the policy to be gone", || forebay.client().get("web.test", "/").status == 500);
}

/// The requests of one worker are counted exactly: half as many retries as requests, after the first.
#[test]
fn retries_are_a_share_of_the_requests_also_where_overload_is_off() {
    let budget = "budget: {percent: 50, interval: 1h}";
    let bound = format!("retryConstraint: {{{budget}, minRetryRate: {{count: 1, interval: 1h}}}}");
    for mode in ["off", "watch", "enforce"] {
        let endpoints = [Moody::saying(FAILED), Moody::saying(FAILED)];
        let forebay = serving(TRIED_TWICE, &bound, &endpoints.each_ref().map(Moody::address))
            .setting("forebay-overload", mode)
            .setting("forebay-ejection", "off")
            .arguments(["--workers=1"])
            .start();
        let statuses = statuses(&forebay, 40);
        assert_eq!((of_status(&statuses, 500), of_status(&statuses, 503)), (20, 20), "{mode}: {statuses:?}");
        assert_eq!(endpoints.iter().map(Moody::requests).sum::<usize>(), 60, "{mode}");
    }
}

#[test]
fn endpoints_that_break_off_are_bound_too() {
    let endpoints = [Moody::saying(""), Moody::saying("")];
    let bound = "retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 2, interval: 1h}}";
    let forebay = serving(TRIED_TWICE, bound, &endpoints.each_ref().map(Moody::address)).start();
    let statuses = statuses(&forebay, 20);
    assert_eq!((of_status(&statuses, 502), of_status(&statuses, 503)), (2, 18), "{statuses:?}");
}

#[test]
fn check_and_explain_name_policies() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    let text = |spec: &str| {
        let web = service("web", &["127.0.0.1:9".parse().unwrap()]);
        [gateway(HTTP), route(TRIED_TWICE), policy(spec), web].join("---\n")
    };
    std::fs::write(&file, text("retryConstraint: {budget: {percent: 101}}")).unwrap();
    let (code, stdout, _) = run(&["check", file.to_str().unwrap()]);
    let expected = "web.yaml:21: XBackendTrafficPolicy default/web: retryConstraint: budget.percent is more \
                    than 100 (Invalid)";
    assert!(code == 1 && stdout.contains(expected), "{code} {stdout}");
    std::fs::write(&file, text("retryConstraint: {budget: {percent: 30}}")).unwrap();
    let (code, stdout, _) = run(&["check", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{stdout}");
    let (code, stdout, _) = run(&["explain", "http://web.test/", "-f", file.to_str().unwrap()]);
    let expected = "retries of Service default/web at most: 30 % of its requests in 10s, or 10 in 1s; after \
                    that 503";
    assert!(code == 0 && stdout.contains(expected), "{code} {stdout}");
}
