//! Objects come, change and go, and what is served follows.

use serde_json::json;
use testkit::{Authority, Certificate, Forebay, TlsClient};

use crate::space::{Space, await_answer, await_that, saying};

#[test]
fn an_ingress_comes_changes_and_goes() {
    let space = Space::new("ingress");
    let (one, two) = (saying("one"), saying("two"));
    space.serve("one", one.address());
    space.serve("two", two.address());
    let forebay = space.forebay().start();
    assert_eq!(forebay.client().get("a.test", "/").status, 404);
    space.route("web", "a.test", "one");
    await_answer(&forebay, "a.test", 200, "one");
    space.route("web", "a.test", "two");
    await_answer(&forebay, "a.test", 200, "two");
    space.route("web", "b.test", "two");
    await_answer(&forebay, "b.test", 200, "two");
    await_answer(&forebay, "a.test", 404, "");
    space.delete("Ingress", "web");
    await_answer(&forebay, "b.test", 404, "");
}

#[test]
fn an_ingress_of_another_class_is_none_of_ours() {
    let space = Space::new("class");
    let one = saying("one");
    space.serve("one", one.address());
    let mut other = space.ingress("other.test", "one");
    other["spec"]["ingressClassName"] = "another".into();
    space.apply("Ingress", "other", other);
    space.route("ours", "ours.test", "one");
    let forebay = space.forebay().start();
    await_answer(&forebay, "ours.test", 200, "one");
    assert_eq!(forebay.client().get("other.test", "/").status, 404);
    // A class that becomes ours later brings its Ingresses along, and takes them with it.
    let class = |controller: &str| json!({"spec": {"controller": controller}});
    let name = format!("{}-late", space.name);
    let mut late = space.ingress("late.test", "one");
    late["spec"]["ingressClassName"] = (*name).into();
    space.apply("Ingress", "late", late);
    space.apply("IngressClass", &name, class(&space.controller()));
    await_answer(&forebay, "late.test", 200, "one");
    space.delete("IngressClass", &name);
    await_answer(&forebay, "late.test", 404, "");
}

#[test]
fn slices_come_change_and_go() {
    let space = Space::new("slices");
    let (one, two) = (saying("one"), saying("two"));
    space.route("web", "a.test", "web");
    let forebay = space.forebay().start();
    await_answer(&forebay, "a.test", 503, "");
    space.serve("web", one.address());
    await_answer(&forebay, "a.test", 200, "one");
    space.slice("web", "web", two.address(), &json!({"ready": true}));
    await_answer(&forebay, "a.test", 200, "two");
    space.slice("more", "web", one.address(), &json!({"ready": true}));
    await_answer(&forebay, "a.test", 200, "one");
    await_answer(&forebay, "a.test", 200, "two");
    space.slice("web", "web", two.address(), &json!({"ready": false}));
    await_that("one alone to be asked", || {
        (0..4).all(|_| forebay.client().get("a.test", "/").text() == "one")
    });
    space.delete("EndpointSlice", "more");
    await_answer(&forebay, "a.test", 503, "");
    space.delete("Service", "web");
    space.delete("EndpointSlice", "web");
    space.serve("web", two.address());
    await_answer(&forebay, "a.test", 200, "two");
}

#[test]
fn the_port_of_a_service_changes() {
    let space = Space::new("service");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    let forebay = space.forebay().start();
    await_answer(&forebay, "a.test", 200, "one");
    let port = |number: u16| json!({"spec": {"ports": [{"port": number, "protocol": "TCP"}]}});
    space.delete("Service", "web");
    space.apply("Service", "web", port(81));
    await_answer(&forebay, "a.test", 503, "");
    space.delete("Service", "web");
    space.apply("Service", "web", port(80));
    await_answer(&forebay, "a.test", 200, "one");
}

