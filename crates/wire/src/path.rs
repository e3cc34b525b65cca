//! The path that routes are compared with.

use std::borrow::Cow;

use crate::block;

/// A request target that has no path to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// The path has a `%` without two hexadecimal digits.
    #[error("a '%' that two hexadecimal digits do not follow")]
    BadEscape,
    /// The path has a `%00`, which no legitimate path has: C programs would read the path up to it.
    #[error("a NUL byte")]
    Nul,
    /// The path leaves the root, such as `/../x`.
    #[error("more '..' than elements before it")]
    AboveRoot,
}

/// The path of a request target, without the query and the fragment.
pub fn of_target(target: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    &target[..end]
}

/// The query of a request target, without the question mark and the fragment.
pub fn query_of_target(target: &[u8]) -> Option<&[u8]> {
    let after = target[of_target(target).len()..].strip_prefix(b"?")?;
    let end = memchr::memchr(b'#', after).unwrap_or(after.len());
    Some(&after[..end])
}

/// Appends a path and escapes the bytes that nginx escapes in a changed path (`NGX_ESCAPE_URI`).
pub fn escape(path: &[u8], out: &mut Vec<u8>) {
    escape_if(
        path,
        |byte| byte.is_ascii_control() || !byte.is_ascii() || br##" "#%<>?\^`{|}"##.contains(&byte),
        out,
    );
}

/// Appends a text and escapes the bytes that are not allowed in a request or a `Location`.
pub fn escape_unprintable(text: &[u8], out: &mut Vec<u8>) {
    escape_if(text, |byte| !byte.is_ascii_graphic(), out);
}

/// Appends a text and escapes the bytes for which `is_escaped` holds.
pub fn escape_if(text: &[u8], is_escaped: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if is_escaped(byte) {
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Whether the path has an element `..`.
pub fn climbs(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|element| element == b"..")
}

/// The normalised path: percent-decoded, `//` merged, `.` and `..` resolved, as in nginx's `$uri`.
///
/// A path that is already normal, as nearly every path is, is borrowed.
///
/// # Errors
/// The path has a malformed escape, a NUL, or `..` beyond the root.
pub fn normalize(path: &[u8]) -> Result<Cow<'_, [u8]>, InvalidPath> {
    if is_normal(path) { Ok(Cow::Borrowed(path)) } else { decode_and_resolve(path).map(Cow::Owned) }
}

#[cold]
#[inline(never)]
fn decode_and_resolve(path: &[u8]) -> Result<Vec<u8>, InvalidPath> {
    resolve_dots(&percent_decode(path)?)
}

/// Whether a path has no escape, no empty element, and no element that begins with a dot.
fn is_normal(path: &[u8]) -> bool {
    let mut after_slash = 0;
    block::all(path).all(|bytes| {
        let [percent, slash, dot] = [b'%', b'/', b'.'].map(|byte| block::bits(bytes, byte));
        let begins = slash << 1 | after_slash;
        after_slash = slash >> (block::LEN - 1);
        percent | (begins & (slash | dot)) == 0
    })
}

fn percent_decode(path: &[u8]) -> Result<Vec<u8>, InvalidPath> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match (first, tail) {
            (b'%', [high, low, after @ ..]) => (hex_byte(*high, *low)?, after),
            (b'%', _) => return Err(InvalidPath::BadEscape),
            (&byte, after) => (byte, after),
        };
        if byte == 0 {
            return Err(InvalidPath::Nul);
        }
        decoded.push(byte);
        rest = after;
    }
    Ok(decoded)
}

fn hex_byte(high: u8, low: u8) -> Result<u8, InvalidPath> {
    let digit = |byte| char::from(byte).to_digit(16).ok_or(InvalidPath::BadEscape);
    Ok((digit(high)? << 4 | digit(low)?) as u8)
}

/// Removes dot segments (RFC 3986 section 5.2.4) and empty elements.
fn resolve_dots(path: &[u8]) -> Result<Vec<u8>, InvalidPath> {
    let mut resolved: Vec<u8> = Vec::with_capacity(path.len());
    let mut elements = path.split(|&b| b == b'/').skip(1).peekable();
    while let Some(element) = elements.next() {
        let last = elements.peek().is_none();
        match element {
            b".." => {
                let parent = resolved.iter().rposition(|&b| b == b'/').ok_or(InvalidPath::AboveRoot)?;
                resolved.truncate(parent);
            }
            b"" | b"." => {}
            name => {
                resolved.push(b'/');
                resolved.extend_from_slice(name);
                continue;
            }
        }
        if last {
            resolved.push(b'/');
        }
    }
    if resolved.is_empty() {
        resolved.push(b'/');
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(path: &str) -> String {
        String::from_utf8(normalize(path.as_bytes()).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn normal_paths_are_borrowed() {
        for path in ["/", "/a", "/a/b/", "/a.b/c..d"] {
            assert!(matches!(normalize(path.as_bytes()), Ok(Cow::Borrowed(_))), "{path}");
        }
    }

    #[test]
    fn others_are_normalised() {
        for (path, expected) in [
            ("/a//b", "/a/b"),
            ("//", "/"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/%61/%2e%2e/b", "/b"),
            ("/a%2Fb", "/a/b"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a%20b", "/a b"),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }

    #[test]
    fn bytes_are_escaped_as_nginx_does() {
        let escaped = |text: &[u8]| {
            let mut out = Vec::new();
            escape(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            escaped(b"/a b%?#x\\{|}^`<>\"\xc3\x7f\n"),
            "/a%20b%25%3F%23x%5C%7B%7C%7D%5E%60%3C%3E%22%C3%7F%0A"
        );
        assert_eq!(escaped(b"/a-._~!$&'()*+,;=:@[]"), "/a-._~!$&'()*+,;=:@[]");
        let mut out = Vec::new();
        escape_unprintable(b"/a'\"%20\r\n \xff", &mut out);
        assert_eq!(out, b"/a'\"%20%0D%0A%20%FF");
    }

    #[test]
    fn a_target_has_a_path_and_a_query() {
        for (target, path, query) in [
            ("/a?b=c#d", "/a", Some("b=c")),
            ("/a?", "/a", Some("")),
            ("/a#b?c", "/a", None),
            ("/a", "/a", None),
        ] {
            assert_eq!(of_target(target.as_bytes()), path.as_bytes());
            assert_eq!(query_of_target(target.as_bytes()), query.map(str::as_bytes), "{target}");
        }
        assert!(climbs(b"/a/../b") && climbs(b"/..") && !climbs(b"/a..b/..."));
    }

    #[test]
    fn what_has_no_normal_form_is_refused() {
        for (path, why) in [
            ("/%", InvalidPath::BadEscape),
            ("/%2", InvalidPath::BadEscape),
            ("/%zz", InvalidPath::BadEscape),
            ("/a%00", InvalidPath::Nul),
            ("/..", InvalidPath::AboveRoot),
            ("/a/../..", InvalidPath::AboveRoot),
        ] {
            assert_eq!(normalize(path.as_bytes()), Err(why), "{path}");
        }
    }
}
