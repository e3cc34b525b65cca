//! The console: who may see it, what it tells, and what it costs when many watch.

use std::net::SocketAddr;

use serde_json::Value;
use testkit::manifest::{Ingress, config_map, service, tls_secret};
use testkit::{Authority, Canned, Connection, Forebay, Port, Response};

use crate::setup;

fn ask(forebay: &Forebay, path: &str, headers: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    Connection::to(forebay.admin_address()).ask(&request)
}

fn json(forebay: &Forebay, path: &str) -> Value {
    let response = ask(forebay, path, "");
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    serde_json::from_slice(&response.body).expect("it is JSON")
}

/// A connection that gets events, with the head of the response behind it.
fn watch(admin: SocketAddr) -> (Connection, Response) {
    let mut connection = Connection::to(admin);
    connection.send("GET /console/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = connection.read_response_to_head();
    (connection, response)
}

/// The next event's data; what comes before it is passed over. An event is a chunk, whose own lines end without a carriage return.
fn event(connection: &mut Connection) -> Value {
    loop {
        let chunk = connection.read_line();
        if let Some(data) = chunk.lines().find_map(|line| line.strip_prefix("data: ")) {
            return serde_json::from_str(data).expect("it is JSON");
        }
    }
}

#[test]
fn the_page_is_kept_from_doing_anything_else() {
    let forebay = setup().start();
    for path in ["/console/", "/console/main.js", "/console/style.css", "/console/changes"] {
        let response = ask(&forebay, path, "");
        assert_eq!(response.status, 200, "{path}");
        let policy = response.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.split("; ").any(|one| one == part), "{path}: {policy}");
        }
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(response.header(name).as_deref(), Some(value), "{path}");
        }
    }
    assert_eq!(ask(&forebay, "/console/", "").header("cache-control").unwrap(), "no-cache");
    assert_eq!(ask(&forebay, "/console/changes", "").header("cache-control").unwrap(), "no-store");
    let whole = ask(&forebay, "/console/main.js", "");
    let compressed = ask(&forebay, "/console/main.js", "Accept-Encoding: gzip\r\n");
    assert_eq!(compressed.header("content-encoding").unwrap(), "gzip");
    assert!(compressed.body.len() < whole.body.len() / 2);
    assert_eq!(ask(&forebay, "/console", "").header("location").unwrap(), "/console/");
    assert_eq!(ask(&forebay, "/console/nothing", "").status, 404);
}

#[test]
fn pages_of_others_and_names_of_others_get_nothing() {
    let forebay = setup().start();
    let cross = "Sec-Fetch-Site: cross-site\r\n";
    for path in ["/console/state", "/console/events", "/console/objects"] {
        assert_eq!(ask(&forebay, path, cross).status, 403, "{path}");
    }
    assert_eq!(ask(&forebay, "/console/", cross).status, 200, "a link may lead here");
    assert_eq!(ask(&forebay, "/console/state", "Sec-Fetch-Site: same-origin\r\n").status, 200);
    let mut connection = Connection::to(forebay.admin_address());
    assert_eq!(connection.ask("GET /console/ HTTP/1.1\r\nHost: evil.test\r\n\r\n").status, 421);
    let mut connection = Connection::to(forebay.admin_address());
    let post = "POST /console/state HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(connection.ask(post).status, 405);
}

#[test]
fn there_is_none_where_nobody_wants_one() {
    let forebay = setup().arguments(["--console=false"]).start();
    for path in ["/console", "/console/", "/console/state", "/console/events", "/console/main.js"] {
        let response = ask(&forebay, path, "");
        assert_eq!(response.status, 404, "{path}");
        assert!(!response.text().contains("console"), "{}", response.text());
    }
}

