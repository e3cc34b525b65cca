//! The filter `ExternalAuth` (GEP-1494): an authorization service for the requests of a rule.
//!
//! Never in here: the question and its answer.

use std::sync::Arc;
use std::time::Duration;

use model::{AuthzBody, AuthzCheck, AuthzProtocol, ExtAuthz};

use super::backends::BackendFinder;
use super::conditions::Fault;
use crate::objects::gateway_api::ExternalAuth;
use crate::translate::header::{self, Side};

/// The time for an answer. The API has no field for it; `timeouts.request` of the rule holds too.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The status for clients if the service gives no answer.
const STATUS_ON_ERROR: u16 = 403;

/// A filter whose settings have been read.
pub(super) enum Authz {
    Service(ExtAuthz),
    /// The reference leads nowhere, which has been recorded: the requests are answered with 500.
    Unresolved,
}

/// Reads a filter.
pub(super) fn read(auth: &ExternalAuth, finder: &mut BackendFinder<'_, '_, '_>) -> Result<Authz, Fault> {
    let is_grpc = match &*auth.protocol {
        "GRPC" => true,
        "HTTP" => false,
        other => return Err(unsupported(format!("ExternalAuth over {other} is not supported"))),
    };
    let namespace = auth.backend_ref.namespace.as_deref().unwrap_or(finder.namespace);
    let port = auth.backend_ref.port.unwrap_or_default();
    let authority = format!("{}.{namespace}.svc:{port}", auth.backend_ref.name);
    let (protocol, allowed_headers, upstream_headers) = if is_grpc {
        let allowed = auth.grpc.as_ref().map_or(&[][..], |grpc| &grpc.allowed_headers);
        (AuthzProtocol::Grpc { authority, context: Vec::new() }, some(allowed)?, None)
    } else {
        let http = auth.http.as_ref();
        let prefix = http.and_then(|http| http.path.as_deref()).map_or(Ok(String::new()), prefix)?;
        let allowed = names(http.map_or(&[][..], |http| &http.allowed_headers))?;
        let upstream = some(http.map_or(&[][..], |http| &http.allowed_response_headers))?;
        let client_headers_on_success = Vec::new();
        let protocol = AuthzProtocol::Http { prefix, client_headers: None, client_headers_on_success };
        (protocol, Some(allowed), upstream)
    };
    let bytes_max = auth.forward_body.as_ref().map_or(0, |body| body.max_size);
    let check = AuthzCheck {
        protocol,
        timeout: TIMEOUT,
        fails_open: false,
        status_on_error: STATUS_ON_ERROR,
        allowed_headers,
        body: (bytes_max > 0).then_some(AuthzBody { bytes_max, allows_partial: false }),
        upstream_headers,
        cache_key: None,
    };
    Ok(match finder.decider(&auth.backend_ref, is_grpc) {
        Some(cluster) => Authz::Service(ExtAuthz { cluster, check: Arc::new(check) }),
        None => Authz::Unresolved,
    })
}

fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new("UnsupportedValue", message)
}

/// The names of headers; none for an empty list.
fn some(texts: &[Box<str>]) -> Result<Option<Vec<String>>, Fault> {
    Ok(Some(names(texts)?).filter(|names| !names.is_empty()))
}

/// The names of headers. Those that every question has, and those that no message can pass on, are left out.
fn names(texts: &[Box<str>]) -> Result<Vec<String>, Fault> {
    let is_part_of_question =
        |text: &str| !["host", "content-length"].iter().any(|own| text.eq_ignore_ascii_case(own));
    let names =
        texts.iter().filter(|text| is_part_of_question(text)).map(|text| header::name(text, Side::Request));
    names.collect::<Result<_, _>>().map_err(unsupported)
}

/// The text before the paths of requests.
fn prefix(path: &str) -> Result<String, Fault> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~!$&'()*+,;=:@%-".contains(&byte);
    let is_upwards = path.split('/').any(|part| matches!(part, "." | ".."));
    if !path.bytes().all(is_allowed) || is_upwards {
        return Err(unsupported(format!("path {path:?} is no prefix of a path")));
    }
    let path = path.trim_matches('/');
    Ok(if path.is_empty() { String::new() } else { format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_path() {
        for (path, expected) in
            [("/check", "/check"), ("check/", "/check"), ("/", ""), ("", ""), ("/a/b%20c", "/a/b%20c")]
        {
            assert_eq!(prefix(path).map_err(|fault| fault.message), Ok(expected.to_owned()), "{path}");
        }
        for path in ["/a b", "/a?b", "/a#b", "/../b", "/a\r\nX: y", "/./a"] {
            assert!(prefix(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn what_every_question_has_needs_no_name() {
        let texts: Vec<Box<str>> = ["Host", "X-User", "content-length"].map(Box::from).into();
        assert_eq!(names(&texts).map_err(|fault| fault.message), Ok(vec!["X-User".to_owned()]));
        assert!(names(&["a b".into()]).is_err() && names(&["Connection".into()]).is_err());
    }
}
