//! The `Content-Disposition` of a part (RFC 7578 section 4.2): the names of the field and of the file.

use memchr::memmem;

use super::flags::Flags;
use crate::body::sink::Flag;

/// The parameters of a header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Disposition {
    /// The name of the form's field.
    pub(super) name: Vec<u8>,
    /// The name of the file; none for a field.
    pub(super) filename: Option<Vec<u8>>,
}

/// Reads the value of a `Content-Disposition`.
///
/// # Errors
///
/// Parsers of others could read the header in another way.
pub(super) fn parse(header: &[u8], flags: &mut Flags) -> Result<Disposition, &'static str> {
    const INVALID: &str = "Multipart: invalid Content-Disposition";
    let mut rest = trimmed(header.strip_prefix(b"form-data").ok_or(INVALID)?);
    let mut found = Disposition::default();
    let mut has_name = false;
    while !rest.is_empty() {
        rest = trimmed(rest.strip_prefix(b";").ok_or_else(|| quoting(header, rest, flags, INVALID))?);
        let len = rest.iter().position(|byte| matches!(byte, b'=' | b' ' | b'\t')).ok_or(INVALID)?;
        let parameter = &rest[..len];
        rest = trimmed(trimmed(&rest[len..]).strip_prefix(b"=").ok_or(INVALID)?);
        let value = value(&mut rest, flags).ok_or(INVALID)?;
        match parameter {
            b"name" if has_name => return Err("Multipart: two names in a Content-Disposition"),
            b"name" => {
                found.name = value;
                has_name = true;
            }
            b"filename" if found.filename.is_some() => {
                return Err("Multipart: two file names in a Content-Disposition");
            }
            b"filename" => found.filename = Some(value),
            _ => return Err("Multipart: unknown parameter of a Content-Disposition"),
        }
        rest = trimmed(rest);
    }
    if found.filename.is_some() && memmem::find(header, b"filename=").is_none() {
        return Err("Multipart: a file name that parsers of others do not find");
    }
    Ok(found)
}

/// The error for a parameter that no semicolon follows: after a quote, the flag says so, too.
fn quoting(header: &[u8], rest: &[u8], flags: &mut Flags, error: &'static str) -> &'static str {
    let before = header.len() - rest.len();
    if before > 0 && matches!(header[before - 1], b'\'' | b'"') {
        flags.set(Flag::InvalidQuoting);
    }
    error
}

/// Reads a value, quoted or not. Single quotes are taken for quotes, because some servers do, and flagged.
fn value(rest: &mut &[u8], flags: &mut Flags) -> Option<Vec<u8>> {
    let text = *rest;
    let quote = *text.first()?;
    if !matches!(quote, b'"' | b'\'') {
        let (value, after) = text.split_at(text.iter().take_while(|byte| is_token(**byte)).count());
        if value.contains(&b'\'') {
            flags.set(Flag::InvalidQuoting);
        }
        *rest = after;
        return Some(value.to_vec());
    }
    if quote == b'\'' {
        flags.set(Flag::InvalidQuoting);
    }
    let mut value = Vec::new();
    let mut at = 1;
    loop {
        let byte = *text.get(at)?;
        if byte == quote {
            break;
        }
        // Only a quote and a backslash can be escaped; Internet Explorer sends paths with plain backslashes.
        let is_escape =
            byte == b'\\' && text.get(at + 1).is_some_and(|next| *next == quote || *next == b'\\');
        at += usize::from(is_escape);
        value.push(text[at]);
        at += 1;
    }
    *rest = &text[at + 1..];
    Some(value)
}

fn trimmed(text: &[u8]) -> &[u8] {
    let len = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[len..]
}

/// A character of a token (RFC 2045 section 5.1).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#"()<>@,;:\"/[]?="#.contains(&byte)
}
