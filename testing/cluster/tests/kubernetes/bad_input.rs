//! Objects that the API server accepts although they make no sense: they are reported, and affect nothing
//! else.

use serde_json::json;

use crate::space::{Space, await_answer, await_that, saying};

/// About what all annotations of an object may have together (262,144 bytes).
const ANNOTATION_BYTES: usize = 260_000;

#[test]
fn what_is_named_and_is_not_there_is_told() {
    let space = Space::new("missing");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("good", "good.test", "web");
    space.route("service", "service.test", "nothing");
    let mut port = space.ingress("port.test", "web");
    port["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"] = json!({"name": "nothing"});
    space.apply("Ingress", "port", port);
    for (name, secret) in [("secret", "nothing"), ("type", "opaque")] {
        let mut ingress = space.ingress(&format!("{name}.test"), "web");
        ingress["spec"]["tls"] = json!([{"hosts": [format!("{name}.test")], "secretName": secret}]);
        ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/ssl-redirect"] = "false".into();
        space.apply("Ingress", name, ingress);
    }
    space.apply("Secret", "opaque", json!({"stringData": {"key": "value"}}));
    let forebay = space.forebay().start();
    await_answer(&forebay, "good.test", 200, "one");
    for host in ["service.test", "port.test"] {
        await_answer(&forebay, host, 503, "");
    }
    for host in ["secret.test", "type.test"] {
        await_answer(&forebay, host, 200, "one");
    }
    for (ingress, told) in
        [("service", "nothing"), ("port", "nothing"), ("secret", "nothing"), ("type", "Opaque")]
    {
        let object = format!("Ingress {}/{ingress}", space.name);
        await_that(&format!("{object} to be told of"), || {
            forebay.log().iter().any(|line| line.contains(&object) && line.contains(told))
        });
    }
}

/// "If the same path for the same host is defined in more than one Ingress, the oldest rule wins"
/// (ingress-nginx).
#[test]
fn of_two_namespaces_with_the_same_path_the_first_wins() {
    let (first, second) = (Space::new("first"), Space::new("second"));
    let (one, two) = (saying("one"), saying("two"));
    first.serve("web", one.address());
    second.serve("web", two.address());
    first.route("web", "same.test", "web");
    // Ages are in seconds.
    let created = |space: &Space| {
        space.find("Ingress", "web").expect("it is there")["metadata"]["creationTimestamp"].clone()
    };
    let mut late = second.ingress("same.test", "web");
    late["spec"]["ingressClassName"] = (*first.name).into();
    await_that("a later second", || {
        second.delete("Ingress", "web");
        second.apply("Ingress", "web", late.clone());
        created(&second) != created(&first)
    });
    let forebay = first.forebay().start();
    await_answer(&forebay, "same.test", 200, "one");
    let loser = format!("Ingress {}/web", second.name);
    await_that("the later one to be told of", || forebay.log().iter().any(|line| line.contains(&loser)));
    first.delete("Ingress", "web");
    await_answer(&forebay, "same.test", 200, "two");
}

#[test]
fn annotations_of_any_length_and_kind_cost_others_nothing() {
    let space = Space::new("annotations");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("good", "good.test", "web");
    let forebay = space.forebay().start();
    let long = "x".repeat(ANNOTATION_BYTES);
    for (name, annotation, value) in [
        ("long", "proxy-body-size", &*long),
        ("wrong", "proxy-read-timeout", "soon"),
        ("unknown", "no-such-thing", "yes"),
        ("snippet", "configuration-snippet", "return 200;"),
    ] {
        let mut ingress = space.ingress(&format!("{name}.test"), "web");
        ingress["metadata"]["annotations"][format!("nginx.ingress.kubernetes.io/{annotation}")] =
            value.into();
        space.apply("Ingress", name, ingress);
        let object = format!("Ingress {}/{name}", space.name);
        await_that(&format!("{object} to be told of"), || {
            forebay.log().iter().any(|line| line.contains(&object) && line.contains(annotation))
        });
    }
    assert_eq!(forebay.client().get("good.test", "/").said(), (200, "one"));
}
