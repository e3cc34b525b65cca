//! Content codings: those that a client accepts, and the responses that may get another one (RFC 9110
//! sections 8.4 and 12.5.3).
//!
//! Never in here: the codings themselves. The lines of heads alone decide.

use crate::h1::Fields;

/// A content coding that can be applied and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// The `gzip` coding (RFC 1952).
    Gzip,
    /// The `br` coding (RFC 7932).
    Brotli,
    /// The `zstd` coding (RFC 8878).
    Zstd,
}

/// The codings that a client accepts, each with its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The weights in thousandths; 0 for a coding that the client does not accept.
    weights: [u16; Coding::ALL.len()],
    /// The weight of unencoded content; none if the client gives none.
    identity: Option<u16>,
}

/// The reason why a response keeps its coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// The response has no content, or only a part of it.
    Status,
    /// The response names the part that it has.
    Range,
    /// The sender forbids the change.
    NoTransform,
    /// The response contains a digest or a signature, which would become wrong.
    Digest,
    /// The response belongs to a gRPC call, which compresses messages by itself.
    Grpc,
}

/// The coding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coded {
    /// The content is not encoded.
    Plain,
    /// The coding can be removed.
    Known(Coding),
    /// The coding is another one, or a combination of several.
    Other,
}

// === impl Coding ===

impl Coding {
    /// All supported codings.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// The name of the coding in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The coding with this name. Letter case makes no difference, and `x-gzip` is `gzip` (RFC 9110 section
    /// 8.4.1.3).
    pub fn named(name: &[u8]) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

// === impl Accepted ===

impl Accepted {
    /// Reads the values of the fields `Accept-Encoding`, in their order. A client that sends none accepts
    /// anything in theory (section 12.5.3, rule 1), and nothing is compressed for it, as by every server.
    ///
    /// A member with an invalid `qvalue` (section 12.4.2) does not count. If a coding is named twice, the
    /// first one counts.
    pub fn new<'v>(values: impl Iterator<Item = &'v [u8]>) -> Self {
        let (mut named, mut identity, mut any) = ([None; Coding::ALL.len()], None, None);
        for member in values.flat_map(|value| value.split(|&byte| byte == b',')) {
            let mut parts = member.split(|&byte| byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let Some(weight) = weight(parts) else { continue };
            let place = match Coding::named(name) {
                Some(coding) => &mut named[coding as usize],
                None if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                None if name == b"*" => &mut any,
                None => continue,
            };
            place.get_or_insert(weight);
        }
        // "*" matches all unnamed codings, the identity too (rule 3 of section 12.5.3).
        let weights = named.map(|weight| weight.or(any).unwrap_or(0));
        Self { weights, identity: identity.or(any) }
    }

    /// Whether the client accepts a coding.
    pub fn takes(&self, coding: Coding) -> bool {
        self.weights[coding as usize] > 0
    }

    /// The offered coding with the client's highest weight; among equal weights the first. None if the client
    /// prefers unencoded content to all of them.
    pub fn choose(&self, offered: impl Iterator<Item = Coding>) -> Option<Coding> {
        let mut best = None;
        let mut best_weight = 0;
        for coding in offered {
            let weight = self.weights[coding as usize];
            if weight > best_weight {
                (best, best_weight) = (Some(coding), weight);
            }
        }
        best.filter(|_| self.identity.is_none_or(|identity| identity <= best_weight))
    }
}

/// The weight among the parameters of a member, in thousandths; 1000 without a weight. None if it is
/// malformed.
fn weight<'p>(parameters: impl Iterator<Item = &'p [u8]>) -> Option<u16> {
    for parameter in parameters {
        if let [b'q' | b'Q', b'=', value @ ..] = parameter.trim_ascii() {
            return thousandths(value);
        }
    }
    Some(1000)
}

/// Parses `qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (&whole, rest) = value.split_first()?;
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return None,
    };
    let fraction =
        digits.iter().zip([100, 10, 1]).map(|(&digit, unit)| u16::from(digit - b'0') * unit).sum::<u16>();
    match (whole, fraction) {
        (b'0', _) => Some(fraction),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

// === responses ===

/// The coding that a response declares. `identity` counts as none (RFC 9110 section 12.5.3 defines it for
/// requests only, but responses have it too).
pub fn coded(head: &[u8], fields: &Fields) -> Coded {
    let mut found = Coded::Plain;
    for name in members(head, fields, b"content-encoding") {
        if name.eq_ignore_ascii_case(b"identity") {
            continue;
        }
        found = match (found, Coding::named(name)) {
            (Coded::Plain, Some(coding)) => Coded::Known(coding),
            _ => Coded::Other,
        };
    }
    found
}

/// The reason why the content of a response must stay unchanged, for every client; none if another coding is
/// possible.
pub fn bar(status: u16, head: &[u8], fields: &Fields) -> Option<Bar> {
    let has = |name: &[u8]| fields.find_name(head, name).is_some();
    // A range refers to the coded content (section 14.4), so its coding cannot change.
    if matches!(status, ..200 | 204 | 205 | 206 | 304) {
        return Some(Bar::Status);
    }
    if has(b"content-range") {
        return Some(Bar::Range);
    }
    // The directive forbids it (section 7.7, RFC 9111 section 5.2.2.6).
    if members(head, fields, b"cache-control")
        .any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
    {
        return Some(Bar::NoTransform);
    }
    // Fields of RFC 9530 sections 2 and 3, the fields that they replace, and those of RFC 9421.
    let digests: [&[u8]; 5] = [b"content-digest", b"repr-digest", b"digest", b"content-md5", b"signature"];
    if digests.into_iter().any(has) {
        return Some(Bar::Digest);
    }
    let is_grpc = |kind: &[u8]| kind.len() >= GRPC.len() && kind[..GRPC.len()].eq_ignore_ascii_case(GRPC);
    media_type(head, fields).is_some_and(is_grpc).then_some(Bar::Grpc)
}

const GRPC: &[u8] = b"application/grpc";

/// The media type of a response, without its parameters (section 8.3.1).
pub fn media_type<'h>(head: &'h [u8], fields: &Fields) -> Option<&'h [u8]> {
    let value = fields.find_name(head, b"content-type")?.value(head);
    let kind = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    (!kind.is_empty()).then_some(kind)
}

/// Whether a response with these values of `Vary` depends on `Accept-Encoding` (section 12.5.5).
pub fn varies_by_coding<'v>(vary: impl IntoIterator<Item = &'v [u8]>) -> bool {
    let mut names = vary.into_iter().flat_map(members_of);
    names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// The entity tag of the same content in another coding: weak, because its bytes differ (section 8.8.1). None
/// for a text that is no tag.
pub fn weak_tag(tag: &[u8]) -> Option<Vec<u8>> {
    match tag {
        [b'W', b'/', b'"', .., b'"'] => Some(tag.to_vec()),
        [b'"', .., b'"'] => Some([b"W/", tag].concat()),
        _ => None,
    }
}

/// The members of all fields with this name, whose values are lists.
fn members<'h>(head: &'h [u8], fields: &'h Fields, name: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
    let of_name = fields.iter().filter(move |field| field.name(head).eq_ignore_ascii_case(name));
    of_name.flat_map(move |field| members_of(field.value(head)))
}

/// The members of a value that is a list.
fn members_of(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests;
