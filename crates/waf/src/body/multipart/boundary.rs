//! The boundary of a multipart body: the `boundary` parameter of its `Content-Type`, read as strictly as
//! ModSecurity reads it.

use memchr::memmem;

use super::flags::Flags;
use crate::body::sink::Flag;

/// The length of a `Content-Type` that is looked at.
const HEADER_BYTES_MAX: usize = 1024;

/// Reads the boundary. Flags are set for what strict servers refuse.
///
/// # Errors
///
/// The header has no boundary that all parsers would read in the same way.
pub(super) fn boundary(header: &[u8], flags: &mut Flags) -> Result<Vec<u8>, &'static str> {
    const TYPE: &[u8] = b"multipart/form-data";
    if header.len() > HEADER_BYTES_MAX {
        return Err("Multipart: the Content-Type is too long");
    }
    if !header.get(..TYPE.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(TYPE)) {
        return Err("Multipart: the type is another one");
    }
    if count(header) > 1 {
        return Err("Multipart: several boundaries in the Content-Type");
    }
    let Some(at) = memmem::find(header, b"boundary") else {
        return Err("Multipart: no boundary in the Content-Type");
    };
    let mut between = header.get(TYPE.len()..at).unwrap_or_default().iter().filter(|byte| !space(**byte));
    match (between.next(), between.next()) {
        (None, _) => flags.set(Flag::MissingSemicolon),
        (Some(b';'), None) => {}
        _ => return Err("Multipart: something before the boundary in the Content-Type"),
    }
    let after = &header[at + "boundary".len()..];
    let equals =
        after.iter().position(|&byte| byte == b'=').ok_or("Multipart: a boundary without a value")?;
    if !after[..equals].iter().all(|&byte| space(byte)) {
        return Err("Multipart: a parameter that is not the boundary in the Content-Type");
    }
    let value = &after[equals + 1..];
    if equals > 0 || value.first().is_some_and(|&byte| space(byte)) {
        flags.set(Flag::BoundaryWhitespace);
    }
    let value = unquoted(value, flags)?;
    if count(value) != 0 {
        return Err("Multipart: a boundary within the boundary");
    }
    if !is_valid(value) {
        return Err("Multipart: invalid characters in the boundary");
    }
    Ok(value.to_vec())
}

fn unquoted<'a>(value: &'a [u8], flags: &mut Flags) -> Result<&'a [u8], &'static str> {
    match value {
        [b'"', inner @ .., b'"'] => {
            flags.set(Flag::BoundaryQuoted);
            Ok(inner)
        }
        [b'"', ..] | [.., b'"'] => Err("Multipart: half a quoted boundary"),
        _ => Ok(value),
    }
}

/// The number of parameters that a lax parser could take for the boundary.
fn count(header: &[u8]) -> usize {
    let lower = header.to_ascii_lowercase();
    memmem::find_iter(&lower, b"boundary").filter(|&at| lower[at + 8..].contains(&b'=')).count()
}

/// The characters that RFC 2046 section 5.1.1 allows.
fn is_valid(boundary: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b" '()+_,-./:=?".contains(byte);
    !boundary.is_empty() && boundary.iter().all(is_allowed) && boundary.last() != Some(&b' ')
}

fn space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
