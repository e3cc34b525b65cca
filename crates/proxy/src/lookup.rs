//! Values that a request has under names of their own: headers, cookies, parameters of the query.

use std::borrow::Cow;

use wire::h1::Request;

/// The value of a header. "A recipient MAY combine multiple field lines within a field section that have the same field name into one
/// field line" (RFC 9110 section 5.3).
pub(crate) fn header<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<Cow<'a, [u8]>> {
    let mut values = values(head, request, name);
    let first = values.next()?;
    let mut joined = Cow::Borrowed(first);
    for value in values {
        let all = joined.to_mut();
        all.push(b',');
        all.extend_from_slice(value);
    }
    Some(joined)
}

/// The value of a parameter of the query, as sent; of one that comes more than once, the first.
pub(crate) fn parameter<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<&'a [u8]> {
    let target = request.origin_target(head);
    let query = target[wire::path::of_target(target).len()..].strip_prefix(b"?")?;
    query.split(|&byte| byte == b'&').find_map(|pair| named(pair, name))
}

/// The value of a cookie; of one that comes more than once, the first.
pub(crate) fn cookie<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<&'a [u8]> {
    let pairs = values(head, request, b"cookie").flat_map(|value| value.split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii).find_map(|pair| named(pair, name))
}

fn values<'h, 'r>(
    head: &'h [u8],
    request: &'r Request,
    name: &'r [u8],
) -> impl Iterator<Item = &'h [u8]> + use<'h, 'r> {
    let fields = request.fields.iter().filter(move |field| field.name(head).eq_ignore_ascii_case(name));
    fields.map(move |field| field.value(head))
}

/// The value of `name=value`, if that is its name; empty where there is no `=`.
fn named<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = pair.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") }
}
