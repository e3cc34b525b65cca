//! Directives about headers, of nginx and of its module headers-more.

use model::template::Template;
use model::{AddedHeader, Headers, Reach, RequestEdit, ResponseEdit};

use super::block::Context;
use super::parse::Directive;
use super::{Fault, Reader, RemarkKind, SettingLine, Target};

/// Headers about the connection or about the end of a message, which belong to the proxy.
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
        let is_in_location = matches!(context, Context::Location | Context::PassingLocation);
        match directive.name.as_str() {
            "more_set_headers" => to.response.extend(self.response_edits(directive)?),
            "more_clear_headers" => to.response.extend(cleared(directive)?),
            "add_header" if let Some(what) = self.needless_header(directive) => {
                self.remark(RemarkKind::NoEffect, directive.fault(what));
            }
            "add_header" => to.added.push(self.added(directive)?),
            "more_set_input_headers" => to.request.extend(self.input_edits(directive)?),
            "more_clear_input_headers" => {
                let edits = cleared(directive)?.into_iter();
                let of_request = |ResponseEdit { name, reach, .. }| RequestEdit {
                    name,
                    value: None,
                    is_input: true,
                    reach,
                };
                to.request.extend(edits.map(of_request));
            }
            "proxy_set_header" | "grpc_set_header" if is_in_location => {
                let [name, value] = directive.arguments()?;
                if let Some(why) = done_anyway(name, value) {
                    self.remark(RemarkKind::NoEffect, directive.fault(format!("has no effect here: {why}")));
                    return Ok(());
                }
                if name.eq_ignore_ascii_case("connection") && value == "close" {
                    self.asks.borrow_mut().push(SettingLine {
                        line: directive.line,
                        directive: directive.name.clone(),
                        target: Target::Annotation("connection-proxy-header"),
                        value: value.clone(),
                    });
                    return Ok(());
                }
                let name = header_name(directive, name)?;
                let value = (!value.is_empty()).then(|| self.value(directive, value)).transpose()?;
                to.request.push(RequestEdit { name, value, is_input: false, reach: Reach::Name });
            }
            "expires" => to.expires = Some(super::expires::read(directive)?),
            "proxy_hide_header" | "grpc_hide_header" if is_in_location || context == Context::Server => {
                let [name] = directive.arguments()?;
                to.hidden.push(header_name(directive, name)?);
            }
            "proxy_set_header" | "grpc_set_header" if context == Context::Server => {
                let what = "has no effect, as in ingress-nginx: each location has headers of its own; use configuration-snippet";
                self.remark(RemarkKind::NoEffect, directive.fault(what));
            }
            "proxy_set_header" | "grpc_set_header" | "proxy_hide_header" | "grpc_hide_header"
                if context == Context::SourceLocation =>
            {
                let what = "has no effect: this location forwards no request";
                self.remark(RemarkKind::NoEffect, directive.fault(what));
            }
            "proxy_set_header" | "grpc_set_header" | "proxy_hide_header" | "grpc_hide_header" => {
                return Err(directive.misplaced());
            }
            _ => return Err(directive.unknown()),
        }
        Ok(())
    }

    /// The reason why a line that adds a header has no effect.
    fn needless_header(&self, directive: &Directive) -> Option<&'static str> {
        if self.is_cookie_of_auth(directive) {
            return Some("has no effect here: cookies of the auth service are passed on anyway");
        }
        is_no_length(&directive.words).then_some("has no effect here: Forebay frames messages itself")
    }

    /// Whether a line forwards the cookies of the auth service, by a variable of `auth_request_set`.
    fn is_cookie_of_auth(&self, directive: &Directive) -> bool {
        let [name, value, ..] = directive.words.as_slice() else { return false };
        let variables = self.auth_variables.borrow();
        let of_cookies = variables.iter().filter(|variable| variable.header == "set_cookie");
        name.eq_ignore_ascii_case("set-cookie")
            && of_cookies.map(|variable| &*variable.name).any(|name| value.strip_prefix('$') == Some(name))
    }

    /// Reads `more_set_headers [-a] [-s STATUSES] "NAME: VALUE" ...`; without a value the header is removed.
    fn response_edits(&self, directive: &Directive) -> Result<Vec<ResponseEdit>, Fault> {
        let Options { statuses, flag, words } = options(directive, "-a")?;
        let reach = if flag { Reach::Beside } else { Reach::Name };
        let edit = |field: &String| {
            let (name, value) = self.field(directive, field)?;
            Ok(ResponseEdit { name, value, statuses: statuses.clone(), reach })
        };
        words.iter().map(edit).collect()
    }

    /// Reads `more_set_input_headers [-r] "NAME: VALUE" ...`.
    fn input_edits(&self, directive: &Directive) -> Result<Vec<RequestEdit>, Fault> {
        let Options { statuses, flag, words } = options(directive, "-r")?;
        if !statuses.is_empty() {
            return Err(directive.fault("has an option that is not understood"));
        }
        let reach = if flag { Reach::Present } else { Reach::Name };
        let edit = |field: &String| {
            let (name, value) = self.field(directive, field)?;
            Ok(RequestEdit { name, value, is_input: true, reach })
        };
        words.iter().map(edit).collect()
    }

    /// Reads `NAME: VALUE`, `NAME:` and `NAME`.
    fn field(&self, directive: &Directive, text: &str) -> Result<(String, Option<Template>), Fault> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.trim();
        let value = (!value.is_empty()).then(|| self.value(directive, value)).transpose()?;
        Ok((header_name(directive, name.trim_end())?, value))
    }

    /// Reads `add_header NAME VALUE [always]`.
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

