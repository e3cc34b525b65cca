//! Range requests (RFC 9110 section 14): the requested bytes, and the heads of the responses.

/// The most ranges in one request; a request with more gets the whole representation.
pub const RANGES_MAX: usize = 16;

/// Bytes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
}

impl ByteRange {
    /// The number of bytes; never 0.
    #[expect(clippy::len_without_is_empty, reason = "no range is empty")]
    pub fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

/// The result of a `Range` for a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// The field is ignored: 200 with the whole representation.
    Whole,
    /// Status 206 with these bytes.
    One(ByteRange),
    /// Status 206 as `multipart/byteranges`, in this order.
    Several(Box<[ByteRange]>),
    /// No part of the representation is requested: status 416.
    Unsatisfiable,
}

/// Parses the value of a `Range` for a representation of `length` bytes. A value that is malformed, of
/// another unit, or requests more than the whole, is ignored, as section 14.2 allows.
pub fn parse(value: &[u8], length: u64) -> Ranges {
    let Some(set) = strip_unit(value) else { return Ranges::Whole };
    let mut ranges = Vec::new();
    let mut asked = 0;
    for spec in set.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty()) {
        asked += 1;
        match parse_spec(spec, length) {
            Some(Spec::Inside(range)) if asked <= RANGES_MAX => ranges.push(range),
            Some(Spec::Outside) if asked <= RANGES_MAX => {}
            _ => return Ranges::Whole,
        }
    }
    let wanted = ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.len()));
    match ranges.as_slice() {
        [] if asked == 0 => Ranges::Whole,
        [] => Ranges::Unsatisfiable,
        [range] => Ranges::One(*range),
        _ if wanted >= length => Ranges::Whole,
        _ => Ranges::Several(ranges.into()),
    }
}

fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// A well-formed element.
enum Spec {
    Inside(ByteRange),
    /// The representation has no byte of the range.
    Outside,
}

/// One element; none if it is malformed.
fn parse_spec(spec: &[u8], length: u64) -> Option<Spec> {
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    let (first, last) = if first.is_empty() {
        let wanted = number(last)?;
        // A suffix of no bytes begins after the last one.
        (if wanted == 0 { length } else { length.saturating_sub(wanted) }, u64::MAX)
    } else {
        (number(first)?, if last.is_empty() { u64::MAX } else { number(last)? })
    };
    if last < first {
        return None;
    }
    let is_inside = first < length;
    Some(if is_inside {
        Spec::Inside(ByteRange { first, last: last.min(length - 1) })
    } else {
        Spec::Outside
    })
}

/// Appends the value of `Content-Range` for a part.
pub fn write_content_range(range: ByteRange, length: u64, out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    out.extend(b"bytes ");
    out.extend(digits.format(range.first).as_bytes());
    out.push(b'-');
    out.extend(digits.format(range.last).as_bytes());
    out.push(b'/');
    out.extend(digits.format(length).as_bytes());
}

/// Appends the value of `Content-Range` for a response with status 416.
pub fn write_unsatisfiable(length: u64, out: &mut Vec<u8>) {
    out.extend(b"bytes */");
    out.extend(itoa::Buffer::new().format(length).as_bytes());
}

/// A body of several parts (section 14.6). The boundary consists of up to 70 random letters and digits, so
/// that it does not occur in the content.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    /// The text between the parts.
    pub boundary: &'a str,
    /// `Content-Type` of the whole representation; none if it has no type.
    pub content_type: Option<&'a [u8]>,
    /// Bytes of the whole representation.
    pub length: u64,
}

impl Multipart<'_> {
    /// Appends the value of `Content-Type` for the multipart body.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend(b"multipart/byteranges; boundary=");
        out.extend(self.boundary.as_bytes());
    }

    /// Appends the bytes before the content of a part.
    pub fn write_part_head(&self, range: ByteRange, out: &mut Vec<u8>) {
        out.extend(b"\r\n--");
        out.extend(self.boundary.as_bytes());
        if let Some(content_type) = self.content_type {
            out.extend(b"\r\nContent-Type: ");
            out.extend(content_type);
        }
        out.extend(b"\r\nContent-Range: ");
        write_content_range(range, self.length, out);
        out.extend(b"\r\n\r\n");
    }

    /// Appends the bytes after the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend(b"\r\n--");
        out.extend(self.boundary.as_bytes());
        out.extend(b"--\r\n");
    }

    /// Length of the body, including the content of the parts.
    pub fn content_length(&self, ranges: &[ByteRange]) -> u64 {
        let mut heads = Vec::new();
        for range in ranges {
            self.write_part_head(*range, &mut heads);
        }
        self.write_end(&mut heads);
        heads.len() as u64 + ranges.iter().map(|range| range.len()).sum::<u64>()
    }
}

