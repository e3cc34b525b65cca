//! HTTP/1 with raw bytes at both ends: what the path of a request decides, branch by branch.

mod abuse;
mod access;
mod affinity;
mod answers;
mod auth;
mod bodies;
mod buffering;
mod cache;
mod cache_beside;
mod cache_codings;
mod cache_tier;
mod cache_views;
mod calls;
mod canary;
mod codings;
mod early;
mod ejection;
mod errors;
mod expressions;
mod fcgi;
mod filters;
mod heads;
mod listeners;
mod mirrors;
mod overload;
mod protocol;
mod responses;
mod sessions;
mod shortages;
mod slow;
mod traces;
mod trailers;
mod tries;

use model::{Action, Forward, Model, Route};
use testkit::Connection;

use crate::world::{World, web};

const GET: &str = "GET /a HTTP/1.1\r\nHost: web.test\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 4\r\n\r\nbody";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const FAULTS: &str = "forebay_faults_total";

/// Changes the only route.
fn route(model: &mut Model, change: impl FnOnce(&mut Route)) {
    web(model, |host| change(std::sync::Arc::make_mut(&mut host.routes[0])));
}

/// Changes how the only route forwards.
fn forward(model: &mut Model, change: impl FnOnce(&mut Forward)) {
    route(model, |route| match &mut route.action {
        Action::Forward(forward) => change(forward),
        Action::Files(_) | Action::Respond(_) | Action::NotFound => {
            unreachable!("the world's route forwards")
        }
    });
}

/// Shows that a connection takes another request, and that nothing is left over on it from the last one.
fn goes_on(client: &mut Connection, peer: &mut Connection) {
    client.send(GET);
    peer.read_head();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}

fn await_fault(world: &World, reason: &str) {
    world.await_metric(FAULTS, &[("reason", reason)], 1);
}
