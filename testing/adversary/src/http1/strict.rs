//! Requests, read as RFC 9112 has them and in no other way.
//!
//! What a sender may write is taken; what a lenient recipient might repair is malformed.

/// A request as it was framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method of the request.
    pub method: String,
    /// The target, as it came.
    pub target: String,
    /// Names in lower case, and values without the space around them.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// The bytes that all of it took.
    pub bytes: usize,
}

/// The bytes behind the complete requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// No further bytes.
    Nothing,
    /// The beginning of a request.
    Incomplete,
    /// A malformed request, and the reason.
    Malformed(&'static str),
}

/// The framing of the body behind a head.
enum Framing {
    Length(usize),
    Chunked,
}

/// Why there is no request.
enum Stop {
    Incomplete,
    Malformed(&'static str),
}

type Read<T> = Result<T, Stop>;

/// Reads all requests there are.
pub fn read_all(bytes: &[u8]) -> (Vec<Request>, Rest) {
    let (mut requests, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        match read(rest) {
            Ok(request) => {
                rest = &rest[request.bytes..];
                requests.push(request);
            }
            Err(Stop::Incomplete) => return (requests, Rest::Incomplete),
            Err(Stop::Malformed(why)) => return (requests, Rest::Malformed(why)),
        }
    }
    (requests, Rest::Nothing)
}

fn read(bytes: &[u8]) -> Read<Request> {
    let mut reader = Reader { bytes, at: 0 };
    // "A server that is expecting to receive and parse a request-line SHOULD ignore at least one empty line
    // (CRLF) received prior to the request-line" (RFC 9112 section 2.2): no request, and no harm.
    let line = loop {
        match reader.line()? {
            [] => {}
            line => break line,
        }
    };
    let (method, target, is_old) = request_line(line)?;
    let fields = reader.fields()?;
    let hosts = fields.iter().filter(|(name, _)| name == "host").count();
    if hosts > 1 || (hosts == 0 && !is_old) {
        return Err(Stop::Malformed("not one Host"));
    }
    let framing = framing(&fields, is_old)?;
    let body = match framing {
        Framing::Length(len) => reader.take(len)?.to_vec(),
        Framing::Chunked => reader.chunks()?,
    };
    Ok(Request { method, target, fields, body, bytes: reader.at })
}

fn request_line(line: &[u8]) -> Read<(String, String, bool)> {
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let &[method, target, version] = &parts[..] else { return Err(Stop::Malformed("no request line")) };
    let is_visible = |byte: &u8| matches!(byte, 0x21..=0x7e | 0x80..);
    if !is_token(method) || target.is_empty() || !target.iter().all(is_visible) {
        return Err(Stop::Malformed("no method, or no target"));
    }
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return Err(Stop::Malformed("no version"));
    }
    // A character for each byte, whatever it is.
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    Ok((text(method), text(target), version.ends_with(b"0")))
}

/// RFC 9112 section 6.3, where a request that is framed twice is an attack.
fn framing(fields: &[(String, Vec<u8>)], is_old: bool) -> Read<Framing> {
    let values = |wanted: &str| {
        let named = fields.iter().filter(|(name, _)| name == wanted);
        named.map(|(_, value)| value.as_slice()).collect::<Vec<_>>()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Framing::Length(0)),
        ([length], []) if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
            length.map(Framing::Length).ok_or(Stop::Malformed("a length beyond bounds"))
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && !is_old => Ok(Framing::Chunked),
        _ => Err(Stop::Malformed("framed twice, or in no way that is known")),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Up to the next CRLF, without it. Neither CR nor LF may stand alone.
    fn line(&mut self) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).ok_or(Stop::Incomplete)?;
        match rest[end..] {
            [b'\r', b'\n', ..] => {
                self.at += end + 2;
                Ok(&rest[..end])
            }
            [b'\r'] => Err(Stop::Incomplete),
            _ => Err(Stop::Malformed("CR or LF alone")),
        }
    }

    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or(Stop::Incomplete)?;
        self.at += len;
        Ok(taken)
    }

    fn fields(&mut self) -> Read<Vec<(String, Vec<u8>)>> {
        let mut fields = Vec::new();
        loop {
            match self.line()? {
                [] => return Ok(fields),
                line => fields.push(field(line)?),
            }
        }
    }

    fn chunks(&mut self) -> Read<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let (size, extension) =
                line.split_at(line.iter().position(|byte| *byte == b';').unwrap_or(line.len()));
            // Space is allowed before an extension, and nowhere else (RFC 9112 section 7.1.1).
            let size = if extension.is_empty() { size } else { size.trim_ascii_end() };
            let is_size = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
            if !is_size || !is_text(extension) {
                return Err(Stop::Malformed("no chunk size"));
            }
            let size = std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
            let size = size.ok_or(Stop::Malformed("a chunk size beyond bounds"))?;
            if size == 0 {
                self.fields()?;
                return Ok(body);
            }
            body.extend_from_slice(self.take(size)?);
            if !self.line()?.is_empty() {
                return Err(Stop::Malformed("no end of a chunk"));
            }
        }
    }
}

fn field(line: &[u8]) -> Read<(String, Vec<u8>)> {
    let colon =
        line.iter().position(|byte| *byte == b':').ok_or(Stop::Malformed("a field without a colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) || !is_text(value) {
        return Err(Stop::Malformed("bytes that no field may have"));
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.trim_ascii().to_vec()))
}

fn is_token(bytes: &[u8]) -> bool {
    let is_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_char)
}

/// Visible characters, spaces, tabs, and what is beyond ASCII.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\nPOST /x HTTP/1.1\r\nhost:b \r\nTransfer-Encoding: chunked\r\n\r\n\
                     3;x\r\nabc\r\n0\r\nT: 1\r\n\r\nGET /";
        let (requests, rest) = read_all(text);
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[1].target.as_str(), requests[1].body.as_slice()), ("/x", &b"abc"[..]));
        assert_eq!(rest, Rest::Incomplete);
    }

    #[test]
    fn what_two_may_read_differently_is_malformed() {
        for fields in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +1\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "X: a\r\n b\r\n",
            "X: a\nY: b\r\n",
            "Content-Length : 1\r\n",
        ] {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n");
            let (requests, rest) = read_all(text.as_bytes());
            assert!(requests.is_empty() && matches!(rest, Rest::Malformed(_)), "{fields:?}");
        }
    }
}
