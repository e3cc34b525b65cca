//! Clients that show a key (`forebay.io/auth-api-keys`).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::{ApiKeys, KeyHolder};

use crate::admit::Targeted;
use crate::limits::API_KEY_BYTES_MAX;
use crate::request::decision::Decision;
use crate::request::lookup;
use crate::request::reply::Answer;
use crate::route::filters::FilterResult;

/// The header with the client's name, as oauth2-proxy calls it.
const NAME_HEADER: &str = "X-Auth-Request-User";

/// Looks up whose key the request has. The endpoint gets the client's name in place of the key; the client
/// itself can give it neither.
pub(super) fn identify(targeted: &Targeted<'_>, keys: &ApiKeys, decision: &mut Decision) {
    let holder = presented(targeted, keys).and_then(|key| holder(keys, key));
    decision.tell(&keys.header, None);
    decision.tell(NAME_HEADER, holder.map(|holder| holder.name.as_bytes().to_vec()));
    decision.client = holder.cloned();
}

/// The result of the look-up.
pub(super) fn check(keys: &ApiKeys, decision: &Decision) -> FilterResult {
    if decision.client.is_some() {
        return FilterResult::Continue;
    }
    let scheme = if is_authorization(keys) { "Bearer" } else { "ApiKey" };
    FilterResult::Answer(Answer::refusal(401, &[scheme.as_bytes().to_vec()]))
}

/// The key of a request. One that has the header several times has no key: endpoints may read any of them.
fn presented<'a>(targeted: &Targeted<'a>, keys: &ApiKeys) -> Option<&'a [u8]> {
    let (head, parsed) = (targeted.head, targeted.parsed);
    let mut fields = parsed.fields.iter().filter(|field| {
        let name = field.name(head);
        name.eq_ignore_ascii_case(keys.header.as_bytes())
    });
    match (fields.next(), fields.next()) {
        (Some(field), None) if is_authorization(keys) => of_scheme(field.value(head)),
        (Some(field), None) => Some(field.value(head)),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let name = keys.parameter.as_ref()?.as_bytes();
            lookup::parameters(head, parsed)?.find_map(|pair| lookup::named(pair, name))
        }
    }
}

fn is_authorization(keys: &ApiKeys) -> bool {
    keys.header.eq_ignore_ascii_case("authorization")
}

/// The key in credentials of the scheme `Bearer` (RFC 6750 section 2.1).
fn of_scheme(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

fn holder<'k>(keys: &'k ApiKeys, key: &[u8]) -> Option<&'k Arc<KeyHolder>> {
    if key.len() > API_KEY_BYTES_MAX {
        return None;
    }
    let digest = digest(&SHA256, key);
    keys.holders.find(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use model::KeyHolders;

    use super::*;
    use crate::testing::{TWO, World, route_to};

    fn keys(header: &str) -> ApiKeys {
        let mut holders = KeyHolders::default();
        let digest = digest(&SHA256, b"0123");
        let holder = KeyHolder { name: "reports".into(), labels: [("team".into(), "data".into())].into() };
        assert!(holders.add(holder, digest.as_ref().try_into().unwrap()));
        ApiKeys { header: header.to_owned(), parameter: Some("key".to_owned()), holders: Arc::new(holders) }
    }

    fn identified(lines: &str, header: &str) -> Decision {
        World::of(route_to(TWO)).admitted(lines, |admitted, _| {
            let mut decision = Decision::default();
            identify(&admitted, &keys(header), &mut decision);
            decision
        })
    }

    #[test]
    fn a_key_is_in_one_header_or_in_the_query() {
        for (lines, header, is_known) in [
            ("GET /\nX-Key: 0123", "x-key", true),
            ("GET /\nx-key: 01234", "X-Key", false),
            ("GET /\nX-Key: 0123\nX-Key: 0123", "X-Key", false),
            ("GET /?a=b&key=0123", "X-Key", true),
            ("GET /?a=b&key=0123\nX-Key: no", "X-Key", false),
            ("GET /?akey=0123", "X-Key", false),
            ("GET /\nAuthorization: bearer 0123", "authorization", true),
            ("GET /\nAuthorization: 0123", "authorization", false),
            ("GET /", "X-Key", false),
        ] {
            let decision = identified(lines, header);
            assert_eq!(decision.client.is_some(), is_known, "{lines}");
            let is_let_in = check(&keys(header), &decision) == FilterResult::Continue;
            assert_eq!(is_let_in, is_known, "{lines}");
        }
    }

    #[test]
    fn the_endpoint_gets_the_name_and_no_key() {
        let told = |decision: &Decision, name: &str| {
            let found = decision.upstream.iter().find(|(known, _)| known == name);
            found.unwrap().1.clone()
        };
        let known = identified("GET /\nX-Key: 0123", "X-Key");
        assert_eq!(told(&known, NAME_HEADER).as_deref(), Some(&b"reports"[..]));
        assert_eq!(told(&known, "X-Key"), None);
        let unknown = identified("GET /\nX-Auth-Request-User: reports", "X-Key");
        assert_eq!(told(&unknown, NAME_HEADER), None);
    }

    #[test]
    fn a_long_key_is_not_even_hashed() {
        let long = format!("GET /\nX-Key: {}", "0".repeat(API_KEY_BYTES_MAX + 1));
        assert!(identified(&long, "X-Key").client.is_none());
    }
}
