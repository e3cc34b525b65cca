//! Services that fail, and answers that cannot be obeyed.

use deciders::grpc;
use deciders::proto::auth::OkHttpResponse;
use testkit::manifest::service;
use testkit::{Canned, Refusing};

use super::{Asked, GRPC, Service, TIMEOUT, allowed, appended, denied, guarded, header, house, send};
use crate::setup;

/// Clients of a route that is closed, one that is open, and one with another status, while the service does
/// this.
fn hosts_while(act: impl Fn(Asked), expected: [u16; 3], what: &str) {
    hosts_for("20s", act, expected, what);
}

/// The same with another time for the service.
fn hosts_for(time: &str, act: impl Fn(Asked), expected: [u16; 3], what: &str) {
    let (upstream, service) = (Canned::saying("let in"), Service::start());
    let forebay = house(
        setup(),
        &upstream,
        &service,
        &[
            guarded("closed"),
            guarded("open").annotation("forebay.io/ext-authz-fail-open", "true"),
            guarded("other").annotation("forebay.io/ext-authz-status-on-error", "503"),
        ]
        .map(|ingress| ingress.annotation(TIMEOUT, time)),
    );
    for (host, expected) in ["closed", "open", "other"].into_iter().zip(expected) {
        let fields = "x-envoy-auth-failure-mode-allowed: forged\r\n";
        let mut client = send(&forebay, host, "/", fields);
        act(service.asked());
        assert_eq!(client.read_response().status, expected, "{what}: {host}");
    }
    forebay.await_metric("forebay_ext_authz_requests_total", &[("result", "error")], 3);
    let told = "\r\nx-envoy-auth-failure-mode-allowed: true\r\n";
    let heads = upstream.heads();
    assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains(told)), "{heads:?}");
}

const WITHOUT_ANSWER: [u16; 3] = [403, 200, 503];
const WITH_INVALID_ANSWER: [u16; 3] = [403, 403, 503];

#[test]
fn a_service_that_fails_closes_its_routes_unless_they_say_otherwise() {
    let trailers_only = |mut asked: Asked| {
        asked.peer.answer(200, &[GRPC, ("grpc-status", "14"), ("grpc-message", "not%20now")], b"");
    };
    hosts_while(trailers_only, WITHOUT_ANSWER, "UNAVAILABLE");
    hosts_while(|mut asked| asked.peer.answer(503, &[], b"busy"), WITHOUT_ANSWER, "no gRPC");
    hosts_while(|mut asked| asked.peer.reset(h2::Reason::INTERNAL_ERROR), WITHOUT_ANSWER, "a reset");
    let without_status = |mut asked: Asked| asked.peer.answer(200, &[GRPC], b"\0\0\0\0\0");
    hosts_while(without_status, WITHOUT_ANSWER, "no status");
}

#[test]
fn a_service_that_is_slow_costs_the_time_of_its_route() {
    let silent = |asked: Asked| {
        let Asked { mut peer, .. } = asked;
        assert_eq!(peer.await_reset().expect("the connection goes on"), h2::Reason::CANCEL);
    };
    hosts_for("200ms", silent, WITHOUT_ANSWER, "silence");
    let dripping = |asked: Asked| {
        let Asked { mut peer, .. } = asked;
        let mut sender = peer.respond(200, &[GRPC], false);
        sender.send(&b"\0\0\0"[..], false);
        assert_eq!(sender.await_reset().expect("the connection goes on"), h2::Reason::CANCEL);
    };
    hosts_for("200ms", dripping, WITHOUT_ANSWER, "a part of an answer");
}

#[test]
fn a_service_that_is_away_closes_its_routes() {
    let (upstream, refusing) = (Canned::saying("let in"), Refusing::default());
    let documents = [
        guarded("closed").document(),
        guarded("open").annotation("forebay.io/ext-authz-fail-open", "true").document(),
        guarded("nobody").annotation("forebay.io/ext-authz-url", "grpc://missing.default.svc:80").document(),
        guarded("bad").annotation("forebay.io/ext-authz-url", "grpc://authz.default.svc").document(),
        guarded("worse").annotation(TIMEOUT, "soon").document(),
        service("svc", &[upstream.address()]),
        service("authz", &[refusing.address()]),
    ];
    let forebay = setup().manifest("house.yaml", documents.join("---\n")).start();
    for (host, expected) in [("closed", 403), ("open", 200), ("nobody", 403), ("bad", 503), ("worse", 503)] {
        assert_eq!(send(&forebay, host, "/", "").read_response().status, expected, "{host}");
    }
    let log = forebay.log().join("\n");
    for text in ["forebay.io/ext-authz-url", "has no port", "forebay.io/ext-authz-timeout", "house.yaml"] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn an_answer_that_cannot_be_obeyed_lets_nobody_in() {
    let with = |name: &'static str, value: &'static str| {
        move |mut asked: Asked| {
            let headers = vec![header(name, value)];
            asked.answer(&allowed(OkHttpResponse { headers, ..OkHttpResponse::default() }));
        }
    };
    hosts_while(with("X-User", "ann\r\nX-Admin: yes"), WITH_INVALID_ANSWER, "a line break in a value");
    hosts_while(with("X-User: a\r\nX-B", "b"), WITH_INVALID_ANSWER, "a line break in a name");
    let of_denial = |mut asked: Asked| asked.answer(&denied(401, vec![header("X", "a\r\n\r\nb")], ""));
    hosts_while(of_denial, WITH_INVALID_ANSWER, "a line break in a denial");
    let of_response = |mut asked: Asked| {
        let response_headers_to_add = vec![appended("X\n", "b", Some(true))];
        asked.answer(&allowed(OkHttpResponse { response_headers_to_add, ..OkHttpResponse::default() }));
    };
    hosts_while(of_response, WITH_INVALID_ANSWER, "a line break for the client");
}

#[test]
fn bytes_that_are_no_answer_let_nobody_in() {
    let says = |bytes: Vec<u8>| move |mut asked: Asked| asked.say(&[], &bytes);
    let mut message = Vec::new();
    grpc::write(&allowed(OkHttpResponse::default()), &mut message);
    hosts_while(says([&[1], &message[1..]].concat()), WITH_INVALID_ANSWER, "compression");
    hosts_while(says(message.repeat(2)), WITH_INVALID_ANSWER, "two messages");
    hosts_while(says(message[..message.len() - 1].to_vec()), WITH_INVALID_ANSWER, "a part");
    hosts_while(says(b"\0\0\0\0\x02\xff\xff".to_vec()), WITH_INVALID_ANSWER, "noise");
    hosts_while(says(Vec::new()), WITH_INVALID_ANSWER, "no message");
    let huge = |mut asked: Asked| {
        let mut message = Vec::new();
        grpc::write(&denied(403, Vec::new(), &"x".repeat(70_000)), &mut message);
        let mut sender = asked.peer.respond(200, &[GRPC], false);
        // The other end may have heard enough.
        let _ = sender.try_send(message, false);
        let _ = sender.await_reset();
    };
    hosts_while(huge, WITH_INVALID_ANSWER, "70 KB");
}
