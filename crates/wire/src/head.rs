//! Heads from the header blocks of HTTP/2 and HTTP/3: decoded into the form of HTTP/1, text and positions,
//! without being parsed (RFC 9113 sections 8.2 and 8.3, RFC 8441 section 4, RFC 9114 sections 4.2 and 4.3).

use std::ops::Range;

use crate::block::{ends_line, ends_name, position};
use crate::compression::{BrokenBlock, Decoded, FieldDecoder, ListTooLarge, Token};
use crate::field::{Field, Known};
use crate::h1::{Malformed, Request, RequestLimits, Response};
use crate::priority::Priority;

/// The reason why a head is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// It breaks a rule of HTTP/2 and HTTP/3: the stream is reset (RFC 9113 section 8.1.1, RFC 9114 section
    /// 4.1.2).
    Broken,
    /// It breaks a rule that HTTP/1 has too, for which there is a response.
    Malformed(Malformed),
}

/// The result of reading a block: the fault of the connection, or of the head.
pub(crate) type Read<T> = Result<Result<T, HeadFault>, BrokenBlock>;

/// A header block that is to be read.
pub(crate) struct HeaderBlock<'b, D> {
    pub(crate) decoder: &'b mut D,
    pub(crate) bytes: &'b [u8],
    /// Bound of the fields, counted as RFC 9113 section 6.5.2 says.
    pub(crate) list_bytes_max: usize,
    /// No content follows.
    pub(crate) is_end: bool,
}

impl From<ListTooLarge> for HeadFault {
    fn from(_: ListTooLarge) -> Self {
        Self::Malformed(Malformed::HeadTooLarge)
    }
}

impl From<Malformed> for HeadFault {
    fn from(fault: Malformed) -> Self {
        Self::Malformed(fault)
    }
}

/// Positions of the pseudo-header fields of a request (RFC 9113 section 8.3.1), at the front of the text.
#[derive(Debug, Default)]
struct Pseudo {
    method: Option<Range<usize>>,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
    protocol: Option<Range<usize>>,
}

/// The head of a request while it is decoded.
struct RequestReader<'r> {
    request: &'r mut Request,
    pseudo: Pseudo,
    /// The request line has been written: fields follow.
    has_line: bool,
    opens_websocket: bool,
    has_length: bool,
    /// The value of `Cookie`. HTTP/2 may cut it into crumbs, HTTP/1 may not (RFC 9113 section 8.2.3).
    cookie: Vec<u8>,
    priority: Priority,
}

/// Reads the head of a request into `head`, which must be empty, and `request`. Returns its priority.
/// `websocket_key` makes the key with which an extended CONNECT becomes the `Upgrade` of RFC 6455.
pub(crate) fn read_request(
    block: HeaderBlock<'_, impl FieldDecoder>,
    limits: RequestLimits,
    websocket_key: impl FnOnce() -> String,
    head: &mut Vec<u8>,
    request: &mut Request,
) -> Read<Priority> {
    let HeaderBlock { decoder, bytes, list_bytes_max, is_end } = block;
    request.fields.clear();
    let mut reader = RequestReader {
        request,
        pseudo: Pseudo::default(),
        has_line: false,
        opens_websocket: false,
        has_length: false,
        cookie: Vec::new(),
        priority: Priority::default(),
    };
    let decoded = decoder.decode(bytes, list_bytes_max, head, |head, field| reader.note(head, field))?;
    Ok(decoded.and_then(|()| reader.finish(head, is_end, limits, websocket_key)))
}

