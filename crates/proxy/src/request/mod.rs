//! A request as it came in: what the client said, and the facts of its connection.
//!
//! The first of the types that a request passes through: [`Request`] -> [`Routed`](crate::route::Routed) ->
//! [`Targeted`](crate::admit::Targeted) -> [`Admitted`](crate::admit::Admitted) ->
//! [`Attempted`](crate::answer::attempted::Attempted) -> [`Answered`](crate::answer::answered::Answered).
//! Each one holds the one before and adds what its step has decided; no step changes what an earlier one has
//! said.
//!
//! A head is one buffer and positions in it. It has the form of HTTP/1 whatever the peers speak: HEADERS of
//! HTTP/2 are written as such a head and read by the one strict parser, so that filters, routing and records
//! know one protocol and nothing can be smuggled from one to the other. [`head`] writes heads in both
//! directions, line by line in the order and letter case of the sender. [`progress`] decides whether a
//! request may be sent again, [`report`] only counts. [`reply`] has the table from a `Reason` to a status.
//!
//! Never in here: what is done with a request.

pub(crate) mod client;
pub(crate) mod conn;
pub(crate) mod decision;
pub(crate) mod forwarded;
pub(crate) mod geo;
pub(crate) mod head;
pub(crate) mod incoming;
pub(crate) mod inspection;
pub(crate) mod lookup;
pub(crate) mod processing;
pub(crate) mod progress;
pub(crate) mod reply;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod stage;
pub(crate) mod stop;
pub(crate) mod trace;

use std::borrow::Cow;
use std::future::poll_fn;
use std::rc::Rc;

use clock::{Moment, Random};
use model::{Forward, StepBudget};
use observe::Reason;
use wire::Known;
use wire::h1::{Request as ParsedRequest, TargetForm};

use crate::io::deadline::Deadline;
use crate::request::client::{Client, Timeout};
use crate::request::conn::Conn;
use crate::request::forwarded::Forwarded;
use crate::request::progress::Progress;
use crate::request::report::Report;
use crate::upstream::fault::Retry;
use crate::worker::{Worker, WorkerConfig};

/// The next state of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRequest {
    /// It waits for another request.
    KeepAlive,
    /// It is closed.
    Close,
    /// It is closed after what the client still sends has been read for a while.
    Linger,
    /// It is closed in the middle of a response.
    Abort,
}

/// A request as it came in. Nothing changes it; `progress` and `report` count what happens to it.
pub(crate) struct Request<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) conn: &'a Conn,
    /// The client's end of the request.
    pub(crate) client: Client<'a>,
    /// The deadline of the request's one wait at a time.
    pub(crate) deadline: &'a Deadline,
    /// The configuration in force when the head had been read; the request keeps it to its end.
    pub(crate) config: &'a WorkerConfig,
    /// The head's bytes, to which `parsed` refers.
    pub(crate) head: &'a [u8],
    pub(crate) parsed: &'a ParsedRequest,
    pub(crate) forwarded: Forwarded<'a>,
    /// The normalised path.
    pub(crate) path: Cow<'a, [u8]>,
    pub(crate) id: RequestId<'a>,
    /// Steps left to the request's regular expressions.
    pub(crate) steps: StepBudget,
    pub(crate) progress: Progress,
    pub(crate) report: Report,
}

/// The request's identifier, as logs and endpoints see it (`X-Request-ID`).
pub(crate) enum RequestId<'a> {
    Incoming(&'a [u8]),
    Own([u8; 32]),
    None,
}

/// A head that has been read, and the connection that it came on.
#[derive(Clone, Copy)]
pub(crate) struct RequestStart<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) client: Client<'a>,
    pub(crate) deadline: &'a Deadline,
    /// The configuration in force when the head had been read.
    pub(crate) config: &'a WorkerConfig,
    /// The bytes of the head.
    pub(crate) head: &'a [u8],
    pub(crate) begin: Moment,
}

// === impl RequestId ===

impl<'a> RequestId<'a> {
    fn of(head: &'a [u8], parsed: &ParsedRequest, random: &Random, generate: bool) -> Self {
        match parsed.fields.find(Known::XRequestId).map(|field| field.value(head)) {
            Some(id) if !id.is_empty() => Self::Incoming(id),
            _ if generate => Self::Own(random.hex_id()),
            _ => Self::None,
        }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Incoming(id) => Some(id),
            Self::Own(id) => Some(id),
            Self::None => None,
        }
    }
}

// === impl Request ===

impl<'a> Request<'a> {
    /// A request whose head has been parsed; none if its target cannot be normalised to a path.
    #[inline]
    pub(crate) fn new(
        worker: &'a Rc<Worker>,
        start: RequestStart<'a>,
        parsed: &'a ParsedRequest,
    ) -> Option<Self> {
        let RequestStart { conn, client, deadline, config, head, begin } = start;
        let path = wire::path::normalize(wire::path::of_target(parsed.origin_target(head))).ok()?;
        let settings = &config.settings().forwarded;
        Some(Self {
            worker,
            conn,
            client,
            deadline,
            config,
            head,
            parsed,
            forwarded: Forwarded::of(head, parsed, conn.via(), settings),
            path,
            id: RequestId::of(head, parsed, &worker.random, settings.request_id),
            steps: StepBudget::default(),
            progress: Progress::default(),
            report: Report::new(begin, parsed.len as u64),
        })
    }