#[test]
fn the_state_tells_of_traffic() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let mut client = forebay.client();
    let (mut events, head) = watch(forebay.admin_address());
    assert_eq!(head.header("content-type").unwrap(), "text/event-stream");
    assert_eq!(event(&mut events)["windowSeconds"], Value::Null, "there is nothing to compare with yet");
    (0..5).for_each(|_| assert_eq!(client.get("web.test", "/").status, 200));
    assert_eq!(client.get("nobody.test", "/").status, 404);
    let state = event(&mut events);
    let seconds = state["windowSeconds"].as_f64().unwrap();
    let count = |value: &Value| format!("{:.0}", value.as_f64().unwrap() * seconds);
    assert_eq!(count(&state["requests"]["perSecond"]), "6");
    assert_eq!(count(&state["requests"]["byClass"]["success"]), "5");
    assert!(state["requests"]["latency"]["p99"]["estimateSeconds"].as_f64().unwrap() > 0.0);
    assert_eq!(state["requests"]["faults"][0]["reason"], "unknown_host");
    assert_eq!(state["upstream"]["reuseRatio"], 0.8);
    assert_eq!((&state["upstream"]["open"], &state["connections"]["active"]), (&1.into(), &1.into()));
    assert_eq!((&state["configuration"]["hosts"], &state["configuration"]["routes"]), (&1.into(), &1.into()));
    assert_eq!(state["configuration"]["acknowledged"], state["configuration"]["generation"]);
    assert!(event(&mut events)["atSeconds"].as_f64() > state["atSeconds"].as_f64(), "they go on");
    // Who asks once gets the same, without a stream.
    assert!(json(&forebay, "/console/state")["windowSeconds"].as_f64().is_some());
}

#[test]
fn routes_endpoints_and_services_have_their_own_numbers() {
    let (upstream, redis) = (Canned::saying("hello"), Canned::answering("+PONG\r\n"));
    let port = Port::tcp();
    let forebay = setup()
        .endpoint(upstream.address())
        .manifest("redis.yaml", service("redis", &[redis.address()]))
        .manifest("tcp.yaml", config_map("tcp", &[(&port.number().to_string(), "default/redis:80")]))
        .arguments(["--tcp-services-configmap=default/tcp"])
        .start();
    let objects = json(&forebay, "/console/objects");
    let (host, route) = (&objects["hosts"][0], &objects["hosts"][0]["routes"][0]);
    assert_eq!((&host["name"], &route["path"]), (&"web.test".into(), &"/".into()));
    assert_eq!(route["from"], "Ingress default/web");
    assert!(route["file"].as_str().unwrap().contains(".yaml") && route["line"].as_u64().is_some());
    assert_eq!(route["backends"][0]["cluster"], "default-web-80");
    assert_eq!(
        (&objects["services"][0]["protocol"], &objects["services"][0]["port"]),
        (&"TCP".into(), &port.number().into())
    );
    let cluster = objects["clusters"].as_array().unwrap().iter().find(|one| one["name"] == "default-web-80");
    assert_eq!(cluster.unwrap()["endpoints"][0]["address"], upstream.address().to_string());
    json(&forebay, "/console/traffic");
    forebay.await_that("requests in the traffic", || {
        assert_eq!(forebay.get("/x").status, 200);
        let traffic = json(&forebay, "/console/traffic");
        let has = |list: &str, of: &dyn Fn(&Value) -> bool| traffic[list].as_array().unwrap().iter().any(of);
        let is_busy = |one: &Value| one["requestsPerSecond"].as_f64().unwrap() > 0.0;
        has("routes", &|one| is_busy(one) && one["host"] == "web.test" && one["object"] == "web")
            && has("clusters", &|one| is_busy(one) && one["name"] == "default-web-80")
            && has("endpoints", &|one| is_busy(one) && one["address"] == upstream.address().to_string())
            && has("services", &|one| one["service"] == "redis")
    });
}

