//! Outside views: access log, metrics, health, configuration.

use rustix::process::Signal;
use testkit::manifest::{Ingress, config_map, service, tls_secret};
use testkit::{Authority, Canned, Refusing, Upstream};

use crate::{GET, OK, serving, setup};

/// Puts `T` for what depends on the moment: times, durations and ids.
fn timeless(line: &str) -> String {
    let is_decimal = |word: &str| {
        word.split_once('.').is_some_and(|(whole, rest)| {
            rest.trim_end_matches(',').len() == 3 && whole.parse::<u64>().is_ok()
        })
    };
    let is_id = |word: &str| word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let is_time = |word: &str| word.starts_with('[') && word.contains(':') && word.contains('/');
    let words = line.split(' ').map(|word| match word {
        word if is_decimal(word) || is_id(word) => format!("T{}", if word.ends_with(',') { "," } else { "" }),
        word if is_time(word) => "[T".to_owned(),
        word if word.starts_with('+') && word.ends_with(']') => "T]".to_owned(),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_access_log_reads_as_that_of_ingress_nginx() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    let request = "GET /a?b HTTP/1.1\r\nHost: web.test\r\nUser-Agent: a\"b\r\nReferer: http://x/\r\n\
                   Authorization: Basic Z29yZG9uOnNlY3JldA==\r\n\r\n";
    assert_eq!(forebay.client().ask(request).status, 200);
    let line = forebay.await_access_log("/a?b");
    let (address, len) = (upstream.address(), request.len());
    assert_eq!(
        timeless(&line),
        format!(
            "127.0.0.1 - gordon [T T] \"GET /a?b HTTP/1.1\" 200 5 \"http://x/\" \"a\\x22b\" {len} T \
             [default-web-80] [] {address} 5 T 200 T"
        )
    );
}

#[test]
fn the_access_log_tells_of_what_no_endpoint_answered() {
    let forebay = setup().setting("enable-access-log-for-default-backend", "true").start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/none").status, 503);
    assert_eq!(client.get("elsewhere.test", "/nowhere").status, 404);
    assert_eq!(client.ask("GET /% HTTP/1.1\r\nHost: web.test\r\n\r\n").status, 400);
    assert_eq!(
        timeless(&forebay.await_access_log("/none")),
        "127.0.0.1 - - [T T] \"GET /none HTTP/1.1\" 503 24 \"-\" \"-\" 38 T [default-web-80] [] - - - - T"
    );
    assert_eq!(
        timeless(&forebay.await_access_log("/nowhere")),
        "127.0.0.1 - - [T T] \"GET /nowhere HTTP/1.1\" 404 53 \"-\" \"-\" 47 T [upstream-default-backend] [] - - - - T"
    );
    assert_eq!(
        timeless(&forebay.await_access_log("/%")),
        "127.0.0.1 - - [T T] \"GET /% HTTP/1.1\" 400 16 \"-\" \"-\" 35 T [-] [] - - - - -"
    );
}

#[test]
fn every_try_of_a_request_is_in_its_line() {
    let (nobody, upstream) = (Refusing::default(), Upstream::new());
    let forebay = setup().endpoint(nobody.address()).endpoint(upstream.address()).start();
    let (refused, answered) = (nobody.address(), upstream.address());
    let mut client = forebay.client();
    // The round begins anywhere; of two requests, one begins with the endpoint that refuses.
    for target in ["/1", "/2"] {
        client.send(GET.replace("/ ", &format!("{target} ")));
        let (mut peer, _) = upstream.accept_request();
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(client.read_response().status, 200);
    }
    let line = timeless(&forebay.await_access_log(&format!(" {refused}, ")));
    assert!(line.contains(&format!(" {refused}, {answered} 0, 2 T, T 502, 200 ")), "{line}");
}

#[test]
fn the_access_log_can_be_written_otherwise() {
    let upstream = Canned::answering("HTTP/1.1 200 OK\r\nX-Kind: \"good\"\r\nContent-Length: 0\r\n\r\n");
    let format = r#"{"host": "$host", "agent": "$http_user_agent", "kind": "$sent_http_x_kind", "none": "$http_x",
 "where": "$namespace/$ingress_name/$service_name:$service_port$location_path", "uri": "$uri"}"#;
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("log-format-upstream", &format.replace('\n', ""))
        .setting("log-format-escape-json", "true")
        .start();
    let request = "GET //a?b HTTP/1.1\r\nHost: WEB.test:80\r\nUser-Agent: \"x\"\\\ty\r\n\r\n";
    assert_eq!(forebay.client().ask(request).status, 200);
    let line = forebay.await_access_log("host");
    let json: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(
        json,
        serde_json::json!({
            "host": "web.test",
            "agent": "\"x\"\\\ty",
            "kind": "\"good\"",
            "none": "",
            "where": "default/web/web:80/",
            "uri": "/a",
        })
    );
}

#[test]
fn the_access_log_can_be_silenced() {
    let upstream = Canned::saying("hello");
    let silent = setup().endpoint(upstream.address()).setting("disable-access-log", "true").start();
    let route = setup().endpoint(upstream.address()).annotation("enable-access-log", "false").start();
    let skipped = "/health, /HEALTH/x, ~^/metrics";
    let paths = setup().endpoint(upstream.address()).setting("skip-access-log-urls", skipped).start();
    for forebay in [&silent, &route, &paths] {
        assert_eq!(forebay.get("/health/x").status, 200);
    }
    assert_eq!([paths.get("/metrics/x?y").status, paths.get("/health/x?y").status], [200, 200]);
    for (forebay, lines) in [(silent, 0), (route, 0), (paths, 1)] {
        forebay.signal(Signal::TERM);
        assert_eq!(forebay.wait().stdout.lines().count(), lines);
    }
}

#[test]
fn a_request_is_counted_under_the_names_of_ingress_nginx() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).start();
    assert_eq!(forebay.get("/a").status, 200);
    forebay.await_metric("nginx_ingress_controller_requests", &[("status", "200")], 1);
    let metrics = forebay.metrics();
    let labels = [
        ("controller_class", "k8s.io/ingress-nginx"),
        ("controller_namespace", ""),
        ("controller_pod", ""),
        ("status", "200"),
        ("method", "GET"),
        ("path", "/"),
        ("namespace", "default"),
        ("ingress", "web"),
        ("service", "web"),
        ("canary", ""),
        ("host", "web.test"),
    ];
    assert_eq!(metrics.labels("nginx_ingress_controller_requests", &[]), labels);
    for name in [
        "request_duration_seconds",
        "response_duration_seconds",
        "header_duration_seconds",
        "connect_duration_seconds",
        "request_size",
        "response_size",
        "bytes_sent",
    ] {
        let count = metrics.sum(&format!("nginx_ingress_controller_{name}_count"), &labels);
        assert_eq!(count, 1, "{name}");
    }
    let request_bytes = metrics.sum("nginx_ingress_controller_request_size_sum", &[]);
    assert_eq!(request_bytes, "GET /a HTTP/1.1\r\nHost: web.test\r\n\r\n".len() as u64);
    for (name, value) in [
        ("nginx_ingress_controller_config_last_reload_successful", 1),
        ("nginx_ingress_controller_success", 1),
        ("nginx_ingress_controller_nginx_process_num_procs", 1),
        ("nginx_ingress_controller_nginx_process_requests_total", 1),
    ] {
        assert_eq!(metrics.sum(name, &[]), value, "{name}");
    }
}

