//! Tokens in the form of libinjection's vectors.

use super::scan::{Kind, Place, Scanner};

/// All tokens of a text between tags, a line for each.
pub(in crate::inject) fn tokens(text: &[u8]) -> Vec<u8> {
    let mut scanner = Scanner::new(text, Place::Data);
    let mut lines = Vec::new();
    while let Some(token) = scanner.next() {
        let kind = match token.kind {
            Kind::DataText => "DATA_TEXT",
            Kind::TagNameOpen => "TAG_NAME_OPEN",
            Kind::TagNameClose => "TAG_NAME_CLOSE",
            Kind::TagNameSelfClose => "TAG_NAME_SELFCLOSE",
            Kind::TagClose => "TAG_CLOSE",
            Kind::AttributeName => "ATTR_NAME",
            Kind::AttributeValue => "ATTR_VALUE",
            Kind::Comment => "TAG_COMMENT",
            Kind::Doctype => "DOCTYPE",
        };
        lines.extend_from_slice(format!("{kind},{},", token.text.len()).as_bytes());
        lines.extend_from_slice(token.text);
        lines.push(b'\n');
    }
    lines
}
