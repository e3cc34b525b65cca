//! Where the token of a request is, and how it is taken out.

use std::borrow::Cow;

use model::TokenPlace;

use crate::admit::Targeted;
use crate::request::decision::Decision;
use crate::request::lookup;

/// The content of the places where a request should have its token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Nothing,
    /// Several headers, cookies or parameters: endpoints may read any of them.
    Several,
    Token(&'a [u8]),
}

/// Looks for the token in the header, the cookie and the query, in this order.
pub(super) fn find<'a>(targeted: &Targeted<'a>, place: &TokenPlace) -> Found<'a> {
    let (head, parsed) = (targeted.head, targeted.parsed);
    let name = place.header.as_bytes();
    let fields = parsed.fields.iter().filter(|field| field.name(head).eq_ignore_ascii_case(name));
    let is_authorization = is_authorization(place);
    let tokens = fields.filter_map(|field| {
        // Credentials of another scheme are another check's.
        if is_authorization { bearer(field.value(head)) } else { Some(field.value(head)) }
    });
    let found = single(tokens);
    if found != Found::Nothing {
        return found;
    }
    if let Some(name) = &place.cookie {
        let pairs = lookup::cookies(head, parsed);
        let found = single(pairs.filter_map(|pair| lookup::named(pair, name.as_bytes())));
        if found != Found::Nothing {
            return found;
        }
    }
    let Some(name) = &place.parameter else { return Found::Nothing };
    let pairs = lookup::parameters(head, parsed).into_iter().flatten();
    single(pairs.filter_map(|pair| lookup::named(pair, name.as_bytes())))
}

/// Takes the token out of what the endpoint gets: from each place in which it may be.
pub(super) fn strip(targeted: &Targeted<'_>, place: &TokenPlace, decision: &mut Decision) {
    let (head, parsed) = (targeted.head, targeted.parsed);
    let has_other_credentials = || {
        let mut fields = parsed.fields.iter();
        fields.any(|field| {
            field.name(head).eq_ignore_ascii_case(b"authorization") && bearer(field.value(head)).is_none()
        })
    };
    if !is_authorization(place) || !has_other_credentials() {
        decision.tell(&place.header, None);
    }
    if let Some(name) = &place.cookie {
        decision.keep_cookies(head, parsed, |pair| lookup::named(pair, name.as_bytes()).is_none());
    }
    if let Some(name) = &place.parameter {
        let of_script = || targeted.script.as_ref().and_then(|script| script.target.as_deref());
        let target = targeted.rewritten_target().or_else(of_script);
        let target = target.unwrap_or_else(|| targeted.sent_target());
        if let Cow::Owned(stripped) = without_parameter(target, name.as_bytes()) {
            decision.target = Some(stripped);
        }
    }
}

fn is_authorization(place: &TokenPlace) -> bool {
    place.header.eq_ignore_ascii_case("authorization")
}

/// The token in credentials of the scheme `Bearer` (RFC 6750 section 2.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn single<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Found<'a> {
    match (values.next(), values.next()) {
        (Some(only), None) => Found::Token(only),
        (Some(_), Some(_)) => Found::Several,
        (None, _) => Found::Nothing,
    }
}

/// A path with its query, without the parameters of a name.
fn without_parameter<'t>(target: &'t [u8], name: &[u8]) -> Cow<'t, [u8]> {
    let Some(at) = memchr::memchr(b'?', target) else { return Cow::Borrowed(target) };
    let (path, query) = (&target[..at], &target[at + 1..]);
    let is_other = |pair: &&[u8]| lookup::named(pair, name).is_none();
    let pairs = || query.split(|&byte| byte == b'&');
    if pairs().all(|pair| is_other(&pair)) {
        return Cow::Borrowed(target);
    }
    let kept: Vec<_> = pairs().filter(is_other).collect();
    let query = kept.join(&b"&"[..]);
    Cow::Owned(if query.is_empty() { path.to_vec() } else { [path, b"?", &query].concat() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TWO, World, route_to};

    fn place() -> TokenPlace {
        let (cookie, parameter) = (Some("token".to_owned()), Some("access_token".to_owned()));
        TokenPlace { cookie, parameter, ..TokenPlace::default() }
    }

    fn found(lines: &str) -> String {
        World::of(route_to(TWO)).admitted(lines, |admitted, _| match find(&admitted, &place()) {
            Found::Nothing => "-".to_owned(),
            Found::Several => "several".to_owned(),
            Found::Token(token) => String::from_utf8(token.to_vec()).unwrap(),
        })
    }

    #[test]
    fn the_first_place_that_has_something_counts() {
        for (lines, expected) in [
            ("GET /", "-"),
            ("GET /\nAuthorization: Bearer a.b.c", "a.b.c"),
            ("GET /\nauthorization: bearer  a.b.c", "a.b.c"),
            ("GET /\nAuthorization: Basic YQ==", "-"),
            ("GET /\nAuthorization: Bearer", "-"),
            ("GET /\nAuthorization: Bearer a\nAuthorization: Bearer a", "several"),
            ("GET /\nAuthorization: Bearer a\nCookie: token=b", "a"),
            ("GET /?access_token=c\nAuthorization: Basic YQ==\nCookie: x=y; token=b", "b"),
            ("GET /\nCookie: token=a; token=b", "several"),
            ("GET /?x=y&access_token=c", "c"),
            ("GET /?access_token=c&access_token=d", "several"),
            ("GET /?access_tokens=c\nCookie: tokens=b", "-"),
        ] {
            assert_eq!(found(lines), expected, "{lines}");
        }
    }

    #[test]
    fn tokens_are_taken_out() {
        let stripped = |lines: &str| {
            World::of(route_to(TWO)).admitted(lines, |admitted, _| {
                let mut decision = Decision::default();
                strip(&admitted, &place(), &mut decision);
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                let headers: Vec<_> =
                    decision.upstream.into_iter().map(|(name, value)| (name, value.map(text))).collect();
                (headers, decision.target.map(text))
            })
        };
        let removed = |name: &str| (name.to_owned(), None);
        assert_eq!(stripped("GET /a\nAuthorization: Bearer a"), (vec![removed("Authorization")], None));
        assert_eq!(stripped("GET /a\nAuthorization: Basic a"), (vec![], None));
        let (headers, target) = stripped("GET /a?b=c&access_token=d&e\nCookie: x=y; token=b\nCookie: z=1");
        assert_eq!(headers[1], ("Cookie".to_owned(), Some("x=y; z=1".to_owned())));
        assert_eq!(target.as_deref(), Some("/a?b=c&e"));
        let (headers, target) = stripped("GET /a?access_token=d\nCookie: token=b");
        assert_eq!((&headers[1], target.as_deref()), (&removed("Cookie"), Some("/a")));
    }
}
