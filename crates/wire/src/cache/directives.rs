//! Directives of `Cache-Control` (RFC 9111 section 5.2), read strictly: in doubt, the cache sends a request
//! too many.
//!
//! An invalid lifetime makes a response stale (section 4.2.1), the first of several lifetimes counts, and a
//! directive that forbids something counts in every form.

use super::dictionary::{self, Item};
use super::head::Head;
use super::syntax::{SECONDS_MAX, elements, is_token, seconds};
use crate::field::list;

/// The directives of a response that apply to this cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// The directive `no-store`.
    pub no_store: bool,
    /// `no-cache` without names: the response is never used unless it is validated.
    pub no_cache: bool,
    /// `private` without names.
    pub private: bool,
    /// The directive `public`.
    pub public: bool,
    /// The directive `must-revalidate`.
    pub must_revalidate: bool,
    /// The directive `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// The directive `must-understand`.
    pub must_understand: bool,
    /// The directive `no-transform`.
    pub no_transform: bool,
    /// The directive `immutable` (RFC 8246).
    pub immutable: bool,
    /// `max-age`; 0 if its value is invalid.
    pub max_age: Option<u32>,
    /// `s-maxage`; 0 if its value is invalid.
    pub s_maxage: Option<u32>,
    /// The directive `stale-while-revalidate` (RFC 5861 section 3).
    pub stale_while_revalidate: Option<u32>,
    /// The directive `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
    /// Fields that `no-cache` and `private` name, in lower case: the rest of the response may be stored
    /// without these fields (sections 5.2.2.4 and 5.2.2.7).
    pub withheld: Vec<Box<[u8]>>,
    /// The directives come from a field for this kind of cache, so `Cache-Control` and `Expires` do not count
    /// (RFC 9213 section 2.2).
    pub targeted: bool,
}

impl Directives {
    /// Reads the directives of a response. `targets` are names of fields for this kind of cache, the most
    /// specific first (`CDN-Cache-Control`): the first well-formed one replaces `Cache-Control`.
    pub fn of(response: Head<'_>, targets: &[&str]) -> Self {
        targets.iter().find_map(|name| Self::targeted(response, name.as_bytes())).unwrap_or_else(|| {
            let mut directives = Self::default();
            for directive in directives_of(response.values(b"cache-control")) {
                directives.note(&directive);
            }
            directives
        })
    }

    /// Reads a field for this kind of cache. None if it is missing, empty or malformed: then `Cache-Control`
    /// counts (RFC 9213 section 2.1).
    fn targeted(response: Head<'_>, name: &[u8]) -> Option<Self> {
        if !response.has(name) {
            return None;
        }
        let text = response.values(name).collect::<Vec<_>>().join(&b", "[..]);
        let members = dictionary::parse(&text).filter(|members| !members.is_empty())?;
        let mut directives = Self { targeted: true, ..Self::default() };
        for (key, item) in members {
            directives.note_member(key, &item);
        }
        Some(directives)
    }

    fn note_member(&mut self, key: &[u8], item: &Item) {
        let flag = !matches!(item, Item::Boolean(false));
        let names = match item {
            Item::Text(names) => Some(names.as_slice()),
            _ => None,
        };
        let seconds = match *item {
            Item::Integer(number) => u32::try_from(number.min(i64::from(SECONDS_MAX))).ok(),
            _ => None,
        };
        // A lifetime of another type is invalid.
        let lifetime = Some(seconds.unwrap_or(0));
        match key {
            b"no-store" => self.no_store = flag,
            b"no-cache" => self.no_cache = flag && !names.is_some_and(|names| self.withhold(names)),
            b"private" => self.private = flag && !names.is_some_and(|names| self.withhold(names)),
            b"public" => self.public = flag,
            b"must-revalidate" => self.must_revalidate = flag,
            b"proxy-revalidate" => self.proxy_revalidate = flag,
            b"must-understand" => self.must_understand = flag,
            b"no-transform" => self.no_transform = flag,
            b"immutable" => self.immutable = flag,
            b"max-age" => self.max_age = lifetime,
            b"s-maxage" => self.s_maxage = lifetime,
            b"stale-while-revalidate" => self.stale_while_revalidate = seconds,
            b"stale-if-error" => self.stale_if_error = seconds,
            _ => {}
        }
    }

