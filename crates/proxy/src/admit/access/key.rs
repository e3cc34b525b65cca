//! The texts that a key with variables comes to for a request, by which limits and the search for abusive
//! clients count.
//!
//! A request may have several headers, cookies or parameters of one name, and which of them an endpoint reads
//! is not known here. A key comes to a text for each of them, so that no spelling of a request escapes the
//! count of the value that the endpoint reads. For the same reason names and values are compared as the most
//! lenient frameworks read them: two that differ here are also two to an endpoint. Strict frameworks see no
//! value where the name is in other letters, so that such a request counts as one without the value too.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use model::HeaderNames;
use model::template::{Template, Variable};
use smallvec::SmallVec;
use wire::field::is_alike;

use crate::admit::Targeted;
use crate::limits::KEY_TEXTS_MAX;
use crate::request::decision::Decision;
use crate::request::lookup;
use crate::route::Routed;
use crate::route::script_state::ScriptState;
use crate::route::values::combination::{Choice, Combination};
use crate::route::values::{self, HasValues, RequestValues, Scope};

/// The texts of a key.
#[derive(Debug, Default)]
pub(crate) struct KeyTexts {
    /// No text is empty, and no two are equal.
    pub(crate) texts: SmallVec<[Vec<u8>; 1]>,
    /// The request has more texts than are allowed.
    pub(crate) are_too_many: bool,
}

/// Subjects that a request is counted for.
pub(crate) struct Counted<S> {
    pub(crate) subjects: SmallVec<[S; 1]>,
    /// The request has more values than are counted, and is refused.
    pub(crate) are_too_many: bool,
}

impl<S> Counted<S> {
    /// A request that is counted for one subject.
    pub(crate) fn once(subject: S) -> Self {
        Self { subjects: SmallVec::from_iter([subject]), are_too_many: false }
    }

    /// A request that is not limited.
    pub(crate) fn never() -> Self {
        Self { subjects: SmallVec::new(), are_too_many: false }
    }

    /// A request that is counted for each text of a key.
    pub(crate) fn by(texts: &KeyTexts, subject: impl Fn(&[u8]) -> S) -> Self {
        let subjects = texts.texts.iter().map(|text| subject(text)).collect();
        Self { subjects, are_too_many: texts.are_too_many }
    }

    pub(crate) fn is_limited(&self) -> bool {
        !self.subjects.is_empty() || self.are_too_many
    }
}

/// A client's address; of IPv6 the network of 64 bits, which is what a subscriber commonly has (RFC 6177).
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 64).into(),
    }
}

/// The texts of a key with the values that a request has by now, the name of its client among them.
pub(super) fn expand(targeted: &Targeted<'_>, decision: Option<&Decision>, key: &Template) -> KeyTexts {
    expand_at(Scope { decision, ..targeted.scope() }, targeted.script.as_deref(), key)
}

/// The texts of a key for the request as it was sent, before any script.
pub(super) fn expand_as_sent(routed: &Routed<'_>, key: &Template) -> KeyTexts {
    expand_at(routed.scope(), None, key)
}

fn expand_at(scope: Scope<'_>, script: Option<&ScriptState<'_>>, key: &Template) -> KeyTexts {
    let mut choices = Vec::new();
    gather(scope.routed, key, &mut choices);
    let lens = choices.iter().map(|choice| choice.values.len().max(1));
    let combinations = lens.fold(1, usize::saturating_mul);
    let mut found = KeyTexts { are_too_many: combinations > KEY_TEXTS_MAX, ..KeyTexts::default() };
    for number in 0..combinations.min(KEY_TEXTS_MAX) {
        let mut text = Vec::new();
        let combination = Some(Combination { choices: &choices, number });
        values::with_values(scope, script, |values| {
            observe::access::expand(key, &RequestValues { combination, ..*values }, &mut text);
        });
        if !text.is_empty() && !found.texts.contains(&text) {
            found.texts.push(text);
        }
    }
    found
}

