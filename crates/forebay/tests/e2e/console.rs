//! The console: who may see it, what it tells, and what it costs when many watch.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use serde_json::Value;
use testkit::manifest::{Ingress, config_map, service, tls_secret};
use testkit::{Authority, Canned, Connection, Forebay, Port, Response};

use crate::namespace::in_own_network;
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

/// The next event's data; what comes before it is passed over. An event is a chunk, whose own lines end
/// without a carriage return.
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

/// A count that was a rate.
fn rounded(count: f64) -> u64 {
    format!("{count:.0}").parse().expect("a whole number")
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
    // Each event has what happened since the one before: an event may come between two requests.
    let (mut states, mut counted) = (Vec::new(), [0; 3]);
    while counted[0] < 6 {
        let state = event(&mut events);
        let requests = &state["requests"];
        let seconds = state["windowSeconds"].as_f64().unwrap();
        let count = |value: &Value| rounded(value.as_f64().unwrap() * seconds);
        let (all, successes) = (count(&requests["perSecond"]), count(&requests["byClass"]["success"]));
        let upstream = &state["upstream"];
        let share = upstream["reuseRatio"].as_f64().unwrap_or(0.0);
        let reused = rounded(share * count(&upstream["requestsPerSecond"]) as f64);
        for (sum, more) in counted.iter_mut().zip([all, successes, reused]) {
            *sum += more;
        }
        states.push(state);
    }
    assert_eq!(counted, [6, 5, 4], "of five requests to the endpoint four reuse its connection");
    let latency = |state: &Value| state["requests"]["latency"]["p99"]["estimateSeconds"].as_f64();
    assert!(states.iter().any(|state| latency(state) > Some(0.0)));
    let state = states.pop().expect("there is one");
    assert_eq!(state["requests"]["faults"][0]["reason"], "unknown_host", "of the last request");
    assert_eq!((&state["upstream"]["open"], &state["connections"]["active"]), (&1.into(), &1.into()));
    assert_eq!((&state["configuration"]["hosts"], &state["configuration"]["routes"]), (&1.into(), &1.into()));
    assert_eq!(state["configuration"]["acknowledged"], state["configuration"]["generation"]);
    assert!(event(&mut events)["atSeconds"].as_f64() > state["atSeconds"].as_f64(), "they go on");
    // A client that asks once gets the same, without a stream.
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
fn requests_are_told_as_they_end_to_those_who_watch() {
    let upstream = Canned::saying("hello");
    let refusing = Port::tcp();
    let forebay = setup()
        .endpoint(upstream.address())
        .manifest("down.yaml", service("down", &[refusing.address()]))
        .manifest("other.yaml", Ingress::new("down").path("down.test", "Prefix", "/", "down").document())
        .start();
    let admin = forebay.admin_address();
    let watch = |query: &str| {
        let mut connection = Connection::to(admin);
        connection.send(format!("GET /console/requests{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let response = connection.read_response_to_head();
        (connection, response)
    };
    let (mut all, head) = watch("");
    assert_eq!(head.header("content-type").unwrap(), "text/event-stream");
    let (mut failed, _) = watch("?q=5XX+down.test");
    // The streams are registered once their heads have come.
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/a?token=secret").status, 200);
    assert_eq!(client.get("down.test", "/b").status, 502);
    Connection::to(forebay.address()).ask("GET /\x01 HTTP/1.1\r\nHost: web.test\r\n\r\n");

    let of_failed = event(&mut failed);
    let one = &of_failed["requests"][0];
    assert_eq!((&of_failed["matched"], &one["status"]), (&1.into(), &502.into()));
    assert_eq!((&one["host"], &one["path"]), (&"down.test".into(), &"/b".into()));
    assert_eq!((&one["reason"], &one["object"]), (&"connect_refused".into(), &"default/down".into()));
    assert_eq!(one["endpoint"], refusing.address().to_string());
    assert_eq!((&one["cluster"], &one["client"]), (&"default-down-80".into(), &"127.0.0.1".into()));

    let mut seen = Vec::new();
    while seen.len() < 3 {
        let told = event(&mut all);
        seen.extend(
            told["requests"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| (one["status"].clone(), one["path"].clone())),
        );
        assert!(!told.to_string().contains("secret"), "the query is not shown");
    }
    assert_eq!(seen[0], (200.into(), "/a".into()));
    assert_eq!(seen[2].0, 400, "{seen:?}");

    // There is room for so many; a place is free again when its connection ends.
    let others: Vec<_> =
        std::iter::repeat_with(|| watch("")).take_while(|(_, head)| head.status == 200).collect();
    assert_eq!(others.len(), 6);
    drop((all, failed, others));
    forebay.await_that("a free place", || watch("?q=x").1.status == 200);
    assert_eq!(ask(&forebay, "/console/requests?q=%zz", "").status, 400);
}

#[test]
fn one_replica_tells_of_all_to_whom_they_admit_nobody_else() {
    in_own_network(|| {
        let addresses: [Ipv4Addr; 3] = [1, 2, 3].map(|last| [10, 77, 0, last].into());
        for address in addresses {
            let added =
                Command::new("ip").args(["address", "add", &format!("{address}/32"), "dev", "lo"]).status();
            assert!(added.unwrap().success());
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "a secret that all replicas have, and nobody else").unwrap();
        let launch = |address: Ipv4Addr, port: u16| {
            let forebay = setup()
                .manifest("forebay.yaml", service("forebay", &addresses.map(|one| (one, 80).into())))
                .arguments(["--replicas-service=default/forebay".to_owned()])
                .arguments([format!("--replicas-secret={}", file.display())])
                .arguments([format!("--replica-address={address}"), format!("--healthz-host={address}")])
                .arguments([format!("--healthz-port={port}"), format!("--admin-allow={}/32", addresses[0])])
                .launch();
            forebay.await_log(" serving http=");
            // It logs that before it knows what it serves, and who the replicas are.
            let admin = SocketAddr::from((address, forebay.admin_address().port()));
            forebay.await_that("it to be ready", || {
                Connection::to(admin).get("localhost", "/readyz").status == 200
            });
            forebay
        };
        // A client of a loopback address connects from that same address: only clients of the first one are
        // allowed.
        let first = launch(addresses[0], 0);
        let port = first.admin_address().port();
        let _second = launch(addresses[1], port);
        let asked = |address: Ipv4Addr, path: &str, headers: &str| {
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
            Connection::to((address, port).into()).ask(&head)
        };
        let response = asked(addresses[0], "/console/replicas", "");
        assert_eq!(response.status, 200, "{}", response.text());
        let told: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!((&told["isShared"], &told["omitted"]), (&true.into(), &0.into()));
        let replicas = told["replicas"].as_array().unwrap();
        assert!(
            replicas.iter().map(|one| &one["address"]).eq(addresses.map(|one| one.to_string()).iter()),
            "{told}"
        );
        for replica in &replicas[..2] {
            assert!(replica["state"]["uptimeSeconds"].as_f64().is_some(), "{told}");
        }
        assert_eq!(replicas[2]["state"], Value::Null);
        assert!(replicas[2]["error"].as_str().unwrap().contains("refused"), "{told}");
        // Others learn nothing of the second, nor does a pass of another.
        assert_eq!(asked(addresses[1], "/console/state", "").status, 403);
        let forged = "Forebay-Replica: 1.AAAA\r\n";
        assert_eq!(asked(addresses[1], "/console/state", forged).status, 403);
    });
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
