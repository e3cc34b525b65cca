//! What tells the responses to requests apart.
//!
//! An endpoint is told two kinds of things. What Forebay says itself, be it of a trusted hop, a setting, a snippet, an auth service or a
//! client certificate, is part of the key. What clients say is passed on and is no part of it: the endpoint has to name in `Vary` what it
//! looks at. Some headers of clients change what is answered and are never named there: requests with these [pass](is_opaque).

use model::{CacheKeyQuery, CachePolicy, Forward};
use smallvec::SmallVec;

use crate::cache::Labels;
use crate::exchange::Exchange;
use crate::lookup;
use crate::outbound;

/// A key while it is looked for: on the stack, nearly always.
pub(crate) type KeyBytes = SmallVec<[u8; 512]>;

/// Conditions that are meant for whoever has the resource itself.
const CONDITIONS: &[&[u8]] = &[b"if-match", b"if-unmodified-since"];

/// Headers by which a client could have another page or another method than those of the request line, another name or scheme of the host, or the page of
/// another user, at one framework or another.
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

/// Whether a request says something that may change its response and that nobody names in `Vary`, or that is not for a cache.
pub(super) fn is_opaque(exchange: &Exchange<'_>) -> bool {
    exchange.request.fields.iter().any(|field| {
        let name = field.name(exchange.head);
        let known = match name.first() {
            Some(b'x' | b'X' | b'f' | b'F' | b'r' | b'R' | b's' | b'S') => OPAQUE,
            Some(b'i' | b'I') => CONDITIONS,
            _ => return false,
        };
        known.iter().any(|known| name.eq_ignore_ascii_case(known))
    })
}

/// Whether the route says that a request is one user's own.
pub(super) fn is_bypassed(exchange: &Exchange<'_>, policy: &CachePolicy) -> bool {
    let (head, request) = (exchange.head, exchange.request);
    let has_header = |name: &String| request.fields.find_name(head, name.as_bytes()).is_some();
    let has_cookie = |name: &String| lookup::cookie(head, request, name.as_bytes()).is_some();
    policy.bypass.headers.iter().any(has_header) || policy.bypass.cookies.iter().any(has_cookie)
}

/// The key of a request, or of what is at another target of the same host.
pub(super) fn of(
    exchange: &Exchange<'_>,
    forward: &Forward,
    policy: &CachePolicy,
    target: Option<&[u8]>,
) -> KeyBytes {
    if let Some(guest) = exchange.guest.get().filter(|_| target.is_none()) {
        // Who asks has found it, and knows more of the client.
        return KeyBytes::from_slice(&guest.key);
    }
    let mut key = KeyBytes::new();
    let cluster = exchange.cluster.get().map(|id| exchange.config.snapshot.cluster(id));
    add(&mut key, cluster.map(|cluster| cluster.name.as_bytes()).unwrap_or_default());
    exchange.forwarded.write_key(|part| add(&mut key, part));
    match outbound::host(exchange, forward) {
        Some(host) => add(&mut key, &host),
        None => add(&mut key, exchange.forwarded.host),
    }
    let (own, original) = (outbound::target(exchange), exchange.request.origin_target(exchange.head));
    add_target(&mut key, target.unwrap_or(own), &policy.query);
    if own != original && target.is_none() {
        // Endpoints may be told it, and what is rewritten to one page may have been two: each URL is purged by its own name.
        add_target(&mut key, original, &policy.query);
    }
    outbound::edits(exchange, forward, false).write_key(|part| add(&mut key, part));
    key
}

/// By what of its URL, as clients know it, the response to a request can be purged.
pub(super) fn labels(exchange: &Exchange<'_>, policy: &CachePolicy) -> Option<Labels> {
    if let Some(guest) = exchange.guest.get() {
        // It asks as the endpoint is to be asked, which may be for another URL than the client's.
        return Some(guest.labels.clone());
    }
    let target = exchange.request.origin_target(exchange.head);
    Labels::of_url(exchange.forwarded.host, target, policy.query == CacheKeyQuery::All)
}

/// Each part is preceded by its length, so that no two lists have the same key.
fn add(key: &mut KeyBytes, part: &[u8]) {
    key.extend_from_slice(&(part.len() as u32).to_be_bytes());
    key.extend_from_slice(part);
}

/// A path, and of its query what counts.
fn add_target(key: &mut KeyBytes, target: &[u8], query: &CacheKeyQuery) {
    let path = wire::path::of_target(target);
    match (query, wire::path::query_of_target(target)) {
        (CacheKeyQuery::All, _) => add(key, target),
        (CacheKeyQuery::None, _) | (_, None) => add(key, path),
        (CacheKeyQuery::Named(names), Some(query)) => {
            add(key, path);
            let counts = |part: &&[u8]| {
                let name = part.split(|&byte| byte == b'=').next().unwrap_or_default();
                names.iter().any(|known| known.as_bytes() == name)
            };
            query.split(|&byte| byte == b'&').filter(counts).for_each(|part| add(key, part));
        }
    }
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
        assert_eq!(key("/?a", &CacheKeyQuery::None), key("/", &CacheKeyQuery::None));
        for other in ["/", "/?", "/?b&a", "/?a&b&", "/%3Fa&b", "//?a&b"] {
            assert_ne!(key("/?a&b", &CacheKeyQuery::All), key(other, &CacheKeyQuery::All), "{other}");
        }
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