#[test]
fn connections_are_counted_by_what_they_do() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    let connections = "nginx_ingress_controller_nginx_process_connections";
    let mut clients = [(); 3].map(|()| forebay.client());
    forebay.await_metric(connections, &[("state", "waiting")], 3);
    clients[0].send(GET);
    let (mut peer, _) = upstream.accept_request();
    forebay.await_metric(connections, &[("state", "waiting")], 2);
    forebay.await_metric(connections, &[("state", "active")], 3);
    peer.send(OK);
    forebay.await_metric(connections, &[("state", "waiting")], 3);
    drop(clients);
    forebay.await_metric(connections, &[("state", "active")], 0);
    forebay.await_metric(&format!("{connections}_total"), &[("state", "accepted")], 3);
}

#[test]
fn metrics_can_have_other_labels_and_buckets() {
    let upstream = Canned::saying("hello");
    let forebay = setup()
        .endpoint(upstream.address())
        .arguments([
            "--metrics-per-host=false",
            "--metrics-per-undefined-host=true",
            "--report-status-classes=true",
        ])
        .arguments(["--time-buckets=0.5,7", "--length-buckets=11,100000", "--size-buckets=13,100000"])
        .start();
    assert_eq!(forebay.get("/a").status, 200);
    let nobody = forebay.client().ask("GET / HTTP/1.1\r\nHost: nobody.test\r\n\r\n");
    assert_eq!(nobody.status, 404);
    forebay.await_metric("nginx_ingress_controller_requests", &[("status", "2xx")], 1);
    forebay.await_metric("nginx_ingress_controller_requests", &[("status", "4xx")], 1);
    let text = String::from_utf8(forebay.admin("/metrics").body).expect("text");
    let served: Vec<_> =
        text.lines().filter(|line| line.starts_with("nginx_ingress_controller_requests{")).collect();
    assert!(served.iter().all(|line| !line.contains("web.test")), "{served:?}");
    let bounds = |name: &str| {
        let begin = format!("nginx_ingress_controller_{name}_bucket{{");
        let of_name =
            text.lines().filter(|line| line.starts_with(&begin) && line.contains("ingress=\"web\""));
        let bound = |line: &str| {
            line.split_once("le=\"").and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()))
        };
        of_name.filter_map(bound).collect::<Vec<_>>()
    };
    assert_eq!(bounds("request_duration_seconds"), ["0.5", "7", "+Inf"]);
    assert_eq!(bounds("request_size"), ["11", "100000", "+Inf"]);
    assert_eq!(bounds("bytes_sent"), ["13", "100000", "+Inf"]);
}

