//! Answers of our own, on their way to the client.
//!
//! Never in here: which status a fault has, which is `reply`'s.

use std::rc::Rc;

use observe::Reason;
use wire::h1::Version;

use crate::admit::access;
use crate::admit::admission;
use crate::admit::script_heads;
use crate::answer::attempted::Attempted;
use crate::answer::deliver::{Outcome, Recipient};
use crate::answer::edits::{response_edits, tell_of_services, tell_reason};
use crate::answer::record;
use crate::body::{Framing, Source};
use crate::io::buffer::Buffer;
use crate::limits::RETRY_AFTER_SECONDS_MAX;
use crate::replicas;
use crate::request::client::Timeout;
use crate::request::head::{HeadEdits, connection_option};
use crate::request::reply::{self, Answer, CLIENT_CLOSED_REQUEST, NO_RESPONSE};
use crate::request::report::{Excuse, Report};
use crate::request::stop::Stop;
use crate::request::{AfterRequest, RequestStart};
use crate::route::filters;
use crate::route::values;
use crate::worker::Worker;

/// An answer with what its connection adds.
struct Sending<'s, 'e> {
    answer: &'s Answer,
    edits: &'s HeadEdits<'e>,
    /// The value of `Connection`, where it has to be said.
    connection: Option<&'static str>,
    with_body: bool,
}

/// Answers a request of which not even the head could be used.
pub(crate) async fn refuse(worker: &Rc<Worker>, start: RequestStart<'_>, reason: Reason) -> AfterRequest {
    let RequestStart { conn, config, head, begin, .. } = start;
    let report = Report::new(begin, head.len() as u64);
    let expand = |template: &_| values::expand_refused(worker, conn, template);
    let mut edits = filters::response(config.settings(), false, expand, || None);
    tell_reason(config.settings(), conn.peer.ip(), reason, &mut edits);
    let answer = Answer::to(reason);
    let sending = Sending {
        answer: &answer,
        edits: &edits,
        connection: connection_option(claimed_version(head), false),
        with_body: !head.trim_ascii_start().starts_with(b"HEAD "),
    };
    let sent = send(worker, start, &sending, &report).await;
    record::record_refused(worker, config, conn, head, &report, reason);
    admission::note_refused(worker, config.settings(), conn.counted_peer(), reason);
    if sent { AfterRequest::Linger } else { AfterRequest::Close }
}

/// The version that a head claims which could not be read; its answer is written accordingly.
fn claimed_version(head: &[u8]) -> Version {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    if line.trim_ascii_end().ends_with(b"HTTP/1.0") { Version::Http10 } else { Version::Http11 }
}

/// Answers a request that was stopped.
pub(crate) async fn answer(attempted: &Attempted<'_, '_>, stop: Stop, rest: &mut Buffer) -> AfterRequest {
    match stop {
        Stop::Answer(answer) => send_own(attempted, &answer, rest).await,
        Stop::Fault(reason) => fail(attempted, reason, rest).await,
    }
}

/// Answers a fault, where the client can still be answered.
async fn fail(attempted: &Attempted<'_, '_>, reason: Reason, rest: &mut Buffer) -> AfterRequest {
    attempted.note_reason(reason);
    access::abuse::note_fault(attempted, attempted.peer_request.is_some(), reason);
    if attempted.progress.is_answered() {
        attempted.client.break_off();
        return AfterRequest::Abort;
    }
    if reply::status(reason) == CLIENT_CLOSED_REQUEST {
        attempted.report.status.set(CLIENT_CLOSED_REQUEST);
        attempted.client.break_off();
        return AfterRequest::Abort;
    }
    let answer = Answer::to(reason);
    if !reply::is_overload(reason) {
        return send_own(attempted, &answer, rest).await;
    }
    attempted.report.excuse.set((reason != Reason::ClientExcess).then_some(Excuse::NoRoom));
    // Clients that are refused together are told to come back at different times.
    let seconds = 1 + attempted.worker.random.below(RETRY_AFTER_SECONDS_MAX) as u64;
    send_own(attempted, &answer.retry_after(seconds), rest).await
}

