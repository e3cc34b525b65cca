//! Content codings: which of them a client takes, and which responses may be given another one (RFC 9110 sections 8.4 and 12.5.3).
//!
//! Never in here: the codings themselves. What is asked is decided from the lines of heads alone.

use crate::h1::Fields;

/// A content coding that can be made and taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

/// The codings that a client takes, with the weight that it gives to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// In thousandths; 0 for what it does not take.
    weights: [u16; Coding::ALL.len()],
    /// The weight of content as it is, where the client gives one.
    identity: Option<u16>,
}

/// Why a response keeps the coding that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// There is no content, or it is only a part of the whole.
    Status,
    /// It says of which part it is.
    Range,
    /// Its sender forbids it.
    NoTransform,
    /// It carries a digest or a signature, which would no longer be right.
    Digest,
    /// The call it answers compresses messages by itself.
    Grpc,
}

/// The coding in which a response comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coded {
    /// None: its content is as it is.
    Plain,
    /// One that can be taken away.
    Known(Coding),
    /// Another one, or several.
    Other,
}

// === impl Coding ===

impl Coding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The coding with this name. Letter case makes no difference, and `x-gzip` is `gzip` (RFC 9110 section 8.4.1.3).
    pub fn named(name: &[u8]) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

// === impl Accepted ===

impl Accepted {
    /// Reads the values of the fields `Accept-Encoding`, in their order. A client that sends none takes anything in theory
    /// (section 12.5.3, rule 1), and nothing is compressed for it, as by every server.
    ///
    /// A member with a weight that is no `qvalue` (section 12.4.2) does not count. Where a coding is named twice, the first one does.
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
        // "*" matches what is not named, the identity too (rule 3 of section 12.5.3).
        let weights = named.map(|weight| weight.or(any).unwrap_or(0));
        Self { weights, identity: identity.or(any) }
    }

    /// Whether the client takes a coding.
    pub fn takes(&self, coding: Coding) -> bool {
        self.weights[coding as usize] > 0
    }

    /// The one of the codings on offer that the client likes best, and of those that it likes as much the first. None where it likes the
    /// content as it is better than any of them.
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

/// The weight among the parameters of a member, in thousandths; 1000 where there is none. None where it is malformed.
fn weight<'p>(parameters: impl Iterator<Item = &'p [u8]>) -> Option<u16> {
    for parameter in parameters {
        if let [b'q' | b'Q', b'=', value @ ..] = parameter.trim_ascii() {
            return thousandths(value);
        }
    }
    Some(1000)
}

/// `qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`
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

/// The coding that a response says that it has. `identity` is none (RFC 9110 section 12.5.3 has it for requests only, and it occurs).
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

/// Why the content of a response has to stay as it is, whatever it is and whoever asks; none if nothing speaks against another coding.
pub fn bar(status: u16, head: &[u8], fields: &Fields) -> Option<Bar> {
    let has = |name: &[u8]| fields.find_name(head, name).is_some();
    // A range is one of the coded content (section 14.4), so that its coding cannot change.
    if matches!(status, ..200 | 204 | 205 | 206 | 304) {
        return Some(Bar::Status);
    }
    if has(b"content-range") {
        return Some(Bar::Range);
    }
    // Section 7.7, RFC 9111 section 5.2.2.6.
    if members(head, fields, b"cache-control")
        .any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
    {
        return Some(Bar::NoTransform);
    }
    // RFC 9530 sections 2 and 3, and what they replace; RFC 9421.
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

/// Whether a response says already that it is for certain values of `Accept-Encoding` only (section 12.5.5).
pub fn varies_by_coding(head: &[u8], fields: &Fields) -> bool {
    members(head, fields, b"vary").any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// The entity tag of the same content in another coding: weak, since the bytes are others (section 8.8.1). None for what is no tag.
pub fn weak_tag(tag: &[u8]) -> Option<Vec<u8>> {
    match tag {
        [b'W', b'/', b'"', .., b'"'] => Some(tag.to_vec()),
        [b'"', .., b'"'] => Some([b"W/", tag].concat()),
        _ => None,
    }
}

/// The members of all fields of a name whose values are lists.
fn members<'h>(head: &'h [u8], fields: &'h Fields, name: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
    let of_name = fields.iter().filter(move |field| field.name(head).eq_ignore_ascii_case(name));
    let all = of_name.flat_map(move |field| field.value(head).split(|&byte| byte == b','));
    all.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests;
