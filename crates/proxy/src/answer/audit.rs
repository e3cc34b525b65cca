//! The entry of a request in the audit log of its firewall: one line of JSON beside the access log, in the
//! form of `ModSecurity`'s audit log.
//!
//! Never in here: which requests are logged, which rules say.

use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use observe::FirewallResult;
use waf::{Mask, Match, Report};

use crate::admit::firewall::{protocol, unix_time};
use crate::answer::answered::Answered;

/// Ends the transaction of a request that is over, and logs what its rules have found.
#[cold]
pub(crate) fn record(answered: &Answered<'_>) {
    let Some(inspection) = answered.inspection() else { return };
    let now = unix_time(answered);
    let Some(report) = inspection.finish(now) else { return };
    let has_matched = report.matches.iter().any(|noted| noted.log);
    answered.worker.recorder.borrow().firewall(match inspection.phase() {
        0 if has_matched => FirewallResult::Matched,
        0 => FirewallResult::Passed,
        phase => FirewallResult::Blocked { phase, rule: inspection.rule() },
    });
    if !report.audit && !has_matched {
        return;
    }
    let entry = Entry { answered, report: &report, id: inspection.id(), phase: inspection.phase(), now };
    answered.worker.log.sink.borrow_mut().line(|out| entry.write(out));
}

/// A request with what its rules have found.
struct Entry<'e, 'a> {
    answered: &'e Answered<'a>,
    report: &'e Report,
    id: &'e str,
    /// The phase in which it was stopped, or 0.
    phase: u8,
    now: u64,
}