/// Whether a line says that an answer has no content, as those do that copied preflights have.
fn is_no_length(words: &[String]) -> bool {
    matches!(words, [name, value, ..] if name.eq_ignore_ascii_case("content-length") && value == "0")
}

/// The reason why a line is redundant: the proxy has the same effect without it.
fn done_anyway(name: &str, value: &str) -> Option<&'static str> {
    const OF_CONNECTION: &[&str] = &["", "upgrade", "keep-alive", "$connection_upgrade", "$http_connection"];
    const EMPTIED: &[&str] = &["expect", "keep-alive", "te", "trailer", "transfer-encoding"];
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let value = value.to_ascii_lowercase();
    if is("upgrade") && matches!(value.as_str(), "$http_upgrade" | "websocket")
        || is("connection") && OF_CONNECTION.contains(&value.as_str())
    {
        return Some("WebSocket needs no setting, and connections to endpoints are kept");
    }
    let is_emptied = value.is_empty() && EMPTIED.iter().any(|known| is(known));
    is_emptied.then_some("the header is about a connection alone, and endpoints do not get it")
}

/// Reads `more_clear_headers [-s STATUSES] NAME ...`; a name that ends in `*` stands for all headers with
/// this beginning.
fn cleared(directive: &Directive) -> Result<Vec<ResponseEdit>, Fault> {
    let Options { statuses, words, .. } = options(directive, "")?;
    let edit = |text: &String| {
        let text = text.trim_end_matches([':', ' ']);
        let (name, reach) = match text.strip_suffix('*') {
            Some(begin) if begin.bytes().all(is_token) => (text.to_owned(), Reach::Beginning),
            _ => (header_name(directive, text)?, Reach::Name),
        };
        Ok(ResponseEdit { name, value: None, statuses: statuses.clone(), reach })
    };
    words.iter().map(edit).collect()
}

/// Options that precede a directive's headers.
struct Options<'d> {
    /// The statuses of `-s`.
    statuses: Vec<u16>,
    /// The only option without a value is given.
    flag: bool,
    words: &'d [String],
}

/// Reads `-s STATUSES` and the option `known`; an empty `known` is no option.
fn options<'d>(directive: &'d Directive, known: &str) -> Result<Options<'d>, Fault> {
    let mut options = Options { statuses: Vec::new(), flag: false, words: &directive.words };
    loop {
        options.words = match options.words {
            [option, list, rest @ ..] if option == "-s" => {
                for word in list.split_whitespace() {
                    let status = word.parse().ok().filter(|status| (100..600).contains(status));
                    let fault = || directive.fault(format!("has {word:?}, which is no status"));
                    options.statuses.push(status.ok_or_else(fault)?);
                }
                rest
            }
            [option, rest @ ..] if !known.is_empty() && option == known => {
                options.flag = true;
                rest
            }
            _ => break,
        };
    }
    match options.words {
        [] => Err(directive.fault("names no header")),
        words if words.iter().any(|word| word.starts_with('-')) => {
            Err(directive.fault("has an option that is not understood"))
        }
        _ => Ok(options),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte)
}

/// The name of a header that does not belong to the proxy.
pub(super) fn header_name(directive: &Directive, text: &str) -> Result<String, Fault> {
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err(directive.fault(format!("has {text:?}, which is no name of a header")));
    }
    if OURS.contains(&text.to_ascii_lowercase().as_str()) {
        let fault = directive.fault(format!("is about {text}, which the proxy decides"));
        return Err(Fault { is_harmless: true, ..fault });
    }
    Ok(text.to_owned())
}
