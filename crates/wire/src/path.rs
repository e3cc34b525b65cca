//! The path that routes are compared with.

use std::borrow::Cow;

/// A request target that has no path to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// `%` without two hexadecimal digits.
    #[error("a '%' that two hexadecimal digits do not follow")]
    BadEscape,
    /// `%00`: no file, route or upstream means it well.
    #[error("a NUL byte")]
    Nul,
    /// `/../x`: leaves the root.
    #[error("more '..' than elements before it")]
    AboveRoot,
}

/// The path of a request target, without the query and the fragment.
pub fn of_target(target: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    &target[..end]
}

/// The normalised path: percent-decoded, `//` merged, `.` and `..` resolved, as nginx's `$uri` is.
///
/// Nearly every path is normal already and is returned as it came.
///
/// # Errors
/// It holds an escape that is none, a NUL, or `..` beyond the root.
pub fn normalize(path: &[u8]) -> Result<Cow<'_, [u8]>, InvalidPath> {
    if is_normal(path) {
        return Ok(Cow::Borrowed(path));
    }
    let decoded = percent_decode(path)?;
    resolve_dots(&decoded).map(Cow::Owned)
}

/// No escape, no empty element, and no element that begins with a dot.
fn is_normal(path: &[u8]) -> bool {
    let mut after_slash = false;
    for &byte in path {
        if byte == b'%' || (after_slash && (byte == b'/' || byte == b'.')) {
            return false;
        }
        after_slash = byte == b'/';
    }
    true
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

/// RFC 3986 section 5.2.4, with empty elements left out.
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
