//! Fields encoded to header blocks, by the static table and literals.

use super::static_table::{ENTRIES, with_name};
use crate::compression::{huffman, primitive};

/// The longest value that is written raw: the Huffman code costs about five instructions per byte to save a
/// fifth of the bytes.
const RAW_BYTES_MAX: usize = 160;
/// Room for a name in lower case; a longer one takes an allocation.
const NAME_BYTES: usize = 64;
/// The shortest cookie that may be stored. RFC 9204 section 7.1.3 advises against storing shorter ones.
const COOKIE_BYTES_MIN: usize = 20;

const INDEXED_STATIC: u8 = 0xc0;
const NAMED_STATIC: u8 = 0x50;
const NAMED_NEVER_INDEXED: u8 = 0x20;
const LITERAL: u8 = 0x20;
const LITERAL_CODED: u8 = 0x08;

/// Begins a block that refers to no entry of a dynamic table (RFC 9204 section 4.5.1).
pub(in crate::h3) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends `:status`. Values above 999 are written as 999.
pub(in crate::h3) fn status(status: u16, out: &mut Vec<u8>) {
    let status = status.min(999);
    let digit = |ten: u16| b'0' + (status / ten % 10) as u8;
    lower_field(b":status", &[digit(100), digit(10), digit(1)], out);
}

/// Appends a field, whose name may be in any letter case.
pub(in crate::h3) fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let mut lower = [0; NAME_BYTES];
    match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            lower_field(lower, value, out);
        }
        None => lower_field(&name.to_ascii_lowercase(), value, out),
    }
}

fn lower_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let Some((first, second)) = with_name(name) else {
        return literal(name, value, out);
    };
    let name_index = first.start;
    if let Some(index) = first.chain(second).find(|&index| ENTRIES[index].value() == value) {
        return primitive::integer(6, INDEXED_STATIC, index, out);
    }
    let secrecy = if is_secret(name, value) { NAMED_NEVER_INDEXED } else { 0 };
    primitive::integer(4, NAMED_STATIC | secrecy, name_index, out);
    text(value, out);
}

/// Whether no hop may store a field (RFC 9204 section 7.1.3).
fn is_secret(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"authorization" | b"set-cookie" => true,
        b"cookie" => value.len() < COOKIE_BYTES_MIN,
        _ => false,
    }
}

/// Appends a field whose name is not in the table.
fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let mut coded = Vec::with_capacity(NAME_BYTES);
    huffman::encode(name.iter().copied(), &mut coded);
    if coded.len() < name.len() {
        primitive::integer(3, LITERAL | LITERAL_CODED, coded.len(), out);
        out.extend_from_slice(&coded);
    } else {
        primitive::integer(3, LITERAL, name.len(), out);
        out.extend_from_slice(name);
    }
    text(value, out);
}

fn text(value: &[u8], out: &mut Vec<u8>) {
    if value.len() <= RAW_BYTES_MAX { primitive::raw(value, out) } else { primitive::shorter(value, out) }
}
