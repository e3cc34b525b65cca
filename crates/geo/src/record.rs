//! The values of a record in the data section, as text in the form of nginx's module `geoip2`.
//!
//! A look-up of one value reads only what is before it: maps are searched where they are, without a copy.
//! Whatever the bytes are, a look-up ends, without a panic.
//!
//! Must not be in here: the search tree.

use std::borrow::Cow;

use maxminddb::PathElement;

/// Pointers that are followed in a row; the format forbids a pointer to a pointer.
const POINTERS_MAX: usize = 4;

/// Types of values by their numbers in the format.
const POINTER: u8 = 1;
const TEXT: u8 = 2;
const DOUBLE: u8 = 3;
const MAP: u8 = 7;
const INT32: u8 = 8;
const ARRAY: u8 = 11;
const BOOLEAN: u8 = 14;
const FLOAT: u8 = 15;

/// A place in the data section.
#[derive(Clone, Copy)]
struct Cursor<'d> {
    data: &'d [u8],
    at: usize,
}

/// The begin of a value: its type, and its size in bytes or elements. For a pointer the size is the position
/// that it leads to.
struct Begin {
    kind: u8,
    size: usize,
}

/// Position of the value at the end of a path through the record at a position; none if the record has none.
pub(crate) fn find(data: &[u8], at: usize, path: &[PathElement<'_>]) -> Option<usize> {
    let mut cursor = Cursor { data, at };
    for element in path {
        let Begin { kind, size } = cursor.resolve()?;
        match (kind, element) {
            (MAP, PathElement::Key(key)) => cursor.find(size, key.as_bytes())?,
            (ARRAY, PathElement::Index(index)) if *index < size => cursor.skip(*index)?,
            _ => return None,
        }
    }
    cursor.target()
}

/// The text of the value at a position; none for a value that has no text.
pub(crate) fn text(data: &[u8], at: usize) -> Option<Cow<'_, str>> {
    let mut cursor = Cursor { data, at };
    let Begin { kind, size } = cursor.resolve()?;
    scalar(kind, size, &mut cursor)
}

/// The text of a value without elements.
fn scalar<'d>(kind: u8, size: usize, cursor: &mut Cursor<'d>) -> Option<Cow<'d, str>> {
    if kind == BOOLEAN {
        return Some(if size > 0 { "1" } else { "0" }.into());
    }
    let bytes = cursor.take(size)?;
    match kind {
        TEXT => Some(str::from_utf8(bytes).ok()?.into()),
        DOUBLE => Some(decimal(f64::from_be_bytes(bytes.try_into().ok()?)).into()),
        FLOAT => Some(decimal(f32::from_be_bytes(bytes.try_into().ok()?).into()).into()),
        INT32 => Some(i32::from_be_bytes(whole(bytes)?).to_string().into()),
        // Of 16, 32, 64 and 128 bits.
        5 | 6 | 9 | 10 => Some(u128::from_be_bytes(whole(bytes)?).to_string().into()),
        _ => None,
    }
}

/// A number with five decimals. Degrees are as whole hundred-thousandths of them nearly always, whose digits
/// are found faster than those of any other number.
fn decimal(number: f64) -> String {
    let scaled = number * 1e5;
    let whole = scaled.round();
    let is_usual = scaled.abs() < 1e9 && (scaled - whole).abs() < 0.4 && whole != 0.0;
    if !is_usual {
        return format!("{number:.5}");
    }
    let sign = if whole < 0.0 { "-" } else { "" };
    let digits = (whole as i64).unsigned_abs();
    format!("{sign}{}.{:05}", digits / 100_000, digits % 100_000)
}

/// A number, whose leading zeros are left out.
fn whole<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut number = [0; N];
    number.get_mut(N.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(number)
}

