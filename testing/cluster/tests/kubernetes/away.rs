//! An API server that forgets, stalls or is not there. Each test has one of its own, for the others not to
//! notice.

use cluster::{Cluster, Options};
use rustix::process::Signal;
use serde_json::json;

use crate::space::{Space, await_answer, await_that, saying};

fn api() -> Cluster {
    Cluster::start(&Options { api_only: true, ..Options::default() }).expect("an API server")
}

/// Forebay's last version is too old for the API server to continue from, so that it has to list again.
#[test]
fn what_changed_behind_a_compaction_is_found() {
    let mut api = api();
    let space = Space::within(&api.kubeconfig(), "compacted");
    let (one, two) = (saying("one"), saying("two"));
    space.serve("one", one.address());
    space.serve("two", two.address());
    for (name, host) in [("changed", "a.test"), ("deleted", "b.test"), ("kept", "c.test")] {
        space.route(name, host, "one");
    }
    let forebay = space.forebay().start();
    await_answer(&forebay, "b.test", 200, "one");
    forebay.signal(Signal::STOP);
    space.route("changed", "a.test", "two");
    space.delete("Ingress", "deleted");
    space.route("created", "d.test", "one");
    api.compact().expect("etcd compacts");
    // The data in the server's memory is lost too.
    api.kill_api_server();
    api.start_api_server().expect("it starts again");
    forebay.signal(Signal::CONT);
    await_answer(&forebay, "a.test", 200, "two");
    await_answer(&forebay, "b.test", 404, "");
    assert_eq!(forebay.client().get("c.test", "/").said(), (200, "one"));
    await_answer(&forebay, "d.test", 200, "one");
}

#[test]
fn serving_goes_on_while_the_api_server_is_away() {
    let mut api = api();
    let space = Space::within(&api.kubeconfig(), "away");
    let (one, two) = (saying("one"), saying("two"));
    space.serve("one", one.address());
    space.serve("two", two.address());
    space.route("web", "a.test", "one");
    let forebay = space.forebay().start();
    api.freeze_api_server().expect("it runs");
    assert_eq!(forebay.client().get("a.test", "/").said(), (200, "one"));
    api.kill_api_server();
    forebay.await_log("cannot watch ingresses");
    await_that("the trouble to be told", || {
        let readiness = forebay.admin("/readyz");
        readiness.status == 200 && readiness.text().contains("cannot watch ingresses")
    });
    assert_eq!(forebay.client().get("a.test", "/").said(), (200, "one"));
    api.start_api_server().expect("it starts again");
    space.route("web", "a.test", "two");
    await_answer(&forebay, "a.test", 200, "two");
    // An event shows that a watch works.
    for (kind, name) in [("Service", "one"), ("EndpointSlice", "one"), ("IngressClass", &space.name)] {
        let metadata = json!({"namespace": space.name, "name": name, "labels": {"touched": "yes"}});
        space.client.merge(&json!({"kind": kind, "metadata": metadata})).expect("it is labelled");
    }
    await_that("no more trouble", || forebay.admin("/readyz").text() == "ok\n");
}

#[test]
fn a_start_without_the_api_server_serves_what_was_kept_on_disk() {
    let mut api = api();
    let space = Space::within(&api.kubeconfig(), "kept");
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (saying("one"), saying("two"));
    space.serve("one", one.address());
    space.serve("two", two.address());
    space.route("web", "a.test", "one");
    let setup = || space.forebay().arguments([format!("--state-dir={}", folder.path().display())]);
    let forebay = setup().start();
    await_answer(&forebay, "a.test", 200, "one");
    let kept = folder.path().join("objects.yaml");
    await_that("a copy", || std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("a.test")));
    drop(forebay);
    api.kill_api_server();
    let forebay = setup().start();
    assert_eq!(forebay.client().get("a.test", "/").said(), (200, "one"));
    assert!(forebay.admin("/readyz").text().contains("serving what was kept on disk"));
    forebay.await_log("serving what was kept on disk");
    api.start_api_server().expect("it starts again");
    space.route("web", "a.test", "two");
    await_answer(&forebay, "a.test", 200, "two");
    await_that("what was kept to be replaced", || forebay.admin("/readyz").text() == "ok\n");
}
