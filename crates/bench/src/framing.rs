//! Where an HTTP/1.1 body ends (RFC 9112 section 6), for the requests that the payload server reads and the
//! responses that the generator reads.
//!
//! It takes bytes and returns a verdict. Must not be in here: sockets, buffers that outlive a call, or
//! leniency: these programs have to notice a count that is off by one byte.

use httparse::Header;

/// Most headers of a message.
pub(crate) const HEADERS_MAX: usize = 100;

/// Longest head of a message, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The bytes are not valid HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub(crate) struct Malformed;

impl From<httparse::Error> for Malformed {
    fn from(_: httparse::Error) -> Malformed {
        Malformed
    }
}

/// The headers of a message that concern its body and connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Framing {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    /// The message has `Connection: close`.
    pub(crate) close: bool,
    /// `Connection: keep-alive`, which HTTP/1.0 needs.
    pub(crate) keep_alive: bool,
}

impl Framing {
    pub(crate) fn of(headers: &[Header]) -> Result<Framing, Malformed> {
        let mut framing = Framing::default();
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = decimal(header.value).ok_or(Malformed)?;
                if framing.length.replace(length).is_some_and(|earlier| earlier != length) {
                    return Err(Malformed);
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed);
                }
                framing.chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") {
                framing.close |= lists(header.value, b"close");
                framing.keep_alive |= lists(header.value, b"keep-alive");
            }
        }
        let ambiguous = framing.chunked && framing.length.is_some();
        if ambiguous { Err(Malformed) } else { Ok(framing) }
    }

    /// Whether the connection stays open after a message of HTTP/1.`minor`.
    pub(crate) fn persists(self, minor: u8) -> bool {
        !self.close && (minor >= 1 || self.keep_alive)
    }
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}

fn lists(value: &[u8], token: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|element| element.trim_ascii().eq_ignore_ascii_case(token))
}

/// The beginning of a head that is not complete.
#[derive(Debug, Default)]
pub(crate) struct PartialHead(Vec<u8>);

impl PartialHead {
    /// Has `parse` read the head, which `bytes` continue. `parse` returns its result and the length of the
    /// head once the head is complete. Returns the number of `bytes` that were taken, and the result. A head
    /// that arrives in one piece is not copied.
    pub(crate) fn feed<T>(
        &mut self,
        bytes: &[u8],
        parse: impl FnOnce(&[u8]) -> Result<Option<(T, usize)>, Malformed>,
    ) -> Result<(usize, Option<T>), Malformed> {
        if self.0.is_empty() {
            let head = parse(bytes)?;
            if head.is_none() {
                self.0.extend_from_slice(bytes);
            }
            return Ok(head.map_or((bytes.len(), None), |(head, length)| (length, Some(head))));
        }
        let earlier = self.0.len();
        self.0.extend_from_slice(bytes);
        match parse(&self.0)? {
            Some((head, length)) => {
                self.0.clear();
                Ok((length - earlier, Some(head)))
            }
            None if self.0.len() > HEAD_BYTES_MAX => Err(Malformed),
            None => Ok((bytes.len(), None)),
        }
    }
}

/// The rest of a body that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Number of bytes that are still to come.
    Length(u64),
    Chunked(Chunk),
    /// The body ends with the connection.
    UntilClose,
}

/// The state of a chunked body (RFC 9112 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// In a chunk size, with the value so far; none before the first digit.
    Size(Option<u64>),
    /// In an extension after the size, up to the end of the line.
    Extension(u64),
    /// At the line feed after the size.
    SizeEnd(u64),
    Data(u64),
    DataReturn,
    DataFeed,
    /// In a trailer line; whether it is empty so far.
    Trailer {
        empty: bool,
    },
    /// At the line feed after a trailer line; after an empty line the body has ended.
    TrailerEnd {
        last: bool,
    },
    Done,
}

impl Body {
    /// The initial state of a chunked body.
    pub(crate) const CHUNKED: Body = Body::Chunked(Chunk::Size(None));

    pub(crate) fn is_done(self) -> bool {
        matches!(self, Body::Length(0) | Body::Chunked(Chunk::Done))
    }

