//! The cache key: everything in a request that tells its responses apart.
//!
//! An endpoint receives two kinds of values. Those of Forebay itself, be it of a trusted hop, a setting, a
//! snippet, an auth service or a client certificate, are part of the key. Those of clients are passed on and
//! are not part of it: the endpoint has to name in `Vary` what it looks at. Headers that are not [known to
//! be harmless](is_harmless) count as named, and requests with headers that can change the response
//! completely [pass](headers).

use std::sync::Arc;

use model::{CacheKeyQuery, CachePolicy, Forward};
use smallvec::SmallVec;
use wire::cache::is_harmless;

use crate::admit::Admitted;
use crate::admit::upstream_head;
use crate::request::lookup;
use crate::store::Labels;

/// A key during a lookup: on the stack, nearly always.
pub(crate) type KeyBytes = SmallVec<[u8; 512]>;

/// Conditions that only the origin can evaluate.
const CONDITIONS: &[&[u8]] = &[b"if-match", b"if-unmodified-since"];

/// Headers with which one framework or another lets a client override the target or the method of the
/// request line, the name or scheme of the host, or the user.
const OPAQUE: &[&[u8]] = &[
    b"forebay-replica",
    b"forwarded",
    b"front-end-https",
    b"remote-user",
    b"ssl-client-cert",
    b"ssl-client-issuer-dn",
    b"ssl-client-subject-dn",
    b"ssl-client-verify",
    b"x-auth-request-email",
    b"x-auth-request-groups",
    b"x-auth-request-redirect",
    b"x-auth-request-user",
    b"x-client-cert",
    b"x-forwarded-access-token",
    b"x-forwarded-client-cert",
    b"x-forwarded-email",
    b"x-forwarded-groups",
    b"x-forwarded-method",
    b"x-forwarded-path",
    b"x-forwarded-prefix",
    b"x-forwarded-server",
    b"x-forwarded-ssl",
    b"x-forwarded-uri",
    b"x-forwarded-url",
    b"x-forwarded-user",
    b"x-host",
    b"x-http-host-override",
    b"x-http-method",
    b"x-http-method-override",
    b"x-method-override",
    b"x-original-host",
    b"x-original-method",
    b"x-original-uri",
    b"x-original-url",
    b"x-override-url",
    b"x-remote-user",
    b"x-rewrite-url",
    b"x-url-scheme",
];

/// Effect of a request's headers on what may be stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    /// All headers are known to change no response without being named in `Vary`.
    Harmless,
    /// Some headers may have changed the response: it answers only requests with the same ones.
    Unknown,
    /// The request passes: its response is not stored.
    Opaque,
}

/// Classifies the headers of a request.
pub(super) fn headers(admitted: &Admitted<'_>, policy: &CachePolicy) -> Headers {
    let mut headers = Headers::Harmless;
    for field in &admitted.parsed.fields {
        let name = field.name(admitted.head);
        let is_opaque = match name.first() {
            Some(b'i' | b'I') => CONDITIONS.iter().any(|known| name.eq_ignore_ascii_case(known)),
            _ => false,
        };
        if is_opaque {
            return Headers::Opaque;
        }
        if !is_harmless(field, admitted.head) {
            if OPAQUE.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                return Headers::Opaque;
            }
            let is_said = |known: &String| name.eq_ignore_ascii_case(known.as_bytes());
            if !policy.harmless_headers.iter().any(is_said) {
                headers = Headers::Unknown;
            }
        }
    }
    headers
}

/// Whether the route's configuration excludes the request, by a header or a cookie.
pub(super) fn is_bypassed(admitted: &Admitted<'_>, policy: &CachePolicy) -> bool {
    let (head, request) = (admitted.head, admitted.parsed);
    let has_header = |name: &String| request.fields.find_name(head, name.as_bytes()).is_some();
    let has_cookie = |name: &String| lookup::cookie(head, request, name.as_bytes()).is_some();
    policy.bypass.headers.iter().any(has_header) || policy.bypass.cookies.iter().any(has_cookie)
}

/// Whether the query can be read in several ways that differ in parameters of the key.
pub(super) fn has_ambiguous_query(admitted: &Admitted<'_>, policy: &CachePolicy) -> bool {
    let (own, original) = (upstream_head::target(admitted), admitted.sent_target());
    is_ambiguous(own, &policy.query) || own != original && is_ambiguous(original, &policy.query)
}

