//! Files of HTTP/1.1 messages: requests one behind the other, each with its response behind it if there is
//! one.
//!
//! Messages are framed as on a connection, by `Content-Length` or chunks. Lines of a head may end in LF alone
//! if all of them do, since editors write them so.

use std::borrow::Cow;

use anyhow::bail;
use wire::h1::{Body, BodyDecoder, Decoded, Fields, Malformed, parse_request, parse_response};

use super::recorded::{LIMITS, Recorded, RecordedResponse, headers};

/// Reads all requests of a file.
///
/// # Errors
///
/// A message that is malformed, with file, line and column.
pub(super) fn read(file: &str, bytes: &[u8]) -> anyhow::Result<Vec<Recorded>> {
    let mut reader = Reader { file, bytes, at: 0 };
    let mut requests: Vec<Recorded> = Vec::new();
    while reader.skip_line_ends() {
        if !reader.rest().starts_with(b"HTTP/1.") {
            requests.push(reader.request(requests.last())?);
            continue;
        }
        let Some(request) = requests.last_mut().filter(|request| request.response.is_none()) else {
            return Err(reader.fault(0, "a response without a request"));
        };
        request.response = reader.response(request.method == b"HEAD")?;
    }
    if requests.is_empty() {
        bail!("{file}: there is no request");
    }
    Ok(requests)
}

/// A file, and how far it has been read.
struct Reader<'f> {
    file: &'f str,
    bytes: &'f [u8],
    at: usize,
}

/// A head with CRLF as the end of its lines.
struct Head<'f> {
    text: Cow<'f, [u8]>,
    /// Its length in the file.
    len: usize,
}

impl<'f> Reader<'f> {
    fn rest(&self) -> &'f [u8] {
        &self.bytes[self.at..]
    }

    /// Passes empty lines between messages. False at the end of the file.
    fn skip_line_ends(&mut self) -> bool {
        self.at += self.rest().iter().take_while(|byte| b"\r\n".contains(byte)).count();
        self.at < self.bytes.len()
    }

    fn request(&mut self, before: Option<&Recorded>) -> anyhow::Result<Recorded> {
        let head = self.head();
        let parse = |bytes: &[u8]| parse_request(bytes, LIMITS, Fields::default());
        let parsed = match parse(&head.text) {
            Ok(Some(parsed)) => parsed,
            Ok(None) => return Err(self.fault(head.len, "the head does not end with an empty line")),
            Err(fault) => {
                let hint = match before {
                    Some(before) if fault == Malformed::StartLine && before.body.is_empty() => {
                        "; the body of the request before needs Content-Length or chunks"
                    }
                    _ => "",
                };
                let at = position(&head.text, |bytes| parse(bytes).is_err());
                return Err(self.fault_in(&head, at, &format!("{fault}{hint}")));
            }
        };
        let place = format!("{}:{}", self.file, self.line_and_column(0).0);
        let mut recorded = Recorded::of_head(place, &head.text, &parsed);
        self.at += head.len;
        let body = match parsed.fields.content_length {
            _ if parsed.fields.chunked => Body::Chunked,
            length => Body::of_length(length.unwrap_or(0)),
        };
        recorded.body = self.body(body)?;
        Ok(recorded)
    }

    /// Reads a response; none for one before the final response.
    fn response(&mut self, answers_head: bool) -> anyhow::Result<Option<RecordedResponse>> {
        let head = self.head();
        let parse = |bytes: &[u8]| parse_response(bytes, Fields::default());
        let parsed = match parse(&head.text) {
            Ok(Some(parsed)) => parsed,
            Ok(None) => return Err(self.fault(head.len, "the head does not end with an empty line")),
            Err(fault) => {
                let at = position(&head.text, |bytes| parse(bytes).is_err());
                return Err(self.fault_in(&head, at, &fault.to_string()));
            }
        };
        self.at += head.len;
        let body = self.body(parsed.body(answers_head))?;
        let headers = headers(&parsed.fields, &head.text);
        Ok((!parsed.is_interim()).then_some(RecordedResponse { status: parsed.status, headers, body }))
    }

    /// The head of the next message, or the rest of the file if the head has no end.
    fn head(&self) -> Head<'f> {
        let rest = self.rest();
        let line_end = rest.iter().position(|&byte| byte == b'\n');
        let is_bare = line_end.is_some_and(|at| at > 0 && rest[at - 1] != b'\r');
        let end: &[u8] = if is_bare { b"\n\n" } else { b"\r\n\r\n" };
        let len = rest.windows(end.len()).position(|window| window == end).map(|at| at + end.len());
        let len = len.unwrap_or(rest.len());
        let text = &rest[..len];
        let text = if is_bare {
            Cow::Owned(text.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]))
        } else {
            Cow::Borrowed(text)
        };
        Head { text, len }
    }

    fn body(&mut self, body: Body) -> anyhow::Result<Vec<u8>> {
        let mut decoder = BodyDecoder::new(body);
        let mut content = Vec::new();
        loop {
            match decoder.decode(self.rest()) {
                Ok(Decoded::Data { skip, len }) => {
                    content.extend_from_slice(&self.rest()[skip..skip + len]);
                    self.at += skip + len;
                }
                Ok(Decoded::End { skip, .. }) => {
                    self.at += skip;
                    return Ok(content);
                }
                Ok(Decoded::More { skip }) => {
                    self.at += skip;
                    return match decoder.finish() {
                        Ok(()) => Ok(content),
                        Err(fault) => {
                            Err(self.fault(self.rest().len(), &format!("the body {fault}: the file is over")))
                        }
                    };
                }
                Err(fault) => return Err(self.fault(0, &format!("{fault} in the body"))),
            }
        }
    }

    /// Line and column, both from 1, so many bytes further on.
    fn line_and_column(&self, further: usize) -> (usize, usize) {
        let before = &self.bytes[..self.at + further];
        let line = line_ends(before) + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        (line, column)
    }

    fn fault(&self, further: usize, message: &str) -> anyhow::Error {
        let (line, column) = self.line_and_column(further);
        anyhow::anyhow!("{}:{line}:{column}: {message}", self.file)
    }

    /// A fault at an offset in a head.
    fn fault_in(&self, head: &Head<'_>, at: usize, message: &str) -> anyhow::Error {
        let added = match head.text {
            Cow::Owned(_) => line_ends(&head.text[..at]),
            Cow::Borrowed(_) => 0,
        };
        self.fault(at.saturating_sub(added).min(self.rest().len()), message)
    }
}

