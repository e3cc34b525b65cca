//! Paths without `.` and `..` segments and double slashes.

use memchr::memchr;

use super::outcome::Outcome;

pub(super) fn normalize(text: &[u8]) -> Outcome {
    if memchr(b'/', text).is_none() && text != b"." {
        return Outcome::Same;
    }
    let new = normalized(text);
    if new == text { Outcome::Same } else { Outcome::New(new) }
}

pub(super) fn normalize_win(text: &[u8]) -> Outcome {
    if memchr(b'\\', text).is_none() {
        return normalize(text);
    }
    let slashes: Vec<u8> = text.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
    Outcome::New(normalized(&slashes))
}

/// `..` takes back the segment before it. At the root there is none, so that it vanishes; in a path that is
/// relative, it stays.
fn normalized(text: &[u8]) -> Vec<u8> {
    let is_absolute = text.first() == Some(&b'/');
    let mut new: Vec<u8> = Vec::with_capacity(text.len());
    // The beginnings of segments in `new` that a `..` can take back.
    let mut begins: Vec<usize> = Vec::new();
    if is_absolute {
        new.push(b'/');
    }
    for segment in text.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => continue,
            b".." if !begins.is_empty() => {
                new.truncate(begins.pop().unwrap_or(0));
                continue;
            }
            b".." if is_absolute => continue,
            b".." => {}
            _ => begins.push(new.len()),
        }
        new.extend_from_slice(segment);
        new.push(b'/');
    }
    let has_slash = text.last() == Some(&b'/');
    let is_root = is_absolute && new.len() == 1;
    if !has_slash && !is_root && new.last() == Some(&b'/') {
        new.pop();
    }
    new
}
