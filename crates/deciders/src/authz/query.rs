//! Changes to the query of a request's target.

/// The target with other query parameters: the values that are set replace all others of their names, then
/// names are removed. Parameters are compared with their escapes decoded.
///
/// Values pass as the service gives them, since services for Envoy escape them; only what would end the value
/// or the request's line is escaped here.
pub fn edit_query(target: &[u8], set: &[(String, String)], removed: &[String]) -> Vec<u8> {
    let (path, query) = match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    let mut parameters: Vec<Vec<u8>> = Vec::new();
    let mut is_placed = vec![false; set.len()];
    for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
        let name = decoded(parameter.split(|&byte| byte == b'=').next().unwrap_or_default());
        match set.iter().rposition(|(known, _)| known.as_bytes() == name) {
            Some(at) if is_placed[at] => {}
            Some(at) => {
                is_placed[at] = true;
                parameters.push(written(&set[at].0, &set[at].1));
            }
            None => parameters.push(parameter.to_vec()),
        }
    }
    for (at, (name, value)) in set.iter().enumerate() {
        let is_last = !set[at + 1..].iter().any(|(later, _)| later == name);
        if is_last && !is_placed[at] {
            parameters.push(written(name, value));
        }
    }
    parameters.retain(|parameter| {
        let name = decoded(parameter.split(|&byte| byte == b'=').next().unwrap_or_default());
        !removed.iter().any(|removed| removed.as_bytes() == name)
    });
    let mut out = path.to_vec();
    if !parameters.is_empty() {
        out.push(b'?');
        out.extend(parameters.join(&b'&'));
    }
    out
}

fn written(name: &str, value: &str) -> Vec<u8> {
    let mut out = escaped(name, b"&#=+");
    out.push(b'=');
    out.extend(escaped(value, b"&#"));
    out
}

/// A text in which all bytes are escaped that are no visible characters of ASCII, and these.
fn escaped(text: &str, special: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !special.contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

/// A name without escapes. What is no escape stays as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (b'+', ..) => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_and_removed() {
        for (target, set, removed, expected) in [
            ("/a", &[("u", "1")][..], &[][..], "/a?u=1"),
            ("/a?b", &[("u", "1")], &[], "/a?b&u=1"),
            ("/a?u=0&b=2&u=3", &[("u", "1")], &[], "/a?u=1&b=2"),
            ("/a?%75=0", &[("u", "1")], &[], "/a?u=1"),
            ("/a?u=0", &[("u", "1"), ("u", "2")], &[], "/a?u=2"),
            ("/a?u=0&v=1", &[], &["u"], "/a?v=1"),
            ("/a?%75=0", &[], &["u"], "/a"),
            ("/a?x+y=0", &[], &["x y"], "/a"),
            ("/a?u", &[("u", "1")], &["u"], "/a"),
            ("/a?", &[], &["u"], "/a"),
            ("/a", &[("a&b", "c&d #\r\n")], &[], "/a?a%26b=c%26d%20%23%0D%0A"),
            ("/a", &[("q", "a%20b")], &[], "/a?q=a%20b"),
        ] {
            let set: Vec<_> =
                set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let removed: Vec<_> = removed.iter().map(|name| (*name).to_owned()).collect();
            let found = edit_query(target.as_bytes(), &set, &removed);
            assert_eq!(String::from_utf8_lossy(&found), expected, "{target} {set:?} {removed:?}");
        }
    }
}
