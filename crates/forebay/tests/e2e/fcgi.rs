//! Endpoints that speak `FastCGI`, from YAML, whatever the client speaks.

use testkit::fcgi::{FcgiRequest, Record, answer, records};
use testkit::manifest::config_map;
use testkit::{Forebay, H2Client, Refusing, Upstream};

use crate::setup;

fn php(upstream: &Upstream) -> Forebay {
    let params = [("SCRIPT_FILENAME", "/app${fastcgi_script_name}"), ("APP_HOST", "$host")];
    setup()
        .endpoint(upstream.address())
        .annotation("backend-protocol", "FCGI")
        .annotation("fastcgi-index", "index.php")
        .annotation("fastcgi-params-configmap", "params")
        .manifest("params.yaml", config_map("params", &params))
        .start()
}

#[test]
fn clients_of_http_1_and_2_are_served() {
    let upstream = Upstream::new();
    let forebay = php(&upstream);
    let mut client = forebay.client();
    client.send("GET /a/?b=c HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let mut peer = upstream.accept();
    let request = FcgiRequest::read(&mut peer);
    for (name, value) in [
        ("SCRIPT_FILENAME", "/app/a/index.php"),
        ("APP_HOST", "web.test"),
        ("SERVER_NAME", "web.test"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("QUERY_STRING", "b=c"),
    ] {
        assert_eq!(request.param(name), Some(value), "{name}");
    }
    peer.send(answer("Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nnothing"));
    let response = client.read_response();
    assert_eq!(response.said(), (404, "nothing"));
    assert!(response.header("Strict-Transport-Security").is_none() && response.header("Server").is_none());

    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/form.php", &[("content-type", "a/b")], false);
    call.sender.send("some ", false);
    call.sender.send("content", true);
    let mut peer = upstream.accept();
    let request = FcgiRequest::read(&mut peer);
    assert_eq!((request.param("CONTENT_LENGTH"), &request.body[..]), (Some("12"), &b"some content"[..]));
    assert_eq!(request.param("SERVER_PROTOCOL"), Some("HTTP/2.0"));
    assert_eq!(request.param("SCRIPT_FILENAME"), Some("/app/form.php"));
    let long = "x".repeat(200_000);
    peer.send(answer(format!("Content-Type: text/plain\r\n\r\n{long}")));
    let response = call.read_response();
    assert_eq!((response.status, response.text() == long), (200, true));
}

#[test]
fn what_the_application_says_of_errors_is_logged() {
    let upstream = Upstream::new();
    let forebay = php(&upstream);
    let mut client = forebay.client();
    client.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    let mut peer = upstream.accept();
    FcgiRequest::read(&mut peer);
    let said =
        [Record::Stderr(b"PHP message: a \"quoted\"\nline\n"), Record::Stdout(b"\r\nok"), Record::End(0)];
    peer.send(records(&said, 0));
    assert_eq!(client.read_response().said(), (200, "ok"));
    let line = forebay.await_log("a FastCGI application reports errors");
    assert!(line.contains("WARN") || line.contains("warn"), "{line}");
    assert!(line.contains("PHP message: a") && line.contains("\\nline"), "it stays one line: {line}");
}

#[test]
fn a_config_map_that_is_missing_closes_the_location() {
    let refusing = Refusing::default();
    let forebay = setup()
        .endpoint(refusing.address())
        .annotation("backend-protocol", "FCGI")
        .annotation("fastcgi-params-configmap", "params")
        .start();
    assert_eq!(forebay.get("/").status, 503);
    forebay.replace("params.yaml", &config_map("params", &[("SCRIPT_FILENAME", "/app/index.php")]));
    forebay.await_that("the location to be open", || forebay.get("/").status == 502);
}
