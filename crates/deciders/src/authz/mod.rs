//! The meaning of what an authorization service answers (`ext_authz`): whether a request is let in, and what
//! is changed in it and in its response.
//!
//! A service may not change what frames a message or belongs to a connection, nor the host: such changes are
//! ignored, as Envoy ignores the removal of them. A name or a value that no header can have makes the whole
//! answer invalid, and an invalid answer lets nobody in.

mod query;

use crate::proto::auth::{CheckResponse, DeniedHttpResponse, HttpResponse, OkHttpResponse};
use crate::proto::{AppendAction, HeaderValueOption, QueryParameter};

pub use query::edit_query;

/// The status of a denial that names none.
pub const DENIED: u16 = 403;

/// The decision of a service about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request goes on, with changes.
    Allowed(Allowed),
    /// The client gets this answer.
    Denied(Denial),
    /// The service could not decide; the answer is for clients of routes that are closed then.
    Undecided(Option<Denial>),
}

/// The changes to a request that is let in, and to its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Changes to headers for the endpoint.
    pub request: Vec<Edit>,
    /// Names of headers that the endpoint does not get, after these changes.
    pub removed: Vec<String>,
    /// Changes to headers for the client.
    pub response: Vec<Edit>,
    /// Query parameters for the endpoint, by name.
    pub set_query: Vec<(String, String)>,
    /// Names of query parameters that the endpoint does not get.
    pub removed_query: Vec<String>,
}

/// The answer to a client that is not let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// The status; none where the service named none that is one of a final response.
    pub status: Option<u16>,
    /// Headers. A name may occur several times.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The content, which is sent to the client as it is.
    pub body: Vec<u8>,
}

/// A change to the headers of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Name of the header.
    pub name: String,
    /// The value, without blanks around it.
    pub value: Vec<u8>,
    /// The fate of other values of the name.
    pub action: EditAction,
}

/// The effect of a change on headers of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditAction {
    /// The value is added to those that exist.
    Append,
    /// The header is set unless it exists.
    AddIfAbsent,
    /// The value replaces all others.
    Set,
    /// The value replaces others, if there are any.
    SetIfPresent,
}

/// An answer that no message can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {0:?} has a character that no header can have")]
pub struct InvalidHeader(String);

/// The message that a header belongs to. It decides what an unspecified action means: services that name none
/// expect that a header for the endpoint replaces the client's, and that one for the client is added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// Headers that a service cannot change, besides pseudo-headers.
const FIXED: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Verdict {
    /// The meaning of an answer in gRPC.
    ///
    /// # Errors
    /// The answer has a header that no message can have.
    pub fn of(answer: CheckResponse) -> Result<Self, InvalidHeader> {
        let is_ok = answer.status.as_ref().is_none_or(|status| status.code == 0);
        Ok(match (is_ok, answer.http_response) {
            (true, Some(HttpResponse::Ok(ok))) => Self::Allowed(Allowed::of(ok)?),
            (true, _) => Self::Allowed(Allowed::default()),
            (false, Some(HttpResponse::Error(error))) => Self::Undecided(Some(Denial::of(error)?)),
            (false, Some(HttpResponse::Denied(denied))) => {
                let denial = Denial::of(denied)?;
                Self::Denied(Denial { status: denial.status.or(Some(DENIED)), ..denial })
            }
            (false, _) => Self::Denied(Denial { status: Some(DENIED), ..Denial::default() }),
        })
    }

    /// Approximate bytes of memory.
    pub fn bytes(&self) -> usize {
        let of_edits = |edits: &[Edit]| -> usize {
            edits.iter().map(|edit| size_of::<Edit>() + edit.name.len() + edit.value.len()).sum()
        };
        let of_names = |names: &[String]| -> usize { names.iter().map(|name| 24 + name.len()).sum() };
        match self {
            Self::Allowed(Allowed { request, removed, response, set_query, removed_query }) => {
                let of_query: usize =
                    set_query.iter().map(|(name, value)| 48 + name.len() + value.len()).sum();
                of_edits(request)
                    + of_edits(response)
                    + of_names(removed)
                    + of_names(removed_query)
                    + of_query
            }
            Self::Denied(denial) | Self::Undecided(Some(denial)) => denial.bytes(),
            Self::Undecided(None) => 0,
        }
    }
}