/// The key of a request, or of another target of the same host.
pub(super) fn of(
    admitted: &Admitted<'_>,
    forward: &Forward,
    policy: &CachePolicy,
    target: Option<&[u8]>,
) -> KeyBytes {
    if let Some(peer_request) = admitted.peer_request.as_ref().filter(|_| target.is_none()) {
        // The replica that sent the request has computed the key, and knows more of the client.
        return KeyBytes::from_slice(&peer_request.key);
    }
    let mut key = KeyBytes::new();
    let cluster = admitted.cluster.map(|id| admitted.config.snapshot.cluster(id));
    add(&mut key, cluster.map(|cluster| cluster.identity.as_bytes()).unwrap_or_default());
    admitted.forwarded.write_key(|part| add(&mut key, part));
    match upstream_head::host(admitted, forward) {
        Some(host) => add(&mut key, &host),
        None => add(&mut key, admitted.forwarded.host),
    }
    let (own, original) = (upstream_head::target(admitted), admitted.sent_target());
    add_target(&mut key, target.unwrap_or(own), &policy.query);
    if own != original && target.is_none() {
        // Endpoints may see the original target too, and two targets may be rewritten to one: each URL is
        // purged by its own name.
        add_target(&mut key, original, &policy.query);
    }
    upstream_head::edits(admitted, forward, false).write_key(|part| add(&mut key, part));
    key
}

/// The namespace of the object that asked for the route.
pub(super) fn namespace(admitted: &Admitted<'_>) -> Arc<str> {
    match (&admitted.peer_request, admitted.route) {
        (Some(peer_request), _) => Arc::clone(&peer_request.namespace),
        (None, Some(route)) => Arc::from(route.labels.namespace()),
        (None, None) => Arc::default(),
    }
}

/// The labels by which the response can be purged: those of the URL as clients know it.
pub(super) fn labels(admitted: &Admitted<'_>, policy: &CachePolicy) -> Option<Labels> {
    if let Some(peer_request) = &admitted.peer_request {
        // A request of another replica has the endpoint's URL, which may differ from the client's.
        return Some(peer_request.labels.clone());
    }
    let target = admitted.sent_target();
    Labels::of_url(admitted.forwarded.host, target, policy.query == CacheKeyQuery::All)
}

/// Each part is preceded by its length, so that no two lists have the same key.
fn add(key: &mut KeyBytes, part: &[u8]) {
    key.extend_from_slice(&(part.len() as u32).to_be_bytes());
    key.extend_from_slice(part);
}

/// A path, and the parameters of its query that are part of the key.
fn add_target(key: &mut KeyBytes, target: &[u8], query: &CacheKeyQuery) {
    let path = wire::path::of_target(target);
    match (query, wire::path::query_of_target(target)) {
        (CacheKeyQuery::All, _) => add(key, target),
        (CacheKeyQuery::None, _) | (_, None) => add(key, path),
        (CacheKeyQuery::Named(names), Some(query)) => {
            add(key, path);
            let counts = |part: &&[u8]| decoded(name_of(part)).is_some_and(|name| is_named(names, &name));
            query.split(|&byte| byte == b'&').filter(counts).for_each(|part| add(key, part));
        }
    }
}

/// Whether the query can be read in two ways, of which one has a parameter of the key and the other lacks it
/// or has another.
fn is_ambiguous(target: &[u8], query: &CacheKeyQuery) -> bool {
    let (CacheKeyQuery::Named(names), Some(query)) = (query, wire::path::query_of_target(target)) else {
        return false;
    };
    // Python before 3.10, Ruby, Perl and Java's servlets split there too, or once did.
    if query.contains(&b';') {
        return true;
    }
    query.split(|&byte| byte == b'&').any(|part| {
        let Some(name) = decoded(name_of(part)) else { return true };
        let loose = loosely(&name);
        !is_named(names, &name) && names.iter().any(|known| loosely(known.as_bytes()) == loose)
    })
}

