//! Properties that must hold for every format and every request. The fuzz target and the smoke test call the
//! same function.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use model::log::{Escape, Format};
use model::template::{Part, Variable};
use model::{LabelTexts, Labels};
use observe::Reason;
use observe::access::{Connection, Time, TimeForm, Tls, Try, Values, write_line};

/// A request whose client sends one value everywhere.
struct Request<'a> {
    value: &'a [u8],
    text: &'a str,
    labels: &'a Labels,
    tries: &'a [Try],
    /// Whether the optional values exist.
    is_known: bool,
}

impl<'a> Request<'a> {
    fn known<T>(&self, value: T) -> Option<T> {
        self.is_known.then_some(value)
    }

    fn value(&self) -> Option<&'a [u8]> {
        self.known(self.value)
    }
}

impl Values for Request<'_> {
    fn remote_addr(&self) -> IpAddr {
        "::1".parse().expect("a literal address")
    }

    fn connection(&self) -> Connection<'_> {
        let tls = Tls {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            server_name: Some(self.text),
            is_resumed: true,
        };
        Connection {
            peer: "192.0.2.1:1".parse().expect("a literal address"),
            server: "[::1]:443".parse().expect("a literal address"),
            scheme: "https",
            tls: self.known(tls),
            serial: 1,
            requests: 1,
        }
    }

    fn unix_time(&self) -> Duration {
        Duration::MAX
    }

    fn write_time(&self, form: TimeForm, out: &mut Vec<u8>) {
        let time = Time { local: "LOCAL", iso8601: "ISO", ..Time::default() };
        out.extend_from_slice(time.text(form).as_bytes());
    }

    fn hostname(&self) -> &str {
        self.text
    }

    fn pid(&self) -> u32 {
        1
    }

    fn remote_user(&self) -> Option<Cow<'_, [u8]>> {
        self.value().map(Cow::Borrowed)
    }

    fn request_line(&self) -> Option<Cow<'_, [u8]>> {
        self.value().map(Cow::Borrowed)
    }

    fn method(&self) -> Option<&[u8]> {
        self.value()
    }

    fn target(&self) -> Option<&[u8]> {
        self.value()
    }

    fn path(&self) -> Option<&[u8]> {
        self.value()
    }

    fn query(&self) -> Option<&[u8]> {
        self.value()
    }

    fn protocol(&self) -> Option<&str> {
        self.known("HTTP/1.1")
    }

    fn host(&self) -> Option<Cow<'_, [u8]>> {
        self.value().map(Cow::Borrowed)
    }

    fn forwarded_host(&self) -> Option<&[u8]> {
        self.value()
    }

    fn forwarded_scheme(&self) -> Option<&[u8]> {
        self.value()
    }

    fn status(&self) -> u16 {
        u16::MAX
    }

    fn body_bytes_sent(&self) -> u64 {
        u64::MAX
    }

    fn request_length(&self) -> u64 {
        1
    }

    fn upstream_name(&self) -> Option<&str> {
        self.known(self.text)
    }

    fn reason(&self) -> Option<Reason> {
        self.known(Reason::QueueFull)
    }

    fn tries(&self) -> &[Try] {
        self.known(self.tries).unwrap_or_default()
    }

    fn request_id(&self) -> Option<&[u8]> {
        self.value()
    }

    fn labels(&self) -> Option<&Labels> {
        self.known(self.labels)
    }

    fn request_header(&self, _: &str) -> Option<Cow<'_, [u8]>> {
        Some(self.value.into())
    }

    fn response_header(&self, _: &str) -> Option<&[u8]> {
        (!self.value.is_empty()).then_some(self.value)
    }

    fn cookie(&self, _: &str) -> Option<&[u8]> {
        Some(self.value)
    }

    fn argument(&self, _: &str) -> Option<&[u8]> {
        Some(self.value)
    }

    fn capture(&self, _: u8) -> Option<&[u8]> {
        Some(self.value)
    }

    fn computed(&self, _: &Variable) -> Option<Cow<'_, [u8]>> {
        Some(self.value.into())
    }
}

/// The first line of the input is a format, the rest is what a client sends. No format causes a panic. A
/// value from a client never ends the line, nor the quotes around it.
pub(crate) fn log_format(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (format, value) = (&input[..end], &input[(end + 1).min(input.len())..]);
    let Ok(format) = std::str::from_utf8(format) else { return };
    let text = String::from_utf8_lossy(value);
    let labels = Labels::from(LabelTexts {
        namespace: text.to_string(),
        path: text.to_string(),
        ..LabelTexts::default()
    });
    let tries = [one_try(None), one_try(Some(502)), one_try(Some(200))];
    for escape in [Escape::Default, Escape::Json, Escape::None] {
        let Ok(format) = Format::parse(format, escape) else { return };
        for is_known in [true, false] {
            let request = Request { value, text: &text, labels: &labels, tries: &tries, is_known };
            let mut line = Vec::new();
            write_line(&format, &request, &mut line);
            assert_eq!(line.pop(), Some(b'\n'));
            if escape != Escape::None {
                check_line(&format, &request, &line);
            }
        }
    }
}

fn check_line(format: &Format, request: &Request<'_>, line: &[u8]) {
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
        write_line(&alone, request, &mut value);
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
