//! Objects that Forebay writes: statuses, its Lease, Events.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Forebay, Setup};

use crate::space::{Space, await_that, saying};

/// Name of the Lease.
const LEASE: &str = "leader";

/// Forebay, which writes to the cluster, as a Pod of this name would.
fn replica(space: &Space, pod: &str, arguments: &[&str]) -> Setup {
    let own = [&format!("--election-id={LEASE}"), "--election-ttl=2s"];
    space
        .forebay()
        .arguments(own)
        .arguments(arguments)
        .variable("POD_NAMESPACE", &*space.name)
        .variable("POD_NAME", pod)
}

/// A Pod like another's, on no node that there is.
fn pretend_pod(space: &Space, pod: &str) {
    let content = json!({
        "metadata": {"labels": {"app": "edge"}},
        "spec": {"schedulerName": "none", "containers": [{"name": "edge", "image": "none"}]},
    });
    space.apply("Pod", pod, content);
}

fn addresses(space: &Space, ingress: &str) -> Value {
    space.find("Ingress", ingress).expect("it is there")["status"]["loadBalancer"]["ingress"].clone()
}

/// Writes such a status in place of Forebay.
fn say_reached(space: &Space, kind: &str, name: &str, addresses: &Value) {
    let status = json!({
        "kind": kind,
        "metadata": {"namespace": space.name, "name": name},
        "status": {"loadBalancer": {"ingress": addresses}},
    });
    space.client.merge_status(&status).expect("it has a status");
}

fn await_addresses(space: &Space, ingress: &str, wanted: &Value) {
    await_that(&format!("{ingress} to be reached at {wanted}"), || addresses(space, ingress) == *wanted);
}

fn holder(space: &Space) -> Value {
    space.find("Lease", LEASE).unwrap_or_default()["spec"]["holderIdentity"].clone()
}

fn events(space: &Space, of: &str) -> Vec<Value> {
    let mut events = space.client.list("Event", &space.name).expect("the API answers");
    events.retain(|event| event["involvedObject"]["name"] == of);
    events
}

fn stop(forebay: Forebay) {
    forebay.signal(Signal::TERM);
    assert!(forebay.wait().status.success());
}

#[test]
fn the_status_of_its_own_is_written_and_cleared_by_the_last() {
    let space = Space::new("status");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("ours", "a.test", "web");
    let mut others = space.ingress("b.test", "web");
    others["spec"]["ingressClassName"] = "others".into();
    space.apply("Ingress", "others", others);
    let theirs = json!([{"ip": "198.51.100.1"}]);
    say_reached(&space, "Ingress", "others", &theirs);
    pretend_pod(&space, "a");
    let forebay = replica(&space, "a", &["--publish-status-address=192.0.2.2,lb.example,192.0.2.1"]).start();
    let ours = json!([{"hostname": "lb.example"}, {"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]);
    await_addresses(&space, "ours", &ours);
    assert_eq!(holder(&space), "a");
    forebay.await_metric("nginx_ingress_controller_leader_election_status", &[("name", LEASE)], 1);
    say_reached(&space, "Ingress", "ours", &theirs);
    await_addresses(&space, "ours", &ours);
    stop(forebay);
    assert_eq!(addresses(&space, "ours"), Value::Null);
    assert_eq!(addresses(&space, "others"), theirs);
    assert_eq!(holder(&space), "", "the Lease is given up");
}

#[test]
fn another_leads_when_the_leader_is_killed() {
    let space = Space::new("leader");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    pretend_pod(&space, "a");
    pretend_pod(&space, "b");
    let first = replica(&space, "a", &["--publish-status-address=192.0.2.1"]).start();
    await_addresses(&space, "web", &json!([{"ip": "192.0.2.1"}]));
    let second = replica(&space, "b", &["--publish-status-address=192.0.2.2"]).start();
    second.await_metric("nginx_ingress_controller_leader_election_status", &[("name", LEASE)], 0);
    assert_eq!(holder(&space), "a");
    first.signal(Signal::KILL);
    await_addresses(&space, "web", &json!([{"ip": "192.0.2.2"}]));
    assert_eq!(holder(&space), "b");
    assert_eq!(space.find("Lease", LEASE).expect("it is there")["spec"]["leaseTransitions"], 1);

    // A Pod like it is there still: it is for that one to say where Ingresses are reached.
    stop(second);
    assert_eq!(addresses(&space, "web"), json!([{"ip": "192.0.2.2"}]));
    assert_eq!(holder(&space), "");
}

#[test]
fn an_address_that_the_load_balancer_gets_later_is_written() {
    let space = Space::new("balancer");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    space.apply("Service", "edge", json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}));
    let service = format!("--publish-service={}/edge", space.name);
    let forebay = replica(&space, "a", &[&service]).start();
    await_that("it to lead", || holder(&space) == "a");
    assert_eq!(addresses(&space, "web"), Value::Null);
    for points in [json!([{"ip": "192.0.2.7"}]), json!([{"ip": "192.0.2.8"}, {"ip": "192.0.2.9"}])] {
        say_reached(&space, "Service", "edge", &points);
        await_addresses(&space, "web", &points);
    }
    stop(forebay);
}

#[test]
fn events_tell_what_is_wrong_and_what_is_served() {
    let space = Space::new("events");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("old", "a.test", "web");
    space.route("broken", "b.test", "nothing");
    let forebay = replica(&space, "a", &["--publish-status-address=192.0.2.1"]).start();
    await_that("the Event", || !events(&space, "broken").is_empty());
    let event = events(&space, "broken").remove(0);
    assert_eq!(event["type"], "Warning");
    assert_eq!(
        event["involvedObject"]["uid"],
        space.find("Ingress", "broken").expect("it is there")["metadata"]["uid"]
    );
    assert!(event["message"].as_str().expect("a message").contains("nothing"), "{event}");
    space.route("new", "c.test", "web");
    await_that("the Event", || !events(&space, "new").is_empty());
    let event = events(&space, "new").remove(0);
    assert_eq!((&event["type"], &event["reason"]), (&json!("Normal"), &json!("Sync")), "{event}");
    assert!(events(&space, "old").is_empty(), "that is no news");
    assert_eq!(events(&space, "broken").len(), 1, "it is told once");
    stop(forebay);
}

#[test]
fn a_trial_writes_nothing_but_events() {
    let space = Space::new("trial");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    space.route("broken", "b.test", "nothing");
    let arguments = ["--update-status=false", "--publish-status-address=192.0.2.1"];
    let forebay = replica(&space, "a", &arguments).start();
    await_that("the Event", || !events(&space, "broken").is_empty());
    stop(forebay);
    assert_eq!(space.find("Lease", LEASE), None);
    assert_eq!(addresses(&space, "web"), Value::Null);
}
