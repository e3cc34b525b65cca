//! Directives about headers, of nginx and of its module headers-more.

use model::{AddedHeader, Headers, RequestEdit, ResponseEdit};

use super::block::Context;
use super::parse::Directive;
use super::{Fault, Reader};

/// Headers about the connection or about where a message ends, which are the proxy's.
const OURS: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Reader<'_> {
    /// Adds a directive about headers.
    pub(super) fn header(
        &self,
        directive: &Directive,
        context: Context,
        to: &mut Headers,
    ) -> Result<(), Fault> {
        let is_in_location = matches!(context, Context::Location);
        match directive.name.as_str() {
            "more_set_headers" => to.response.extend(self.response_edits(directive)?),
            "more_clear_headers" => to.response.extend(cleared(directive)?),
            "add_header" => to.added.push(self.added(directive)?),
            "more_set_input_headers" => to.request.extend(self.input_edits(directive)?),
            "more_clear_input_headers" => {
                let names = cleared(directive)?.into_iter().map(|edit| edit.name);
                to.request.extend(names.map(|name| RequestEdit { name, value: None, is_input: true }));
            }
            "proxy_set_header" | "grpc_set_header" if is_in_location => {
                let [name, value] = directive.arguments()?;
                let name = header_name(directive, name)?;
                let value = (!value.is_empty()).then(|| self.value(directive, value)).transpose()?;
                to.request.push(RequestEdit { name, value, is_input: false });
            }
            "proxy_hide_header" | "grpc_hide_header" if is_in_location => {
                let [name] = directive.arguments()?;
                to.hidden.push(header_name(directive, name)?);
            }
            "proxy_set_header" | "grpc_set_header" | "proxy_hide_header" | "grpc_hide_header" => {
                return Err(directive.misplaced());
            }
            _ => return Err(directive.unknown()),
        }
        Ok(())
    }

    /// `more_set_headers [-s STATUSES] "NAME: VALUE" ...`; without a value the header is cleared.
    fn response_edits(&self, directive: &Directive) -> Result<Vec<ResponseEdit>, Fault> {
        let (statuses, fields) = statuses(directive)?;
        let edit = |field: &String| {
            let (name, value) = self.field(directive, field)?;
            Ok(ResponseEdit { name, value, statuses: statuses.clone() })
        };
        fields.iter().map(edit).collect()
    }

    fn input_edits(&self, directive: &Directive) -> Result<Vec<RequestEdit>, Fault> {
        no_options(directive)?;
        let edit = |field: &String| {
            let (name, value) = self.field(directive, field)?;
            Ok(RequestEdit { name, value, is_input: true })
        };
        directive.words.iter().map(edit).collect()
    }

    /// `NAME: VALUE`, `NAME:` and `NAME`.
    fn field(
        &self,
        directive: &Directive,
        text: &str,
    ) -> Result<(String, Option<model::template::Template>), Fault> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.trim();
        let value = (!value.is_empty()).then(|| self.value(directive, value)).transpose()?;
        Ok((header_name(directive, name.trim_end())?, value))
    }

    /// `add_header NAME VALUE [always]`.
    fn added(&self, directive: &Directive) -> Result<AddedHeader, Fault> {
        let (name, value, always) = match directive.words.as_slice() {
            [name, value] => (name, value, false),
            [name, value, always] if always == "always" => (name, value, true),
            _ => {
                return Err(
                    directive.fault("needs a name, a value, and \"always\" if it is for every status")
                );
            }
        };
        Ok(AddedHeader { name: header_name(directive, name)?, value: self.value(directive, value)?, always })
    }
}

fn cleared(directive: &Directive) -> Result<Vec<ResponseEdit>, Fault> {
    let (statuses, names) = statuses(directive)?;
    let edit = |name: &String| {
        let name = header_name(directive, name.trim_end_matches([':', ' ']))?;
        Ok(ResponseEdit { name, value: None, statuses: statuses.clone() })
    };
    names.iter().map(edit).collect()
}

/// The statuses of `-s`, and the other words.
fn statuses(directive: &Directive) -> Result<(Vec<u16>, &[String]), Fault> {
    let (mut statuses, mut words) = (Vec::new(), directive.words.as_slice());
    while let [option, list, rest @ ..] = words
        && option == "-s"
    {
        for word in list.split_whitespace() {
            let status = word.parse().ok().filter(|status| (100..600).contains(status));
            statuses
                .push(status.ok_or_else(|| directive.fault(format!("has {word:?}, which is no status")))?);
        }
        words = rest;
    }
    match words {
        [] => Err(directive.fault("names no header")),
        words if words.iter().any(|word| word.starts_with('-')) => {
            Err(directive.fault("has an option that is not understood"))
        }
        words => Ok((statuses, words)),
    }
}

fn no_options(directive: &Directive) -> Result<(), Fault> {
    let (statuses, _) = statuses(directive)?;
    if statuses.is_empty() { Ok(()) } else { Err(directive.fault("has an option that is not understood")) }
}

/// The name of a header that is not the proxy's own.
pub(super) fn header_name(directive: &Directive, text: &str) -> Result<String, Fault> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err(directive.fault(format!("has {text:?}, which is no name of a header")));
    }
    if OURS.contains(&text.to_ascii_lowercase().as_str()) {
        return Err(directive.fault(format!("is about {text}, which the proxy decides")));
    }
    Ok(text.to_owned())
}