impl RequestReader<'_> {
    fn note(&mut self, head: &mut Vec<u8>, field: Decoded) -> Result<(), HeadFault> {
        check(&field)?;
        let known = match field.token {
            Token::Field(known) => known,
            Token::Cookie => Known::Other,
            pseudo => return self.note_pseudo(pseudo, field.value),
        };
        let mut field = field;
        if !self.has_line {
            let before = field.name.start;
            let now = self.write_line(head, before)?;
            for range in [&mut field.name, &mut field.value] {
                *range = range.start - before + now..range.end - before + now;
            }
        }
        let value = &head[field.value.clone()];
        match known {
            Known::Host => match self.request.fields.find(Known::Host) {
                // RFC 9113 section 8.3.1: a server should treat a request as malformed if the two differ.
                Some(first) if !value.eq_ignore_ascii_case(first.value(head)) => {
                    return Err(Malformed::DuplicateHost.into());
                }
                Some(_) if self.pseudo.authority.is_some() => {
                    head.truncate(field.name.start);
                    return Ok(());
                }
                _ => {}
            },
            Known::ContentLength => self.has_length = true,
            Known::Te if value != b"trailers" => return Err(HeadFault::Broken),
            Known::Other if matches!(field.token, Token::Cookie) => {
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(value);
                head.truncate(field.name.start);
                return Ok(());
            }
            Known::Other if &head[field.name.clone()] == b"priority" => {
                self.priority = Priority::parse(value);
            }
            _ if is_forbidden(known) => return Err(HeadFault::Broken),
            _ => {}
        }
        Ok(self.request.fields.push(field_of(known, field), head)?)
    }

    fn note_pseudo(&mut self, token: Token, value: Range<usize>) -> Result<(), HeadFault> {
        let pseudo = &mut self.pseudo;
        let place = match token {
            Token::Method => &mut pseudo.method,
            Token::Scheme => &mut pseudo.scheme,
            Token::Authority => &mut pseudo.authority,
            Token::Path => &mut pseudo.path,
            Token::Protocol => &mut pseudo.protocol,
            _ => return Err(HeadFault::Broken),
        };
        if self.has_line || place.replace(value).is_some() {
            return Err(HeadFault::Broken);
        }
        Ok(())
    }

    /// Puts the request line and `Host` in the place of the pseudo-header fields, which are the first
    /// `pseudo_len` bytes of `head`. Returns the position of what follows them.
    fn write_line(&mut self, head: &mut Vec<u8>, pseudo_len: usize) -> Result<usize, HeadFault> {
        self.has_line = true;
        let line_start = head.len();
        let pseudo = &self.pseudo;
        let method = pseudo.method.clone().ok_or(HeadFault::Broken)?;
        let is_connect = &head[method.clone()] == b"CONNECT";
        if pseudo.protocol.is_some() && !is_connect {
            return Err(HeadFault::Broken);
        }
        self.opens_websocket =
            pseudo.protocol.clone().is_some_and(|protocol| &head[protocol] == b"websocket");
        let is_plain_connect = is_connect && pseudo.protocol.is_none();
        let target = if is_plain_connect { &pseudo.authority } else { &pseudo.path };
        let target = target.clone().filter(|target| !target.is_empty()).ok_or(HeadFault::Broken)?;
        if is_plain_connect == pseudo.scheme.is_some() || is_plain_connect && pseudo.path.is_some() {
            return Err(HeadFault::Broken);
        }
        // RFC 9113 section 8.3.1: a path. An authority in it would take the place of `:authority`.
        if !is_plain_connect && !matches!(head[target.clone()][..], [b'/', ..] | [b'*']) {
            return Err(Malformed::StartLine.into());
        }
        if is_connect && pseudo.protocol.is_some() && !self.opens_websocket {
            return Err(Malformed::Upgrade.into());
        }
        if self.opens_websocket {
            head.extend_from_slice(b"GET");
        } else {
            head.extend_from_within(method);
        }
        head.push(b' ');
        head.extend_from_within(target);
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let host_start = head.len() - line_start;
        if let Some(authority) = pseudo.authority.clone() {
            head.extend_from_slice(b"host: ");
            head.extend_from_within(authority);
            head.extend_from_slice(b"\r\n");
        }
        let line_len = head.len() - line_start;
        move_to_front(head, pseudo_len, line_start);
        self.request.read_line(&head[..line_len]).map_err(|_| Malformed::StartLine)?;
        if pseudo.authority.is_some() {
            let name = host_start..host_start + b"host".len();
            let value = name.end + 2..line_len - 2;
            self.request.fields.push(field(Known::Host, name, value, true), head)?;
        }
        Ok(line_len)
    }

    fn finish(
        mut self,
        head: &mut Vec<u8>,
        is_end: bool,
        limits: RequestLimits,
        websocket_key: impl FnOnce() -> String,
    ) -> Result<Priority, HeadFault> {
        if !self.has_line {
            let pseudo_len = head.len();
            self.write_line(head, pseudo_len)?;
        }
        let fields = &mut self.request.fields;
        if !self.cookie.is_empty() {
            fields.push(add(Known::Other, b"cookie", &self.cookie, head), head)?;
        }
        if self.opens_websocket {
            let key = websocket_key();
            fields.push(add(Known::Connection, b"connection", b"upgrade", head), head)?;
            fields.push(add(Known::Upgrade, b"upgrade", b"websocket", head), head)?;
            let name = b"sec-websocket-key";
            fields.push(add(Known::of(name), name, key.as_bytes(), head), head)?;
        } else if !is_end && !self.has_length {
            let name = b"transfer-encoding";
            fields.push(add(Known::TransferEncoding, name, b"chunked", head), head)?;
        }
        head.extend_from_slice(b"\r\n");
        self.request.settle(head, limits)?;
        Ok(self.priority)
    }
}

/// Moves the end of a text, from `end_start` on, to its front, where `front_len` bytes are dropped for it.
fn move_to_front(text: &mut Vec<u8>, front_len: usize, end_start: usize) {
    let end_len = text.len() - end_start;
    if end_len > front_len {
        text[front_len..].rotate_right(end_len);
        text.drain(..front_len);
        return;
    }
    text.copy_within(end_start.., 0);
    text.copy_within(front_len..end_start, end_len);
    text.truncate(end_start - front_len + end_len);
}

/// Appends a line to a head.
fn add(known: Known, name: &[u8], value: &[u8], head: &mut Vec<u8>) -> Field {
    let start = head.len();
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
    let name = start..start + name.len();
    field(known, name.clone(), name.end + 2..name.end + 2 + value.len(), true)
}

