//! A request as the tests' own runner, go-ftw, would send it.
//!
//! Facts about go-ftw (`ftwhttp/request.go`, `test/data.go`): without `autocomplete_headers: false`, a body
//! gets a content type, a form that has no escapes is encoded, and `Connection` and `Content-Length` are
//! added; line ends of a multipart body become CRLF; `{{ "x" | repeat n }}` in a body is a template.

use std::borrow::Cow;

use anyhow::{Context, Result};

use super::suite::Input;

const FORM: &str = "application/x-www-form-urlencoded";

/// A request as a server reads it.
pub(super) struct Message {
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) version: Vec<u8>,
    pub(super) headers: Vec<Header>,
    pub(super) body: Vec<u8>,
}

/// A line of a head.
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

// === impl Message ===

impl Message {
    pub(super) fn new(input: &Input) -> Result<Self> {
        let mut message = match &input.encoded_request {
            Some(encoded) => Self::parse(&encoded.0).context("the encoded request")?,
            None => Self::build(input)?,
        };
        message.frame();
        Ok(message)
    }

    fn build(input: &Input) -> Result<Self> {
        let is_completed = input.autocomplete_headers.unwrap_or(true);
        let mut body = expand(input.data.as_deref().unwrap_or_default())?.into_bytes();
        let mut headers: Vec<Header> =
            input.headers.0.iter().map(|header| Header::new(&header.0, &header.1)).collect();
        let has = |name: &str| input.headers.values(name).next().is_some();
        let content_type = input.headers.values("content-type").next();
        if !body.is_empty() && is_completed {
            if content_type.is_none() {
                headers.push(Header::new("Content-Type", FORM));
            }
            if content_type.unwrap_or(FORM) == FORM {
                body = encode_form(body);
            }
        }
        if content_type.is_some_and(|value| value.contains("multipart/form-data;")) {
            body = body.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
        }
        let method = input.method.as_deref().unwrap_or("GET");
        if is_completed {
            if !has("connection") {
                headers.push(Header::new("Connection", "close"));
            }
            // The runner's expression for methods with a body has no anchors but at its ends.
            let may_have_body = method.starts_with("POST")
                || method.contains("PUT")
                || method.contains("PATCH")
                || method.ends_with("DELETE");
            if !has("content-length") && (!body.is_empty() || may_have_body) {
                headers.push(Header::new("Content-Length", &body.len().to_string()));
            }
        }
        Ok(Self {
            method: method.into(),
            target: input.uri.as_deref().unwrap_or("/").into(),
            version: input.version.as_deref().unwrap_or("HTTP/1.1").into(),
            headers,
            body,
        })
    }

    /// Reads a request that is written as a whole.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = find(bytes, b"\r\n\r\n")?;
        let mut lines = bytes[..head].split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let mut words = lines.next()?.splitn(3, |&byte| byte == b' ').map(<[u8]>::to_vec);
        let (method, target) = (words.next()?, words.next()?);
        let headers = lines.filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some(Header { name: line[..colon].to_vec(), value: line[colon + 1..].trim_ascii().to_vec() })
        });
        let version = words.next().unwrap_or_default();
        Some(Self { method, target, version, headers: headers.collect(), body: bytes[head + 4..].to_vec() })
    }

    /// Leaves of the body what a server takes for it: nothing without `Content-Length` and
    /// `Transfer-Encoding`.
    fn frame(&mut self) {
        if self.is_chunked() {
            self.body = unchunked(&self.body);
            return;
        }
        let len =
            self.value("content-length").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        self.body.truncate(len.unwrap_or(0));
    }

    /// The protocol that a server takes for the client's: a request line without one is of HTTP/0.9.
    pub(super) fn protocol(&self) -> Cow<'_, str> {
        if self.version.is_empty() {
            Cow::Borrowed("HTTP/0.9")
        } else {
            String::from_utf8_lossy(&self.version)
        }
    }

    /// The first value of a header.
    pub(super) fn value(&self, name: &str) -> Option<&[u8]> {
        let header = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name.as_bytes()));
        header.map(|header| header.value.as_slice())
    }

    /// The body as it is sent.
    pub(super) fn framed_body(&self) -> Vec<u8> {
        if !self.is_chunked() {
            return self.body.clone();
        }
        let size = format!("{:x}\r\n", self.body.len());
        let chunk =
            if self.body.is_empty() { Vec::new() } else { [size.as_bytes(), &self.body, b"\r\n"].concat() };
        [&chunk[..], b"0\r\n\r\n"].concat()
    }

    fn is_chunked(&self) -> bool {
        self.value("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked"))
    }

    /// The head as it is sent.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = [&self.method[..], &self.target, &self.version].join(&b' ');
        for header in &self.headers {
            head.extend([b"\r\n", &header.name[..], b": ", &header.value].concat());
        }
        head.extend(b"\r\n\r\n");
        head
    }
}

