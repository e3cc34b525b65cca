//! Distinguished names in the form of nginx's `$ssl_client_s_dn`: RFC 2253, as OpenSSL prints it (`-nameopt
//! RFC2253`).

use std::fmt::Write as _;

use x509_parser::asn1_rs::{Any, Class, Tag, ToDer as _};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Attributes for which OpenSSL has a short name.
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

/// The name as text: the last attribute first, separated by commas, or by plus signs within a set of several
/// attributes.
pub(crate) fn rfc2253(name: &X509Name<'_>) -> String {
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

/// The name as OpenSSL's `X509_NAME_oneline` prints it: `/C=DE/CN=a`, the first attribute first.
pub(crate) fn one_line(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let attributes = name.iter_rdn().flat_map(|rdn| rdn.iter().enumerate());
    for (place, attribute) in attributes {
        let oid = attribute.attr_type().to_id_string();
        let known = SHORT_NAMES.iter().find(|(known, _)| *known == oid);
        // Attributes of one RDN are joined by a plus sign.
        text.push(if place == 0 { '/' } else { '+' });
        text.push_str(known.map_or(&oid, |(_, short)| short));
        text.push('=');
        for &byte in attribute.attr_value().data {
            match byte {
                b'/' | b'+' => text.extend(['\\', char::from(byte)]),
                b' '..=b'~' => text.push(char::from(byte)),
                _ => hex("\\x", byte, &mut text),
            }
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

/// The text of an attribute's value; none if it is not a string.
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

/// Escapes a value by RFC 2253 section 2.4; characters outside ASCII are escaped byte by byte.
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

/// A value that is not a string, in hexadecimal DER.
fn dump(value: &Any<'_>, text: &mut String) {
    text.push('#');
    for byte in value.to_der_vec().unwrap_or_default() {
        hex("", byte, text);
    }
}

fn hex(before: &str, byte: u8, text: &mut String) {
    write!(text, "{before}{byte:02X}").expect("a String takes whatever is written");
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::FromDer;

    use super::*;

    /// DER of a name, and what `openssl x509 -noout -subject -nameopt RFC2253` (3.0.19) prints for it.
    const NAMES: &[(&str, &str)] = &[
        (
            "306d310b3009060355040613024445310f300d06035504080c0642617965726e3111300f06035504070c084dc3bc6e63\
             68656e31193017060355040a0c104dc3bc6c6c65722c2053c3b6686e6520311f301d06035504030c16206c656164696e\
             6720616e6420747261696c696e6720",
            r"CN=\ leading and trailing\ ,O=M\C3\BCller\, S\C3\B6hne\ ,L=M\C3\BCnchen,ST=Bayern,C=DE",
        ),
        (
            "306e310e300c06035504030c052368617368311a301806092a864886f70d010901160b6140622e6578616d706c653112\
             3010060a0992268993f22c6401010c02343231173015060a0992268993f22c64011916076578616d706c653113301106\
             0a0992268993f22c6401191603636f6d",
            r"DC=com,DC=example,UID=42,emailAddress=a@b.example,CN=\#hash",
        ),
        (
            "3033310a3008060355040a0c01783125300806035504030c01623008060355040b0c0161300f060a0992268993f22c64\
             01010c0163",
            "UID=c+OU=a+CN=b,O=x",
        ),
        (
            "30513111300f06035504030c087461620968657265310e300c060355042a0c05476976656e310c300a06035504040c03\
             537572310e300c06035504090c055761792031310e300c06035504110c053132333435",
            r"postalCode=12345,street=Way 1,SN=Sur,GN=Given,CN=tab\09here",
        ),
        (
            "30513113301106035504031e0a0062006d0070002000fc3115301306092b06010401868d1f011e06006f006400643123\
             3021060355040a1e1a0061002b0062002c0063005c0064003c0065003e0066003b0067",
            r"O=a\+b\,c\\d\<e\>f\;g,1.3.6.1.4.1.99999.1=#1E06006F00640064,CN=bmp \C3\BC",
        ),
    ];

    #[test]
    fn names_are_printed_as_openssl_prints_them() {
        for (hex, expected) in NAMES {
            let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
            let der: Vec<u8> =
                hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
            let (_, name) = X509Name::from_der(&der).expect("a name");
            assert_eq!(rfc2253(&name), *expected);
        }
    }
}