#[test]
fn what_fails_is_told_with_its_route_its_endpoint_and_the_reason() {
    // A port that is bound and does not listen refuses connections.
    let refusing = Port::tcp();
    let address = refusing.address();
    let forebay = setup().endpoint(address).start();
    json(&forebay, "/console/traffic");
    forebay.await_that("a failing route", || {
        assert_eq!(forebay.get("/x").status, 502);
        let state = json(&forebay, "/console/state");
        let Some(failing) = state["failing"].get(0) else { return false };
        assert_eq!((&failing["host"], &failing["object"]), (&"web.test".into(), &"web".into()));
        assert_eq!((&failing["cluster"], &failing["errorRatio"]), (&"default-web-80".into(), &1.0.into()));
        assert_eq!(failing["causes"][0]["reason"], "connect_refused");
        let traffic = json(&forebay, "/console/traffic");
        let is_failing = |one: &Value| one["isFailing"] == true && one["address"] == address.to_string();
        let has_reason = |one: &Value| one["causes"][0]["reason"] == "connect_refused";
        traffic["endpoints"].as_array().unwrap().iter().any(is_failing)
            && traffic["routes"].as_array().unwrap().iter().any(has_reason)
    });
    let history = json(&forebay, "/console/history");
    let hour = &history["spans"][1];
    assert_eq!((&hour["everySeconds"], &hour["columns"][0]), (&10.into(), &"requests".into()));
}

#[test]
fn changes_and_problems_are_told_with_their_objects() {
    let forebay = setup().start();
    let first = json(&forebay, "/console/changes");
    assert_eq!((first.as_array().unwrap().len(), &first[0]["isFirst"]), (1, &Value::Bool(true)));
    assert_eq!(first[0]["hosts"]["added"]["names"][0], "web.test");
    let other = Ingress::new("other").path("other.test", "Prefix", "/", "missing").document();
    forebay.replace("other.yaml", &other);
    forebay
        .await_that("a second change", || json(&forebay, "/console/changes").as_array().unwrap().len() == 2);
    let change = &json(&forebay, "/console/changes")[0];
    assert_eq!(change["hosts"]["added"], serde_json::json!({"count": 1, "names": ["other.test"]}));
    assert_eq!((&change["hosts"]["removed"]["count"], &change["isFirst"]), (&0.into(), &Value::Bool(false)));
    let problems = json(&forebay, "/console/problems");
    let of_other = problems.as_array().unwrap().iter().find(|one| one["object"] == "Ingress default/other");
    assert!(of_other.unwrap()["message"].as_str().unwrap().contains("missing"), "{problems}");
}

#[test]
fn no_secret_is_told() {
    let authority = Authority::new("an authority");
    let certificate = authority.server(&["web.test"]);
    let users = testkit::manifest::secret("users", "Opaque", &[("auth", "jane:{PLAIN}open sesame\n")]);
    let forebay = setup()
        .tls("web.test")
        .manifest("tls.yaml", tls_secret("certificate", &certificate))
        .manifest("users.yaml", users)
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users")
        .start();
    let listed = json(&forebay, "/console/objects");
    assert_eq!(listed["certificates"][0]["hosts"][0], "web.test");
    assert!(listed["certificates"][0]["notAfterSeconds"].as_i64().unwrap() > 0);
    assert_eq!(listed["hosts"][0]["routes"][0]["features"][0], "basic auth");
    for path in ["objects", "state", "traffic", "problems", "changes"] {
        let text = json(&forebay, &format!("/console/{path}")).to_string();
        for hidden in ["PRIVATE KEY", "BEGIN", "sesame", "jane"] {
            assert!(!text.contains(hidden), "{path} has {hidden}");
        }
    }
}

#[test]
fn those_who_come_too_late_are_told_so() {
    let forebay = setup().start();
    let mut watching = Vec::new();
    loop {
        let (connection, head) = watch(forebay.admin_address());
        if head.status != 200 {
            break;
        }
        watching.push(connection);
        assert!(watching.len() <= 100, "there is no end to them");
    }
    let refused = ask(&forebay, "/console/events", "");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("as many watch as may"), "{}", refused.text());
    // Half of the connections are for others.
    assert_eq!(forebay.admin("/healthz").status, 200);
    for connection in &mut watching {
        event(connection);
    }
    drop(watching.pop());
    forebay.await_that("a free seat", || watch(forebay.admin_address()).1.status == 200);
}
