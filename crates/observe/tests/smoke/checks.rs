//! Properties that must hold for every format and every request. The fuzz target and the smoke test call the same function.

use std::borrow::Cow;
use std::time::Duration;

use model::Labels;
use model::log::{Escape, Format};
use model::template::{Part, Variable};
use observe::Reason;
use observe::access::{Named, Record, Time, Tls, Try, write_line};

/// Headers that all have the same value.
struct Every<'a>(&'a [u8]);

impl Named for Every<'_> {
    fn request(&self, _: &str) -> Option<Cow<'_, [u8]>> {
        Some(self.0.into())
    }

    fn response(&self, _: &str) -> Option<&[u8]> {
        (!self.0.is_empty()).then_some(self.0)
    }

    fn cookie(&self, _: &str) -> Option<&[u8]> {
        Some(self.0)
    }

    fn argument(&self, _: &str) -> Option<&[u8]> {
        Some(self.0)
    }

    fn capture(&self, _: u8) -> Option<&[u8]> {
        Some(self.0)
    }

    fn set(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn computed(&self, _: &Variable) -> Option<Cow<'_, [u8]>> {
        Some(self.0.into())
    }
}

/// The first line of the input is a format, the rest is what a client sends. No format causes a panic. A value from a client never
/// ends the line, nor the quotes around it.
pub(crate) fn log_format(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (format, value) = (&input[..end], &input[(end + 1).min(input.len())..]);
    let Ok(format) = std::str::from_utf8(format) else { return };
    let text = String::from_utf8_lossy(value);
    let labels = Labels { namespace: text.to_string(), path: text.to_string(), ..Labels::default() };
    let named = Every(value);
    let tries = [one_try(None), one_try(Some(502)), one_try(Some(200))];
    for escape in [Escape::Default, Escape::Json, Escape::None] {
        let Ok(format) = Format::parse(format, escape) else { return };
        for is_known in [true, false] {
            let record = record(value, &text, &labels, &named, &tries, is_known);
            let mut line = Vec::new();
            write_line(&format, &record, &mut line);
            assert_eq!(line.pop(), Some(b'\n'));
            if escape != Escape::None {
                check_line(&format, &record, &line);
            }
        }
    }
}

fn check_line(format: &Format, record: &Record<'_>, line: &[u8]) {
    let texts = format.template.parts().iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.bytes()),
        Part::Variable(_) => None,
    });
    let of_texts = texts.flatten().filter(u8::is_ascii_control).count();
    let control =
        line.iter().filter(|&&byte| byte < 0x20 || byte == 0x7f && format.escape == Escape::Default);
    let written = format
        .template
        .parts()
        .iter()
        .filter(|part| matches!(part, Part::Text(text) if text.contains('\x7f')));
    assert!(control.count() <= of_texts || written.count() > 0, "{:?}", String::from_utf8_lossy(line));
    for variable in format.template.variables() {
        let alone = Format { template: variable.clone().into(), escape: format.escape };
        let mut value = Vec::new();
        write_line(&alone, record, &mut value);
        assert!(
            !ends_quotes(&value[..value.len() - 1]),
            "{variable:?} {:?}",
            String::from_utf8_lossy(&value)
        );
    }
}

/// Whether a value contains an unescaped quote, or ends with a backslash that would escape the closing quote.
fn ends_quotes(value: &[u8]) -> bool {
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return true,
            b'\\' if bytes.next().is_none() => return true,
            _ => {}
        }
    }
    false
}

fn one_try(status: Option<u16>) -> Try {
    let time = status.map(|_| Duration::from_millis(1));
    Try {
        address: "[2001:db8::1]:80".parse().expect("a literal address"),
        status,
        response_bytes: u64::MAX,
        connect_time: time,
        header_time: time,
        response_time: Some(Duration::MAX),
    }
}

fn record<'a>(
    bytes: &'a [u8],
    text: &'a str,
    labels: &'a Labels,
    named: &'a Every<'_>,
    tries: &'a [Try],
    is_known: bool,
) -> Record<'a> {
    let value = is_known.then_some(bytes);
    let tls = Tls {
        version: "TLSv1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        server_name: Some(text),
        is_resumed: true,
    };
    Record {
        time: Time { unix: Duration::MAX, local: "LOCAL", iso8601: "ISO" },
        remote_addr: "::1".parse().expect("a literal address"),
        peer: "192.0.2.1:1".parse().expect("a literal address"),
        server: "[::1]:443".parse().expect("a literal address"),
        remote_user: value,
        request: value,
        method: value,
        target: value,
        path: value,
        query: value,
        scheme: "https",
        tls: is_known.then_some(tls),
        protocol: is_known.then_some("HTTP/1.1"),
        host: value,
        forwarded: is_known.then_some((bytes, bytes)),
        status: u16::MAX,
        body_bytes_sent: u64::MAX,
        bytes_sent: 0,
        request_length: 1,
        request_time: Duration::ZERO,
        connection: 1,
        connection_requests: 1,
        upstream_name: is_known.then_some(text),
        alternative_upstream_name: "",
        cache_status: None,
        reason: is_known.then_some(Reason::QueueFull),
        tries: if is_known { tries } else { &[] },
        traceparent: None,
        request_id: value,
        labels: is_known.then_some(labels),
        index: "",
        hostname: text,
        pid: 1,
        named,
    }
}