    /// Refuses a request for which a template was expanded although an expression in it took too many steps.
    #[inline]
    pub(crate) fn check_steps(&self) -> Result<(), Reason> {
        if self.steps.is_undecided() { Err(Reason::ExpressionSteps) } else { Ok(()) }
    }

    pub(crate) fn method(&self) -> &'a [u8] {
        &self.head[self.parsed.method.clone()]
    }

    /// Path and query as the client sent them.
    pub(crate) fn sent_target(&self) -> &'a [u8] {
        self.parsed.origin_target(self.head)
    }

    /// The host that the request is for: its own, whatever a hop before us reports.
    pub(crate) fn host(&self) -> &'a [u8] {
        &self.head[self.parsed.host.clone()]
    }

    /// The path by which routes are found, as the client has asked for it.
    pub(crate) fn client_path(&self) -> &[u8] {
        if self.parsed.form == TargetForm::Asterisk { b"/" } else { &self.path }
    }

    /// Whether sending the request twice does no harm, by nginx's list of methods (RFC 9110 section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        !matches!(self.method(), b"POST" | b"LOCK" | b"PATCH")
    }

    /// Whether the request may be sent again though an endpoint may have acted on it.
    pub(crate) fn may_repeat(&self, forward: &Forward, retry: Retry) -> bool {
        match retry {
            Retry::Never => false,
            Retry::Unsent | Retry::Refused => true,
            Retry::Sent => self.is_idempotent() || forward.retry.on.non_idempotent,
        }
    }

    /// Whether the client's connection may stay open after this request.
    pub(crate) fn may_keep_alive(&self) -> bool {
        let client = &self.config.settings().client;
        // Bytes after a refused CONNECT may be meant for the tunnel that it asked for.
        self.parsed.form != TargetForm::Authority
            && self.parsed.is_persistent()
            && !client.keep_alive_timeout.is_zero()
            && self.conn.requests.get() < client.keep_alive_requests
            && !self.conn.is_closing()
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method() == b"HEAD"
    }

    /// The client's end, with the time that it has.
    pub(crate) fn timeout(&self) -> Timeout<'_> {
        Timeout { deadline: self.deadline, send_timeout: self.config.settings().client.send_timeout }
    }

    /// Whether the client speaks gRPC, so that faults are reported as gRPC statuses.
    pub(crate) fn is_grpc(&self) -> bool {
        self.client.is_stream() && self.has_grpc_content()
    }

    /// Whether the request's content is gRPC, in whichever version of HTTP.
    pub(crate) fn has_grpc_content(&self) -> bool {
        let content_type = self.parsed.fields.find_name(self.head, b"content-type");
        content_type.is_some_and(|field| field.value(self.head).starts_with(b"application/grpc"))
    }

    /// Counts a fault of the request, and notes it for the log.
    #[cold]
    pub(crate) fn note_reason(&self, reason: Reason) {
        self.worker.recorder.borrow().reason(reason);
        self.report.note_reason(reason);
    }

    /// Ends when the client has gone away without a response.
    pub(crate) async fn client_gone(&self) {
        match self.client {
            Client::Http1(socket) => client::gone(socket, &self.worker.deadlines, || false).await,
            Client::Stream(stream) => poll_fn(|cx| stream.poll_gone(cx)).await,
        }
    }

    /// Passes over the request's body if it has come with the head; otherwise the connection cannot be used
    /// again.
    pub(crate) fn pass_over_body(&self, rest: &mut crate::io::buffer::Buffer) -> bool {
        if self.progress.has_body_begun() || self.parsed.fields.chunked {
            return self.progress.is_body_done();
        }
        let length = self.parsed.fields.content_length.unwrap_or(0);
        let has_come = length <= rest.len() as u64;
        if has_come {
            rest.consume(length as usize);
        }
        has_come
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{ClientSettings, ForwardedSettings, Model, RetryOn, RetryPolicy, Settings};

    use super::*;
    use crate::testing::{TWO, World, forward, model, rest, route_to};

    fn world(settings: Settings) -> World {
        World::new(&Model { settings, ..model([route_to(TWO)]) })
    }

    #[test]
    fn a_target_that_is_no_path_is_no_request() {
        let world = world(Settings::default());
        for (target, path) in [
            ("/a/../b", Some("/b")),
            ("//a///b", Some("/a/b")),
            ("/%61%20?x=/../..", Some("/a ")),
            ("/../a", None),
            ("/%zz", None),
            ("/%00", None),
        ] {
            let path = path.map(|path| path.as_bytes().to_vec());
            let found = world.request_if_any(&format!("GET {target}"), |request| {
                request.map(|request| request.client_path().to_vec())
            });
            assert_eq!(found, path, "{target}");
        }
    }

    #[test]
    fn what_the_client_sent_stays_beside_the_normalised_path() {
        let world = world(Settings::default());
        for (lines, host, target, path) in [
            ("GET /a%20b/../c?d\nHost: WEB.test:80", "WEB.test:80", "/a%20b/../c?d", "/c"),
            ("GET http://other.test/x?y", "other.test", "/x?y", "/x"),
            ("OPTIONS *", "web.test", "*", "/"),
        ] {
            world.request(lines, |request| {
                assert_eq!(request.host(), host.as_bytes(), "{lines}");
                assert_eq!(request.sent_target(), target.as_bytes(), "{lines}");
                assert_eq!(request.client_path(), path.as_bytes(), "{lines}");
            });
        }
    }

    #[test]
    fn a_repetition_depends_on_the_method_and_on_what_the_endpoint_has_seen() {
        let world = world(Settings::default());
        let careful = forward(TWO);
        let on = RetryOn { non_idempotent: true, ..RetryOn::default() };
        let careless = Forward { retry: RetryPolicy { on, ..RetryPolicy::default() }.into(), ..forward(TWO) };
        for (method, is_idempotent) in [
            ("GET", true),
            ("PUT", true),
            ("DELETE", true),
            ("POST", false),
            ("LOCK", false),
            ("PATCH", false),
        ] {
            world.request(&format!("{method} /"), |request| {
                assert_eq!(request.is_idempotent(), is_idempotent, "{method}");
                assert_eq!(request.may_repeat(&careful, Retry::Sent), is_idempotent, "{method}");
                assert!(request.may_repeat(&careless, Retry::Sent), "{method}");
                assert!(request.may_repeat(&careful, Retry::Unsent), "{method}");
                assert!(!request.may_repeat(&careless, Retry::Never), "{method}");
            });
        }
    }

    #[test]
    fn the_connection_stays_open_where_client_and_settings_agree() {
        let of_client = |client| Settings { client, ..Settings::default() };
        let usual = ClientSettings::default();
        let brief = ClientSettings { keep_alive_timeout: Duration::ZERO, ..usual.clone() };
        let last = ClientSettings { keep_alive_requests: 1, ..usual.clone() };
        for (settings, lines, expected) in [
            (of_client(usual.clone()), "GET /", true),
            (of_client(usual.clone()), "GET /\nConnection: close", false),
            (of_client(usual.clone()), "GET / HTTP/1.0", false),
            (of_client(usual.clone()), "GET / HTTP/1.0\nConnection: keep-alive", true),
            (of_client(usual), "CONNECT web.test:80", false),
            (of_client(brief), "GET /", false),
            (of_client(last), "GET /", false),
        ] {
            world(settings).request(lines, |request| {
                assert_eq!(request.may_keep_alive(), expected, "{lines}");
            });
        }
    }

    #[test]
    fn a_body_is_passed_over_only_if_it_has_come() {
        let world = world(Settings::default());
        for (lines, expected, left) in [
            ("GET /", true, "abcdef"),
            ("POST /\nContent-Length: 4", true, "ef"),
            ("POST /\nContent-Length: 7", false, "abcdef"),
            ("POST /\nTransfer-Encoding: chunked", false, "abcdef"),
        ] {
            let mut rest = rest(&world, b"abcdef");
            assert_eq!(
                world.request(lines, |request| request.pass_over_body(&mut rest)),
                expected,
                "{lines}"
            );
            assert_eq!(rest.data(), left.as_bytes(), "{lines}");
        }
        world.request("POST /\nContent-Length: 4", |request| {
            let mut next = rest(&world, b"GET /next");
            request.progress.note_body_begun();
            assert!(!request.pass_over_body(&mut next), "some of it is still to come");
            request.progress.note_body_whole();
            assert!(request.pass_over_body(&mut next));
            assert_eq!(next.data(), b"GET /next", "what follows is another request");
        });
    }

    #[test]
    fn the_identifier_is_the_client_s_or_made_up() {
        let id = |settings, lines: &str| {
            world(settings).request(lines, |request| request.id.as_bytes().map(<[u8]>::to_vec))
        };
        let forwarded = ForwardedSettings { request_id: false, ..ForwardedSettings::default() };
        let without = Settings { forwarded, ..Settings::default() };
        assert_eq!(id(Settings::default(), "GET /\nX-Request-ID: abc"), Some(b"abc".to_vec()));
        assert_eq!(id(Settings::default(), "GET /\nX-Request-ID:").unwrap().len(), 32);
        assert_eq!(id(without, "GET /"), None);
    }

    #[test]
    fn the_first_reason_is_the_cause() {
        world(Settings::default()).request("GET /", |request| {
            request.note_reason(Reason::UpstreamReset);
            request.note_reason(Reason::ClientAborted);
            assert_eq!(request.report.reason.get(), Some(Reason::UpstreamReset));
        });
    }
}