/// Adds the variables that are not there yet and may have several values, those of tables included.
fn gather<'k>(routed: &Routed<'_>, key: &'k Template, choices: &mut Vec<Choice<'k>>) {
    for variable in key.variables() {
        if let Variable::Mapped(map) = variable {
            map.templates().for_each(|template| gather(routed, template, choices));
        }
        let is_several =
            matches!(variable, Variable::RequestHeader(_) | Variable::Cookie(_) | Variable::Argument(_));
        if is_several && !choices.iter().any(|choice| choice.variable == variable) {
            choices.push(Choice { variable, values: values_of(routed, variable) });
        }
    }
}

fn values_of(routed: &Routed<'_>, variable: &Variable) -> Vec<Vec<u8>> {
    let (head, request) = (routed.head, routed.parsed);
    let mut values = Vec::new();
    match variable {
        // HTTP/2 has a field for each cookie, which say no more than one does (RFC 9113 section 8.2.3).
        Variable::RequestHeader(name) if name == "cookie" => {
            let names = HeaderNames::Plain;
            values.extend(lookup::header_variable(head, request, b"cookie", names).map(Cow::into_owned));
        }
        Variable::RequestHeader(name) => {
            let names = routed.config.settings().client.header_names;
            let fields = lookup::headers_alike(head, request, name.as_bytes(), names);
            add_distinct(fields.map(|value| of_header(name, value)), &mut values);
            let mut own = request.fields.iter().map(|field| field.name(head));
            add_absent(own.any(|own| own.eq_ignore_ascii_case(name.as_bytes())), &mut values);
        }
        Variable::Cookie(name) => {
            let pairs = lookup::cookies(head, request);
            add_distinct(pairs.filter_map(|pair| of_pair(pair, name, unquoted)), &mut values);
            let mut own = lookup::cookies(head, request);
            add_absent(own.any(|pair| is_exactly(pair, name)), &mut values);
        }
        Variable::Argument(name) => {
            // Some frameworks take a semicolon for the end of a parameter too.
            let whole = || lookup::parameters(head, request).into_iter().flatten();
            let pairs = whole().flat_map(|pair| pair.split(|&byte| byte == b';').chain([pair]));
            add_distinct(pairs.filter_map(|pair| of_pair(pair, name, <[u8]>::to_vec)), &mut values);
            add_absent(whole().any(|pair| is_exactly(pair, name)), &mut values);
        }
        _ => {}
    }
    values
}

fn add_distinct(all: impl Iterator<Item = Vec<u8>>, values: &mut Vec<Vec<u8>>) {
    for value in all {
        if values.len() > KEY_TEXTS_MAX {
            return;
        }
        if !values.contains(&value) {
            values.push(value);
        }
    }
}

/// Adds the empty value if there are values, but only under other spellings of the name: most endpoints read
/// none then.
fn add_absent(is_there: bool, values: &mut Vec<Vec<u8>>) {
    if !is_there && !values.is_empty() && !values.contains(&Vec::new()) {
        values.push(Vec::new());
    }
}

/// The value of a header; of credentials with the scheme in lower case and one space behind it (RFC 9110
/// section 11.4).
fn of_header(name: &str, value: &[u8]) -> Vec<u8> {
    match value.iter().position(|&byte| byte == b' ') {
        Some(end) if name == "authorization" => {
            [&value[..end].to_ascii_lowercase(), &b" "[..], value[end..].trim_ascii()].concat()
        }
        _ => value.to_vec(),
    }
}

/// The decoded value of `name=value`, if any framework reads that name.
fn of_pair(pair: &[u8], name: &str, read: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let (own, value) = split(pair);
    is_named(own, name).then(|| decoded(&read(value)).trim_ascii().to_vec())
}

fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', pair) {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &[]),
    }
}

/// Whether the decoded name of a pair is this one, in the same letters.
fn is_exactly(pair: &[u8], name: &str) -> bool {
    decoded(split(pair).0).trim_ascii() == name.as_bytes()
}

/// Whether a framework may take the name of a cookie or parameter for another one.
fn is_named(own: &[u8], name: &str) -> bool {
    let own = decoded(own);
    let own = own.trim_ascii();
    // An index in brackets belongs to a list or a table of this name.
    let base = &own[..memchr::memchr(b'[', own).unwrap_or(own.len())];
    is_alike(own, name.as_bytes()) || is_alike(base, name.as_bytes())
}

