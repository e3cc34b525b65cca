//! The answer of an authorization service, as a verdict.

use std::time::Duration;

use deciders::authz::{Allowed, Denial, Edit, EditAction, Verdict, may_change};
use deciders::grpc;
use deciders::proto::auth::CheckResponse;
use model::{AuthzCheck, AuthzProtocol};
use prost::Message as _;
use tracing::debug;
use wire::cache::{Directives, Head};
use wire::h2::lines;

use crate::limits::{AUTHZ_ANSWER_BYTES_MAX, AUTHZ_CACHE_TIME_MAX};
use crate::upstream::exchange::Whole;

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoVerdict {
    /// The service gave no answer, or says that it has failed.
    Missing,
    /// The answer cannot be obeyed.
    Invalid,
}

/// A verdict, and for how long it may be cached.
pub(super) struct Answered {
    pub(super) verdict: Verdict,
    pub(super) max_age: Option<Duration>,
}

/// Names headers of the request that the endpoint does not get, in an answer over HTTP.
const REMOVED: &[u8] = b"x-envoy-auth-headers-to-remove";

/// Headers of an answer over HTTP that describe the answer itself: they are neither the endpoint's nor, in
/// their place, the client's.
const OF_ANSWER: &[&[u8]] = &[b"date", b"server", REMOVED];

/// Headers that describe the content of an answer. The client gets them with the content.
const OF_CONTENT: &[&[u8]] = &[b"content-encoding", b"content-type"];

/// Headers of a response that mean nothing in a request.
const OF_RESPONSES: &[&[u8]] = &[b"cache-control", b"set-cookie", b"vary", b"www-authenticate"];

/// Headers of an answer that denies a request, which the client gets whatever the route says.
const ALWAYS_TOLD: &[&[u8]] = &[b"content-encoding", b"content-type", b"location", b"www-authenticate"];

/// Reads an answer.
pub(super) fn read(check: &AuthzCheck, whole: &Whole<'_>) -> Result<Answered, NoVerdict> {
    let verdict = match &check.protocol {
        AuthzProtocol::Grpc { .. } => of_grpc(whole)?,
        AuthzProtocol::Http { client_headers, client_headers_on_success, .. } => {
            of_http(check, client_headers.as_deref(), client_headers_on_success, whole)?
        }
    };
    Ok(Answered { verdict, max_age: max_age(whole) })
}

/// For how long an answer says that it may be cached.
fn max_age(whole: &Whole<'_>) -> Option<Duration> {
    let directives = Directives::of(Head::of_response(whole.head, whole.response), &[]);
    if directives.no_store || directives.no_cache || directives.private {
        return None;
    }
    let seconds = directives.s_maxage.or(directives.max_age).filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(u64::from(seconds)).min(AUTHZ_CACHE_TIME_MAX))
}

fn of_grpc(whole: &Whole<'_>) -> Result<Verdict, NoVerdict> {
    if whole.response.status != 200 {
        debug!(status = whole.response.status, "an authorization service does not speak gRPC");
        return Err(NoVerdict::Missing);
    }
    let value = |name: &[u8]| {
        let named = |text| lines(text).find(|(_, known, _)| known.eq_ignore_ascii_case(name));
        named(whole.trailers).or_else(|| named(whole.head)).map(|(_, _, value)| value)
    };
    let Some(code) = value(b"grpc-status") else { return Err(NoVerdict::Missing) };
    let status = grpc::Status::of(code, value(b"grpc-message"));
    if !status.is_ok() {
        debug!(code = status.code, message = status.message, "an authorization service has failed");
        return Err(NoVerdict::Missing);
    }
    let invalid = |why: &dyn std::fmt::Display| {
        debug!(%why, "the answer of an authorization service is invalid");
        NoVerdict::Invalid
    };
    let place = grpc::message(whole.body, AUTHZ_ANSWER_BYTES_MAX).map_err(|error| invalid(&error))?;
    let place = place.filter(|place| place.end == whole.body.len());
    let place = place.ok_or_else(|| invalid(&"it is not one message"))?;
    let answer = CheckResponse::decode(&whole.body[place]).map_err(|error| invalid(&error))?;
    Verdict::of(answer).map_err(|error| invalid(&error))
}

fn of_http(
    check: &AuthzCheck,
    client_headers: Option<&[String]>,
    client_headers_on_success: &[String],
    whole: &Whole<'_>,
) -> Result<Verdict, NoVerdict> {
    let all = || lines(whole.head).map(|(_, name, value)| (name, value));
    let is_among = |name: &[u8], list: &[&[u8]]| list.iter().any(|one| name.eq_ignore_ascii_case(one));
    let is_named =
        |name: &[u8], list: &[String]| list.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
    match whole.response.status {
        200 => {
            let is_told = |name: &[u8]| match check.upstream_headers.as_deref() {
                Some(list) => is_named(name, list),
                None => [OF_ANSWER, OF_CONTENT, OF_RESPONSES].iter().all(|list| !is_among(name, list)),
            };
            let removed = all().filter(|(name, _)| name.eq_ignore_ascii_case(REMOVED));
            let removed = removed.flat_map(|(_, value)| wire::field::list(value));
            let removed = removed.map(|name| String::from_utf8_lossy(name).into_owned());
            Ok(Verdict::Allowed(Allowed {
                request: edits(all().filter(|(name, _)| is_told(name)), false)?,
                removed: removed.filter(|name| may_change(name)).collect(),
                response: edits(all().filter(|(name, _)| is_named(name, client_headers_on_success)), true)?,
                ..Allowed::default()
            }))
        }
        500.. => Ok(Verdict::Undecided(None)),
        // A switch of protocols was not asked for.
        ..200 => Err(NoVerdict::Invalid),
        status => {
            let is_told = |name: &[u8]| {
                let is_listed = client_headers.is_none_or(|list| is_named(name, list));
                !is_among(name, OF_ANSWER) && (is_listed || is_among(name, ALWAYS_TOLD))
            };
            let headers = edits(all().filter(|(name, _)| is_told(name)), true)?;
            Ok(Verdict::Denied(Denial {
                status: Some(status),
                headers: headers.into_iter().map(|edit| (edit.name, edit.value)).collect(),
                body: whole.body.to_vec(),
            }))
        }
    }
}

/// Fields as changes. The first of a name replaces others, unless all are added; the rest are added to it.
fn edits<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    are_added: bool,
) -> Result<Vec<Edit>, NoVerdict> {
    let mut edits = Vec::<Edit>::new();
    for (name, value) in fields {
        let name = std::str::from_utf8(name).map_err(|_| NoVerdict::Invalid)?;
        let is_known = edits.iter().any(|edit| edit.name.eq_ignore_ascii_case(name));
        let action = if are_added || is_known { EditAction::Append } else { EditAction::Set };
        edits.extend(Edit::new(name, value, action).map_err(|_| NoVerdict::Invalid)?);
    }
    Ok(edits)
}
