//! Errors that another backend answers, from YAML, whatever is spoken on both sides.

use testkit::manifest::{Ingress, service};
use testkit::{Canned, Forebay, H2Client, H2Upstream, Refusing, Setup, Upstream};

use crate::{GET, OK, setup};

fn with_errors(setup: Setup, errors: &Canned, statuses: &str) -> Forebay {
    setup
        .annotation("custom-http-errors", statuses)
        .annotation("default-backend", "errors")
        .manifest("errors.yaml", service("errors", &[errors.address()]))
        .start()
}

#[test]
fn clients_and_endpoints_of_http_2_are_served_as_well() {
    let (upstream, errors) = (H2Upstream::clear(), Canned::saying("page"));
    let setup = setup().endpoint(upstream.address()).annotation("backend-protocol", "GRPC");
    let forebay = with_errors(setup, &errors, "404,413");
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/a?q=1", &[], false);
    let mut peer = upstream.accept_request();
    call.sender.send("body", true);
    assert_eq!(peer.body.read_to_end().0, b"body");
    peer.answer_at_once(404, &[("x-lost", "1")], b"lost");
    let response = call.read_response();
    assert_eq!((response.status, response.text(), response.header("x-lost")), (200, "page", None));
    let head = errors.heads().pop().unwrap();
    assert!(head.starts_with("POST /?q=1 HTTP/1.1\r\nHost: web.test\r\n"), "{head}");
    for field in [
        "X-Code: 404",
        "X-Original-URI: /a?q=1",
        "X-Namespace: default",
        "X-Ingress-Name: web",
        "X-Service-Name: web",
        "X-Service-Port: 80",
        "Content-Length: 4",
    ] {
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{field}: {head}");
    }
    let mut call = client.call("POST", "web.test", "/a", &[("content-length", "4000000")], false);
    let response = call.read_response();
    assert_eq!((response.status, response.text()), (200, "page"));
    let head = errors.heads().pop().unwrap();
    assert!(head.contains("\r\nX-Code: 413\r\n") && head.contains("\r\nContent-Length: 0\r\n"), "{head}");
}

#[test]
fn the_body_of_an_http_2_client_goes_along() {
    let (upstream, errors) = (Upstream::new(), Upstream::new());
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("custom-http-errors", "404")
        .annotation("default-backend", "errors")
        .manifest("errors.yaml", service("errors", &[errors.address()]))
        .start();
    let client = H2Client::clear(forebay.address());
    let mut call = client.call("POST", "web.test", "/a", &[("content-length", "4")], false);
    call.sender.send("body", true);
    let (mut peer, _) = upstream.accept_request();
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nlost");
    let (mut peer, head) = errors.accept_request();
    assert!(head.starts_with("POST / HTTP/1.1\r\n"), "{head}");
    assert_eq!(peer.read_exactly(4), b"body");
    peer.send(OK);
    assert_eq!(call.read_response().text(), "ok");
}

#[test]
fn the_list_of_the_config_map_is_answered_by_the_service_of_the_flag() {
    let (upstream, errors) = (Upstream::new(), Canned::saying("page"));
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("custom-http-errors", "404,403")
        .setting("block-user-agents", "~*bot")
        .arguments(["--default-backend-service=default/errors"])
        .manifest("errors.yaml", service("errors", &[errors.address()]))
        .start();
    let mut client = forebay.client();
    client.send(GET);
    let (mut peer, _) = upstream.accept_request();
    peer.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response().said(), (200, "page"));
    // Refused before a route of the host is asked, on unknown hosts as well.
    for host in ["web.test", "other.test"] {
        let ask = format!("GET /x HTTP/1.1\r\nHost: {host}\r\nUser-Agent: a Bot\r\n\r\n");
        assert_eq!(forebay.client().ask(&ask).said(), (200, "page"));
        assert!(errors.heads().pop().unwrap().contains("\r\nX-Code: 403\r\n"));
    }
    // The Service itself is asked once for what is its own.
    assert_eq!(forebay.client().get("other.test", "/x").said(), (200, "page"));
    assert!(errors.heads().pop().unwrap().starts_with("GET /x HTTP/1.1\r\n"));
}

#[test]
fn without_a_backend_the_built_in_one_makes_404_of_an_error() {
    let nobody = Refusing::default();
    let setup = setup().endpoint(nobody.address());
    let forebay = setup.setting("custom-http-errors", "502").start();
    assert_eq!(forebay.get("/").said(), (404, "404 Not Found\n"));
}

#[test]
fn a_default_backend_steps_in_for_a_service_that_is_missing() {
    let (main, errors) = (Canned::saying("main"), Canned::saying("page"));
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "main")
        .path("web.test", "Prefix", "/gone", "gone")
        .annotation("default-backend", "errors");
    let documents =
        [ingress.document(), service("main", &[main.address()]), service("errors", &[errors.address()])];
    let forebay = setup().manifest("web.yaml", documents.concat()).start();
    assert_eq!(forebay.get("/").said(), (200, "main"));
    assert_eq!(forebay.get("/gone/x?y").said(), (200, "page"));
    let head = errors.heads().pop().unwrap();
    assert!(head.starts_with("GET /gone/x?y HTTP/1.1\r\n") && head.contains("\r\nX-Code: 503\r\n"), "{head}");
    assert!(head.contains("\r\nX-Service-Name: gone\r\n"), "{head}");
}

#[test]
fn a_canary_takes_what_its_header_says_and_no_host_of_its_own() {
    let (main, new) = (Canned::saying("main"), Canned::saying("new"));
    let ingress = Ingress::new("main").path("web.test", "Prefix", "/", "main");
    let canary = Ingress::new("canary")
        .path("web.test", "Prefix", "/", "new")
        .path("own.test", "Prefix", "/", "new")
        .annotation("canary", "true")
        .annotation("canary-by-header", "X-Canary")
        .annotation("canary-weight", "0");
    let documents = [
        canary.document(),
        ingress.document(),
        service("main", &[main.address()]),
        service("new", &[new.address()]),
    ];
    let forebay = setup().manifest("web.yaml", documents.concat()).start();
    assert_eq!(forebay.get("/").said(), (200, "main"));
    let ask = GET.replace("\r\n\r\n", "\r\nX-Canary: always\r\n\r\n");
    assert_eq!(forebay.client().ask(&ask).said(), (200, "new"));
    assert_eq!(forebay.client().get("own.test", "/").status, 404);
    let requests = "nginx_ingress_controller_requests";
    forebay.await_metric(requests, &[("canary", "default-new-80"), ("ingress", "main")], 1);
}