    fn note(&mut self, directive: &Directive<'_>) {
        let argument = directive.argument;
        match directive.name.to_ascii_lowercase().as_slice() {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache |= !argument.text().is_some_and(|names| self.withhold(names)),
            b"private" => self.private |= !argument.text().is_some_and(|names| self.withhold(names)),
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"no-transform" => self.no_transform = true,
            b"immutable" => self.immutable = true,
            b"max-age" => set_first(&mut self.max_age, Some(argument.seconds().unwrap_or(0))),
            b"s-maxage" => set_first(&mut self.s_maxage, Some(argument.seconds().unwrap_or(0))),
            b"stale-while-revalidate" => set_first(&mut self.stale_while_revalidate, argument.seconds()),
            b"stale-if-error" => set_first(&mut self.stale_if_error, argument.seconds()),
            _ => {}
        }
    }

    /// Records the named fields; false if the list is empty, or contains a text that is no field name.
    fn withhold(&mut self, names: &[u8]) -> bool {
        if list(names).next().is_none() || !list(names).all(is_token) {
            return false;
        }
        self.withheld.extend(list(names).map(|name| name.to_ascii_lowercase().into_boxed_slice()));
        true
    }
}

/// The directives of a request. A cache may ignore each of them (RFC 9111 section 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-store`: the response must not be stored.
    pub no_store: bool,
    /// `no-cache`, also as `Pragma` without a `Cache-Control` (section 5.4).
    pub no_cache: bool,
    /// The directive `no-transform`.
    pub no_transform: bool,
    /// `only-if-cached`: the client wants a 504 instead of a request to the endpoint.
    pub only_if_cached: bool,
    /// `max-age`: the response must not be older.
    pub max_age: Option<u32>,
    /// `min-fresh`: the response has to stay fresh for this long.
    pub min_fresh: Option<u32>,
    /// `max-stale`: the response may be stale for no longer; any time without a number.
    pub max_stale: Option<u32>,
    /// The directive `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Reads the directives of a request.
    pub fn of(request: Head<'_>) -> Self {
        let mut read = Self::default();
        let mut is_there = false;
        for directive in directives_of(request.values(b"cache-control")) {
            is_there = true;
            read.note(&directive);
        }
        if !is_there {
            read.no_cache =
                request.values(b"pragma").flat_map(list).any(|p| p.eq_ignore_ascii_case(b"no-cache"));
        }
        read
    }

    fn note(&mut self, directive: &Directive<'_>) {
        let is = |name: &[u8]| directive.name.eq_ignore_ascii_case(name);
        let seconds = directive.argument.seconds();
        if is(b"no-store") {
            self.no_store = true;
        } else if is(b"no-cache") {
            self.no_cache = true;
        } else if is(b"no-transform") {
            self.no_transform = true;
        } else if is(b"only-if-cached") {
            self.only_if_cached = true;
        } else if is(b"max-age") {
            set_first(&mut self.max_age, Some(seconds.unwrap_or(0)));
        } else if is(b"min-fresh") {
            set_first(&mut self.min_fresh, seconds);
        } else if is(b"max-stale") {
            let any = (directive.argument == Argument::None).then_some(SECONDS_MAX);
            set_first(&mut self.max_stale, seconds.or(any));
        } else if is(b"stale-if-error") {
            set_first(&mut self.stale_if_error, seconds);
        }
    }
}

fn set_first(place: &mut Option<u32>, value: Option<u32>) {
    if place.is_none() {
        *place = value;
    }
}

/// One directive, before its interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Directive<'a> {
    name: &'a [u8],
    argument: Argument<'a>,
}

/// The argument of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument<'a> {
    None,
    Token(&'a [u8]),
    /// The text between the quotes. Escapes stay: neither numbers nor names need one.
    Quoted(&'a [u8]),
    Invalid,
}

impl<'a> Argument<'a> {
    /// The text of an argument; section 5.2 requires both forms to be accepted.
    fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::Token(text) | Self::Quoted(text) => Some(text),
            Self::None | Self::Invalid => None,
        }
    }

    /// The argument as delta-seconds (section 1.2.2).
    fn seconds(self) -> Option<u32> {
        self.text().and_then(seconds)
    }
}

fn directives_of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = Directive<'a>> {
    lines.flat_map(elements).map(directive)
}

fn directive(element: &[u8]) -> Directive<'_> {
    let Some(equals) = memchr::memchr(b'=', element) else {
        return Directive { name: element, argument: Argument::None };
    };
    let (name, value) = (&element[..equals], &element[equals + 1..]);
    let argument = match value {
        // White space around the sign is not in the grammar.
        _ if name.trim_ascii_end().len() < name.len() => Argument::Invalid,
        [b'"', quoted @ .., b'"'] => Argument::Quoted(quoted),
        _ if is_token(value) => Argument::Token(value),
        _ => Argument::Invalid,
    };
    Directive { name: name.trim_ascii_end(), argument }
}
