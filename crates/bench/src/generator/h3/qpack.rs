//! Field sections without a dynamic table (RFC 9204 section 4.5): requests are written, and of responses the
//! status and the length of the body are read.
//!
//! Must not be in here: frames of responses.

use bytes::Bytes;
use http::{Method, Request};

use super::{frame, varint};
use crate::framing::Malformed;

/// Number of entries of the static table (RFC 9204 appendix A).
const STATIC_ENTRIES: u64 = 99;
const STATIC_AUTHORITY: u64 = 0;
const STATIC_PATH: u64 = 1;
const STATIC_CONTENT_LENGTH: u64 = 4;
const STATIC_CONNECT: u64 = 15;
const STATIC_GET: u64 = 17;
const STATIC_POST: u64 = 20;
const STATIC_HTTP: u64 = 22;
const STATIC_HTTPS: u64 = 23;

/// The entries `:status` of the static table.
const STATUSES: [(u64, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];

/// The frames of a request: HEADERS, and DATA if it has a body.
pub(crate) fn request(head: &Request<()>, body: &[u8]) -> Bytes {
    // Without a dynamic table the required insert count and the base are 0.
    let mut fields = vec![0, 0];
    match *head.method() {
        Method::GET => indexed(STATIC_GET, &mut fields),
        Method::POST => indexed(STATIC_POST, &mut fields),
        _ => named(STATIC_CONNECT, head.method().as_str().as_bytes(), &mut fields),
    }
    let is_https = head.uri().scheme_str() == Some("https");
    indexed(if is_https { STATIC_HTTPS } else { STATIC_HTTP }, &mut fields);
    let authority = head.uri().authority().map_or("", |authority| authority.as_str());
    named(STATIC_AUTHORITY, authority.as_bytes(), &mut fields);
    let path = head.uri().path_and_query().map_or("/", |path| path.as_str());
    named(STATIC_PATH, path.as_bytes(), &mut fields);
    for (name, value) in head.headers() {
        literal(name.as_str().as_bytes(), value.as_bytes(), &mut fields);
    }
    let mut bytes = Vec::new();
    put_frame(frame::HEADERS, &fields, &mut bytes);
    if !body.is_empty() {
        put_frame(frame::DATA, body, &mut bytes);
    }
    bytes.into()
}

fn put_frame(kind: u64, payload: &[u8], bytes: &mut Vec<u8>) {
    varint::put(kind, bytes);
    varint::put(payload.len() as u64, bytes);
    bytes.extend_from_slice(payload);
}

/// An entry of the static table.
fn indexed(index: u64, fields: &mut Vec<u8>) {
    put_integer(0b1100_0000, 6, index, fields);
}

/// A value for a name of the static table.
fn named(index: u64, value: &[u8], fields: &mut Vec<u8>) {
    put_integer(0b0101_0000, 4, index, fields);
    put_integer(0, 7, value.len() as u64, fields);
    fields.extend_from_slice(value);
}

fn literal(name: &[u8], value: &[u8], fields: &mut Vec<u8>) {
    put_integer(0b0010_0000, 3, name.len() as u64, fields);
    fields.extend_from_slice(name);
    put_integer(0, 7, value.len() as u64, fields);
    fields.extend_from_slice(value);
}

/// An integer with a prefix of so many bits, after the bits of `pattern` (RFC 7541 section 5.1).
fn put_integer(pattern: u8, prefix_bits: u32, value: u64, bytes: &mut Vec<u8>) {
    let most = (1 << prefix_bits) - 1;
    if value < most {
        bytes.push(pattern | value as u8);
        return;
    }
    bytes.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// The fields of a response that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) status: Option<u16>,
    /// The value of `content-length`; none if it is missing.
    pub(super) length: Option<u64>,
}

impl Fields {
    /// Reads a whole field section.
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Fields, Malformed> {
        let bytes = &mut bytes;
        let required_insert_count = take_integer(bytes, 8)?;
        let _base = take_integer(bytes, 7)?;
        // The server was told that there is no dynamic table.
        if required_insert_count != 0 {
            return Err(Malformed);
        }
        let mut fields = Fields::default();
        while let Some(&first) = bytes.first() {
            match first {
                0b1100_0000.. => fields.take_indexed(take_integer(bytes, 6)?)?,
                0b0101_0000..=0b0101_1111 | 0b0111_0000..=0b0111_1111 => {
                    let index = take_integer(bytes, 4)?;
                    let value = take_string(bytes, 7)?;
                    fields.take_named(index, value)?;
                }
                0b0010_0000..=0b0011_1111 => {
                    let name = take_string(bytes, 3)?;
                    let value = take_string(bytes, 7)?;
                    fields.take_literal(name, value)?;
                }
                // An entry of the dynamic table.
                _ => return Err(Malformed),
            }
        }
        Ok(fields)
    }

    fn take_indexed(&mut self, index: u64) -> Result<(), Malformed> {
        if index >= STATIC_ENTRIES {
            return Err(Malformed);
        }
        if let Some((_, status)) = STATUSES.iter().find(|(entry, _)| *entry == index) {
            self.status = Some(*status);
        } else if index == STATIC_CONTENT_LENGTH {
            self.length = Some(0);
        }
        Ok(())
    }

    fn take_named(&mut self, index: u64, value: Text) -> Result<(), Malformed> {
        if index >= STATIC_ENTRIES {
            return Err(Malformed);
        }
        if STATUSES.iter().any(|(entry, _)| *entry == index) {
            self.take_status(value)?;
        } else if index == STATIC_CONTENT_LENGTH {
            self.length = Some(value.decimal()?);
        }
        Ok(())
    }

    /// A name in Huffman's code is none that counts: both are in the static table.
    fn take_literal(&mut self, name: Text, value: Text) -> Result<(), Malformed> {
        match (name.is_coded, name.bytes) {
            (false, b":status") => self.take_status(value)?,
            (false, b"content-length") => self.length = Some(value.decimal()?),
            _ => {}
        }
        Ok(())
    }

    fn take_status(&mut self, value: Text) -> Result<(), Malformed> {
        let status = value.decimal()?;
        self.status = Some(u16::try_from(status).ok().filter(|status| *status >= 100).ok_or(Malformed)?);
        Ok(())
    }
}

/// A string, which may be in Huffman's code.
#[derive(Clone, Copy)]
struct Text<'b> {
    is_coded: bool,
    bytes: &'b [u8],
}