/// Sends an answer of our own.
async fn send_own(attempted: &Attempted<'_, '_>, answer: &Answer, rest: &mut Buffer) -> AfterRequest {
    if answer.status == NO_RESPONSE {
        attempted.report.status.set(NO_RESPONSE);
        attempted.client.break_off();
        return AfterRequest::Abort;
    }
    let body_is_past = attempted.pass_over_body(rest);
    let keep_alive = attempted.may_keep_alive() && body_is_past;
    let option = connection_option(attempted.parsed.version, keep_alive);
    let request = attempted.request;
    let start = RequestStart {
        conn: request.conn,
        client: request.client,
        deadline: request.deadline,
        config: request.config,
        head: request.head,
        begin: request.report.begin,
    };
    let grpc = if attempted.is_grpc() { answer.in_grpc() } else { None };
    let answer = grpc.as_ref().unwrap_or(answer);
    let edits = answer_edits(attempted, answer);
    let sending = Sending { answer, edits: &edits, connection: option, with_body: !attempted.is_head() };
    let sent = send(request.worker, start, &sending, &request.report).await;
    match (sent, keep_alive, body_is_past) {
        (true, true, _) => AfterRequest::KeepAlive,
        (true, false, false) => AfterRequest::Linger,
        (false, ..) | (true, false, true) => AfterRequest::Close,
    }
}

/// The changes to the head of an answer of our own.
pub(crate) fn answer_edits<'e>(attempted: &'e Attempted<'_, '_>, answer: &Answer) -> HeadEdits<'e> {
    let mut edits = response_edits(attempted, answer.status, answer.scope);
    tell_of_services(attempted, &mut edits);
    script_heads::edit_response(attempted, answer.status, answer.scope, || None, &mut edits);
    if let Some(reason) = attempted.report.reason.get() {
        tell_reason(attempted.config.settings(), attempted.forwarded.client, reason, &mut edits);
    }
    if attempted.peer_request.is_some() {
        edits.set(replicas::NAME, replicas::NO_ANSWER);
    }
    edits
}