// === impl Header ===

impl Header {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: value.trim().into() }
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

/// The content of chunks, as far as they are well formed.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = find(rest, b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(chunk) = size.filter(|size| *size > 0).and_then(|size| rest.get(end + 2..end + 2 + size))
        else {
            break;
        };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + chunk.len()..).unwrap_or_default();
    }
    body
}

/// Encodes names and values of a form, unless it has escapes already.
fn encode_form(body: Vec<u8>) -> Vec<u8> {
    if body.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return body;
    }
    let mut encoded = Vec::new();
    let mut has_name = false;
    for byte in body {
        match byte {
            b'&' => {
                has_name = false;
                encoded.push(byte);
            }
            b'=' if !has_name => {
                has_name = true;
                encoded.push(byte);
            }
            b' ' => encoded.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => encoded.push(byte),
            _ if byte.is_ascii_alphanumeric() => encoded.push(byte),
            _ => encoded.extend(format!("%{byte:02X}").bytes()),
        }
    }
    encoded
}

/// Expands the one template that the tests have.
fn expand(text: &str) -> Result<String> {
    let Some((before, rest)) = text.split_once("{{ \"") else { return Ok(text.to_owned()) };
    let parts = rest.split_once("\" | repeat ").and_then(|(word, rest)| {
        let (count, after) = rest.split_once(" }}")?;
        Some((word, count.parse().ok()?, after))
    });
    let (word, count, after): (_, usize, _) = parts.context("a template other than repeat")?;
    Ok(format!("{before}{}{}", word.repeat(count), expand(after)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(yaml: &str) -> Message {
        Message::new(&serde_saphyr::from_str(yaml).expect("an input")).expect("a message")
    }

    #[test]
    fn headers_and_forms_are_completed() {
        let message = message("{method: POST, uri: /a, headers: {Host: b}, data: 'a=b c&d=\"'}");
        let head = "POST /a HTTP/1.1\r\nHost: b\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                    Connection: close\r\nContent-Length: 11\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&message.head()), head);
        assert_eq!(message.body, b"a=b+c&d=%22");
    }

    #[test]
    fn a_form_with_escapes_stays_as_it_is() {
        assert_eq!(message("{data: 'a=%zz b'}").body, b"a=%zz b");
        let bare = message("{headers: {Content-Length: 2}, data: 'a=\"', autocomplete_headers: false}");
        assert_eq!(bare.body, b"a=");
        assert_eq!(message("{data: 'a=b', autocomplete_headers: false}").body, b"");
    }

    #[test]
    fn lines_of_a_multipart_body_end_with_crlf() {
        let yaml = "{headers: {Content-Type: multipart/form-data; boundary=a}, data: \"a\\nb{{ \\\"1\\\" | repeat 3 }}\\n\"}";
        assert_eq!(message(yaml).body, b"a\r\nb111\r\n");
    }

    #[test]
    fn an_encoded_request_is_taken_apart() {
        // A chunked body: "Hi " and "CRS".
        let message = message(
            "{encoded_request: UE9TVCAvIEhUVFAvMS4xDQpUcmFuc2Zlci1FbmNvZGluZzogY2h1bmtlZA0KDQozDQpIaSANCjMNCkNSUw0KMA0KDQo=}",
        );
        assert_eq!(message.body, b"Hi CRS");
        assert_eq!(message.framed_body(), b"6\r\nHi CRS\r\n0\r\n\r\n");
        assert_eq!(message.version, b"HTTP/1.1");
    }
}
