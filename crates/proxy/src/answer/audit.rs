//! The entry of a request in the audit log of its firewall: one line of JSON beside the access log, in the
//! form of `ModSecurity`'s audit log.
//!
//! Never in here: which requests are logged, which rules say.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use observe::FirewallResult;
use observe::limits::{REFUSAL_MATCHES_MAX, TAIL_TEXT_BYTES_MAX};
use observe::refusals::{Refusal, RefusalMatch};
use waf::settings::Mode;
use waf::{AuditBody, Mask, Match, Report, Transaction};

use crate::admit::firewall::{protocol, unix_time};
use crate::answer::answered::Answered;
use crate::request::inspection::Inspection;

/// Ends the transaction of a request that is over, and logs what its rules have found.
#[cold]
pub(crate) fn record(answered: &Answered<'_>) {
    let Some(inspection) = answered.inspection() else { return };
    let now = unix_time(answered);
    let mode = inspection.ask(Transaction::mode);
    let Some(report) = inspection.finish(now) else { return };
    let has_matched = report.matches.iter().any(|noted| noted.log);
    answered.worker.recorder.borrow().firewall(match inspection.phase() {
        0 if has_matched => FirewallResult::Matched,
        0 => FirewallResult::Passed,
        phase => FirewallResult::Blocked { phase, rule: inspection.rule() },
    });
    if report.exhausted {
        answered.worker.recorder.borrow().firewall_exhausted();
    }
    if report.stopped_by.is_some() || inspection.phase() > 0 {
        answered.worker.recorder.borrow().refusals().add(|| refusal(answered, inspection, report));
    }
    if !report.audit && !has_matched && !report.exhausted {
        return;
    }
    let Some(log) = &answered.worker.log.audit else { return };
    let (id, phase) = (inspection.id(), inspection.phase());
    let entry = Entry { answered, report, mode: mode.unwrap_or(Mode::Off), id, phase, now };
    log.borrow_mut().line(|out| entry.write(out));
}

/// A refused request for the console.
fn refusal(answered: &Answered<'_>, inspection: &Inspection, report: &Report) -> Refusal {
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(TAIL_TEXT_BYTES_MAX)]).into_owned();
    let request = answered.request;
    // Rules of the last phase only sum up.
    let decides = |noted: &&Match| noted.phase < 5 && (noted.log || noted.disruptive);
    let matches = report.matches.iter().filter(decides).take(REFUSAL_MATCHES_MAX);
    Refusal {
        at: answered.worker.clock.unix(),
        client: request.forwarded.client,
        method: text(request.method()),
        host: text(answered.host()),
        path: text(answered.current_path()),
        status: answered.report.status.get(),
        phase: inspection.phase(),
        rule: if inspection.phase() > 0 { inspection.rule() } else { report.stopped_by.unwrap_or(0) },
        labels: answered.route.map(|route| Arc::clone(&route.labels)),
        matches: matches
            .map(|noted| {
                let first = noted.variables.first();
                RefusalMatch {
                    rule: noted.rule,
                    message: text(&noted.message),
                    variable: first.map(|variable| text(&variable.name)).unwrap_or_default(),
                    value: match first {
                        Some(_) if report.masks(noted) => text(MASK),
                        Some(variable) => text(&variable.value),
                        None => String::new(),
                    },
                }
            })
            .collect(),
    }
}

/// A request with what its rules have found.
struct Entry<'e, 'a> {
    answered: &'e Answered<'a>,
    report: &'e Report,
    /// The mode of the rules at the end.
    mode: Mode,
    id: &'e str,
    /// The phase in which it was stopped, or 0.
    phase: u8,
    now: u64,
}