/// Sends an answer. False where the client did not take it.
async fn send(worker: &Worker, start: RequestStart<'_>, sending: &Sending<'_, '_>, report: &Report) -> bool {
    let RequestStart { client, deadline, config, .. } = start;
    let Sending { answer, edits, connection, with_body } = *sending;
    let mut head = Buffer::small(&worker.buffers);
    answer.write_head(&mut head, &worker.date(), connection, edits);
    let body = if with_body { answer.body() } else { &[] };
    report.status.set(answer.status);
    report.note_sent_head(head.len());
    let read_timeout = config.settings().client.send_timeout;
    let timeout = Timeout { deadline, send_timeout: read_timeout };
    let (pipes, sent) = (&worker.pipes, &report.sent_body);
    let recipient = Recipient { client, timeout, sent, pipes, bodies: &worker.bodies };
    let (status, body) = (answer.status, Source::Bytes(body));
    let mut outcome = Outcome { status, head, body, framing: Framing::Raw, read_timeout, policy: None };
    recipient.deliver(&mut outcome, || ()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::Admitted;
    use crate::testing::{TWO, World, rest, route_to};

    /// Stops a request. Returns what the client is sent, and what becomes of its connection.
    fn stopped(
        lines: &str,
        stop: impl Into<Stop>,
        body: &[u8],
        check: impl FnOnce(&Admitted<'_>),
    ) -> (String, AfterRequest) {
        let world = World::of(route_to(TWO));
        world.admitted(lines, |admitted, _| {
            let mut rest = rest(&world, body);
            let attempted = Attempted::new(&admitted);
            let next = world.block_on(answer(&attempted, stop.into(), &mut rest));
            check(&admitted);
            (world.sent(), next)
        })
    }

    fn retry_after(sent: &str) -> Option<u64> {
        sent.lines().find_map(|line| line.strip_prefix("Retry-After: ")?.parse().ok())
    }

    #[test]
    fn a_head_that_cannot_be_read_still_claims_a_version() {
        for (head, expected) in [
            ("GET / HTTP/1.0\r\nHost: a\r\n", Version::Http10),
            ("GET / HTTP/1.0", Version::Http10),
            ("GET / HTTP/1.1\r\nX: HTTP/1.0\r\n", Version::Http11),
            ("GET /\r\n", Version::Http11),
            ("", Version::Http11),
        ] {
            assert_eq!(claimed_version(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn a_fault_has_its_status_and_its_reason() {
        let (sent, next) = stopped("GET /", Reason::NoEndpoints, b"", |admitted| {
            assert_eq!(admitted.report.status.get(), 503);
            assert_eq!(admitted.report.reason.get(), Some(Reason::NoEndpoints));
        });
        assert!(sent.starts_with("HTTP/1.1 503 "), "{sent}");
        assert!(sent.ends_with("503 Service Unavailable\n"), "{sent}");
        assert_eq!((next, retry_after(&sent)), (AfterRequest::KeepAlive, None));
    }

    #[test]
    fn a_head_is_all_that_is_asked_for() {
        let (sent, next) = stopped("HEAD /", Reason::NoEndpoints, b"", |admitted| {
            assert_eq!(admitted.report.sent_body.get(), 0);
        });
        assert!(sent.ends_with("\r\n\r\n") && sent.contains("Content-Length: "), "{sent}");
        assert_eq!(next, AfterRequest::KeepAlive);
    }

    #[test]
    fn an_overload_passes_and_is_excused_unless_it_is_the_client_s() {
        for (reason, excuse) in [
            (Reason::QueueFull, Some(Excuse::NoRoom)),
            (Reason::ConnectPaced, Some(Excuse::NoRoom)),
            (Reason::ClientExcess, None),
        ] {
            let (sent, _) = stopped("GET /", reason, b"", |admitted| {
                assert_eq!(admitted.report.excuse.get(), excuse, "{reason:?}");
            });
            let seconds = retry_after(&sent).unwrap();
            assert!((1..=RETRY_AFTER_SECONDS_MAX as u64).contains(&seconds), "{sent}");
        }
    }

    #[test]
    fn what_is_left_of_a_body_decides_on_the_connection() {
        for (body, option, expected) in [
            ("abc", None, AfterRequest::KeepAlive),
            ("ab", Some("Connection: close\r\n"), AfterRequest::Linger),
        ] {
            let lines = "POST /\nContent-Length: 3";
            let (sent, next) = stopped(lines, Reason::NoEndpoints, body.as_bytes(), |_| ());
            assert_eq!(next, expected, "{body}");
            assert_eq!(sent.contains("Connection: close\r\n"), option.is_some(), "{sent}");
        }
        let (_, next) = stopped("GET /\nConnection: close", Reason::NoEndpoints, b"", |_| ());
        assert_eq!(next, AfterRequest::Close);
    }

    #[test]
    fn some_requests_are_not_answered() {
        for (stop, status) in
            [(Reason::ClientAborted.into(), CLIENT_CLOSED_REQUEST), (Stop::from(Answer::none()), NO_RESPONSE)]
        {
            let (sent, next) = stopped("GET /", stop, b"", |admitted| {
                assert_eq!(admitted.report.status.get(), status);
            });
            assert_eq!((sent.as_str(), next), ("", AfterRequest::Abort), "{status}");
        }
    }

    #[test]
    fn a_response_that_has_begun_is_broken_off() {
        let world = World::of(route_to(TWO));
        world.admitted("GET /", |admitted, _| {
            admitted.progress.note_answered();
            let mut rest = rest(&world, b"");
            let attempted = Attempted::new(&admitted);
            let next = world.block_on(answer(&attempted, Reason::UpstreamReset.into(), &mut rest));
            assert_eq!((world.sent().as_str(), next), ("", AfterRequest::Abort));
        });
    }
}
