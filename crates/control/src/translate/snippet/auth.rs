//! What a snippet says of the request to an auth service: its headers.

use model::template::Template;

use super::headers::header_name;
use super::parse::parse;
use super::{Fault, Names, Reader};

/// Reads a snippet for the request to an auth service: headers in place of those that it has, none where the value comes to nothing.
pub(in crate::translate) fn read(text: &str, names: &Names) -> Result<Vec<(String, Template)>, Fault> {
    let (directives, reader) = (parse(text)?, Reader::new(names));
    let header = |directive: &super::Directive| {
        if directive.name != "proxy_set_header" || directive.block.is_some() {
            return Err(directive.unknown());
        }
        let [name, value] = directive.arguments()?;
        if name.eq_ignore_ascii_case("host") {
            return Err(directive.fault("is about Host, which is that of auth-url"));
        }
        Ok((header_name(directive, name)?, reader.value(directive, value)?))
    };
    directives.iter().map(header).collect()
}