impl Allowed {
    fn of(ok: OkHttpResponse) -> Result<Self, InvalidHeader> {
        let pair = |QueryParameter { key, value }| (key, value);
        Ok(Self {
            request: edits(&ok.headers, Side::Request)?,
            removed: ok.headers_to_remove.into_iter().filter(|name| may_change(name)).collect(),
            response: edits(&ok.response_headers_to_add, Side::Response)?,
            set_query: ok.query_parameters_to_set.into_iter().map(pair).collect(),
            removed_query: ok.query_parameters_to_remove,
        })
    }

    /// Whether the query changes.
    pub fn changes_query(&self) -> bool {
        !self.set_query.is_empty() || !self.removed_query.is_empty()
    }
}

impl Denial {
    fn of(denied: DeniedHttpResponse) -> Result<Self, InvalidHeader> {
        let status = denied.status.and_then(|status| u16::try_from(status.code).ok());
        let headers = edits(&denied.headers, Side::Response)?;
        Ok(Self {
            status: status.filter(|status| (200..600).contains(status)),
            headers: headers.into_iter().map(|edit| (edit.name, edit.value)).collect(),
            body: denied.body.into_bytes(),
        })
    }

    fn bytes(&self) -> usize {
        let of_headers: usize = self.headers.iter().map(|(name, value)| 48 + name.len() + value.len()).sum();
        of_headers + self.body.len()
    }
}

impl Edit {
    /// A change; none if a service cannot make it.
    ///
    /// # Errors
    /// No header can have the name or the value.
    pub fn new(name: &str, value: &[u8], action: EditAction) -> Result<Option<Self>, InvalidHeader> {
        if !may_change(name) {
            return Ok(None);
        }
        let value = value.trim_ascii();
        if !is_token(name) || !value.iter().all(|&byte| is_value_byte(byte)) {
            return Err(InvalidHeader(name.chars().take(64).collect()));
        }
        Ok(Some(Self { name: name.to_owned(), value: value.to_vec(), action }))
    }
}

fn edits(options: &[HeaderValueOption], side: Side) -> Result<Vec<Edit>, InvalidHeader> {
    let mut edits = Vec::with_capacity(options.len());
    for option in options {
        let Some(header) = &option.header else { continue };
        edits.extend(Edit::new(&header.key, header.bytes(), action(option, side))?);
    }
    Ok(edits)
}

fn action(option: &HeaderValueOption, side: Side) -> EditAction {
    if let Some(appends) = option.append {
        return if appends { EditAction::Append } else { EditAction::Set };
    }
    match (AppendAction::try_from(option.append_action), side) {
        (Ok(AppendAction::AppendIfExistsOrAdd), Side::Response) => EditAction::Append,
        (Ok(AppendAction::AddIfAbsent), _) => EditAction::AddIfAbsent,
        (Ok(AppendAction::OverwriteIfExists), _) => EditAction::SetIfPresent,
        (Ok(AppendAction::AppendIfExistsOrAdd | AppendAction::OverwriteIfExistsOrAdd) | Err(_), _) => {
            EditAction::Set
        }
    }
}

/// Whether a service can change the headers of a name.
pub fn may_change(name: &str) -> bool {
    !name.starts_with(':') && !FIXED.iter().any(|fixed| name.eq_ignore_ascii_case(fixed))
}

/// Whether a text is a name of a header (RFC 9110 section 5.6.2).
fn is_token(name: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token_byte)
}

