//! The Gateway API: what is created comes into service, and the status says so. Each test has an API server
//! of its own, since a class is for every Forebay that follows it.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use cluster::{Cluster, Options};
use serde_json::{Value, json};
use testkit::{Forebay, Setup};

use crate::space::{Space, await_answer, await_that, saying};

const CLASS: &str = "edge";

pub(crate) fn api() -> Cluster {
    Cluster::start(&Options { api_only: true, ..Options::default() }).expect("an API server")
}

/// The CRDs of the standard channel.
pub(crate) fn install_kinds(api: &Cluster) {
    install(api, &cluster::gateway_crds("standard").expect("the CRDs"));
}

/// The definitions of kinds in a file, or in the files of a folder, once they can be used.
pub(crate) fn install(api: &Cluster, folder: &Path) {
    let kubectl = |arguments: &[&str]| {
        let kubeconfig = format!("--kubeconfig={}", api.kubeconfig().display());
        let output = Command::new("kubectl").arg(kubeconfig).args(arguments).output().expect("kubectl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    kubectl(&["apply", "--server-side", "-f", &folder.display().to_string()]);
    kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
}

fn replica(space: &Space) -> Setup {
    let arguments =
        ["--publish-status-address=192.0.2.1", "--election-id=leader", "--status-update-interval=5"];
    // It is no Pod: backends are at the node's address, which would be its own.
    space.forebay().arguments(arguments).variable("POD_NAMESPACE", &*space.name)
}

/// A class, a Gateway at the controller's own HTTP port, and a route to a Service.
pub(crate) fn route(space: &Space, service: &Value) {
    space.apply("GatewayClass", CLASS, json!({"spec": {"controllerName": "forebay.io/gateway-controller"}}));
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    let gateway = json!({"spec": {"gatewayClassName": CLASS, "listeners": [listener]}});
    space.apply("Gateway", "web", gateway);
    let rule = json!({"backendRefs": [service]});
    let spec = json!({"parentRefs": [{"name": "web"}], "hostnames": ["a.test"], "rules": [rule]});
    space.apply("HTTPRoute", "web", json!({ "spec": spec }));
}

/// The condition of a status, if it is about the object's present state.
pub(crate) fn condition(object: &Value, of: &Value, kind: &str) -> Option<(String, String)> {
    let condition = of["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)?;
    let is_present = condition["observedGeneration"] == object["metadata"]["generation"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    is_present.then(|| (text(&condition["status"]), text(&condition["reason"])))
}

fn await_gateway(space: &Space, kind: &str, status: &str, reason: &str) {
    await_that(&format!("the Gateway to be {kind} {status} ({reason})"), || {
        let gateway = space.find("Gateway", "web").expect("it is there");
        let told = condition(&gateway, &gateway["status"], kind);
        told.is_some_and(|told| told == (status.to_owned(), reason.to_owned()))
    });
}

fn await_route(space: &Space, kind: &str, status: &str, reason: &str) {
    await_that(&format!("the route to be {kind} {status} ({reason})"), || {
        let route = space.find("HTTPRoute", "web").expect("it is there");
        let told = condition(&route, &route["status"]["parents"][0], kind);
        told.is_some_and(|told| told == (status.to_owned(), reason.to_owned()))
    });
}

pub(crate) fn start(space: &Space) -> Forebay {
    replica(space).start()
}

#[test]
fn a_gateway_and_its_route_come_into_service_once_there_are_such_kinds() {
    let api = api();
    let space = Space::within(&api.kubeconfig(), "gateway");
    let (one, two) = (saying("one"), saying("two"));
    space.serve("web", one.address());
    space.serve("ingress", two.address());
    space.route("ingress", "b.test", "ingress");
    let forebay = start(&space);
    await_answer(&forebay, "b.test", 200, "two");
    assert_eq!(forebay.admin("/readyz").text(), "ok\n");
    install_kinds(&api);
    route(&space, &json!({"name": "web", "port": 80}));
    await_answer(&forebay, "a.test", 200, "one");
    await_gateway(&space, "Programmed", "True", "Programmed");
    await_route(&space, "Accepted", "True", "Accepted");
    await_route(&space, "ResolvedRefs", "True", "ResolvedRefs");
    let status = space.find("Gateway", "web").expect("it is there")["status"].take();
    assert_eq!(status["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.1"}]));
    assert_eq!(status["listeners"][0]["attachedRoutes"], 1);
    let class = space.find("GatewayClass", CLASS).expect("it is there");
    let of_class = |kind: &str| condition(&class, &class["status"], kind);
    assert_eq!(of_class("Accepted"), Some(("True".into(), "Accepted".into())));
    assert_eq!(of_class("SupportedVersion"), Some(("True".into(), "SupportedVersion".into())));

    // Another writer's changes do not stay.
    let lie = json!({"parents": []});
    let object =
        json!({"kind": "HTTPRoute", "metadata": {"namespace": space.name, "name": "web"}, "status": lie});
    space.client.merge_status(&object).expect("it has a status");
    await_route(&space, "Accepted", "True", "Accepted");
    space.delete("HTTPRoute", "web");
    await_answer(&forebay, "a.test", 404, "");
    assert_eq!(forebay.client().get("b.test", "/").said(), (200, "two"));
}

#[test]
fn a_grant_that_is_taken_away_closes_the_route() {
    let api = api();
    let space = Space::within(&api.kubeconfig(), "taker");
    let giver = Space::within(&api.kubeconfig(), "giver");
    install_kinds(&api);
    let one = saying("one");
    giver.serve("web", one.address());
    let from = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": space.name});
    let grant = json!({"spec": {"from": [from], "to": [{"group": "", "kind": "Service"}]}});
    giver.apply("ReferenceGrant", "taker", grant.clone());
    let forebay = start(&space);
    route(&space, &json!({"name": "web", "namespace": giver.name, "port": 80}));
    await_answer(&forebay, "a.test", 200, "one");
    await_route(&space, "ResolvedRefs", "True", "ResolvedRefs");
    giver.delete("ReferenceGrant", "taker");
    await_answer(&forebay, "a.test", 500, "");
    await_route(&space, "ResolvedRefs", "False", "RefNotPermitted");
    giver.apply("ReferenceGrant", "taker", grant);
    await_answer(&forebay, "a.test", 200, "one");
    await_route(&space, "ResolvedRefs", "True", "ResolvedRefs");
}

/// `Programmed` is true only if every worker listens; otherwise the status has the reason.
#[test]
fn a_port_that_another_has_is_programmed_once_it_is_free() {
    let api = api();
    let space = Space::within(&api.kubeconfig(), "ports");
    install_kinds(&api);
    let one = saying("one");
    space.serve("web", one.address());
    let other = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = other.local_addr().expect("it is bound").port();
    let forebay = start(&space);
    route(&space, &json!({"name": "web", "port": 80}));
    await_gateway(&space, "Programmed", "True", "Programmed");
    let listeners = |ports: &[u16]| {
        let listener = |port: &u16| json!({"name": format!("p{port}"), "port": port, "protocol": "HTTP"});
        let listeners: Vec<_> = ports.iter().map(listener).collect();
        space.apply("Gateway", "web", json!({"spec": {"gatewayClassName": CLASS, "listeners": listeners}}));
    };
    let await_listener = |at: usize, expected: (&str, &str)| {
        await_that(&format!("listener {at} to be {expected:?}"), || {
            let gateway = space.find("Gateway", "web").expect("it is there");
            let told = condition(&gateway, &gateway["status"]["listeners"][at], "Programmed");
            told.is_some_and(|(status, reason)| (&*status, &*reason) == expected)
        });
    };
    listeners(&[80, port]);
    await_listener(1, ("False", "Pending"));
    await_listener(0, ("True", "Programmed"));
    await_gateway(&space, "Programmed", "True", "Programmed");
    listeners(&[port]);
    await_gateway(&space, "Programmed", "False", "Pending");
    drop(other);
    await_gateway(&space, "Programmed", "True", "Programmed");
    await_listener(0, ("True", "Programmed"));
    drop(forebay);
}

/// The definition of the kind is in the experimental channel alone. It may be added to those of the standard
/// one, since its API group is another.
#[test]
fn a_policy_for_a_service_takes_effect_and_says_so() {
    let api = api();
    let space = Space::within(&api.kubeconfig(), "traffic");
    let one = saying("one");
    space.serve("web", one.address());
    install_kinds(&api);
    let forebay = start(&space);
    route(&space, &json!({"name": "web", "port": 80}));
    await_answer(&forebay, "a.test", 200, "one");
    let cookie = || forebay.client().get("a.test", "/").header("set-cookie");
    assert_eq!(cookie(), None);
    let definitions = cluster::gateway_crds("experimental").expect("the CRDs");
    install(&api, &definitions.join("gateway.networking.x-k8s.io_xbackendtrafficpolicies.yaml"));
    let policy = |session: Value| {
        let target = json!({"group": "", "kind": "Service", "name": "web"});
        json!({"spec": {"targetRefs": [target], "sessionPersistence": session, "retryConstraint": {}}})
    };
    let session = json!({"cookie": {"name": "kept"}});
    space.apply("XBackendTrafficPolicy", "web", policy(session.clone()));
    await_that("the cookie", || cookie().is_some_and(|cookie| cookie.starts_with("kept=")));
    let await_policy = |name: &str, status: &str, reason: &str| {
        await_that(&format!("policy {name} to be Accepted {status} ({reason})"), || {
            let policy = space.find("XBackendTrafficPolicy", name).expect("it is there");
            let ancestor = &policy["status"]["ancestors"][0];
            let told = condition(&policy, ancestor, "Accepted");
            ancestor["ancestorRef"]["kind"] == "Gateway"
                && told.is_some_and(|told| told == (status.to_owned(), reason.to_owned()))
        });
    };
    await_policy("web", "True", "Accepted");
    space.apply("XBackendTrafficPolicy", "younger", policy(session));
    await_policy("younger", "False", "Conflicted");
    space.delete("XBackendTrafficPolicy", "web");
    await_policy("younger", "True", "Accepted");
    space.delete("XBackendTrafficPolicy", "younger");
    await_that("the cookie to be gone", || cookie().is_none());
}
