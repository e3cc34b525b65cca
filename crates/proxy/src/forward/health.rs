//! The health of endpoints as their requests report it: what becomes of tries, for ejection, pacing and
//! limits.
//!
//! Never in here: what is concluded from that, which is `balance`'s.

use std::rc::Rc;
use std::time::Duration;

use balance::{HealthRecord, Observed, Outcome};
use model::Forward;
use model::overload::{Concurrency, Mode};
use observe::Reason;
use smallvec::SmallVec;
use wire::h1::Response;

use crate::admit::Admitted;
use crate::answer::attempted::Attempted;
use crate::limits::TICK;
use crate::upstream::{Cluster, Endpoint, Health, Member, Slot};

/// Notes that an endpoint is going to be asked. Where connects are only watched, counts those that pacing
/// would have refused.
#[inline]
pub(crate) fn begin_at(admitted: &Admitted<'_>, member: &Member, forward: &Forward, is_enforced: bool) {
    let Health { record, pacer, .. } = &*member.health;
    if record.is_ejected() || pacer.is_failing() {
        begin_at_doubtful(admitted, member, forward, is_enforced);
    }
}

#[cold]
fn begin_at_doubtful(admitted: &Admitted<'_>, member: &Member, forward: &Forward, is_enforced: bool) {
    let Health { record, pacer, .. } = &*member.health;
    let now = admitted.worker.clock.now();
    if is_enforced && record.is_ejected() && record.is_probe_due(now) {
        record.begin_probe(now);
    }
    if !pacer.is_failing() || !member.endpoint.must_connect() {
        return;
    }
    if pacer.may_connect(now) {
        pacer.begin(now, forward.timeouts.connect);
    } else if !is_enforced {
        note_paced(&member.health);
    }
}

/// Notes that a try begins.
#[inline]
pub(crate) fn note_sent(admitted: &Admitted<'_>, member: &Member, forward: &Forward) {
    let is_compared = forward.overload.as_deref().is_some_and(|overload| overload.ejection);
    if is_compared && has_comparable_latency(admitted) {
        member.health.record.note_sent(admitted.worker.clock.now());
    }
}

/// Records a response head and its latency.
#[inline]
pub(crate) fn note_answer(
    admitted: &Admitted<'_>,
    member: &Member,
    forward: &Forward,
    status: u16,
    took: Duration,
) {
    if !forward.overload.as_deref().is_some_and(|overload| overload.ejection) {
        return;
    }
    member.health.record.note_heard();
    let is_comparable = status != 101 && has_comparable_latency(admitted);
    let seen = Observed { outcome: Outcome::of_status(status), took, is_comparable };
    if member.health.record.note(seen, admitted.worker.clock.now()) {
        if seen.outcome != Outcome::Good {
            prompt_check(member);
        }
        look(admitted, member, forward, seen);
    }
}

/// Notes that a try has failed.
#[cold]
pub(crate) fn note_failed_try(admitted: &Admitted<'_>, member: &Member, forward: &Forward, reason: Reason) {
    let Some(overload) = forward.overload.as_deref() else { return };
    let (worker, health) = (admitted.worker, &member.health);
    let now = worker.clock.now();
    if is_about_connecting(reason) {
        prompt_check(member);
        health.pacer.note_failure(now, &worker.random);
    }
    if !overload.ejection {
        return;
    }
    let without_head = admitted.report.time_without_head(now);
    if without_head.is_some() && has_comparable_latency(admitted) {
        health.record.note_left();
    }
    let is_fault = match reason {
        // Between two pieces of a response there may be any time.
        Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => without_head.is_some(),
        Reason::UpstreamReset | Reason::UpstreamBadResponse | Reason::UpstreamHeadTooLarge => true,
        reason => is_about_connecting(reason),
    };
    if is_fault {
        let took = admitted.report.try_time(now);
        let seen = Observed { outcome: Outcome::Fault, took, is_comparable: false };
        prompt_check(member);
        health.record.note(seen, now);
        look(admitted, member, forward, seen);
    } else if let (Reason::ClientAborted, Some(took)) = (reason, without_head)
        && took >= TICK
        && has_comparable_latency(admitted)
        && health.record.note_given_up(took, now)
    {
        look(admitted, member, forward, Observed { outcome: Outcome::Good, took, is_comparable: true });
    }
}

/// Has an endpoint checked at once that a request has failed at, if it is checked.
#[cold]
fn prompt_check(member: &Member) {
    if let Some(verdict) = &member.verdict {
        verdict.prompt();
    }
}

/// Whether the latency of a response can be compared with others': that of uploads, and of requests that
/// change something, depends on the request.
fn has_comparable_latency(admitted: &Admitted<'_>) -> bool {
    matches!(admitted.method(), b"GET" | b"HEAD") && !admitted.parsed.has_body()
}