impl Entry<'_, '_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { answered, id, .. } = self;
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
        self.write_response(out);
        if self.has_part('H') {
            self.write_producer(out);
        }
        if self.has_part('K') {
            let rules: Vec<_> = self.report.matched_rules.iter().map(|rule| format!("\"{rule}\"")).collect();
            let _ = write!(out, ",\"matched_rules\":[{}]", rules.join(","));
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
        text(out, b",\"namespace\":", route.labels.namespace().as_bytes());
        text(out, b",\"ingress\":", route.labels.object().as_bytes());
    }

    fn write_producer(&self, out: &mut Vec<u8>) {
        let (result, phase) = (if self.phase > 0 { "stopped" } else { "passed" }, self.phase);
        let engine = match self.mode {
            Mode::On => "Enabled",
            Mode::DetectionOnly => "DetectionOnly",
            Mode::Off => "Disabled",
        };
        let _ = write!(
            out,
            ",\"producer\":{{\"connector\":\"forebay\",\"secrules_engine\":\"{engine}\",\"result\":\"{result}\",\"phase\":{phase}"
        );
        self.write_scores(out);
        let access = self.answered.route.and_then(|route| route.access.as_deref());
        if let Some(firewall) = access.and_then(|access| access.firewall.as_deref()) {
            out.extend(b",\"components\":[");
            for (at, signature) in firewall.rules.rules().settings().signatures.iter().enumerate() {
                text(out, if at > 0 { &b","[..] } else { b"" }, signature.as_bytes());
            }
            out.push(b']');
        }
        if self.report.exhausted {
            out.extend(b",\"exhausted\":true");
        }
        out.push(b'}');
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
                let is_masked = self.report.is_masked(Mask::RequestHeader, name);
                text(out, b":", if is_masked { MASK } else { value });
            }
            out.push(b'}');
        }
        if let Some(body) = self.report.exchange.as_ref().and_then(|exchange| exchange.request_body.as_ref())
        {
            self.write_body(out, body, self.masks(Mask::Argument) && !body.is_form);
        }
        out.push(b'}');
    }

    fn write_response(&self, out: &mut Vec<u8>) {
        let _ = write!(out, ",\"response\":{{\"http_code\":{}", self.answered.report.status.get());
        if self.has_part('F') {
            out.extend(b",\"headers\":{");
            let headers = self.report.exchange.iter().flat_map(|exchange| &exchange.response_headers);
            for (at, (name, value)) in headers.enumerate() {
                text(out, if at > 0 { &b","[..] } else { b"" }, name);
                let is_masked = self.report.is_masked(Mask::ResponseHeader, name);
                text(out, b":", if is_masked { MASK } else { value });
            }
            out.push(b'}');
        }
        if let Some(body) = self.report.exchange.as_ref().and_then(|exchange| exchange.response_body.as_ref())
        {
            self.write_body(out, body, false);
        }
        out.push(b'}');
    }

    fn masks(&self, place: Mask) -> bool {
        self.report.masked.iter().any(|masked| masked.place == place)
    }

    /// Writes a body. It is not shown where `hides` says so, or where values that matched are masked, since
    /// they may be anywhere in it.
    fn write_body(&self, out: &mut Vec<u8>, body: &AuditBody, hides: bool) {
        let content = if hides || self.masks(Mask::Matched) {
            Cow::Borrowed(MASK)
        } else if body.is_form {
            Cow::Owned(self.pairs(&body.content))
        } else {
            Cow::Borrowed(&body.content[..])
        };
        text(out, b",\"body\":", &content);
        if body.is_cut {
            out.extend(b",\"body_is_cut\":true");
        }
    }

    fn write_match(&self, out: &mut Vec<u8>, noted: &Match) {
        let is_masked = self.report.masks(noted);
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
        [path, &self.pairs(query)].concat()
    }

    /// Pairs of names and values, in which the values of masked arguments are not shown.
    fn pairs(&self, form: &[u8]) -> Vec<u8> {
        let pairs: Vec<Vec<u8>> = form
            .split(|byte| *byte == b'&')
            .map(|pair| match pair.iter().position(|byte| *byte == b'=') {
                Some(at) if self.masks_argument(&pair[..at]) => [&pair[..=at], MASK].concat(),
                _ => pair.to_vec(),
            })
            .collect();
        pairs.join(&b'&')
    }

    /// Whether the value of an argument is masked. Its name may have escapes.
    fn masks_argument(&self, name: &[u8]) -> bool {
        waf::body::pairs(name, b'&').any(|pair| self.report.is_masked(Mask::Argument, &pair.name))
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
