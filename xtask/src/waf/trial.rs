//! One test: its requests, each given to a transaction of its own.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use ::waf::{Collections, Connection, Exchange, Report, RequestLine, Rules, Verdict};
use wire::h1::{Fields, RequestLimits, parse_request};

use super::backend::Response;
use super::check::{Outcome, differences};
use super::message::{Header, Message};
use super::suite::Test;

/// The length of a request or log that is shown.
const SHOWN_BYTES_MAX: usize = 1500;

/// The bounds of a head.
const LIMITS: RequestLimits = RequestLimits { line_bytes_max: 64 * 1024, head_bytes_max: 128 * 1024 };

/// The status of a response to a request that the proxy does not take.
const REFUSED: u16 = 400;

/// A point in time, in microseconds: 2026-01-01.
const UNIX_MICROS: u64 = 1_767_225_600_000_000;

/// A test that fails.
pub(super) struct Failure {
    pub(super) test: String,
    description: String,
    expected: String,
    request: String,
    log: String,
}

/// Plays a test.
pub(super) fn play(test: &Test, rules: &Arc<Rules>) -> Result<(), Failure> {
    for stage in &test.stages {
        let failure = |expected: String, request: String, log: String| Failure {
            test: test.id.clone(),
            description: test.description.trim().to_owned(),
            expected,
            request,
            log,
        };
        let message = Message::new(&stage.input)
            .map_err(|error| failure(format!("a request: {error:#}"), String::new(), String::new()))?;
        // The proxy's parser refuses some requests before any rule is asked. That is the end of a test that
        // expects it; the other tests are about rules, which are asked all the same.
        let is_refused = is_refused(&message);
        let outcome = if is_refused && stage.output.status == Some(REFUSED) {
            Outcome { status: REFUSED, ..Outcome::default() }
        } else {
            let outcome = exchange(&message, &Response::to(&message), rules);
            if is_refused { Outcome { status: REFUSED, ..outcome } } else { outcome }
        };
        let differences = differences(&stage.output, &outcome);
        if !differences.is_empty() {
            let request = [message.head(), message.body].concat();
            return Err(failure(differences, String::from_utf8_lossy(&request).into_owned(), outcome.log));
        }
    }
    Ok(())
}

/// Whether the proxy's parser refuses a request.
pub(super) fn is_refused(message: &Message) -> bool {
    !matches!(parse_request(&message.head(), LIMITS, Fields::default()), Ok(Some(_)))
}

/// Gives a request and a response to a transaction.
pub(super) fn exchange(message: &Message, response: &Response, rules: &Arc<Rules>) -> Outcome {
    let connection = Connection {
        client: SocketAddr::from(([127, 0, 0, 1], 54321)),
        server: SocketAddr::from(([127, 0, 0, 1], 80)),
        unique_id: "test".into(),
        unix_time: UNIX_MICROS,
        seed: 1,
    };
    let protocol = message.protocol();
    let (headers, response_headers) = (pairs(&message.headers), pairs(&response.headers));
    let exchange = Exchange {
        line: RequestLine { method: &message.method, target: &message.target, protocol: &protocol },
        headers: &headers,
        body: &message.body,
        response: Some(::waf::Response {
            status: response.status,
            protocol: "HTTP/1.1",
            headers: &response_headers,
            body: &response.body,
        }),
    };
    let ::waf::Outcome { verdict, report, .. } =
        exchange.play(rules, &Arc::new(Collections::new(1)), connection);
    let status = match verdict {
        Verdict::Pass => response.status,
        Verdict::Deny { status, .. } | Verdict::Redirect { status, .. } => status,
        Verdict::Drop { .. } => 0,
    };
    let rules = logged(&report).map(|found| found.rule).collect();
    Outcome { status, rules, log: log(&report), is_exhausted: report.exhausted }
}

fn pairs(headers: &[Header]) -> Vec<::waf::Header<'_>> {
    headers.iter().map(|header| (header.name.as_slice(), header.value.as_slice())).collect()
}

fn logged(report: &Report) -> impl Iterator<Item = &::waf::report::Match> {
    report.matches.iter().filter(|found| found.log)
}

/// Lines in the form of `ModSecurity`'s error log.
fn log(report: &Report) -> String {
    let mut log = String::new();
    for found in logged(report) {
        let [message, data] =
            [&found.message, &found.data].map(|text| String::from_utf8_lossy(text).replace('\n', "\\n"));
        let _ = writeln!(
            log,
            "ModSecurity: Warning. [file \"{}\"] [line \"{}\"] [id \"{}\"] [msg \"{message}\"] [data \"{data}\"]",
            found.file, found.line, found.rule
        );
    }
    log
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |text: &str| {
            let shown: String =
                text.escape_debug().to_string().replace("\\r\\n", "\n    ").replace("\\n", "\n    ");
            shown.chars().take(SHOWN_BYTES_MAX).collect::<String>()
        };
        write!(
            formatter,
            "{}: {}\n  expected: {}\n  request:\n    {}\n  matched:\n    {}",
            self.test,
            self.description,
            self.expected,
            cut(&self.request).trim_end(),
            cut(&self.log).trim_end()
        )
    }
}
