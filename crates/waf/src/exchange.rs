//! An exchange that is there as a whole, such as one from a file, given to the rules step by step.
//!
//! Never in here: rules, and the form in which exchanges are recorded.

use std::sync::Arc;

use crate::collections::Collections;
use crate::engine::{Connection, RequestLine, Transaction};
use crate::report::{Report, Verdict};
use crate::rules::Rules;

/// A header: its name and its value.
pub type Header<'a> = (&'a [u8], &'a [u8]);

/// A request, and its response where that is known.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The first line of the request.
    pub line: RequestLine<'a>,
    /// The headers of the request.
    pub headers: &'a [Header<'a>],
    /// The body of the request, without chunks.
    pub body: &'a [u8],
    /// The response; without it, phases 3 and 4 do not run.
    pub response: Option<Response<'a>>,
}

/// A response as its endpoint sent it.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The status code.
    pub status: u16,
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: &'a str,
    /// The headers of the response.
    pub headers: &'a [Header<'a>],
    /// The body of the response, without chunks.
    pub body: &'a [u8],
}

/// The outcome of an exchange.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict that stopped the exchange, or `Verdict::Pass`.
    pub verdict: Verdict,
    /// The phase of that verdict; 0 if the exchange passed.
    pub phase: u8,
    /// The matches, the scores and the cost.
    pub report: Report,
}

impl Exchange<'_> {
    /// Gives the exchange to a rule set, as the proxy does.
    pub fn play(
        &self,
        rules: &Arc<Rules>,
        collections: &Arc<Collections>,
        connection: Connection,
    ) -> Outcome {
        let mut transaction = Transaction::new(Arc::clone(rules), Arc::clone(collections), connection);
        let phase = self.stopped_in(&mut transaction).unwrap_or(0);
        Outcome { verdict: transaction.verdict().clone(), phase, report: transaction.finish() }
    }

    /// The phase in which the rules stop the exchange; none if they let it pass.
    fn stopped_in(&self, transaction: &mut Transaction) -> Option<u8> {
        let stops = |verdict: Verdict, phase| (!verdict.passes()).then_some(phase);
        if let Some(phase) = stops(transaction.request_head(self.line, self.headers.iter().copied()), 1) {
            return Some(phase);
        }
        if transaction.request_body_limit().is_some()
            && let Some(phase) = stops(transaction.request_body(self.body), 2)
        {
            return Some(phase);
        }
        if let Some(phase) = stops(transaction.request_end(), 2) {
            return Some(phase);
        }
        let response = self.response?;
        let headers = response.headers.iter().copied();
        if let Some(phase) = stops(transaction.response_head(response.status, response.protocol, headers), 3)
        {
            return Some(phase);
        }
        if transaction.response_body_limit().is_some()
            && let Some(phase) = stops(transaction.response_body(response.body), 4)
        {
            return Some(phase);
        }
        stops(transaction.response_end(), 4)
    }
}

#[cfg(test)]
mod tests {
    use crate::report::AuditBody;
    use crate::seclang::{NoFiles, Source};

    use super::*;

    const RULES: &str = "SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecAuditEngine On
SecRule REQUEST_URI \"@streq /1\" \"id:1,phase:1,deny\"
SecRule ARGS:q \"@streq 2\" \"id:2,phase:2,deny,status:406\"
SecRule RESPONSE_STATUS \"@streq 503\" \"id:3,phase:3,deny\"
SecRule RESPONSE_BODY \"@contains leak\" \"id:4,phase:4,deny,nolog,noauditlog\"
";

    fn play(rules: &str, target: &str, body: &[u8], kind: &str, response: Option<(u16, &[u8])>) -> Outcome {
        let rules = Rules::compile(&[Source { name: "a", text: rules }], &NoFiles).unwrap();
        let connection = Connection {
            client: "192.0.2.1:1".parse().unwrap(),
            server: "192.0.2.2:80".parse().unwrap(),
            unique_id: "a".to_owned(),
            unix_time: 1,
            seed: 1,
        };
        let exchange = Exchange {
            line: RequestLine { method: b"POST", target: target.as_bytes(), protocol: "HTTP/1.1" },
            headers: &[(b"Content-Type", kind.as_bytes())],
            body,
            response: response.map(|(status, body)| Response {
                status,
                protocol: "HTTP/1.1",
                headers: &[(b"Content-Type", b"text/plain")],
                body,
            }),
        };
        exchange.play(&Arc::new(rules), &Arc::new(Collections::new(1)), connection)
    }

    #[test]
    fn the_phase_of_the_verdict_is_known() {
        const FORM: &str = "application/x-www-form-urlencoded";
        for (target, body, response, phase, rule) in [
            ("/1", &b""[..], None, 1, Some(1)),
            ("/", b"q=2", None, 2, Some(2)),
            ("/", b"q=3", Some((503, &b""[..])), 3, Some(3)),
            ("/", b"q=3", Some((200, b"a leak")), 4, Some(4)),
            ("/", b"q=3", Some((200, b"ok")), 0, None),
            ("/", b"q=3", None, 0, None),
        ] {
            let outcome = play(RULES, target, body, FORM, response);
            assert_eq!((outcome.phase, outcome.report.stopped_by), (phase, rule), "{target} {response:?}");
            assert_eq!(outcome.verdict.passes(), rule.is_none());
        }
    }

    #[test]
    fn the_audit_log_has_the_parts_that_are_wanted_and_no_more() {
        let parts = |wanted: &str| {
            let rules = format!("{RULES}SecAuditLogParts {wanted}");
            play(&rules, "/", b"plain", "text/plain", Some((200, b"a leak"))).report
        };
        let report = parts("ABCEFKZ");
        let exchange = report.exchange.expect("it is logged");
        let body = |content: &[u8]| Some(AuditBody { content: content.to_vec(), ..AuditBody::default() });
        assert_eq!((exchange.request_body, exchange.response_body), (body(b"plain"), body(b"a leak")));
        assert_eq!(exchange.response_headers, [(b"Content-Type".to_vec(), b"text/plain".to_vec())]);
        assert_eq!(report.matched_rules, [4], "though it logs nothing");
        let report = parts("ABHZ");
        assert_eq!(report.exchange.as_deref(), Some(&crate::report::AuditParts::default()));
        assert!(report.matched_rules.is_empty());
        let off = format!("{RULES}SecAuditEngine Off");
        assert_eq!(play(&off, "/", b"plain", "text/plain", None).report.exchange, None);
    }

    #[test]
    fn of_a_multipart_body_the_fields_are_logged_and_of_a_long_one_the_beginning() {
        let rules = format!("{RULES}SecAuditLogParts ABIZ");
        let body = |body: &[u8], kind: &str| {
            play(&rules, "/", body, kind, None).report.exchange.and_then(|exchange| exchange.request_body)
        };
        let part = |head: &str, value: &str| {
            format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n")
        };
        let file = part("name=\"f\"; filename=\"x\"", "content");
        let multipart = part("name=\"a b\"", "1&2") + &file + "--b--\r\n";
        let form = body(multipart.as_bytes(), "multipart/form-data; boundary=b").expect("fields");
        assert_eq!((&*form.content, form.is_cut, form.is_form), (&b"a%20b=1%262"[..], false, true));
        let long = body(&vec![b'x'; 100_000], "text/plain").expect("a body");
        assert_eq!((long.content.len(), long.is_cut, long.is_form), (64 << 10, true, false));
    }
}