impl Text<'_> {
    /// The number that the digits of the text make.
    fn decimal(self) -> Result<u64, Malformed> {
        let digits = if self.is_coded { decode_digits(self.bytes)? } else { self.bytes.to_vec() };
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok());
        number.filter(|_| is_number).ok_or(Malformed)
    }
}

/// Decodes digits in Huffman's code (RFC 7541 appendix B): five bits each for 0, 1 and 2, six for the others,
/// and ones after the last.
fn decode_digits(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let mut bits = &*bits;
    let mut digits = Vec::new();
    let value = |bits: &[u8]| bits.iter().fold(0, |value, bit| value << 1 | bit);
    while bits.len() >= 8 || bits.contains(&0) {
        let (digit, length) = match bits.get(..5).map(value) {
            Some(short @ 0..=2) => (short, 5),
            Some(_) => match bits.get(..6).map(value) {
                Some(long @ 25..=31) => (long - 22, 6),
                _ => return Err(Malformed),
            },
            None => return Err(Malformed),
        };
        digits.push(b'0' + digit);
        bits = &bits[length..];
    }
    Ok(digits)
}

fn take_string<'b>(bytes: &mut &'b [u8], prefix_bits: u32) -> Result<Text<'b>, Malformed> {
    let first = *bytes.first().ok_or(Malformed)?;
    let length = take_integer(bytes, prefix_bits)?;
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    let (string, rest) = bytes.split_at_checked(length).ok_or(Malformed)?;
    *bytes = rest;
    Ok(Text { is_coded: first >> prefix_bits & 1 == 1, bytes: string })
}

fn take_integer(bytes: &mut &[u8], prefix_bits: u32) -> Result<u64, Malformed> {
    let most = (1 << prefix_bits) - 1;
    let (first, mut rest) = bytes.split_first().ok_or(Malformed)?;
    let mut value = u64::from(*first) & most;
    if value == most {
        for shift in (0..=56).step_by(7) {
            let (next, after) = rest.split_first().ok_or(Malformed)?;
            rest = after;
            value = value.checked_add(u64::from(next & 0x7f) << shift).ok_or(Malformed)?;
            if next & 0x80 == 0 {
                *bytes = rest;
                return Ok(value);
            }
        }
        return Err(Malformed);
    }
    *bytes = rest;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_as(bytes: &[u8], status: u16, length: Option<u64>) {
        let fields = Ok(Fields { status: Some(status), length });
        assert_eq!(Fields::parse(bytes), fields, "{}", bytes.escape_ascii());
    }

    #[test]
    fn a_status_and_a_length_are_read_in_each_form() {
        // `:status: 200` of the static table, then its name with a value.
        reads_as(b"\0\0\xd9", 200, None);
        reads_as(b"\0\0\x5f\x09\x03418", 418, None);
        // The same value in Huffman's code: 011010 00001 011110 and seven ones.
        reads_as(b"\0\0\x5f\x09\x83\x68\x2f\x7f", 418, None);
        // Name and value in full, and `content-length` of the static table.
        reads_as(b"\0\0\x27\0:status\x03200\x54\x041024", 200, Some(1024));
        reads_as(b"\0\0\xd9\x27\x07content-length\x0212", 200, Some(12));
        reads_as(b"\0\0\xff\x08\xc4", 500, Some(0));
    }

    #[test]
    fn entries_of_a_dynamic_table_and_cut_sections_are_refused() {
        for bytes in [
            &b""[..],
            b"\0",
            b"\x02\0\xd9",
            b"\0\0\x80",
            b"\0\0\x10",
            b"\0\0\x00\x01x",
            b"\0\0\xff\x80",
            b"\0\0\xff\x24",
            b"\0\0\x5f\x09\x04200",
            b"\0\0\x5f\x09\x022x",
            b"\0\0\x5f\x09\x0299",
            b"\0\0\x54\x81\x50",
        ] {
            assert_eq!(Fields::parse(bytes), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_request_has_its_pseudo_headers_first() {
        let request_head = Request::builder()
            .method("PUT")
            .uri("https://a.test/x?y")
            .header("X-A", "b")
            .body(())
            .expect("a request");
        let bytes = request(&request_head, b"body");
        let section = b"\0\0\x5f\0\x03PUT\xd7\x50\x06a.test\x51\x04/x?y\x23x-a\x01b";
        let expected = [&[1, section.len() as u8][..], section, b"\0\x04body"].concat();
        assert_eq!(bytes, expected);
    }
}
