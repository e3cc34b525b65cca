//! The further requests that a stored response answers (RFC 9111 section 4.1).

use super::head::Head;
use super::syntax::{elements, is_token};
use crate::field::list;

/// The names in a response's `Vary`: in lower case, unique, sorted. Empty without a `Vary`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vary {
    names: Box<[Box<[u8]>]>,
    /// The number of names that the response itself does not contain.
    implied: usize,
}

/// Request headers that a proxy replaces by its own value for each client and each request. The endpoint's
/// value differs from the value that the next client sends, so a response that varies by one matches no other
/// request.
const REPLACED: [&[u8]; 7] = [
    b"b3",
    b"traceparent",
    b"tracestate",
    b"x-forwarded-for",
    b"x-original-forwarded-for",
    b"x-real-ip",
    b"x-request-id",
];

/// The comparison of a field's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The values are compared byte by byte: the field is no list, or has a grammar of its own.
    Exact,
    /// The values are lists: white space around commas has no meaning, and elements may be in several lines.
    List,
    /// The values are lists of tokens in any letter case. The order counts: of two that a client likes
    /// equally, servers select the first.
    Preferences,
}

impl Vary {
    /// Reads the `Vary` of a response. None for `*`, for a malformed list, and for headers that a proxy
    /// replaces: such a response matches no other request.
    pub fn of(response: Head<'_>) -> Option<Self> {
        let mut names = Vec::new();
        for name in response.values(b"vary").flat_map(list) {
            let name = name.to_ascii_lowercase();
            if !is_token(&name) || name == b"*" || REPLACED.contains(&&*name) {
                return None;
            }
            names.push(name.into_boxed_slice());
        }
        names.sort_unstable();
        names.dedup();
        Some(Self { names: names.into(), implied: 0 })
    }

    /// Adds names that the response does not contain, although it may depend on them.
    #[must_use]
    pub fn with_implied<'a>(self, names: impl Iterator<Item = &'a [u8]>) -> Self {
        let said = self.names.len();
        let mut all = self.names.into_vec();
        all.extend(names.map(|name| name.to_ascii_lowercase().into_boxed_slice()));
        all.sort_unstable();
        all.dedup();
        Self { implied: all.len() - said, names: all.into() }
    }

    /// Whether names are implied that the response does not contain.
    pub fn has_implied(&self) -> bool {
        self.implied > 0
    }

    /// Whether the names include a field.
    pub fn has(&self, name: &[u8]) -> bool {
        self.names().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether the list is empty, so that the response matches all requests.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Appends the secondary key of a request: its values of the named fields. Two requests with the same key
    /// get the same response. Without names, nothing is appended.
    pub fn write_key(&self, request: Head<'_>, key: &mut Vec<u8>) {
        for name in self.names() {
            // Each value is separated from the next one by its length, and a missing one is distinguished
            // from an empty one by its sign.
            if !request.has(name) {
                key.push(b'-');
                continue;
            }
            key.push(b'+');
            let length_at = key.len();
            key.extend([0; 4]);
            write_value(form_of(name), request, name, key);
            let length = (key.len() - length_at - 4) as u32;
            key[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// The secondary key of a request.
    pub fn key(&self, request: Head<'_>) -> Box<[u8]> {
        let mut key = Vec::new();
        self.write_key(request, &mut key);
        key.into()
    }

    /// Whether a request has this secondary key. The memory of `scratch` is reused.
    pub fn matches(&self, request: Head<'_>, key: &[u8], scratch: &mut Vec<u8>) -> bool {
        if self.is_empty() {
            return true;
        }
        scratch.clear();
        self.write_key(request, scratch);
        scratch == key
    }
}

fn form_of(name: &[u8]) -> Form {
    match name {
        b"accept-charset" | b"accept-encoding" | b"accept-language" => Form::Preferences,
        // Servers interpret these byte by byte: white space in them may matter.
        b"authorization" | b"cookie" | b"origin" | b"referer" | b"user-agent" => Form::Exact,
        _ => Form::List,
    }
}

fn write_value(form: Form, request: Head<'_>, name: &[u8], out: &mut Vec<u8>) {
    let lines = request.values(name);
    match form {
        Form::Exact => {
            for (place, line) in lines.enumerate() {
                if place > 0 {
                    out.push(b'\n');
                }
                out.extend(line);
            }
        }
        Form::List => write_list(lines.flat_map(elements), out),
        Form::Preferences => {
            let wanted: Vec<Vec<u8>> = lines.flat_map(list).map(compact).collect();
            write_list(wanted.iter().map(Vec::as_slice), out);
        }
    }
}

fn write_list<'a>(elements: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (place, element) in elements.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend(element);
    }
}

/// The element without white space, in lower case.
fn compact(element: &[u8]) -> Vec<u8> {
    element.iter().filter(|byte| !b" \t".contains(byte)).map(u8::to_ascii_lowercase).collect()
}
