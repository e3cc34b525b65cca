//! The backend of the tests' environment, albedo: a response without content to any request, and to
//! `POST /reflect` the response that the request's JSON describes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::message::{Header, Message};

/// A response as rules see it.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<Header>,
    pub(super) body: Vec<u8>,
}

/// The description of a response.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Description {
    status: u16,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
    encoded_body: String,
}

// === impl Response ===

impl Response {
    /// The backend's response to a request.
    pub(super) fn to(request: &Message) -> Self {
        let path = request.target.split(|&byte| byte == b'?').next().unwrap_or_default();
        let is_reflected =
            request.method == b"POST" && (path == b"/reflect" || path.starts_with(b"/reflect/"));
        if !is_reflected {
            return Self::new(200, Vec::new(), Vec::new());
        }
        let Ok(description) = serde_json::from_slice::<Description>(&request.body) else {
            return Self::new(400, Vec::new(), b"Invalid JSON in request body".to_vec());
        };
        let headers = description.headers.iter().map(|(name, value)| header(name, value)).collect();
        let body = if description.body.is_empty() {
            STANDARD.decode(&description.encoded_body).unwrap_or_default()
        } else {
            description.body.into_bytes()
        };
        Self::new(if description.status == 0 { 200 } else { description.status }, headers, body)
    }

    /// A response with the headers that Go's server adds.
    fn new(status: u16, mut headers: Vec<Header>, body: Vec<u8>) -> Self {
        let has = |headers: &[Header], name: &str| {
            headers.iter().any(|header| header.name.eq_ignore_ascii_case(name.as_bytes()))
        };
        if !body.is_empty() && !has(&headers, "content-type") {
            headers.push(header("Content-Type", sniff(&body)));
        }
        if !has(&headers, "content-length") {
            headers.push(header("Content-Length", &body.len().to_string()));
        }
        Self { status, headers, body }
    }
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.into(), value: value.into() }
}

/// The content type of a body, as far as the tests need it (WHATWG MIME Sniffing, section 7).
fn sniff(body: &[u8]) -> &'static str {
    const TAGS: [&[u8]; 17] = [
        b"<!DOCTYPE HTML",
        b"<HTML",
        b"<HEAD",
        b"<SCRIPT",
        b"<IFRAME",
        b"<H1",
        b"<DIV",
        b"<FONT",
        b"<TABLE",
        b"<A",
        b"<STYLE",
        b"<TITLE",
        b"<B",
        b"<BODY",
        b"<BR",
        b"<P",
        b"<!--",
    ];
    let text = body.trim_ascii_start();
    let begins = |tag: &[u8]| {
        let is_ended = tag == b"<!--" || matches!(text.get(tag.len()), Some(b' ' | b'>'));
        text.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag)) && is_ended
    };
    let is_binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if TAGS.iter().any(|tag| begins(tag)) {
        "text/html; charset=utf-8"
    } else if text.starts_with(b"<?xml") {
        "text/xml; charset=utf-8"
    } else if body.starts_with(b"%PDF-") {
        "application/pdf"
    } else if body.iter().take(512).any(is_binary) {
        "application/octet-stream"
    } else {
        "text/plain; charset=utf-8"
    }
}