/// Whether a request has several headers, cookies or parameters for a variable of the key, or one of another
/// spelling. A service that is asked with them may read another value than the key has.
pub(super) fn is_ambiguous(routed: &Routed<'_>, key: &Template) -> bool {
    let (head, request) = (routed.head, routed.parsed);
    let is_one = |names: &mut dyn Iterator<Item = &[u8]>, is_exact: &dyn Fn(&[u8]) -> bool| {
        names.next().is_none_or(is_exact) && names.next().is_none()
    };
    let is_clear = |variable: &Variable| match variable {
        Variable::Mapped(map) => !map.templates().any(|template| is_ambiguous(routed, template)),
        Variable::RequestHeader(name) if name != "cookie" => {
            let names = request.fields.iter().map(|field| field.name(head));
            let mut alike = names.filter(|own| is_alike(own, name.as_bytes()));
            is_one(&mut alike, &|own| own.eq_ignore_ascii_case(name.as_bytes()))
        }
        Variable::Cookie(name) => {
            let names = lookup::cookies(head, request).map(|pair| split(pair).0);
            let mut alike = names.filter(|own| is_named(own, name));
            is_one(&mut alike, &|own| own == name.as_bytes())
        }
        Variable::Argument(name) => {
            let pairs = lookup::parameters(head, request).into_iter().flatten();
            let pairs = pairs.flat_map(|pair| pair.split(|&byte| byte == b';'));
            let mut alike = pairs.map(|pair| split(pair).0).filter(|own| is_named(own, name));
            is_one(&mut alike, &|own| own == name.as_bytes())
        }
        _ => true,
    };
    !key.variables().all(is_clear)
}

/// A text without escapes. An escape that is malformed stays as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                digit(*high).zip(digit(*low)).map(|(high, low)| ((high << 4 | low) as u8, after))
            }
            (b'+', _) => Some((b' ', tail)),
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((*first, tail));
        decoded.push(byte);
        rest = after;
    }
    decoded
}

/// The value of a cookie without quotes around it and without the escapes that may stand between them, `\"`
/// and `\141`.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let digit = |byte: u8| char::from(byte).to_digit(8);
    let mut unquoted = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match (first, tail) {
            (b'\\', [one, two, three, after @ ..]) => match digit(*one).zip(digit(*two)).zip(digit(*three)) {
                Some(((one, two), three)) => ((one << 6 | two << 3 | three) as u8, after),
                None => (*one, &tail[1..]),
            },
            (b'\\', [next, after @ ..]) => (*next, after),
            _ => (*first, tail),
        };
        unquoted.push(byte);
        rest = after;
    }
    unquoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_ipv6_is_a_network_of_64_bits() {
        let network = |address: &str| network(address.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3::4"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:2:ffff:ffff:ffff:ffff"), network("2001:db8:1:2::"));
        assert_ne!(network("2001:db8:1:3::"), network("2001:db8:1:2::"));
    }

    #[test]
    fn all_spellings_of_a_pair_have_one_value() {
        let value = |pair: &str| of_pair(pair.as_bytes(), "api_key", unquoted);
        for pair in [
            "api_key=a b",
            "API_Key=a%20b",
            "%61pi_key=%61+b",
            " api_key = a b",
            "api.key=a b",
            "api_key[]=a b",
            "api%5fkey=\"a b\"",
            "api_key=\"\\141 b\"",
            "api_key=\"\\a b\"",
        ] {
            assert_eq!(value(pair).as_deref(), Some(&b"a b"[..]), "{pair}");
        }
        for pair in ["api_keys=a", "api=a", "xapi_key=a", "=a", ""] {
            assert_eq!(value(pair), None, "{pair}");
        }
        assert_eq!(value("api_key").as_deref(), Some(&b""[..]));
        assert_eq!(value("api_key=%zz%4\"\\1").as_deref(), Some(&b"%zz%4\"\\1"[..]));
    }

    #[test]
    fn credentials_have_one_spelling_of_their_scheme() {
        assert_eq!(of_header("authorization", b"BEARER   a.B"), b"bearer a.B");
        assert_eq!(of_header("authorization", b"token"), b"token");
        assert_eq!(of_header("x-api-key", b"A  b"), b"A  b");
    }
}