#[cold]
#[inline(never)]
fn look(admitted: &Admitted<'_>, member: &Member, forward: &Forward, seen: Observed) {
    let Some(id) = admitted.cluster else { return };
    let (worker, cluster) = (admitted.worker, admitted.cluster_of(id));
    let all = cluster.members().iter().map(|member| &member.health.record);
    let before: SmallVec<[bool; 16]> = all.clone().map(HealthRecord::is_ejected).collect();
    let outliers = &cluster.state().outliers;
    outliers.evaluate(&member.health.record, seen, &all, worker.clock.now(), &worker.random);
    for (member, was_out) in cluster.members().iter().zip(before) {
        if member.health.record.is_ejected() != was_out {
            tell(cluster, member, forward);
        }
    }
}

/// Notes for the limit of an endpoint that the head of a response has come. A response without an end, such
/// as a stream of events, gives its slot back: its duration says nothing about the endpoint.
#[inline]
pub(crate) fn note_head_for_limits(
    attempted: &Attempted<'_, '_>,
    endpoint: &Endpoint,
    response: &Response,
    head: &[u8],
    took: Duration,
) {
    if response.status == 101 || is_stream(response, head) {
        drop(attempted.place.take());
        return;
    }
    // A method that changes something may take long for its own reasons; a fault may come quickly, and
    // be none the better.
    let is_sample = matches!(attempted.method(), b"GET" | b"HEAD");
    if is_sample && response.status < 500 {
        endpoint.limit.note_response(took);
    }
}

/// Gives the slot back where the limit is found from latency, since the endpoint waits for the client from
/// now on: for the rest of its request, or until it has taken a long response. Slow clients would soon hold
/// all slots. Returns the endpoint.
#[cold]
pub(crate) fn give_place_back(attempted: &Attempted<'_, '_>, forward: &Forward) -> Option<Rc<Endpoint>> {
    let is_found = forward.overload.as_ref().is_some_and(|it| it.concurrency == Concurrency::Auto);
    let place = if is_found { attempted.place.take() } else { None };
    place.map(|place| Rc::clone(place.endpoint()))
}

/// Takes again the slot that was given back, even beyond the limit: the endpoint works at the request.
pub(crate) fn take_place_again(attempted: &Attempted<'_, '_>, endpoint: Option<Rc<Endpoint>>) {
    if let Some(endpoint) = endpoint {
        attempted.place.set(Some(Slot::again(endpoint)));
    }
}

/// Notes for the limit of an endpoint that it has not answered in time.
#[cold]
pub(crate) fn note_timeout_for_limits(attempted: &Attempted<'_, '_>, endpoint: &Endpoint) {
    let place = attempted.place.take();
    if place.is_some() {
        endpoint.limit.note_timeout();
    }
    attempted.place.set(place);
}

/// Tells the log that an endpoint is left out from now on, or is no longer.
#[cold]
fn tell(cluster: &Cluster, member: &Member, forward: &Forward) {
    let (endpoint, upstream) = (member.endpoint.address, cluster.limits().name());
    let is_enforced = forward.overload.as_deref().is_some_and(|overload| overload.mode == Mode::Enforce);
    match (member.health.record.is_ejected(), is_enforced) {
        (true, true) => {
            tracing::warn!(%endpoint, upstream, "an endpoint is ejected: it fails or is slower than the others");
        }
        (true, false) => {
            tracing::info!(%endpoint, upstream, "an endpoint fails or is slower than the others, and would be ejected");
        }
        (false, _) => tracing::info!(%endpoint, upstream, "an endpoint answers well again"),
    }
}

pub(crate) fn note_paced(health: &Health) {
    health.record.cells().connects_paced.inc();
}

fn is_about_connecting(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ConnectRefused
            | Reason::ConnectFailed
            | Reason::ConnectTimeout
            | Reason::UpstreamHandshakeFailed
            | Reason::UpstreamCertificateBad
    )
}

