//! CORS headers, and answers to preflights (ingress-nginx: `enable-cors`).

use model::{Cors, Origins};

use crate::request::head::HeadEdits;
use crate::request::reply::Answer;

/// The answer to a preflight; none for other requests, and for origins that are not allowed: an endpoint may
/// know them. As in ingress-nginx every OPTIONS is a preflight.
pub(crate) fn preflight<'a>(
    cors: &Cors,
    method: &[u8],
    origin: impl FnOnce() -> Option<&'a [u8]>,
) -> Option<Answer> {
    (method == b"OPTIONS" && allowed(cors, origin).is_some()).then(Answer::preflight)
}

/// Sets the headers, in place of those that the endpoint has sent. None are set for an origin that is not
/// allowed.
pub(super) fn apply<'a>(
    cors: &'a Cors,
    origin: impl FnOnce() -> Option<&'a [u8]>,
    edits: &mut HeadEdits<'a>,
) {
    let Some(origin) = allowed(cors, origin) else { return };
    edits.set("Access-Control-Allow-Origin", origin);
    if cors.credentials {
        edits.set("Access-Control-Allow-Credentials", &b"true"[..]);
    }
    edits.set("Access-Control-Allow-Methods", cors.methods.as_bytes());
    edits.set("Access-Control-Allow-Headers", cors.headers.as_bytes());
    edits.set("Access-Control-Max-Age", cors.max_age.as_bytes());
    if let Some(expose) = &cors.expose {
        edits.set("Access-Control-Expose-Headers", expose.as_bytes());
    }
}

/// The value of `Access-Control-Allow-Origin`. The request's `origin` is not looked for where all may.
fn allowed<'a>(cors: &Cors, origin: impl FnOnce() -> Option<&'a [u8]>) -> Option<&'a [u8]> {
    match &cors.origins {
        Origins::Any => Some(b"*"),
        Origins::Listed(listed) => origin().filter(|origin| listed.iter().any(|one| one.matches(origin))),
    }
}