/// Whether a byte may be in the value of a header (RFC 9110 section 5.5).
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::proto::{HeaderValue, HttpStatus, RpcStatus};

    fn option(key: &str, value: &str, append: Option<bool>, append_action: i32) -> HeaderValueOption {
        let header = HeaderValue { key: key.to_owned(), value: value.to_owned(), raw_value: Vec::new() };
        HeaderValueOption { header: Some(header), append, append_action, keep_empty_value: false }
    }

    fn answer(code: i32, http_response: Option<HttpResponse>) -> CheckResponse {
        CheckResponse { status: Some(RpcStatus { code, message: String::new() }), http_response }
    }

    fn allowed(headers: Vec<HeaderValueOption>) -> Result<Verdict, InvalidHeader> {
        Verdict::of(answer(
            0,
            Some(HttpResponse::Ok(OkHttpResponse { headers, ..OkHttpResponse::default() })),
        ))
    }

    fn denied(status: Option<i32>, headers: Vec<HeaderValueOption>) -> DeniedHttpResponse {
        let status = status.map(|code| HttpStatus { code });
        DeniedHttpResponse { status, headers, body: "no".to_owned() }
    }

    #[test]
    fn the_status_decides_and_the_rest_says_how() {
        let plain = Verdict::Denied(Denial { status: Some(403), ..Denial::default() });
        for (given, expected) in [
            (CheckResponse::default(), Verdict::Allowed(Allowed::default())),
            (answer(0, None), Verdict::Allowed(Allowed::default())),
            (answer(7, None), plain.clone()),
            (answer(16, Some(HttpResponse::Ok(OkHttpResponse::default()))), plain),
            (
                answer(0, Some(HttpResponse::Denied(denied(Some(401), Vec::new())))),
                Verdict::Allowed(Allowed::default()),
            ),
            (
                answer(14, Some(HttpResponse::Error(denied(None, Vec::new())))),
                Verdict::Undecided(Some(Denial { body: b"no".to_vec(), ..Denial::default() })),
            ),
        ] {
            assert_eq!(Verdict::of(given).unwrap(), expected);
        }
    }

    #[test]
    fn a_denial_has_a_status_of_a_final_response() {
        for (code, expected) in [
            (Some(401), 401),
            (Some(200), 200),
            (Some(599), 599),
            (None, 403),
            (Some(0), 403),
            (Some(101), 403),
            (Some(600), 403),
            (Some(-1), 403),
            (Some(70_000), 403),
        ] {
            let verdict = Verdict::of(answer(7, Some(HttpResponse::Denied(denied(code, Vec::new())))));
            let Ok(Verdict::Denied(denial)) = verdict else { panic!("{code:?}: {verdict:?}") };
            assert_eq!((denial.status, denial.body.as_slice()), (Some(expected), &b"no"[..]), "{code:?}");
        }
    }

    #[test]
    fn a_header_for_the_endpoint_replaces_the_client_s_unless_the_service_says_otherwise() {
        for (append, append_action, of_request, of_response) in [
            (None, 0, EditAction::Set, EditAction::Append),
            (Some(false), 0, EditAction::Set, EditAction::Set),
            (Some(true), 2, EditAction::Append, EditAction::Append),
            (None, 1, EditAction::AddIfAbsent, EditAction::AddIfAbsent),
            (None, 2, EditAction::Set, EditAction::Set),
            (None, 3, EditAction::SetIfPresent, EditAction::SetIfPresent),
            (None, 99, EditAction::Set, EditAction::Set),
        ] {
            let option = option("a", "b", append, append_action);
            assert_eq!(action(&option, Side::Request), of_request, "{append:?} {append_action}");
            assert_eq!(action(&option, Side::Response), of_response, "{append:?} {append_action}");
        }
    }

    #[test]
    fn what_frames_a_message_is_not_changed() {
        for name in ["Host", ":path", "content-LENGTH", "transfer-encoding", "Connection", "te", "Upgrade"] {
            let verdict = allowed(vec![option(name, "1", None, 2)]).unwrap();
            assert_eq!(verdict, Verdict::Allowed(Allowed::default()), "{name}");
        }
        let ok = OkHttpResponse {
            headers_to_remove: vec!["host".to_owned(), ":method".to_owned(), "Cookie".to_owned()],
            ..OkHttpResponse::default()
        };
        let Ok(Verdict::Allowed(allowed)) = Verdict::of(answer(0, Some(HttpResponse::Ok(ok)))) else {
            panic!("it is allowed")
        };
        assert_eq!(allowed.removed, ["Cookie"]);
    }

    #[test]
    fn an_answer_with_a_header_that_cannot_be_sent_is_invalid() {
        for (name, value) in [
            ("a b", "c"),
            ("", "c"),
            ("a\r\n", "c"),
            ("a", "b\r\nX: y"),
            ("a", "b\0"),
            ("\u{e4}", "c"),
            ("a:", ""),
        ] {
            assert!(allowed(vec![option(name, value, None, 0)]).is_err(), "{name:?} {value:?}");
            let denied = HttpResponse::Denied(denied(None, vec![option(name, value, None, 0)]));
            assert!(Verdict::of(answer(7, Some(denied))).is_err(), "{name:?} {value:?}");
        }
        assert!(allowed(vec![option("a", " b\tc \u{e4} ", None, 0)]).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_none(bytes: Vec<u8>) {
            if let Ok(answer) = CheckResponse::decode(&*bytes) {
                let _ = Verdict::of(answer);
            }
        }
    }
}
