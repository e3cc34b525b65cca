//! The head of an application's response (RFC 3875 section 6), as HTTP/1.

use super::record::InvalidRecord;

/// Fields about the connection, which is another than the application's, and the status, which is forwarded
/// separately.
const DROPPED: &[&[u8]] = &[b"status", b"connection", b"transfer-encoding", b"upgrade"];

/// Searches for the end of a head. Each byte is examined once, however many pieces the head arrives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadEnd {
    /// The offset of the last line.
    line: usize,
    scanned: usize,
}

impl HeadEnd {
    /// Length of the head at the front of `bytes`, with its empty line; none if it is incomplete, in which
    /// case further bytes are appended to the same bytes. Lines may end with or without CR.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(at) = memchr::memchr(b'\n', &bytes[self.scanned..]) {
            let end = self.scanned + at;
            let is_empty = matches!(&bytes[self.line..end], [] | [b'\r']);
            (self.line, self.scanned) = (end + 1, end + 1);
            if is_empty {
                return Some(end + 1);
            }
        }
        self.scanned = bytes.len();
        None
    }
}

/// Appends the head in the form of HTTP/1. The status is that of `Status`, 302 with a `Location`, and 200
/// otherwise. The parser of HTTP/1 checks the contents of the lines.
///
/// # Errors
/// The status is not that of a final response.
pub fn write_response_head(head: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidRecord> {
    let value_of = |wanted: &[u8]| {
        lines(head).find_map(|line| {
            let (name, value) = split(line)?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim_ascii())
        })
    };
    let status: &[u8] = match value_of(b"status") {
        Some(status) => status,
        None if value_of(b"location").is_some() => b"302 Moved Temporarily",
        None => b"200 OK",
    };
    let is_final = |code: &[u8]| code[0] >= b'2' && code.iter().all(u8::is_ascii_digit);
    let (code, reason) = status.split_at_checked(3).ok_or(InvalidRecord)?;
    if !is_final(code) || !matches!(reason, [] | [b' ', ..]) {
        return Err(InvalidRecord);
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status);
    out.extend_from_slice(b"\r\n");
    for line in lines(head) {
        let is_dropped = split(line).is_some_and(|(name, _)| {
            DROPPED.iter().any(|dropped| name.trim_ascii_end().eq_ignore_ascii_case(dropped))
        });
        if !is_dropped {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The lines before the empty one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty())
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((&line[..colon], &line[colon + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::h1::{Fields, parse_response};

    fn written(head: &str) -> Result<String, InvalidRecord> {
        let mut out = Vec::new();
        write_response_head(head.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_end_is_an_empty_line() {
        for (text, len) in [
            ("A: b\r\n\r\nbody", Some(8)),
            ("A: b\n\nbody", Some(6)),
            ("A: b\r\n\nbody", Some(7)),
            ("\nbody", Some(1)),
            ("A: b\r\n\r", None),
            ("A: b\n", None),
            ("", None),
        ] {
            assert_eq!(HeadEnd::default().find(text.as_bytes()), len, "{text:?}");
            let mut end = HeadEnd::default();
            let by_bytes = (0..=text.len()).find_map(|to| end.find(&text.as_bytes()[..to]));
            assert_eq!(by_bytes, len, "{text:?}, byte by byte");
        }
    }

    #[test]
    fn the_status_is_what_the_application_says() {
        for (head, line) in [
            ("Status: 404 Not Found\r\nA: b\r\n\r\n", "HTTP/1.1 404 Not Found"),
            ("A: b\nstatus:503\n\n", "HTTP/1.1 503"),
            ("Status: 201 Created\r\nLocation: /a\r\nStatus: 500\r\n\r\n", "HTTP/1.1 201 Created"),
            ("Location: /a\r\n\r\n", "HTTP/1.1 302 Moved Temporarily"),
            ("\r\n", "HTTP/1.1 200 OK"),
        ] {
            let text = written(head).unwrap();
            assert_eq!(text.lines().next(), Some(line), "{head:?}");
            assert!(!text.to_ascii_lowercase().contains("status"), "{text:?}");
        }
        for status in ["100 Continue", "101", "20", "2000", "abc", "", "20x"] {
            assert_eq!(written(&format!("Status: {status}\r\n\r\n")), Err(InvalidRecord), "{status:?}");
        }
    }

    #[test]
    fn what_is_said_of_connections_is_left_out() {
        let head = "X-A: 1\nConnection: X-A\nTransfer-Encoding: chunked\nUpgrade: x\nContent-Length: 3\n\n";
        assert_eq!(written(head).unwrap(), "HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 3\r\n\r\n");
    }

    /// No line becomes a second head, or a field that the first parser did not see.
    #[test]
    fn a_line_cannot_hold_another() {
        for head in ["A: b\rC: d\r\n\r\n", "A: b\n C: d\n\n", "A b\n\n", "A : b\n\n", "Status: 200 a\rb\n\n"]
        {
            let text = written(head).unwrap();
            assert!(parse_response(text.as_bytes(), Fields::default()).is_err(), "{head:?}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(head in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut out = Vec::new();
            if write_response_head(&head, &mut out).is_ok() {
                let _ = parse_response(&out, Fields::default());
            }
        }
    }
}
