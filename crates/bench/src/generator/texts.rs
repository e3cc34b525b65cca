//! The requests of a plan, made before its start.
//!
//! Must not be in here: connections.

use bytes::Bytes;
use http::{Method, Request, Uri};

use super::h3;
use super::plan::{Plan, Protocol, VARIANT};

/// Every variant of a plan's request, for all threads.
pub(super) struct Texts {
    /// The requests after which a connection stays open.
    pub(super) keeping: Vec<Vec<u8>>,
    /// The others; none if there are none.
    pub(super) closing: Vec<Vec<u8>>,
    /// The requests for HTTP/2; none for other versions.
    pub(super) heads: Vec<Request<()>>,
    /// The frames of the requests for HTTP/3; none for other versions.
    pub(super) frames: Vec<Bytes>,
}

impl Texts {
    pub(super) fn new(plan: &Plan) -> Result<Texts, http::Error> {
        let is_http2 = matches!(plan.protocol, Protocol::Http2 { .. });
        let is_http3 = matches!(plan.protocol, Protocol::Http3 { .. });
        let closes = plan.requests_per_connection.is_some();
        let closing = plan.variants().filter(|_| closes).map(|one| plan.request(one, true));
        let heads = plan.variants().filter(|_| is_http2).map(|one| head(plan, one));
        let frames = plan.variants().filter(|_| is_http3);
        let frames = frames.map(|one| Ok(h3::request(&head(plan, one)?, &plan.body)));
        Ok(Texts {
            keeping: plan.variants().map(|one| plan.request(one, false)).collect(),
            closing: closing.collect(),
            heads: heads.collect::<Result<_, _>>()?,
            frames: frames.collect::<Result<_, http::Error>>()?,
        })
    }
}

fn head(plan: &Plan, variant: &str) -> Result<Request<()>, http::Error> {
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    let path = plan.path.replace(VARIANT, variant);
    let uri = Uri::builder().scheme(scheme).authority(&*plan.host).path_and_query(path).build()?;
    let mut request = Request::builder().method(Method::from_bytes(plan.method.as_bytes())?).uri(uri);
    for (name, value) in &plan.headers {
        request = request.header(name, value.replace(VARIANT, variant));
    }
    if !plan.body.is_empty() {
        request = request.header(http::header::CONTENT_LENGTH, plan.body.len());
    }
    request.body(())
}
