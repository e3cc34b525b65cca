//! Pods that come and go under load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;
use testkit::{Connection, Ending, Forebay, Response};

use crate::pods::deploy_payload;
use crate::space::{Space, await_answer, await_that, upstream};

const GET: &str = "GET /1k HTTP/1.1\r\nHost: a.test\r\n\r\n";
const POST: &str = "POST /1k HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";

/// Asks until it is over, on one connection or on one for each request. Whatever is not answered with 200 is
/// a panic.
fn ask(forebay: &Forebay, request: &str, keep_alive: bool, over: &AtomicBool, answered: &AtomicUsize) {
    let mut kept: Option<Connection> = None;
    while !over.load(Ordering::Relaxed) {
        let mut connection = kept.take().unwrap_or_else(|| forebay.client());
        let response = connection.ask(request);
        assert_eq!(response.status, 200, "{response:?}");
        answered.fetch_add(1, Ordering::Relaxed);
        let says_close = |response: &Response| response.header("connection").as_deref() == Some("close");
        kept = (keep_alive && !says_close(&response)).then_some(connection);
    }
}

#[test]
fn a_rolling_restart_fails_no_request() {
    let space = Space::new("rolling");
    // Long enough for all that is said of it to arrive before it ends.
    deploy_payload(&space, "web", 4, &json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}));
    space.await_rollout("web");
    space.route("web", "a.test", "web");
    let forebay = space.forebay().start();
    await_answer(&forebay, "a.test", 200, "");
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let before = space.client.list("Pod", &space.name).expect("the API answers");
    thread::scope(|scope| {
        for (request, keep_alive) in [(GET, true), (GET, false), (POST, true), (POST, false)] {
            scope.spawn({
                let forebay = &forebay;
                let over = &over;
                let answered = &answered;
                move || ask(forebay, request, keep_alive, over, answered)
            });
        }
        let template = json!({"metadata": {"annotations": {"restarted": "yes"}}});
        let restart = json!({
            "kind": "Deployment",
            "metadata": {"namespace": space.name, "name": "web"},
            "spec": {"template": template},
        });
        space.client.merge(&restart).expect("it is restarted");
        space.await_rollout("web");
        let is_old = |pod: &serde_json::Value| {
            before.iter().any(|old| old["metadata"]["uid"] == pod["metadata"]["uid"])
        };
        await_that("the Pods from before to be gone", || {
            !space.client.list("Pod", &space.name).expect("the API answers").iter().any(is_old)
        });
        over.store(true, Ordering::Relaxed);
    });
    assert!(answered.into_inner() > 100);
}

#[test]
fn a_terminating_pod_finishes_what_it_has_and_gets_no_more() {
    let space = Space::new("draining");
    let (leaving, staying) = (upstream(), upstream());
    space.serve("web", leaving.address());
    space.route("web", "a.test", "web");
    let forebay = space.forebay().start();
    let mut clients = [(); 2].map(|()| forebay.client());
    let mut peers: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.send(GET);
            leaving.accept_request().0
        })
        .collect();
    // One connection idle, the other in use.
    peers[0].send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(clients[0].read_response().status, 200);
    let draining = json!({"ready": false, "serving": true, "terminating": true});
    space.slice("web", "web", leaving.address(), &draining);
    space.slice("new", "web", staying.address(), &json!({"ready": true}));
    assert!(
        matches!(peers[0].ending(), Ending::Closed | Ending::Reset),
        "idle connections are closed at once"
    );
    // A slice for itself may have been in force for a moment, in which what terminates is better than
    // nothing.
    await_that("both slices to be in force", || {
        let configuration = forebay.configuration();
        configuration.to_string().contains(&staying.address().to_string())
            && configuration["generation"] == configuration["acknowledged"]
    });
    let mut late = forebay.client();
    late.send(GET);
    let (mut peer, _) = staying.accept_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
    assert_eq!(late.read_response().said(), (200, "new"));
    peers[1].send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
    assert_eq!(clients[1].read_response().said(), (200, "old"));
    assert!(leaving.is_left_alone());
}