/// Adds a field to the end of a whole head, which has been read into `request`.
///
/// # Errors
/// There are too many fields.
pub fn append_field(
    name: &[u8],
    value: &[u8],
    head: &mut Vec<u8>,
    request: &mut Request,
) -> Result<(), Malformed> {
    head.truncate(request.len.saturating_sub(2));
    request.fields.push(add(Known::of(name), name, value, head), head)?;
    head.extend_from_slice(b"\r\n");
    request.len = head.len();
    Ok(())
}

/// The positions of a decoded field.
fn field_of(known: Known, decoded: Decoded) -> Field {
    field(known, decoded.name, decoded.value, decoded.is_plain_name)
}

/// The positions of a line that begins with the name and ends with CRLF after the value.
fn field(known: Known, name: Range<usize>, value: Range<usize>, plain_name: bool) -> Field {
    // A value without bytes is where the white space before it begins, as when it is parsed.
    let blank = usize::from(value.is_empty());
    Field {
        start: name.start as u32,
        end: value.end as u32 + 2,
        name_len: name.len() as u16,
        known,
        plain_name,
        value_start: (value.start - blank) as u32,
        value_end: (value.end - blank) as u32,
    }
}

/// Checks that a field can be one of HTTP/1.
fn check(field: &Decoded) -> Result<(), HeadFault> {
    if !field.name_is_valid || !field.value_is_valid {
        return Err(HeadFault::Broken);
    }
    // The length of a longer name has no room among the positions, as when it is parsed.
    if field.name.len() > usize::from(u16::MAX) {
        return Err(Malformed::HeadTooLarge.into());
    }
    Ok(())
}

/// Reads the head of a response into `head`, which must be empty, and `response`.
pub(crate) fn read_response(
    block: HeaderBlock<'_, impl FieldDecoder>,
    head: &mut Vec<u8>,
    response: &mut Response,
) -> Read<()> {
    let HeaderBlock { decoder, bytes, list_bytes_max, is_end } = block;
    response.fields.clear();
    response.status = 0;
    let mut has_length = false;
    let decoded = decoder.decode(bytes, list_bytes_max, head, |head, field| {
        check(&field)?;
        let known = match field.token {
            Token::Field(known) => known,
            Token::Cookie => Known::Other,
            Token::Status if response.status == 0 => {
                let line = field.name.start;
                // The status line takes the place of the field.
                let status = <[u8; 3]>::try_from(&head[field.value]).map_err(|_| HeadFault::Broken)?;
                head.truncate(line);
                head.extend_from_slice(b"HTTP/1.1 ");
                head.extend_from_slice(&status);
                head.extend_from_slice(b" \r\n");
                return Ok(response.read_line(head)?);
            }
            _ => return Err(HeadFault::Broken),
        };
        if response.status == 0 || is_forbidden(known) {
            return Err(HeadFault::Broken);
        }
        has_length |= known == Known::ContentLength;
        Ok(response.fields.push(field_of(known, field), head)?)
    })?;
    Ok(decoded.and_then(|()| {
        // RFC 9113 section 8.6: there is no 101.
        if matches!(response.status, 0 | 101) {
            return Err(HeadFault::Broken);
        }
        if !is_end && !has_length && response.status >= 200 {
            let field = add(Known::TransferEncoding, b"transfer-encoding", b"chunked", head);
            response.fields.push(field, head)?;
        }
        head.extend_from_slice(b"\r\n");
        Ok(response.settle(head)?)
    }))
}

/// Reads trailers as lines. Fields that frame or route a message are not allowed (RFC 9110 section 6.5.1),
/// and are left out.
pub(crate) fn read_trailers(block: HeaderBlock<'_, impl FieldDecoder>, lines: &mut Vec<u8>) -> Read<()> {
    let HeaderBlock { decoder, bytes, list_bytes_max, .. } = block;
    decoder.decode(bytes, list_bytes_max, lines, |lines, field| {
        match field.token {
            _ if !field.name_is_valid || !field.value_is_valid => return Err(HeadFault::Broken),
            Token::Field(Known::Other) => {}
            Token::Field(_) | Token::Cookie => lines.truncate(field.name.start),
            _ => return Err(HeadFault::Broken),
        }
        Ok(())
    })
}

/// The fields of a head or of trailers in the form of HTTP/1, without those that HTTP/2 has no use for (RFC
/// 9113 section 8.2.2, RFC 8441 section 5). A start line is skipped.
pub fn lines(head: &[u8]) -> impl Iterator<Item = (Known, &[u8], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < head.len() {
            let start = at;
            let colon = position(head, start, ends_name);
            let end = position(head, colon, ends_line);
            at = end + 1;
            let (name, value) = (&head[start..colon], head.get(colon + 1..end).unwrap_or_default());
            // A start line has a space before its first colon, if it has one.
            if head.get(colon) != Some(&b':') {
                continue;
            }
            let known = Known::of(name);
            if !is_forbidden(known) && !name.eq_ignore_ascii_case(b"sec-websocket-accept") {
                return Some((known, name, value.trim_ascii()));
            }
        }
        None
    })
}

/// Whether a field concerns an HTTP/1 connection (RFC 9113 section 8.2.2).
fn is_forbidden(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade
    )
}
