//! A recorded request, in whatever form it was recorded.

use ::waf::{Exchange, RequestLine, Response};
use wire::h1::{Fields, Request, RequestLimits, Version};

/// Headers: names and values.
pub(super) type Headers = Vec<(Vec<u8>, Vec<u8>)>;

/// The bounds of a head.
pub(super) const LIMITS: RequestLimits = RequestLimits { line_bytes_max: 64 << 10, head_bytes_max: 1 << 20 };

/// A request, with its response where one was recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// File, and line or entry.
    pub(super) place: String,
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
    /// The client's protocol, as nginx names it.
    pub(super) protocol: &'static str,
    pub(super) host: Vec<u8>,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
    pub(super) response: Option<RecordedResponse>,
}

/// A response of an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordedResponse {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

// === impl Recorded ===

impl Recorded {
    /// A request with this head, without a body.
    pub(super) fn of_head(place: String, head: &[u8], parsed: &Request) -> Self {
        Self {
            place,
            method: head[parsed.method.clone()].to_vec(),
            target: head[parsed.target.clone()].to_vec(),
            protocol: match parsed.version {
                Version::Http11 => "HTTP/1.1",
                Version::Http10 => "HTTP/1.0",
            },
            host: head[parsed.host.clone()].to_vec(),
            headers: headers(&parsed.fields, head),
            body: Vec::new(),
            response: None,
        }
    }

    /// Calls a function with the request as the rules take it.
    pub(super) fn with_exchange<T>(&self, then: impl FnOnce(Exchange<'_>) -> T) -> T {
        let request_headers = borrowed(&self.headers);
        let response_headers = self.response.as_ref().map(|response| borrowed(&response.headers));
        let response = self.response.as_ref().map(|response| Response {
            status: response.status,
            protocol: "HTTP/1.1",
            headers: response_headers.as_deref().unwrap_or_default(),
            body: &response.body,
        });
        then(Exchange {
            line: RequestLine { method: &self.method, target: &self.target, protocol: self.protocol },
            headers: &request_headers,
            body: &self.body,
            response,
        })
    }
}

/// The headers of a head.
pub(super) fn headers(fields: &Fields, head: &[u8]) -> Headers {
    fields.iter().map(|field| (field.name(head).to_vec(), field.value(head).to_vec())).collect()
}

fn borrowed(headers: &Headers) -> Vec<::waf::Header<'_>> {
    headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect()
}
