//! The tags, attributes and schemes that run script.

use std::sync::LazyLock;

use hashbrown::HashSet;

use super::scan::{Kind, Token};

/// The length of a name that is looked up; all that run script are shorter.
const NAME_BYTES_MAX: usize = 64;

/// Tags that run script, or change what the page's own tags do.
const TAGS: [&[u8]; 20] = [
    b"APPLET",
    b"BASE",
    b"COMMENT",
    b"EMBED",
    b"FRAME",
    b"FRAMESET",
    b"HANDLER",
    b"IFRAME",
    b"IMPORT",
    b"ISINDEX",
    b"LINK",
    b"LISTENER",
    b"META",
    b"NOSCRIPT",
    b"OBJECT",
    b"SCRIPT",
    b"STYLE",
    b"VMLFRAME",
    b"XML",
    b"XSS",
];

/// Attributes other than events.
const ATTRIBUTES: [(&[u8], Attribute); 19] = [
    (b"ACTION", Attribute::Url),
    (b"ATTRIBUTENAME", Attribute::Indirect),
    (b"BY", Attribute::Url),
    (b"BACKGROUND", Attribute::Url),
    (b"DATAFORMATAS", Attribute::Script),
    (b"DATASRC", Attribute::Script),
    (b"DYNSRC", Attribute::Url),
    (b"FILTER", Attribute::Script),
    (b"FORMACTION", Attribute::Url),
    (b"FOLDER", Attribute::Url),
    (b"FROM", Attribute::Url),
    (b"HANDLER", Attribute::Url),
    (b"HREF", Attribute::Url),
    (b"LOWSRC", Attribute::Url),
    (b"POSTER", Attribute::Url),
    (b"SRC", Attribute::Url),
    (b"STYLE", Attribute::Script),
    (b"TO", Attribute::Url),
    (b"VALUES", Attribute::Url),
];

/// Schemes of URLs that run script.
const SCHEMES: [&[u8]; 4] = [b"DATA", b"VIEW-SOURCE", b"VBSCRIPT", b"JAVA"];

/// The greatest number of a character reference that is decoded.
const REFERENCE_MAX: u32 = 0x0010_00ff;

/// The meaning of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    /// The value is text.
    Harmless,
    /// Any value runs script, or styles that do.
    Script,
    /// The value is a URL.
    Url,
    /// The value is the name of an attribute (SVG).
    Indirect,
}

static EVENTS: LazyLock<HashSet<&'static [u8], foldhash::fast::FixedState>> = LazyLock::new(|| {
    let lines = include_str!("../events.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).map(str::as_bytes).collect()
});

/// Makes the table of events before it is asked.
pub(super) fn prepare() {
    LazyLock::force(&EVENTS);
}

/// Whether a token runs script. `attribute` is what the last token said about a value that may follow it.
pub(super) fn is_script(token: &Token<'_>, attribute: &mut Attribute) -> bool {
    let before = std::mem::replace(attribute, Attribute::Harmless);
    match token.kind {
        Kind::Doctype => true,
        Kind::TagNameOpen => is_tag(token.text),
        Kind::AttributeName => {
            *attribute = meaning(token.text);
            false
        }
        Kind::AttributeValue => match before {
            Attribute::Harmless => false,
            Attribute::Script => true,
            Attribute::Url => is_url(token.text),
            Attribute::Indirect => meaning(token.text) == Attribute::Script,
        },
        Kind::Comment => is_comment(token.text),
        Kind::DataText | Kind::TagNameClose | Kind::TagNameSelfClose | Kind::TagClose => false,
    }
}

/// A name in upper case and without NUL bytes; none for one that is too long.
fn normalized<'a>(name: &[u8], buffer: &'a mut [u8; NAME_BYTES_MAX]) -> Option<&'a [u8]> {
    let mut len = 0;
    for byte in name.iter().filter(|byte| **byte != 0) {
        *buffer.get_mut(len)? = byte.to_ascii_uppercase();
        len += 1;
    }
    Some(&buffer[..len])
}

fn is_tag(name: &[u8]) -> bool {
    let mut buffer = [0; NAME_BYTES_MAX];
    let Some(name) = normalized(name, &mut buffer).filter(|_| name.len() >= 3) else { return false };
    // All of SVG and of XSL.
    TAGS.contains(&name) || name.starts_with(b"SVG") || name.starts_with(b"XSL")
}

fn meaning(name: &[u8]) -> Attribute {
    let mut buffer = [0; NAME_BYTES_MAX];
    let Some(name) = normalized(name, &mut buffer).filter(|name| name.len() >= 2) else {
        return Attribute::Harmless;
    };
    // Namespaces make any tag out of any name.
    if name.starts_with(b"XMLNS") || name.starts_with(b"XLINK") {
        return Attribute::Script;
    }
    if name.len() >= 5 && name.strip_prefix(b"ON").is_some_and(|event| EVENTS.contains(event)) {
        return Attribute::Script;
    }
    let known = ATTRIBUTES.iter().find(|attribute| attribute.0 == name);
    known.map_or(Attribute::Harmless, |attribute| attribute.1)
}

/// Comments of Internet Explorer: those that a backtick ends, conditions, imports, and entities of XML.
fn is_comment(text: &[u8]) -> bool {
    if memchr::memchr(b'`', text).is_some() {
        return true;
    }
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    if text.len() > 3 && (begins(b"[IF") || begins(b"XML")) {
        return true;
    }
    let word: Vec<u8> = text.iter().filter(|byte| **byte != 0).take(6).map(u8::to_ascii_uppercase).collect();
    word == b"IMPORT" || word == b"ENTITY"
}

fn is_url(text: &[u8]) -> bool {
    let begin = text.iter().position(|&byte| byte > b' ' && byte < 0x7f).unwrap_or(text.len());
    SCHEMES.iter().any(|scheme| begins_with(&text[begin..], scheme))
}

/// Whether a value begins with a word, once character references are decoded and what browsers skip is left
/// out.
fn begins_with(text: &[u8], word: &[u8]) -> bool {
    let mut word = word.iter();
    let mut expected = word.next();
    let mut rest = text;
    let mut is_first = true;
    while let Some(letter) = expected {
        let Some((value, len)) = character(rest) else { return false };
        rest = &rest[len..];
        if is_first && value <= 32 || value == 0 || value == 10 {
            continue;
        }
        is_first = false;
        if (value as u8).to_ascii_uppercase() != *letter {
            return false;
        }
        expected = word.next();
    }
    true
}

/// The first character of a text, decoded if it is a numeric reference, and its length.
fn character(text: &[u8]) -> Option<(u32, usize)> {
    let first = u32::from(*text.first()?);
    let (radix, begin) = match text {
        [b'&', b'#', b'x' | b'X', ..] => (16, 3),
        [b'&', b'#', ..] => (10, 2),
        _ => return Some((first, 1)),
    };
    let mut value = 0;
    let mut len = begin;
    while let Some(digit) = text.get(len).and_then(|&byte| char::from(byte).to_digit(radix)) {
        value = value * radix + digit;
        len += 1;
        if value > REFERENCE_MAX {
            return Some((first, 1));
        }
    }
    if len == begin {
        return Some((first, 1));
    }
    Some((value, len + usize::from(text.get(len) == Some(&b';'))))
}
