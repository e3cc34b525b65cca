//! A second look at shapes that ordinary texts have, too.

use memchr::memmem;

use super::fold::Folder;
use super::token::kind::{BARE_WORD, COMMENT, KEYWORD, NUMBER};
use crate::inject::fingerprint::Fingerprint;

/// Whether a text whose shape is one of an injection is one.
pub(super) fn confirm(text: &[u8], folder: &Folder<'_>, fingerprint: Fingerprint) -> bool {
    let shape = fingerprint.as_bytes();
    // Microsoft's SQL Server leaves statements out of its log that have this word in a comment.
    if shape.len() > 1 && shape.ends_with(&[COMMENT]) && memmem::find(text, b"sp_password").is_some() {
        return true;
    }
    match shape.len() {
        2 => confirm_two(text, folder, shape),
        3 => confirm_three(folder, shape),
        _ => true,
    }
}

fn confirm_two(text: &[u8], folder: &Folder<'_>, shape: &[u8]) -> bool {
    let [first, second] = [folder.tokens[0], folder.tokens[1]];
    let count = folder.scanner.tokens;
    if shape[1] == b'U' {
        return count != 2;
    }
    let begin = second.value().first().copied();
    if begin == Some(b'#') {
        return false;
    }
    let is_comment = second.kind == COMMENT;
    if first.kind == BARE_WORD && is_comment && begin != Some(b'/') {
        return false;
    }
    if first.kind == NUMBER && is_comment {
        if begin == Some(b'/') || count > 2 {
            return true;
        }
        // The text itself has to be a number, and not the beginning of something like Base64.
        let after = text.get(first.value().len()..).unwrap_or_default();
        return after.first().is_some_and(|byte| *byte <= b' ')
            || after.starts_with(b"/*")
            || after.starts_with(b"--");
    }
    // Two hyphens are common in prose, where a word follows them.
    !(second.value().len() > 2 && begin == Some(b'-'))
}

fn confirm_three(folder: &Folder<'_>, shape: &[u8]) -> bool {
    let [first, second, third] = [folder.tokens[0], folder.tokens[1], folder.tokens[2]];
    match shape {
        // A string that ends, and one that begins: `foo' + 'bar`.
        b"sos" | b"s&s" => return first.open == 0 && third.close == 0 && first.close == third.open,
        b"s&n" | b"n&1" | b"1&1" | b"1&v" | b"1&s" if folder.scanner.tokens == 3 => return false,
        _ => {}
    }
    let is_into = second.value().len() >= 5 && second.value()[..4].eq_ignore_ascii_case(b"INTO");
    second.kind != KEYWORD || is_into
}