fn is_named(names: &[String], name: &[u8]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

/// The name of a parameter, as it is written.
fn name_of(part: &[u8]) -> &[u8] {
    part.split(|&byte| byte == b'=').next().unwrap_or_default()
}

/// A name without its escapes. None where an escape is malformed, or is one of two for some servers
/// (`%u0061`, `%2561`).
fn decoded(name: &[u8]) -> Option<SmallVec<[u8; 64]>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = SmallVec::new();
    let mut rest = name;
    loop {
        match rest {
            [] => return Some(decoded),
            [b'%', b'2', b'5', ..] => return None,
            [b'%', high, low, after @ ..] => {
                decoded.push((digit(*high)? * 16 + digit(*low)?) as u8);
                rest = after;
            }
            [b'%', ..] => return None,
            [byte, after @ ..] => {
                decoded.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
        }
    }
}

/// A name as the laxest frameworks read it: in any letter case, without what precedes it (blanks, a question
/// mark), without an index in brackets and whatever follows a NUL, and with underscores for dots and blanks,
/// as PHP has them.
fn loosely(name: &[u8]) -> SmallVec<[u8; 64]> {
    let start = name.iter().position(|byte| !matches!(byte, b'?' | 0..=b' ')).unwrap_or(name.len());
    let name = &name[start..];
    let has_index = name.contains(&b']');
    let is_end = |byte: &u8| *byte == 0 || *byte == b'[' && has_index;
    let end = name.iter().skip(1).position(is_end).map_or(name.len(), |at| at + 1);
    let name = name[..end].trim_ascii_end();
    let plain = |byte: &u8| match byte {
        b'.' | b'[' | 0..=b' ' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    name.iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(target: &str, query: &CacheKeyQuery) -> Vec<u8> {
        let mut key = KeyBytes::new();
        add_target(&mut key, target.as_bytes(), query);
        key.into_vec()
    }

    #[test]
    fn of_the_query_counts_what_is_named() {
        let named = CacheKeyQuery::Named(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(key("/?a=1&x=2&b=3", &named), key("/?x=5&a=1&b=3&aa=1", &named));
        for other in ["/", "/?a=1", "/?a=1&b=3&a=2", "/?b=3&a=1", "/?a=1%26b=3", "/?A=1&b=3"] {
            assert_ne!(key("/?a=1&b=3", &named), key(other, &named), "{other}");
        }
        // An escape is equal to the character that it encodes.
        for other in ["/?a=1&%62=3", "/?%61=1&b=3", "/?%61=1&%62=3"] {
            assert_ne!(key("/?a=1&b=3", &named), key(other, &named), "{other}");
        }
        assert_ne!(key("/?%61=1", &named), key("/", &named));
        assert_eq!(key("/?a", &CacheKeyQuery::None), key("/", &CacheKeyQuery::None));
        for other in ["/", "/?", "/?b&a", "/?a&b&", "/%3Fa&b", "//?a&b"] {
            assert_ne!(key("/?a&b", &CacheKeyQuery::All), key(other, &CacheKeyQuery::All), "{other}");
        }
    }

    #[test]
    fn a_query_that_can_be_read_in_two_ways_is_ambiguous() {
        let named = CacheKeyQuery::Named(vec!["a_b".to_owned(), "id".to_owned(), "f[x]".to_owned()]);
        for query in [
            "x=1;id=2",
            "id=1;x",
            "ID=1",
            "%49d=1",
            "+id=1",
            "%20id=1",
            "id+=1",
            "id[]=1",
            "id%5B0%5D=1",
            "id%00x=1",
            "a.b=1",
            "a%20b=1",
            "a+b=1",
            "a[b=1",
            "%69%6=1",
            "%u0069d=1",
            "%2569d=1",
            "?id=1",
            "f=1",
            "f[y]=1",
        ] {
            assert!(is_ambiguous(format!("/?{query}").as_bytes(), &named), "{query}");
            assert!(!is_ambiguous(format!("/?{query}").as_bytes(), &CacheKeyQuery::All), "{query}");
        }
        for query in [
            "",
            "id=1",
            "%69d=1",
            "id=%3B",
            "id=a%20b[]",
            "x[]=1",
            "x.y=1",
            "idx=1",
            "f[x]=1",
            "f%5Bx%5D=2",
            "é=1",
        ] {
            assert!(!is_ambiguous(format!("/?{query}").as_bytes(), &named), "{query}");
        }
        assert!(!is_ambiguous(b"/id;x", &named));
    }

    #[test]
    fn parts_are_told_apart() {
        let joined = |parts: &[&str]| {
            let mut key = KeyBytes::new();
            for part in parts {
                add(&mut key, part.as_bytes());
            }
            key
        };
        assert_ne!(joined(&["ab", "c"]), joined(&["a", "bc"]));
    }
}
