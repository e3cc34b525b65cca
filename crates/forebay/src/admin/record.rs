//! `/record`: a part of what the flight recorder holds, as a file.
//!
//! Must not be in here: reading the record, which is in `past::answer`.

use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::reply::{Reply, TEXT, response};
use crate::past::answer::{Readers, Refusal};

/// Answers with the record between `since` and `until`, in milliseconds since 1970.
pub(super) async fn answer(readers: &Readers, query: &str) -> Response<Reply> {
    let refused = |status, why: String| response(status, TEXT, why + "\n").map(Reply::from);
    match readers.export(query).await {
        Ok(parts) => {
            let mut answer = Response::new(Reply::Parts(parts));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            answer
        }
        Err(Refusal::Unusable(why)) => refused(StatusCode::BAD_REQUEST, why),
        Err(Refusal::Failed(why)) => refused(StatusCode::INTERNAL_SERVER_ERROR, why),
        Err(Refusal::Busy) => {
            let why = "somebody else reads the record; ask again".to_owned();
            let mut busy = refused(StatusCode::SERVICE_UNAVAILABLE, why);
            busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            busy
        }
    }
}
