//! Distinguished names as nginx's `$ssl_client_s_dn` has them: RFC 2253, as OpenSSL prints it (`-nameopt RFC2253`).

use std::fmt::Write as _;

use x509_parser::asn1_rs::{Any, Class, Tag, ToDer as _};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Attributes with a short name of OpenSSL's.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.18", "postOfficeBox"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

/// The name: the last attribute first, separated by commas, or by plus signs where several stand together.
pub(super) fn rfc2253(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for (index, set) in name.iter_rdn().collect::<Vec<_>>().into_iter().rev().enumerate() {
        for (place, attribute) in set.iter().collect::<Vec<_>>().into_iter().rev().enumerate() {
            match (index, place) {
                (0, 0) => {}
                (_, 0) => text.push(','),
                _ => text.push('+'),
            }
            write_attribute(attribute, &mut text);
        }
    }
    text
}

fn write_attribute(attribute: &AttributeTypeAndValue<'_>, text: &mut String) {
    let oid = attribute.attr_type().to_id_string();
    let known = SHORT_NAMES.iter().find(|(known, _)| *known == oid);
    text.push_str(known.map_or(&oid, |(_, short)| short));
    text.push('=');
    match known.and_then(|_| decode(attribute.attr_value())) {
        Some(value) => escape(&value, text),
        None => dump(attribute.attr_value(), text),
    }
}

/// The characters of a value that is a string.
fn decode(value: &Any<'_>) -> Option<String> {
    if value.header.class() != Class::Universal {
        return None;
    }
    let bytes = value.data;
    match value.header.tag() {
        Tag::Utf8String => Some(String::from_utf8_lossy(bytes).into_owned()),
        Tag::BmpString => {
            let units: Vec<u16> =
                bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            Some(String::from_utf16_lossy(&units))
        }
        Tag::UniversalString => {
            let code = |four: &[u8]| u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
            let chars = bytes.chunks_exact(4).map(|four| char::from_u32(code(four)));
            Some(chars.map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
        }
        Tag::PrintableString
        | Tag::Ia5String
        | Tag::T61String
        | Tag::NumericString
        | Tag::VisibleString
        | Tag::GeneralizedTime
        | Tag::UtcTime => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
        _ => None,
    }
}

/// RFC 2253 section 2.4; what is not ASCII is escaped byte by byte.
fn escape(value: &str, text: &mut String) {
    let last = value.len().saturating_sub(1);
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b'#' if at == 0 => text.push_str("\\#"),
            b' ' if at == 0 || at == last => text.push_str("\\ "),
            0x20..0x7f => text.push(char::from(byte)),
            _ => hex("\\", byte, text),
        }
    }
}

/// What has no meaning here is shown as it is encoded.
fn dump(value: &Any<'_>, text: &mut String) {
    text.push('#');
    for byte in value.to_der_vec().unwrap_or_default() {
        hex("", byte, text);
    }
}

fn hex(before: &str, byte: u8, text: &mut String) {
    write!(text, "{before}{byte:02X}").expect("a String takes whatever is written");
}