#[test]
fn metrics_can_be_turned_off() {
    let forebay = setup().arguments(["--enable-metrics=false"]).start();
    assert_eq!(forebay.admin("/metrics").status, 404);
    assert_eq!(forebay.admin("/healthz").status, 200);
}

#[test]
fn health_fails_when_the_end_is_near() {
    let upstream = Upstream::new();
    let forebay = serving(&upstream);
    assert_eq!(forebay.admin("/healthz").said(), (200, "ok\n"));
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    forebay.signal(Signal::TERM);
    forebay.await_log("stopping");
    assert_eq!(forebay.admin("/healthz").said(), (500, "stopping\n"));
    peer.send(OK);
    assert_eq!(client.read_response().status, 200);
    assert!(forebay.wait().status.success());
}

#[test]
fn clients_are_still_taken_while_load_balancers_learn_of_the_end() {
    let upstream = Canned::saying("hello");
    let forebay = setup().endpoint(upstream.address()).arguments(["--shutdown-grace-period=600"]).start();
    forebay.signal(Signal::TERM);
    forebay.await_that("health fails", || forebay.admin("/healthz").status == 500);
    assert_eq!(forebay.get("/a").said(), (200, "hello"));
}

#[test]
fn the_configuration_in_force_can_be_read() {
    let upstream = Upstream::new();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("proxy-read-timeout", "7")
        .manifest(
            "tls.yaml",
            Ingress::new("tls").path("tls.test", "Exact", "/x", "web").tls("tls.test").document(),
        )
        .start();
    let configuration = forebay.configuration();
    let host = |name: &str| {
        let hosts = configuration["hosts"].as_array().expect("a list");
        hosts.iter().find(|host| host["name"]["Exact"] == name).expect("a host")["routes"][0].clone()
    };
    let web = host("web.test");
    assert_eq!(web["path"], serde_json::json!({"kind": "Prefix", "path": "/"}));
    assert_eq!(web["labels"]["object"], "web");
    let forward = &web["action"]["Forward"];
    assert_eq!(forward["backends"]["One"], "default-web-80");
    assert_eq!(forward["timeouts"]["read"], "7s");
    let tls = host("tls.test");
    assert_eq!(tls["path"], serde_json::json!({"kind": "Exact", "path": "/x"}));
    assert_eq!(tls["request_filters"][0]["TlsRedirect"]["status"], 308);
    let cluster = &configuration["clusters"][0];
    assert_eq!(cluster["name"], "default-web-80");
    assert_eq!(cluster["endpoints"][0]["address"], upstream.address().to_string());
    assert_eq!(configuration["generation"], configuration["acknowledged"]);
}