impl Entry<'_, '_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { answered, id, phase, .. } = self;
        let request = answered.request;
        let client = request.forwarded.client.to_string();
        text(out, b"{\"transaction\":{\"client_ip\":", client.as_bytes());
        text(out, b",\"time_stamp\":", self.time().as_bytes());
        let _ = write!(out, ",\"client_port\":{}", request.conn.peer.port());
        text(out, b",\"host_ip\":", request.conn.local.ip().to_string().as_bytes());
        let _ = write!(out, ",\"host_port\":{}", request.conn.local.port());
        text(out, b",\"unique_id\":", id.as_bytes());
        self.write_object(out);
        self.write_request(out);
        let _ = write!(out, ",\"response\":{{\"http_code\":{}}}", answered.report.status.get());
        if self.has_part('H') {
            let engine = if *phase > 0 { "stopped" } else { "passed" };
            let _ = write!(
                out,
                ",\"producer\":{{\"connector\":\"forebay\",\"result\":\"{engine}\",\"phase\":{phase}"
            );
            self.write_scores(out);
            out.extend(b"}");
        }
        out.extend(b",\"messages\":[");
        for (at, noted) in self.report.matches.iter().filter(|noted| noted.log || noted.audit).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.write_match(out, noted);
        }
        out.extend(b"]}}\n");
    }

    /// The object of the route.
    fn write_object(&self, out: &mut Vec<u8>) {
        let Some(route) = self.answered.route else { return };
        text(out, b",\"namespace\":", route.labels.namespace.as_bytes());
        text(out, b",\"ingress\":", route.labels.object.as_bytes());
    }

    fn write_scores(&self, out: &mut Vec<u8>) {
        let scores = [("inbound", self.report.inbound_score), ("outbound", self.report.outbound_score)];
        for (name, score) in scores {
            if let Some(score) = score {
                let _ = write!(out, ",\"{name}_anomaly_score\":{score}");
            }
        }
    }

    fn write_request(&self, out: &mut Vec<u8>) {
        let (request, head) = (self.answered.request, self.answered.head);
        text(out, b",\"request\":{\"method\":", request.method());
        text(out, b",\"http_version\":", &protocol(request).as_bytes()["HTTP/".len()..]);
        text(out, b",\"uri\":", &self.target(&head[request.parsed.target.clone()]));
        if self.has_part('B') {
            out.extend(b",\"headers\":{");
            for (at, field) in request.parsed.fields.iter().enumerate() {
                let (name, value) = (field.name(head), field.value(head));
                if at > 0 {
                    out.push(b',');
                }
                push(out, name);
                let is_masked = self.is_masked(Mask::RequestHeader, name);
                text(out, b":", if is_masked { MASK } else { value });
            }
            out.push(b'}');
        }
        out.push(b'}');
    }

    fn write_match(&self, out: &mut Vec<u8>, noted: &Match) {
        let is_masked = noted.variables.iter().any(|variable| {
            let name = variable.name.split(|byte| *byte == b':').next_back().unwrap_or_default();
            self.is_masked(Mask::Matched, &variable.name) || self.is_masked(Mask::Argument, name)
        });
        text(out, b"{\"message\":", &noted.message);
        let mut matched = noted.operator.clone().into_bytes();
        for variable in &noted.variables {
            matched.extend(b" against ");
            matched.extend(&variable.name);
            matched.extend(b" (");
            matched.extend(if is_masked { MASK } else { &variable.value });
            matched.push(b')');
        }
        text(out, b",\"details\":{\"match\":", &matched);
        let _ = write!(out, ",\"ruleId\":\"{}\",\"phase\":{}", noted.rule, noted.phase);
        text(out, b",\"file\":", noted.file.as_bytes());
        let _ = write!(out, ",\"lineNumber\":\"{}\"", noted.line);
        text(out, b",\"data\":", if is_masked { MASK } else { &noted.data });
        let severity = noted.severity.map(|severity| severity.to_string()).unwrap_or_default();
        let _ = write!(out, ",\"severity\":\"{severity}\"");
        text(out, b",\"ver\":", noted.version.as_bytes());
        text(out, b",\"rev\":", noted.revision.as_bytes());
        out.extend(b",\"tags\":[");
        for (at, tag) in noted.tags.iter().enumerate() {
            text(out, if at > 0 { &b","[..] } else { b"" }, tag);
        }
        let _ = write!(out, "],\"maturity\":\"{}\"", noted.maturity);
        let _ = write!(out, ",\"accuracy\":\"{}\"", noted.accuracy);
        let _ = write!(out, ",\"disruptive\":{}}}}}", noted.disruptive);
    }

    /// The target, in which the values of masked arguments are not shown.
    fn target(&self, target: &[u8]) -> Vec<u8> {
        let Some(at) = target.iter().position(|byte| *byte == b'?') else { return target.to_vec() };
        let (path, query) = target.split_at(at + 1);
        let pairs: Vec<Vec<u8>> = query
            .split(|byte| *byte == b'&')
            .map(|pair| match pair.iter().position(|byte| *byte == b'=') {
                Some(at) if self.is_masked(Mask::Argument, &pair[..at]) => [&pair[..=at], MASK].concat(),
                _ => pair.to_vec(),
            })
            .collect();
        [path, &pairs.join(&b'&')].concat()
    }

    fn is_masked(&self, place: Mask, name: &[u8]) -> bool {
        let mut masked = self.report.masked.iter();
        masked.any(|masked| masked.place == place && masked.name.eq_ignore_ascii_case(name))
    }

    /// Whether the entry has a part, by the letters of `SecAuditLogParts`.
    fn has_part(&self, part: char) -> bool {
        self.report.audit && self.report.audit_parts.contains(part)
    }

    fn time(&self) -> String {
        let time = Timestamp::from_microsecond(self.now.cast_signed()).unwrap_or_default();
        time.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S %Y").to_string()
    }
}

/// The text in place of a value that rules mask.
const MASK: &[u8] = b"****";

/// Appends text as it is, and then a string of JSON.
fn text(out: &mut Vec<u8>, before: &[u8], value: &[u8]) {
    out.extend(before);
    push(out, value);
}

/// Appends a string of JSON. Bytes that are no UTF-8 become the characters with their numbers.
fn push(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    for part in value.utf8_chunks() {
        for byte in part.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend([b'\\', byte]),
                0..0x20 | 0x7f => _ = write!(out, "\\u{byte:04x}"),
                _ => out.push(byte),
            }
        }
        for byte in part.invalid() {
            let _ = write!(out, "\\u{byte:04x}");
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_string_of_json() {
        for (value, expected) in [
            (&b"plain"[..], "\"plain\""),
            (b"a\"b\\c", "\"a\\\"b\\\\c\""),
            (b"\x00\n\x7f", "\"\\u0000\\u000a\\u007f\""),
            ("\u{e4}".as_bytes(), "\"\u{e4}\""),
            (b"\xff!", "\"\\u00ff!\""),
        ] {
            let mut out = Vec::new();
            push(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