    /// Takes from the front of `bytes` what belongs to the body, passes its data to `sink`, and returns the
    /// number of bytes taken.
    pub(crate) fn take(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<usize, Malformed> {
        match self {
            Body::UntilClose => {
                sink(bytes);
                Ok(bytes.len())
            }
            Body::Length(left) => Ok(take_data(left, bytes, sink)),
            Body::Chunked(chunk) => {
                let mut used = 0;
                while *chunk != Chunk::Done && used < bytes.len() {
                    used += chunk.step(&bytes[used..], &mut sink)?;
                }
                Ok(used)
            }
        }
    }
}

impl Chunk {
    /// Takes one byte of syntax, or a run of data. `bytes` must not be empty.
    fn step(&mut self, bytes: &[u8], sink: impl FnMut(&[u8])) -> Result<usize, Malformed> {
        *self = match (*self, bytes[0]) {
            (Chunk::Data(mut left), _) => {
                let used = take_data(&mut left, bytes, sink);
                *self = if left == 0 { Chunk::DataReturn } else { Chunk::Data(left) };
                return Ok(used);
            }
            (Chunk::Size(Some(size)) | Chunk::Extension(size), b'\r') => Chunk::SizeEnd(size),
            (Chunk::Size(Some(size)), b';' | b' ' | b'\t') => Chunk::Extension(size),
            (Chunk::Size(size), digit) => Chunk::Size(Some(add_digit(size.unwrap_or(0), digit)?)),
            (Chunk::Extension(size), byte) if byte != b'\n' => Chunk::Extension(size),
            (Chunk::SizeEnd(0) | Chunk::TrailerEnd { last: false }, b'\n') => Chunk::Trailer { empty: true },
            (Chunk::SizeEnd(size), b'\n') => Chunk::Data(size),
            (Chunk::DataReturn, b'\r') => Chunk::DataFeed,
            (Chunk::DataFeed, b'\n') => Chunk::Size(None),
            (Chunk::Trailer { empty }, b'\r') => Chunk::TrailerEnd { last: empty },
            (Chunk::Trailer { .. }, byte) if byte != b'\n' => Chunk::Trailer { empty: false },
            (Chunk::TrailerEnd { last: true }, b'\n') => Chunk::Done,
            _ => return Err(Malformed),
        };
        Ok(1)
    }
}

fn take_data(left: &mut u64, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> usize {
    let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    sink(&bytes[..count]);
    *left -= count as u64;
    count
}

fn add_digit(size: u64, digit: u8) -> Result<u64, Malformed> {
    let digit = char::from(digit).to_digit(16).ok_or(Malformed)?;
    size.checked_mul(16).and_then(|size| size.checked_add(digit.into())).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a body and the bytes after it, if it is fed `step` bytes at a time.
    fn read(mut body: Body, mut bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>), Malformed> {
        let mut data = Vec::new();
        while !body.is_done() && !bytes.is_empty() {
            let window = &bytes[..step.min(bytes.len())];
            let used = body.take(window, |piece| data.extend_from_slice(piece))?;
            bytes = &bytes[used..];
        }
        assert!(body.is_done(), "ends early");
        Ok((data, bytes.to_vec()))
    }

    #[test]
    fn chunks_are_read_however_they_are_cut() {
        let bytes = b"4;name=value\r\nWiki\r\n00A \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nnext";
        for step in 1..bytes.len() {
            assert_eq!(read(Body::CHUNKED, bytes, step), Ok((b"Wiki0123456789".into(), b"next".into())));
        }
    }

    #[test]
    fn a_length_is_exact() {
        assert_eq!(read(Body::Length(3), b"abcde", 2), Ok((b"abc".into(), b"de".into())));
    }

    #[test]
    fn bad_chunks_are_refused() {
        for bytes in
            [&b"\r\n"[..], b"g\r\n", b"1\nx", b"1\r\nxy", b"1\r\nx\n", b"0\r\n\n", b"10000000000000000\r\n"]
        {
            assert_eq!(read(Body::CHUNKED, bytes, 64), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn headers_tell_the_framing() {
        let header = |name, value: &'static str| Header { name, value: value.as_bytes() };
        let length = Framing::of(&[header("content-LENGTH", "12")]);
        assert_eq!(length, Ok(Framing { length: Some(12), ..Framing::default() }));
        let closing =
            Framing::of(&[header("Connection", "foo, Close"), header("Transfer-Encoding", "chunked")]);
        assert_eq!(closing, Ok(Framing { chunked: true, close: true, ..Framing::default() }));
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let header = |name, value: &'static str| Header { name, value: value.as_bytes() };
        for headers in [
            &[header("Content-Length", "+1")][..],
            &[header("Content-Length", "")],
            &[header("Content-Length", "1"), header("Content-Length", "2")],
            &[header("Content-Length", "1"), header("Transfer-Encoding", "chunked")],
            &[header("Transfer-Encoding", "gzip")],
        ] {
            assert_eq!(Framing::of(headers), Err(Malformed));
        }
    }
}