#[test]
fn ingresses_that_lack_a_service_or_endpoints_are_counted_as_in_ingress_nginx() {
    let upstream = Upstream::new();
    let more = Ingress::new("lost").path("lost.test", "Prefix", "/", "none").document()
        + &Ingress::new("idle").path("idle.test", "Prefix", "/", "idle").document()
        + &Ingress::new("canary")
            .path("web.test", "Prefix", "/", "gone")
            .annotation("canary", "true")
            .annotation("canary-weight", "100")
            .document();
    let forebay = setup()
        .endpoint(upstream.address())
        .manifest("more.yaml", more)
        .manifest("idle.yaml", service("idle", &[]))
        .start();
    let orphan = |ingress: &str, kind: &str| {
        let labels = [("namespace", "default"), ("ingress", ingress), ("type", kind)];
        let metrics = forebay.metrics();
        let series = metrics.sum("nginx_ingress_controller_orphan_ingress", &labels);
        (metrics.count("nginx_ingress_controller_orphan_ingress", &labels), series)
    };
    let lacks = |ingress: &str| [orphan(ingress, "no-service"), orphan(ingress, "no-endpoint")];
    assert_eq!(lacks("web"), [(1, 0), (1, 0)]);
    assert_eq!(lacks("lost"), [(1, 1), (1, 0)]);
    assert_eq!(lacks("idle"), [(1, 0), (1, 1)]);
    assert_eq!(lacks("canary"), [(1, 1), (1, 0)]);
    forebay.replace("idle.yaml", &service("idle", &[upstream.address()]));
    forebay.await_that("the endpoint to count", || lacks("idle") == [(1, 0), (1, 0)]);
    forebay.set_endpoints(&[]);
    forebay.await_that("the missing endpoint to count", || lacks("web") == [(1, 0), (1, 1)]);
}

#[test]
fn certificates_and_streams_can_be_seen_and_keys_cannot() {
    let upstream = Upstream::new();
    let certificate = Authority::new("authority").server(&["web.test"]);
    let forebay = setup()
        .endpoint(upstream.address())
        .tls("web.test")
        .manifest("secret.yaml", tls_secret("certificate", &certificate))
        .manifest("tcp.yaml", config_map("tcp", &[("none", "default/web:80")]))
        .arguments(["--tcp-services-configmap=default/tcp", "--default-ssl-certificate=default/missing"])
        .start();
    forebay.await_log("port none: the key is not the number of a port");
    forebay.await_log("Secret default/missing (--default-ssl-certificate) is missing");
    let page = forebay.admin("/configuration");
    let configuration = forebay.configuration();
    assert_eq!(configuration["settings"]["tls"]["default_certificate"], serde_json::Value::Null);
    assert_eq!(configuration["streams"], serde_json::json!([]));
    let shown = &configuration["hosts"][0]["tls"]["certificate"]["info"];
    assert_eq!((&shown["namespace"], &shown["object"]), (&"default".into(), &"certificate".into()));
    let body = certificate.key_pem().lines().nth(1).expect("a key has lines").to_owned();
    assert!(!page.text().contains(&body) && !page.text().contains("PRIVATE"));
    let labels = [("host", "web.test"), ("namespace", "default"), ("secret_name", "certificate")];
    let metrics = forebay.metrics();
    let expires = metrics.sum("nginx_ingress_controller_ssl_expire_time_seconds", &labels);
    assert_eq!(shown["not_after"], expires);
    let info = [labels[0], ("public_key_algorithm", "ECDSA"), ("issuer_common_name", "authority")];
    assert_eq!(metrics.sum("nginx_ingress_controller_ssl_certificate_info", &info), 1);
}