impl<'d> Cursor<'d> {
    fn take(&mut self, size: usize) -> Option<&'d [u8]> {
        let bytes = self.data.get(self.at..)?.get(..size)?;
        self.at += size;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self, size: usize) -> Option<usize> {
        let bytes = self.take(size)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Reads the begin of a value.
    fn begin(&mut self) -> Option<Begin> {
        let control = self.byte()?;
        let kind = match control >> 5 {
            0 => self.byte()?.checked_add(7)?,
            kind => kind,
        };
        let low = usize::from(control & 0x1f);
        let size = match (kind, low) {
            (POINTER, _) => {
                let upper = low & 7;
                match low >> 3 {
                    0 => upper << 8 | self.number(1)?,
                    1 => (upper << 16 | self.number(2)?) + 2048,
                    2 => (upper << 24 | self.number(3)?) + 526_336,
                    _ => self.number(4)?,
                }
            }
            (_, 29) => 29 + self.number(1)?,
            (_, 30) => 285 + self.number(2)?,
            (_, 31) => 65_821 + self.number(3)?,
            (_, size) => size,
        };
        Some(Begin { kind, size })
    }

    /// Reads the begin of a value, at the end of pointers to it.
    fn resolve(&mut self) -> Option<Begin> {
        for _ in 0..=POINTERS_MAX {
            let begin = self.begin()?;
            if begin.kind != POINTER {
                return Some(begin);
            }
            self.at = begin.size;
        }
        None
    }

    /// Position of the value at the end of pointers.
    fn target(mut self) -> Option<usize> {
        for _ in 0..=POINTERS_MAX {
            let at = self.at;
            let begin = self.begin()?;
            if begin.kind != POINTER {
                return Some(at);
            }
            self.at = begin.size;
        }
        None
    }

    /// Goes to the value of a key in a map of so many pairs.
    fn find(&mut self, pairs: usize, key: &[u8]) -> Option<()> {
        for _ in 0..pairs {
            // A key may be a pointer to one; the value is behind the pointer.
            let mut of_key = *self;
            let Begin { kind, size } = of_key.resolve()?;
            let is_it = kind == TEXT && of_key.take(size)? == key;
            self.skip(1)?;
            if is_it {
                return Some(());
            }
            self.skip(1)?;
        }
        None
    }

    /// Passes over so many values with all their elements.
    fn skip(&mut self, count: usize) -> Option<()> {
        let mut rest = count;
        // Each step passes over a byte at least, so that this ends with the data.
        while rest > 0 {
            rest -= 1;
            let Begin { kind, size } = self.begin()?;
            match kind {
                POINTER | BOOLEAN => {}
                MAP => rest = rest.checked_add(size.checked_mul(2)?)?,
                ARRAY => rest = rest.checked_add(size)?,
                _ => self.take(size).map(drop)?,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use maxminddb::PathElement::{Index, Key};

    use super::*;

    /// A text with its control byte.
    fn written(text: &str) -> Vec<u8> {
        [&[0x40 | text.len() as u8], text.as_bytes()].concat()
    }

    #[test]
    fn a_value_is_found_behind_others_and_behind_pointers() {
        let long = "n".repeat(300);
        let mut data = [written("city"), written("Berlin")].concat();
        let record = data.len();
        data.push(0xe4);
        // A text of 300 bytes, and a list with a map within.
        data.extend([written("long"), vec![0x5e, 0, 15], long.clone().into_bytes()].concat());
        data.extend([written("list"), vec![0x02, 0x04, 0xe1], written("a"), written("b")].concat());
        data.extend(written("second"));
        // The key and the value of the next pair are pointers.
        data.extend([0x20, 0, 0x20, 5]);
        data.extend([written("number"), vec![0xc2, 1, 0]].concat());
        let text = |path: &[PathElement<'_>]| text(&data, find(&data, record, path)?);
        assert_eq!(text(&[Key("city")]).as_deref(), Some("Berlin"));
        assert_eq!(text(&[Key("long")]).as_deref(), Some(&*long));
        assert_eq!(text(&[Key("list"), Index(0), Key("a")]).as_deref(), Some("b"));
        assert_eq!(text(&[Key("list"), Index(1)]).as_deref(), Some("second"));
        assert_eq!((text(&[Key("list"), Index(2)]), text(&[Key("none")])), (None, None));
        assert_eq!((text(&[Key("list")]), text(&[Key("city"), Key("a")])), (None, None));
        assert_eq!(text(&[Key("number")]).as_deref(), Some("256"));
    }

    #[test]
    fn numbers_of_all_types_have_a_text() {
        for (bytes, expected) in [
            (&[0xa0][..], Some("0")),
            (&[0xc4, 0xff, 0xff, 0xff, 0xff], Some("4294967295")),
            (&[0x04, 1, 0xff, 0xff, 0xff, 0xfe], Some("-2")),
            (&[0x01, 1, 7], Some("7")),
            (&[0x03, 2, 1, 0, 0], Some("65536")),
            (&[0x03, 3, 1, 0, 0], Some("65536")),
            (&[0x68, 0x40, 0x4a, 0x43, 0x1f, 0x8a, 0x09, 0x02, 0xde], Some("52.52440")),
            (&[0x04, 8, 0x3f, 0x80, 0, 0], Some("1.00000")),
            (&[0x01, 7], Some("1")),
            (&[0x00, 7], Some("0")),
            (&[0xe0], None),
            (&[0x83, 1, 2, 3], None),
            (&[0xc5, 1, 2, 3, 4], None),
        ] {
            assert_eq!(text(bytes, 0).as_deref(), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn pointers_in_a_circle_end() {
        assert_eq!((find(&[0x20, 0], 0, &[]), text(&[0x20, 0], 0)), (None, None));
        assert_eq!(find(&[0xe1, 0x20, 0, 0x20, 0], 0, &[Key("a"), Key("b")]), None);
        assert_eq!((find(&[], 7, &[Key("a")]), text(&[], 7)), (None, None));
    }

    #[test]
    fn decimals_are_those_of_the_usual_format() {
        let mut number: u64 = 1;
        for round in 0..20_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let degrees = (number >> 40) as f64 / (1_u64 << 24) as f64 * 360.0 - 180.0;
            let rounded = (degrees * 1e4).round() / 1e4;
            let halfway = (degrees * 1e5).floor() / 1e5 + 5e-6;
            for one in [degrees, rounded, halfway, degrees / 1e7, degrees * 1e9, f64::from(round)] {
                assert_eq!(decimal(one), format!("{one:.5}"), "{one:?}");
            }
        }
        for one in [0.0, -0.0, -1e-9, 0.1 + 0.2, f64::NAN, f64::INFINITY, f64::MAX, -179.999_995] {
            assert_eq!(decimal(one), format!("{one:.5}"));
        }
    }
}
