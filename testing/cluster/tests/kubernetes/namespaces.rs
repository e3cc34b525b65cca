//! The namespaces that are watched.

use serde_json::{Value, json};

use crate::space::{Space, await_answer, saying};

#[test]
fn one_namespace_is_all_that_is_served() {
    let (ours, other) = (Space::new("watched"), Space::new("unwatched"));
    let one = saying("one");
    for space in [&ours, &other] {
        space.serve("web", one.address());
    }
    ours.route("web", "ours.test", "web");
    let mut foreign = other.ingress("other.test", "web");
    foreign["spec"]["ingressClassName"] = (*ours.name).into();
    other.apply("Ingress", "web", foreign);
    let forebay = ours.forebay().arguments([format!("--watch-namespace={}", ours.name)]).start();
    await_answer(&forebay, "ours.test", 200, "one");
    assert_eq!(forebay.client().get("other.test", "/").status, 404);
}

#[test]
fn a_namespace_is_selected_by_its_labels() {
    let space = Space::new("selected");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    let label = |value: Value| {
        let name = &space.name;
        let labels = json!({"kind": "Namespace", "metadata": {"name": name, "labels": {"serve": value}}});
        space.client.merge(&labels).expect("it is labelled");
    };
    let selector = format!("--watch-namespace-selector=serve={}", space.name);
    let forebay = space.forebay().arguments([selector]).start();
    assert_eq!(forebay.client().get("a.test", "/").status, 404);
    label((*space.name).into());
    await_answer(&forebay, "a.test", 200, "one");
    label(Value::Null);
    await_answer(&forebay, "a.test", 404, "");
}