fn line_ends(text: &[u8]) -> usize {
    text.split(|&byte| byte == b'\n').count() - 1
}

/// The offset of the byte that decides on a fault: whatever follows it, the fault stays.
fn position(head: &[u8], is_faulty: impl Fn(&[u8]) -> bool) -> usize {
    let (mut good, mut bad) = (0, head.len());
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        if is_faulty(&head[..middle]) { bad = middle } else { good = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "POST /a?b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nq=1";

    fn fault(text: &str) -> String {
        read("a.http", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn messages_follow_one_another() {
        let response = "HTTP/1.1 103 X\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let chunked =
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        let last = "GET / HTTP/1.0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end";
        let text = format!("\r\n{FORM}\n\n{response}\r\n{chunked}{last}");
        let read = read("a.http", text.as_bytes()).unwrap();
        let places: Vec<_> = read.iter().map(|request| request.place.as_str()).collect();
        assert_eq!(places, ["a.http:2", "a.http:15", "a.http:25"]);
        assert_eq!(
            (&*read[0].method, &*read[0].target, &*read[0].body),
            (&b"POST"[..], &b"/a?b"[..], &b"q=1"[..])
        );
        assert_eq!(read[0].response.as_ref().map(|it| (it.status, &*it.body)), Some((200, &b"ok"[..])));
        assert_eq!((&*read[1].body, read[1].response.is_none()), (&b"abc"[..], true));
        assert_eq!((read[2].protocol, read[2].response.as_ref().unwrap().body.len()), ("HTTP/1.0", 10));
    }

    #[test]
    fn lines_may_end_as_editors_end_them() {
        let text = FORM.replace('\r', "") + "\nGET / HTTP/1.1\nHost: b\n\n";
        let read = read("a.http", text.as_bytes()).unwrap();
        assert_eq!((read.len(), &*read[0].body, &*read[1].host), (2, &b"q=1"[..], &b"b"[..]));
    }

    #[test]
    fn faults_have_their_places() {
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\nX y: 1\r\n\r\n".to_owned(), "a.http:3:2: malformed header name"),
            ("GET / HTTP/1.1\nHost: a\nX y: 1\n\n".to_owned(), "a.http:3:2: malformed header name"),
            ("GET / HTTP/1.1\r\nHost: a".to_owned(), "a.http:2:8: the head does not end with an empty line"),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "a.http:2:2: no Host"),
            (FORM.replace(": 3", ": 9"), "a.http:5:4: the body ended before its end: the file is over"),
            (
                FORM.replace("Content-Length", "X"),
                "a.http:5:2: malformed request or status line; the body of the request before needs \
                 Content-Length or chunks",
            ),
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), "a.http:1:1: a response without a request"),
            ("\r\n".to_owned(), "a.http: there is no request"),
        ] {
            assert_eq!(fault(&text), expected, "{text:?}");
        }
        let chunk = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
        assert_eq!(fault(chunk), "a.http:5:1: malformed chunk in the body");
    }
}