#[test]
fn a_certificate_comes_changes_and_goes() {
    let space = Space::new("secret");
    let one = saying("one");
    space.serve("web", one.address());
    let mut ingress = space.ingress("a.test", "web");
    ingress["spec"]["tls"] = json!([{"hosts": ["a.test"], "secretName": "certificate"}]);
    space.apply("Ingress", "web", ingress);
    let forebay = space.forebay().start();
    let authority = Authority::new("authority");
    let certificates = [(); 2].map(|()| authority.server(&["a.test"]));
    let shown =
        |forebay: &Forebay| forebay.tls_client(&TlsClient::new("a.test")).tls_info().peer_chain.remove(0);
    for certificate in &certificates {
        apply_certificate(&space, certificate);
        await_that("the certificate to be shown", || shown(&forebay) == certificate.der());
        let said = forebay.tls_client(&TlsClient::new("a.test")).get("a.test", "/");
        assert_eq!(said.said(), (200, "one"));
    }
    space.delete("Secret", "certificate");
    await_that("the default certificate to be shown", || shown(&forebay) != certificates[1].der());
    apply_certificate(&space, &certificates[0]);
    await_that("the certificate to be shown", || shown(&forebay) == certificates[0].der());
}

fn apply_certificate(space: &Space, certificate: &Certificate) {
    let data = json!({"tls.crt": certificate.chain_pem(), "tls.key": certificate.key_pem()});
    space.apply("Secret", "certificate", json!({"type": "kubernetes.io/tls", "stringData": data}));
}

#[test]
fn settings_come_change_and_go() {
    let space = Space::new("settings");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    let forebay = space.forebay().arguments([format!("--configmap={}/settings", space.name)]).start();
    let post = || {
        let request = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";
        forebay.client().ask(request).status
    };
    await_that("a body to pass", || post() == 200);
    space.apply("ConfigMap", "settings", json!({"data": {"proxy-body-size": "1"}}));
    await_that("a body to be too large", || post() == 413);
    space.apply("ConfigMap", "settings", json!({"data": {"proxy-body-size": "2"}}));
    await_that("a body to pass again", || post() == 200);
    space.apply("ConfigMap", "settings", json!({"data": {"proxy-body-size": "1"}}));
    await_that("a body to be too large", || post() == 413);
    space.delete("ConfigMap", "settings");
    await_that("a body to pass without settings", || post() == 200);
}

/// Only `ConfigMap`s that a key of the settings or an annotation names are watched.
#[test]
fn headers_in_configmaps_come_change_and_go() {
    let space = Space::new("headers");
    let one = saying("one");
    space.serve("web", one.address());
    let name = |name: &str| format!("{}/{name}", space.name);
    let settings = json!({"data": {"add-headers": name("add"), "global-allowed-response-headers": "X-Team"}});
    space.apply("ConfigMap", "settings", settings);
    space.apply("ConfigMap", "add", json!({"data": {"X-All": "1"}}));
    let mut ingress = space.ingress("a.test", "web");
    ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/custom-headers"] = name("team").into();
    space.apply("Ingress", "web", ingress);
    let forebay = space.forebay().arguments([format!("--configmap={}", name("settings"))]).start();
    let header = |name: &str| forebay.client().get("a.test", "/").header(name);
    await_answer(&forebay, "a.test", 503, "");
    assert_eq!(header("X-All").as_deref(), Some("1"));
    space.apply("ConfigMap", "team", json!({"data": {"X-Team": "blue"}}));
    await_that("the headers of the Ingress", || header("X-Team").as_deref() == Some("blue"));
    space.apply("ConfigMap", "team", json!({"data": {"X-Team": "red"}}));
    await_that("other headers of the Ingress", || header("X-Team").as_deref() == Some("red"));
    space.apply("ConfigMap", "add", json!({"data": {"X-All": "2"}}));
    await_that("another header of all", || header("X-All").as_deref() == Some("2"));
    space.delete("ConfigMap", "team");
    await_answer(&forebay, "a.test", 503, "");
}

/// The API takes any number for the port of a slice; there is no such port.
#[test]
fn an_object_that_cannot_be_read_breaks_no_watch() {
    let space = Space::new("unreadable");
    let (one, two) = (saying("one"), saying("two"));
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    let forebay = space.forebay().start();
    await_answer(&forebay, "a.test", 200, "one");
    let broken = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [one.address().ip()]}],
        "ports": [{"port": 70_000}],
    });
    space.apply("EndpointSlice", "web", broken);
    let line = forebay.await_log("cannot be read");
    assert!(line.contains(&format!("{}/web", space.name)) && line.contains("70000"), "{line}");
    // The old state stays, and other objects are read.
    await_answer(&forebay, "a.test", 200, "one");
    space.serve("other", two.address());
    space.route("other", "b.test", "other");
    await_answer(&forebay, "b.test", 200, "two");
    space.slice("web", "web", two.address(), &json!({"ready": true}));
    await_answer(&forebay, "a.test", 200, "two");
}
