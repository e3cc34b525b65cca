//! The stored responses that a successful unsafe request invalidates (RFC 9111 section 4.4).

use super::head::Head;

/// Whether a method may change its target (RFC 9110 section 9.2.1); an unknown method may.
pub fn is_unsafe(method: &[u8]) -> bool {
    !matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
}

/// Whether a response reports that the change was made, or is being made.
pub fn is_success(status: u16) -> bool {
    (200..400).contains(&status)
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The authority, as in `Host`.
    pub authority: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
}

/// Path and query of further URLs that a successful response to an unsafe request invalidates: those in its
/// `Location` and `Content-Location`, if they have the same origin. URLs of another origin are ignored.
pub fn related<'a>(origin: &'a Origin<'a>, response: Head<'a>) -> impl Iterator<Item = Vec<u8>> + 'a {
    [&b"location"[..], b"content-location"]
        .into_iter()
        .filter_map(move |name| response.value(name))
        .filter_map(move |reference| resolve(origin, reference))
}

/// Resolves a reference (RFC 3986 section 5.2) within the origin: path and query, without the fragment. None
/// for another origin.
pub fn resolve(origin: &Origin<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    let reference = &reference[..memchr::memchr(b'#', reference).unwrap_or(reference.len())];
    let rest = match scheme_len(reference) {
        Some(len) if reference[..len].eq_ignore_ascii_case(origin.scheme.as_bytes()) => {
            // A reference without an authority names no HTTP resource.
            Some(reference[len + 1..].strip_prefix(b"//")?)
        }
        Some(_) => return None,
        None => reference.strip_prefix(b"//"),
    };
    let (path, query) = match rest {
        Some(rest) => {
            let len = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
            if !is_same_authority(origin, &rest[..len]) {
                return None;
            }
            split(&rest[len..])
        }
        None => return Some(resolve_relative(origin.target, reference)),
    };
    Some(join(&without_dots(path), query))
}

fn resolve_relative(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let (base_path, base_query) = split(base);
    let (path, query) = split(reference);
    match path {
        [] => join(base_path, query.or(base_query)),
        [b'/', ..] => join(&without_dots(path), query),
        _ => {
            let folder = memchr::memrchr(b'/', base_path).map_or(0, |at| at + 1);
            let merged = [&base_path[..folder], path].concat();
            join(&without_dots(&merged), query)
        }
    }
}

/// Length of the scheme; none if a reference has no scheme.
fn scheme_len(reference: &[u8]) -> Option<usize> {
    let len = reference.iter().position(|byte| b":/?".contains(byte))?;
    let scheme = &reference[..len];
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    (reference[len] == b':' && is_scheme).then_some(len)
}

/// Whether the authorities are equal. The default port of the scheme may be written or left out.
fn is_same_authority(origin: &Origin<'_>, other: &[u8]) -> bool {
    let port: &[u8] = if origin.scheme.eq_ignore_ascii_case("https") { b":443" } else { b":80" };
    let plain = |authority| <[u8]>::strip_suffix(authority, port).unwrap_or(authority);
    plain(origin.authority).eq_ignore_ascii_case(plain(other))
}

fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    memchr::memchr(b'?', target).map_or((target, None), |at| (&target[..at], Some(&target[at + 1..])))
}

fn join(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut target = if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
    if let Some(query) = query {
        target.push(b'?');
        target.extend(query);
    }
    target
}

/// Removes dot segments (RFC 3986 section 5.2.4).
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<&[u8]> = Vec::new();
    let mut elements = path.strip_prefix(b"/").unwrap_or(path).split(|&byte| byte == b'/').peekable();
    while let Some(element) = elements.next() {
        let is_last = elements.peek().is_none();
        match element {
            b"." | b".." => {
                if element == b".." {
                    out.pop();
                }
                if is_last {
                    out.push(b"");
                }
            }
            _ => out.push(element),
        }
    }
    let mut path = vec![b'/'];
    path.extend(out.join(&b'/'));
    path
}

#[cfg(test)]
mod tests {
    use super::super::head::sample;
    use super::*;

    const ORIGIN: Origin<'_> = Origin { scheme: "https", authority: b"a.example", target: b"/b/c/d;p?q" };

    /// The examples of RFC 3986 sections 5.4.1 and 5.4.2, fragments left out.
    #[test]
    fn references_are_resolved() {
        for (reference, target) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("//a.example/g", "/g"),
            ("//a.example", "/"),
            ("//a.example?y", "/?y"),
            ("https://a.example/x?y", "/x?y"),
            ("HTTPS://A.EXAMPLE/x", "/x"),
            ("https://a.example:443/x", "/x"),
        ] {
            let resolved = resolve(&ORIGIN, reference.as_bytes());
            assert_eq!(resolved.as_deref(), Some(target.as_bytes()), "{reference}");
        }
    }

    /// RFC 9111 section 4.4: "a cache MUST NOT invalidate [...] if the origin [...] differs".
    #[test]
    fn of_another_origin_nothing_is_believed() {
        for reference in [
            "http://a.example/x",
            "https://b.example/x",
            "//b.example/x",
            "https://a.example:8443/x",
            "https://user@a.example/x",
            "https:g",
            "mailto:a@a.example",
        ] {
            assert_eq!(resolve(&ORIGIN, reference.as_bytes()), None, "{reference}");
        }
    }

    #[test]
    fn both_fields_count() {
        let (bytes, response) = sample::response(201, "Location: /x|Content-Location: y|Other: z");
        let head = Head::of_response(&bytes, &response);
        let targets: Vec<_> = related(&ORIGIN, head).collect();
        assert_eq!(targets, [&b"/x"[..], b"/b/c/y"]);
    }

    /// Methods and statuses of RFC 9110 section 9.2.1 and RFC 9111 section 4.4.
    #[test]
    fn changes_that_were_made() {
        assert!(
            [&b"POST"[..], b"PUT", b"DELETE", b"PATCH", b"M-SEARCH", b"get"]
                .iter()
                .all(|method| is_unsafe(method))
        );
        assert!(![&b"GET"[..], b"HEAD", b"OPTIONS", b"TRACE"].iter().any(|method| is_unsafe(method)));
        assert!([200, 201, 204, 303, 304].into_iter().all(is_success));
        assert!(![199, 400, 404, 500].into_iter().any(is_success));
    }
}
