//! Values that a request has under names of their own: headers, cookies, parameters of the query.

use std::borrow::Cow;

use model::HeaderNames;
use wire::h1::Request;

/// The value of a header. "A recipient MAY combine multiple field lines within a field section that have the
/// same field name into one field line" (RFC 9110 section 5.3).
pub(crate) fn header<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<Cow<'a, [u8]>> {
    joined(values(head, request, name), b",")
}

/// The value of nginx's `$http_NAME`, of which the name is given with dashes. "Any dash is an underscore
/// there": of headers that differ in nothing else, all count. One with an underscore does so only where it
/// would be passed on.
pub(crate) fn header_variable<'a>(
    head: &'a [u8],
    request: &Request,
    name: &[u8],
    names: HeaderNames,
) -> Option<Cow<'a, [u8]>> {
    let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
    if names == HeaderNames::Plain {
        return joined(values(head, request, name), separator);
    }
    joined(headers_alike(head, request, name, names), separator)
}

/// The values of all headers that count for such a variable.
pub(crate) fn headers_alike<'h, 'r>(
    head: &'h [u8],
    request: &'r Request,
    name: &'r [u8],
    names: HeaderNames,
) -> impl Iterator<Item = &'h [u8]> + use<'h, 'r> {
    let counts = move |own: &[u8]| match names {
        HeaderNames::Plain => own.eq_ignore_ascii_case(name),
        HeaderNames::Underscores | HeaderNames::All => is_alike(own, name),
    };
    let fields = request.fields.iter().filter(move |field| counts(field.name(head)));
    fields.map(move |field| field.value(head))
}

/// Whether two names of headers differ in letter case, dashes and underscores at most.
fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().zip(other).all(|(&one, &other)| plain(one) == plain(other))
}

/// The value of nginx's `$arg_NAME`: of parameters with the name in any letter case the first.
pub(crate) fn parameter_variable<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<&'a [u8]> {
    parameters(head, request)?.find_map(|pair| named_in_any_case(pair, name))
}

/// The value of nginx's `$cookie_NAME`: of cookies with the name in any letter case the first.
pub(crate) fn cookie_variable<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<&'a [u8]> {
    cookies(head, request).find_map(|pair| named_in_any_case(pair, name))
}

/// The value of a cookie; of one that comes more than once, the first.
pub(crate) fn cookie<'a>(head: &'a [u8], request: &Request, name: &[u8]) -> Option<&'a [u8]> {
    cookies(head, request).find_map(|pair| named(pair, name))
}

fn joined<'a>(mut values: impl Iterator<Item = &'a [u8]>, separator: &[u8]) -> Option<Cow<'a, [u8]>> {
    let first = values.next()?;
    let mut joined = Cow::Borrowed(first);
    for value in values {
        let all = joined.to_mut();
        all.extend_from_slice(separator);
        all.extend_from_slice(value);
    }
    Some(joined)
}

/// The pairs of the query, as sent; none without a query.
pub(crate) fn parameters<'a>(
    head: &'a [u8],
    request: &Request,
) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
    let target = request.origin_target(head);
    let query = target[wire::path::of_target(target).len()..].strip_prefix(b"?")?;
    Some(query.split(|&byte| byte == b'&'))
}

/// The pairs of all cookies.
pub(crate) fn cookies<'h, 'r>(
    head: &'h [u8],
    request: &'r Request,
) -> impl Iterator<Item = &'h [u8]> + use<'h, 'r> {
    let pairs = values(head, request, b"cookie").flat_map(|value| value.split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii)
}

fn values<'h, 'r>(
    head: &'h [u8],
    request: &'r Request,
    name: &'r [u8],
) -> impl Iterator<Item = &'h [u8]> + use<'h, 'r> {
    // Most names differ in length, which is compared without a look at the head.
    let fields = request.fields.iter().filter(move |field| {
        usize::from(field.name_len) == name.len() && field.name(head).eq_ignore_ascii_case(name)
    });
    fields.map(move |field| field.value(head))
}

/// The value of `name=value`, if that is its name; empty where there is no `=`.
pub(crate) fn named<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = pair.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") }
}

/// The same with a name in any letter case.
fn named_in_any_case<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, _) = pair.split_at_checked(name.len())?;
    if start.eq_ignore_ascii_case(name) { named(pair, start) } else { None }
}

#[cfg(test)]
mod tests {
    use wire::h1::{Fields, RequestLimits, parse_request};

    use super::*;

    const HEAD: &[u8] =
        b"GET /?Key=1&key=2&flag&keys=3 HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX_A: 2\r\nx-a: 3\r\n\
                          Cookie: Id=a\r\nCookie: id=b\r\n\r\n";

    #[test]
    fn variables_have_the_values_that_they_have_in_nginx() {
        let limits = RequestLimits { line_bytes_max: 1000, head_bytes_max: 1000 };
        let request = parse_request(HEAD, limits, Fields::default()).unwrap().unwrap();
        let header = |name: &str| header_variable(HEAD, &request, name.as_bytes(), HeaderNames::Plain);
        assert_eq!(header("x-a").as_deref(), Some(b"1, 3".as_slice()));
        assert_eq!(header("cookie").as_deref(), Some(b"Id=a; id=b".as_slice()));
        assert_eq!((header("x_b"), header("host").as_deref()), (None, Some(b"a".as_slice())));
        for names in [HeaderNames::Underscores, HeaderNames::All] {
            let header = |name: &str| header_variable(HEAD, &request, name.as_bytes(), names);
            assert_eq!(header("x-a").as_deref(), Some(b"1, 2, 3".as_slice()));
            assert_eq!((header("x-"), header("x-b")), (None, None));
        }
        let parameter = |name: &str| parameter_variable(HEAD, &request, name.as_bytes());
        assert_eq!((parameter("key"), parameter("KEYS")), (Some(b"1".as_slice()), Some(b"3".as_slice())));
        assert_eq!((parameter("ke"), parameter("flag")), (None, Some(b"".as_slice())));
        let cookie = |name: &str| cookie_variable(HEAD, &request, name.as_bytes());
        assert_eq!((cookie("id"), cookie("i")), (Some(b"a".as_slice()), None));
    }
}
