//! The HTTP client of the ACME library.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::http::header::{ACCEPT, RETRY_AFTER};
use ::http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};

use crate::providers::client::{Answer, Client};
use crate::providers::{Place, Url};

/// Longest time for a question; some authorities sign before they answer.
const TIME_MAX: Duration = Duration::from_secs(45);

/// Asks one authority.
pub(super) struct Http {
    pub(super) client: Arc<Client>,
    /// PEM of the certificates to trust, in place of the machine's.
    pub(super) trusted: Option<Arc<[u8]>>,
}

/// An answer that the ACME library is not shown: the authority does not do what it was asked for now.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: Option<String>,
    /// The authority's wish, in seconds.
    pub(super) retry_after: Option<i64>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the authority answers {}", self.status.as_u16())?;
        self.why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

impl std::error::Error for Refusal {}

/// A question that was not answered.
#[derive(Debug)]
pub(super) struct Unanswered(String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (client, trusted) = (Arc::clone(&self.client), self.trusted.clone());
        Box::pin(async move {
            let answer = ask(&client, trusted, request).await;
            answer.map_err(|why| Error::Other(Box::new(Unanswered(why))))?.into_response()
        })
    }
}

/// An answer to a question of this kind.
struct Answered {
    is_signed: bool,
    answer: Answer,
}

async fn ask(
    client: &Client,
    authority: Option<Arc<[u8]>>,
    request: Request<BodyWrapper<Bytes>>,
) -> Result<Answered, String> {
    let (mut parts, body) = request.into_parts();
    let url = Url::parse(&parts.uri.to_string())?;
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    let is_signed = parts.method == Method::POST;
    parts.headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    parts.uri = url.target.parse().map_err(|_| format!("{url} has no valid path"))?;
    let place = Place { url, authority };
    let answer = client.send_within(TIME_MAX, &place, Ok(Request::from_parts(parts, body))).await;
    let answer = answer.map_err(|why| format!("{}: {why}", place.url.host))?;
    Ok(Answered { is_signed, answer })
}

impl Answered {
    /// The answer for the ACME library, which knows errors about signed requests.
    fn into_response(self) -> Result<BytesResponse, Error> {
        let Answer { status, headers, body } = self.answer;
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        if is_busy || !self.is_signed && !status.is_success() {
            let problem: Option<Problem> = serde_json::from_slice(&body).ok();
            let why = problem.and_then(|problem| problem.detail);
            let retry_after =
                headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(seconds);
            return Err(Error::Other(Box::new(Refusal { status, why, retry_after })));
        }
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(BytesResponse::from(response))
    }
}

/// The seconds of `Retry-After`, which may be a date.
fn seconds(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.trim().parse::<i64>() {
        return Some(seconds.max(0));
    }
    let at = httpdate::parse_http_date(text.trim()).ok()?;
    Some(at.duration_since(SystemTime::now()).map_or(0, |wait| wait.as_secs().cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(seconds(" 120 "), Some(120));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(600));
        assert!(seconds(&later).is_some_and(|wait| (590..=600).contains(&wait)));
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn an_answer_that_is_no_problem_of_acme_is_a_refusal() {
        let answer = |status: u16, is_signed| {
            let mut headers = ::http::HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("30"));
            let body =
                Bytes::from_static(br#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"busy"}"#);
            let status = StatusCode::from_u16(status).unwrap();
            Answered { is_signed, answer: Answer { status, headers, body } }.into_response()
        };
        for (status, is_signed) in [(429, true), (503, true), (404, false)] {
            let Err(Error::Other(error)) = answer(status, is_signed) else { panic!("{status} is a refusal") };
            let refusal = error.downcast_ref::<Refusal>().unwrap();
            assert_eq!(refusal.retry_after, Some(30));
            assert_eq!(refusal.to_string(), format!("the authority answers {status}: busy"));
        }
        assert!(answer(400, true).is_ok() && answer(200, false).is_ok());
    }
}