/// Whether a response goes on for as long as both sides like. What has a length does not.
fn is_stream(response: &Response, head: &[u8]) -> bool {
    if response.fields.content_length.is_some() {
        return false;
    }
    let media_type = response.fields.find_name(head, b"content-type").map(|field| field.value(head));
    media_type.is_some_and(|value| {
        value.starts_with(b"text/event-stream") || value.starts_with(b"application/grpc")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::overload::Overload;

    use super::*;
    use crate::testing::{TWO, World, forward, route_to};

    fn watching(concurrency: Concurrency) -> Forward {
        let overload = Overload { concurrency, ..Overload::default() };
        Forward { overload: Some(Arc::new(overload)), ..forward(TWO) }
    }

    /// Ends so many tries at an endpoint in this way, while the other one answers.
    fn end_tries(admitted: &Admitted<'_>, forward: &Forward, end: impl Fn(&Member)) -> [bool; 2] {
        let members = admitted.cluster_of(TWO).members();
        let took = Duration::from_millis(5);
        for _ in 0..50 {
            note_answer(admitted, &members[1], forward, 200, took);
        }
        for _ in 0..50 {
            end(&members[0]);
            note_answer(admitted, &members[1], forward, 200, took);
        }
        [0, 1].map(|at| members[at].health.record.is_ejected())
    }

    #[test]
    fn an_endpoint_is_ejected_for_faults_and_errors_of_its_own() {
        let forward = watching(Concurrency::Auto);
        for (reason, is_ejected) in [
            (Reason::ConnectRefused, true),
            (Reason::UpstreamReset, true),
            (Reason::ClientAborted, false),
            (Reason::BodyTooLarge, false),
        ] {
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let fail = |member: &Member| note_failed_try(&admitted, member, &forward, reason);
                assert_eq!(end_tries(&admitted, &forward, fail), [is_ejected, false], "{reason:?}");
            });
        }
        for (status, is_ejected) in [(503, true), (404, false)] {
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let took = Duration::from_millis(5);
                let answer = |member: &Member| note_answer(&admitted, member, &forward, status, took);
                assert_eq!(end_tries(&admitted, &forward, answer), [is_ejected, false], "{status}");
            });
        }
    }

    #[test]
    fn routes_without_detection_report_nothing() {
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            let plain = forward(TWO);
            let fail = |member: &Member| note_failed_try(&admitted, member, &plain, Reason::ConnectRefused);
            assert_eq!(end_tries(&admitted, &plain, fail), [false, false]);
            assert!(!admitted.cluster_of(TWO).members()[0].health.pacer.is_failing());
        });
    }

    #[test]
    fn only_connects_that_fail_are_paced() {
        for (reason, expected) in [
            (Reason::ConnectRefused, true),
            (Reason::ConnectTimeout, true),
            (Reason::UpstreamCertificateBad, true),
            (Reason::UpstreamReset, false),
        ] {
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let member = &admitted.cluster_of(TWO).members()[0];
                for _ in 0..4 {
                    note_failed_try(&admitted, member, &watching(Concurrency::Auto), reason);
                }
                assert_eq!(member.health.pacer.is_failing(), expected, "{reason:?}");
            });
        }
    }

    #[test]
    fn only_plain_reads_are_compared_by_their_time() {
        let world = World::of(route_to(TWO));
        for (lines, expected) in
            [("GET /", true), ("HEAD /", true), ("POST /", false), ("GET /\nContent-Length: 1", false)]
        {
            assert_eq!(
                world.admitted(lines, |admitted, _| has_comparable_latency(&admitted)),
                expected,
                "{lines}"
            );
        }
    }

    #[test]
    fn a_stream_gives_its_slot_back_and_a_response_with_a_length_does_not() {
        for (fields, keeps) in [
            ("Content-Type: text/event-stream\r\n", false),
            ("Content-Type: application/grpc+proto\r\n", false),
            ("Content-Type: text/event-stream\r\nContent-Length: 9\r\n", true),
            ("Content-Type: text/html\r\n", true),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            let mut response = Response::default();
            assert!(response.parse(head.as_bytes()).unwrap());
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let attempted = Attempted::new(&admitted);
                let endpoint = &admitted.cluster_of(TWO).members()[0].endpoint;
                attempted.place.set(Some(admitted.cluster_of(TWO).limits().take(endpoint, true).0));
                let took = Duration::from_millis(5);
                note_head_for_limits(&attempted, endpoint, &response, head.as_bytes(), took);
                assert_eq!(endpoint.limit.in_flight(), u32::from(keeps), "{fields}");
            });
        }
    }

    #[test]
    fn a_slot_is_given_back_only_where_the_limit_is_found() {
        for (concurrency, is_given) in [(Concurrency::Auto, true), (Concurrency::Off, false)] {
            World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
                let attempted = Attempted::new(&admitted);
                let endpoint = &admitted.cluster_of(TWO).members()[0].endpoint;
                attempted.place.set(Some(admitted.cluster_of(TWO).limits().take(endpoint, true).0));
                let given = give_place_back(&attempted, &watching(concurrency));
                assert_eq!((given.is_some(), endpoint.limit.in_flight() == 0), (is_given, is_given));
                take_place_again(&attempted, given);
                assert_eq!(endpoint.limit.in_flight(), 1, "{concurrency:?}");
            });
        }
    }
}