/// Parses digits, and nothing else; a number that is too large counts as the largest number.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, digit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(first: u64, last: u64) -> Ranges {
        Ranges::One(ByteRange { first, last })
    }

    fn several(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Several(ranges.iter().map(|&(first, last)| ByteRange { first, last }).collect())
    }

    /// Ranges of a representation of 10 bytes (RFC 9110 sections 14.1.2 and 14.2).
    #[test]
    fn ranges_of_ten_bytes() {
        for (value, expected) in [
            ("bytes=0-0", one(0, 0)),
            ("bytes=0-1", one(0, 1)),
            ("BYTES=0-1", one(0, 1)),
            ("bytes=9-", one(9, 9)),
            ("bytes=0-", one(0, 9)),
            ("bytes=5-100", one(5, 9)),
            ("bytes=5-99999999999999999999999", one(5, 9)),
            ("bytes=-1", one(9, 9)),
            ("bytes=-10", one(0, 9)),
            ("bytes=-99999999999999999999999", one(0, 9)),
            ("bytes= 1-2 ", one(1, 2)),
            ("bytes=,1-2,,", one(1, 2)),
            ("bytes=0-1,10-", one(0, 1)),
            ("bytes=0-1, 8-9", several(&[(0, 1), (8, 9)])),
            ("bytes=8-9,0-1", several(&[(8, 9), (0, 1)])),
            ("bytes=10-", Ranges::Unsatisfiable),
            ("bytes=10-20,30-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999-", Ranges::Unsatisfiable),
            // Malformed values, and values of another unit.
            ("", Ranges::Whole),
            ("bytes", Ranges::Whole),
            ("bytes=", Ranges::Whole),
            ("bytes=,", Ranges::Whole),
            ("bytes=-", Ranges::Whole),
            ("bytes=1", Ranges::Whole),
            ("bytes=2-1", Ranges::Whole),
            ("bytes=a-b", Ranges::Whole),
            ("bytes=+1-2", Ranges::Whole),
            ("bytes=0-1-2", Ranges::Whole),
            ("bytes=0-1,x", Ranges::Whole),
            ("bytes 0-1", Ranges::Whole),
            ("bytes =0-1", Ranges::Whole),
            ("items=0-1", Ranges::Whole),
            // Ranges of the whole representation, or more: an attack that multiplies the response (RFC 9110
            // section 17.15).
            ("bytes=0-,0-", Ranges::Whole),
            ("bytes=0-4,5-9", Ranges::Whole),
        ] {
            assert_eq!(parse(value.as_bytes(), 10), expected, "{value:?}");
        }
    }

    #[test]
    fn nothing_of_an_empty_representation_can_be_had() {
        for value in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            assert_eq!(parse(value.as_bytes(), 0), Ranges::Unsatisfiable, "{value}");
        }
    }

    #[test]
    fn there_may_be_so_many_and_no_more() {
        let ranges = |count: usize| format!("bytes={}", vec!["1-1"; count].join(","));
        let wanted = vec![(1, 1); RANGES_MAX];
        assert_eq!(parse(ranges(RANGES_MAX).as_bytes(), 1000), several(&wanted));
        assert_eq!(parse(ranges(RANGES_MAX + 1).as_bytes(), 1000), Ranges::Whole);
    }

    #[test]
    fn values_and_parts_are_written() {
        let mut out = Vec::new();
        write_content_range(ByteRange { first: 1, last: 2 }, 10, &mut out);
        assert_eq!(out, b"bytes 1-2/10");
        out.clear();
        write_unsatisfiable(10, &mut out);
        assert_eq!(out, b"bytes */10");

        let parts = [ByteRange { first: 0, last: 1 }, ByteRange { first: 8, last: 9 }];
        let multipart = Multipart { boundary: "xyz", content_type: Some(b"text/plain"), length: 10 };
        let mut body = Vec::new();
        for (part, bytes) in parts.iter().zip([b"01", b"89"]) {
            multipart.write_part_head(*part, &mut body);
            body.extend(bytes);
        }
        multipart.write_end(&mut body);
        let text = "\r\n--xyz\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
                    \r\n--xyz\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--xyz--\r\n";
        assert_eq!(String::from_utf8(body).unwrap(), text);
        assert_eq!(multipart.content_length(&parts), text.len() as u64);
    }

    proptest! {
        /// The reference examines each byte of the representation by itself.
        #[test]
        fn a_range_holds_what_the_rfc_says(first in 0_u64..20, last in prop::option::of(0_u64..20), length in 0_u64..15) {
            let value = format!("bytes={first}-{}", last.map_or(String::new(), |last| last.to_string()));
            let bytes: Vec<u64> = (0..length).filter(|at| *at >= first && last.is_none_or(|last| *at <= last)).collect();
            let expected = match (bytes.first(), bytes.last()) {
                _ if last.is_some_and(|last| last < first) => Ranges::Whole,
                (Some(&first), Some(&last)) => one(first, last),
                _ => Ranges::Unsatisfiable,
            };
            prop_assert_eq!(parse(value.as_bytes(), length), expected);
        }

        #[test]
        fn what_is_asked_for_is_there(value in "(bytes=)?[0-9,\\- a]{0,40}", length in 0_u64..1000) {
            let inside = |range: &ByteRange| range.first <= range.last && range.last < length;
            match parse(value.as_bytes(), length) {
                Ranges::One(range) => prop_assert!(inside(&range)),
                Ranges::Several(ranges) => {
                    prop_assert!(ranges.len() > 1 && ranges.iter().all(inside));
                    prop_assert!(ranges.iter().map(|range| range.len()).sum::<u64>() < length);
                }
                Ranges::Whole | Ranges::Unsatisfiable => {}
            }
        }
    }
}
