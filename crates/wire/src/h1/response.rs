//! Response heads (RFC 9112 section 4).

use std::ops::Range;

use super::body::Body;
use super::head::Fields;
use super::malformed::Malformed;
use super::scan::{Scanner, Stop};
use super::version::Version;

/// A response head: positions in the buffer that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Length of the head, including the empty line.
    pub len: usize,
    /// Status code, of three digits.
    pub status: u16,
    /// Position of the reason phrase; it may be empty.
    pub reason: Range<usize>,
    /// The version in the status line.
    pub version: Version,
    /// Fields of the head.
    pub fields: Fields,
}

impl Response {
    /// Whether the connection can be used again once the body is read (RFC 9112 section 9.3).
    pub fn is_persistent(&self) -> bool {
        !self.fields.close && (self.version == Version::Http11 || self.fields.keep_alive)
    }

    /// Whether the status is 1xx: another response follows.
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// The body after the head (RFC 9112 section 6.3, in its order).
    pub fn body(&self, answers_head: bool) -> Body {
        if answers_head || self.is_interim() || self.status == 204 || self.status == 304 {
            return Body::Empty;
        }
        if self.fields.chunked {
            return Body::Chunked;
        }
        self.fields.content_length.map_or(Body::UntilClose, Body::of_length)
    }
}

/// Parses a response head at the front of `bytes`; none if it is incomplete. The memory of `fields` is
/// reused.
///
/// # Errors
/// The head is malformed, whatever bytes follow.
pub fn parse_response(bytes: &[u8], fields: Fields) -> Result<Option<Response>, Malformed> {
    let mut response = Response { fields, ..Response::default() };
    Ok(response.parse(bytes)?.then_some(response))
}

impl Response {
    /// Parses the response head at the front of `bytes` into `self`. Returns false if the head is incomplete;
    /// the contents of `self` are then unspecified.
    ///
    /// # Errors
    /// The head is malformed, whatever bytes follow.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        self.fields.clear();
        match self.scan(bytes) {
            Ok(()) => self.finish(bytes).map(|()| true),
            Err(Stop::Incomplete) => Ok(false),
            Err(Stop::Malformed(fault)) => Err(fault),
        }
    }

    /// Checks the framing once the fields are known. A 1xx or 204 must not have a `Content-Length` (RFC 9110
    /// section 8.6): clients of HTTP/2 would wait for the content, or reset the stream.
    fn finish(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.fields.check_framing(self.version)?;
        self.fields.drop_listed(bytes);
        if self.is_interim() || self.status == 204 {
            self.fields.drop_length();
        }
        Ok(())
    }

    /// Fills in the positions.
    fn scan(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut scanner = Scanner::new(bytes);
        scanner.skip_empty_lines()?;
        self.scan_line(&mut scanner)?;
        self.fields.scan(&mut scanner, bytes)?;
        self.len = scanner.position();
        Ok(())
    }

    fn scan_line(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Stop> {
        self.version = scanner.version()?;
        self.status = scanner.status()?;
        self.reason = scanner.reason()?;
        Ok(())
    }

    /// Reads the status line at the front of a head whose fields come from elsewhere.
    pub(crate) fn read_line(&mut self, head: &[u8]) -> Result<(), Malformed> {
        self.scan_line(&mut Scanner::new(head)).map_err(Malformed::from)
    }

    /// Checks the head once its line and its fields are known.
    pub(crate) fn settle(&mut self, head: &[u8]) -> Result<(), Malformed> {
        self.len = head.len();
        self.finish(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Known;

    fn parse(text: &str) -> Response {
        parse_response(text.as_bytes(), Fields::default()).unwrap().unwrap()
    }

    #[test]
    fn a_plain_response() {
        let text = "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
        let response = parse(text);
        assert_eq!((response.status, &text[response.reason.clone()]), (404, "Not Found"));
        assert_eq!(response.body(false), Body::Length(3));
        assert_eq!(response.body(true), Body::Empty);
        assert!(response.is_persistent());
    }

    #[test]
    fn the_phrase_may_be_missing() {
        for text in ["HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200 \r\n\r\n"] {
            assert_eq!(&text[parse(text).reason], "", "{text:?}");
        }
    }

    #[test]
    fn bodies_follow_the_rules_in_their_order() {
        for (head, body) in [
            ("204 No Content\r\nTransfer-Encoding: chunked", Body::Empty),
            ("304 Not Modified\r\nTransfer-Encoding: chunked", Body::Empty),
            ("100 Continue", Body::Empty),
            ("200 OK\r\nTransfer-Encoding: chunked", Body::Chunked),
            ("200 OK\r\nContent-Length: 0", Body::Empty),
            ("200 OK", Body::UntilClose),
        ] {
            assert_eq!(parse(&format!("HTTP/1.1 {head}\r\n\r\n")).body(false), body, "{head}");
        }
    }

    #[test]
    fn a_response_that_never_has_content_has_no_length() {
        for (status, length) in [(204, None), (103, None), (304, Some(5)), (200, Some(5))] {
            let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\nDate: now\r\n\r\n");
            let fields = parse(&text).fields;
            assert_eq!(fields.content_length, length, "{status}");
            assert_eq!(fields.find(Known::ContentLength).is_some(), length.is_some(), "{status}");
            assert_eq!(fields.find(Known::Date).unwrap().value(text.as_bytes()), b"now", "{status}");
        }
    }

    #[test]
    fn http_10_is_persistent_only_when_it_says_so() {
        assert!(!parse("HTTP/1.0 200 OK\r\n\r\n").is_persistent());
        assert!(parse("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n").is_persistent());
        assert!(!parse("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").is_persistent());
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for (head, why) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Malformed::ConflictingFraming,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Malformed::ContentLength),
            ("HTTP/1.1 200 OK\r\nX : 1\r\n\r\n", Malformed::SpaceBeforeColon),
            ("HTTP/1.1 200 OK\nX: 1\r\n\r\n", Malformed::BareLineFeed),
            ("HTTP/1.1 999 OK\r\n\r\n", Malformed::StartLine),
            ("HTTP/3.0 200 OK\r\n\r\n", Malformed::Version),
        ] {
            assert_eq!(parse_response(head.as_bytes(), Fields::default()), Err(why), "{head:?}");
        }
    }
}
