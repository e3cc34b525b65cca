//! Tells browsers which pages may read a response (ingress-nginx: `enable-cors`), and answers their preflights.

use model::{Cors, Origins};

use crate::head::HeadEdits;
use crate::reply::Answer;

/// The answer to a preflight; none for other requests, and for origins that are not allowed: an endpoint may know them. As in
/// ingress-nginx every OPTIONS is a preflight.
pub(crate) fn preflight(cors: &Cors, method: &[u8], origin: Option<&[u8]>) -> Option<Answer> {
    (method == b"OPTIONS" && allowed(cors, origin).is_some()).then(Answer::preflight)
}

/// Sets the headers, in place of those that the endpoint has sent. None are set for an origin that is not allowed.
pub(super) fn apply<'a>(cors: &'a Cors, origin: Option<&'a [u8]>, edits: &mut HeadEdits<'a>) {
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

/// The origin that is told to be allowed.
fn allowed<'a>(cors: &Cors, origin: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match &cors.origins {
        Origins::Any => Some(b"*"),
        Origins::Listed(listed) => origin.filter(|origin| listed.iter().any(|one| one.matches(origin))),
    }
}
