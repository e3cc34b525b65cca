//! HAR 1.2, in which browsers export what they sent: <http://www.softwareishard.com/blog/har-12-spec/>.
//!
//! Each request is written down as HTTP/1.1 and read by the proxy's parser, whatever protocol it had.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use anyhow::{anyhow, bail};
use http::Uri;
use serde::Deserialize;
use wire::h1::{Fields, parse_request};

use super::recorded::{LIMITS, Recorded, RecordedResponse};
use crate::query;

/// The content type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    http_version: String,
    headers: Vec<Pair>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    params: Vec<Pair>,
}

#[derive(Deserialize)]
struct Response {
    status: i64,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(default)]
    content: Content,
}

#[derive(Default, Deserialize)]
struct Content {
    #[serde(default)]
    text: String,
    #[serde(default)]
    encoding: String,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: String,
}

/// Reads all requests of an archive, except those that are no HTTP, such as `data:`.
///
/// # Errors
///
/// Something that is no archive, with line and column, or a malformed request, with its number.
pub(super) fn read(file: &str, bytes: &[u8]) -> anyhow::Result<Vec<Recorded>> {
    let archive: Archive = serde_json::from_slice(bytes)
        .map_err(|error| anyhow!("{file}:{}:{}: no HAR: {error}", error.line(), error.column()))?;
    let mut requests = Vec::new();
    for (number, entry) in (1..).zip(&archive.log.entries) {
        let place = format!("{file}, entry {number}");
        if entry.request.url.starts_with("http://") || entry.request.url.starts_with("https://") {
            requests.push(recorded(place.clone(), entry).map_err(|fault| anyhow!("{place}: {fault}"))?);
        }
    }
    if requests.is_empty() {
        bail!("{file}: there is no request");
    }
    Ok(requests)
}

fn recorded(place: String, entry: &Entry) -> anyhow::Result<Recorded> {
    let request = &entry.request;
    let uri: Uri = request.url.parse().map_err(|_| anyhow!("{:?} is no URL", request.url))?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let has = |name: &str| request.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
    let body = request.post_data.as_ref().map(PostData::body).transpose()?.unwrap_or_default();
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method);
    let mut add = |name: &str, value: &str| {
        if [name, value].iter().any(|text| text.contains(['\r', '\n'])) {
            bail!("the header {name:?} has more than one line");
        }
        head.extend([name, ": ", value, "\r\n"]);
        Ok(())
    };
    if !has("host") {
        add("Host", authority)?;
    }
    // HTTP/2 has the request line among its headers, and no framing.
    for header in request.headers.iter().filter(|header| !header.name.starts_with(':')) {
        add(&header.name, &header.value)?;
    }
    if !body.is_empty() && !has("content-length") && !has("transfer-encoding") {
        add("Content-Length", &body.len().to_string())?;
    }
    head.push_str("\r\n");
    let Some(parsed) = parse_request(head.as_bytes(), LIMITS, Fields::default())? else {
        bail!("the request is malformed");
    };
    let mut recorded = Recorded::of_head(place, head.as_bytes(), &parsed);
    let version = request.http_version.to_ascii_lowercase();
    if ["h2", "http/2", "http/2.0", "h3", "http/3"].contains(&version.as_str()) {
        recorded.protocol = "HTTP/2.0";
    }
    recorded.body = body;
    recorded.response = entry.response.as_ref().map(Response::recorded).transpose()?.flatten();
    Ok(recorded)
}

impl PostData {
    fn body(&self) -> anyhow::Result<Vec<u8>> {
        if !self.text.is_empty() || self.params.is_empty() {
            return Ok(self.text.clone().into_bytes());
        }
        let kind = self.mime_type.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case(FORM) {
            bail!("postData has no text, and parameters stand for the body of a form only");
        }
        let pair = |pair: &Pair| format!("{}={}", query::encode(&pair.name), query::encode(&pair.value));
        Ok(self.params.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes())
    }
}

impl Response {
    /// The response; none where the browser got none.
    fn recorded(&self) -> anyhow::Result<Option<RecordedResponse>> {
        let Some(status) = u16::try_from(self.status).ok().filter(|status| *status >= 200) else {
            return Ok(None);
        };
        let body = match self.content.encoding.as_str() {
            "base64" => {
                STANDARD.decode(&self.content.text).map_err(|_| anyhow!("the content is no base64"))?
            }
            _ => self.content.text.clone().into_bytes(),
        };
        let headers = self.headers.iter().filter(|header| !header.name.starts_with(':'));
        let headers = headers.map(|header| (header.name.clone().into(), header.value.clone().into()));
        Ok(Some(RecordedResponse { status, headers: headers.collect(), body }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn archive(request: &Value) -> Vec<u8> {
        let response = json!({
            "status": 200, "headers": [{"name": ":status", "value": "200"}, {"name": "x", "value": "1"}],
            "content": {"text": "b2s=", "encoding": "base64"},
        });
        let other = json!({"request": {"method": "GET", "url": "data:,x", "headers": []}});
        let entry = json!({"request": request, "response": response});
        json!({"log": {"entries": [other, entry]}}).to_string().into_bytes()
    }

    #[test]
    fn an_entry_is_read_as_the_request_that_was_sent() {
        let request = json!({
            "method": "POST", "url": "https://a.test/b?c=d#e", "httpVersion": "h2",
            "headers": [{"name": ":authority", "value": "a.test"}, {"name": "cookie", "value": "x=y"}],
            "postData": {"mimeType": FORM, "params": [{"name": "q", "value": "1 &"}]},
        });
        let read = read("a.har", &archive(&request)).unwrap();
        let [read] = &read[..] else { panic!("{read:?}") };
        assert_eq!((&*read.place, read.protocol), ("a.har, entry 2", "HTTP/2.0"));
        assert_eq!(
            (&*read.target, &*read.host, &*read.body),
            (&b"/b?c=d"[..], &b"a.test"[..], &b"q=1%20%26"[..])
        );
        let names: Vec<_> = read.headers.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, [&b"Host"[..], b"cookie", b"Content-Length"]);
        let response = read.response.as_ref().unwrap();
        assert_eq!((response.status, response.headers.len(), &*response.body), (200, 1, &b"ok"[..]));
    }

    #[test]
    fn faults_have_their_places() {
        let fault = |bytes: &[u8]| read("a.har", bytes).unwrap_err().to_string();
        assert!(fault(b"{\n  \"log\": 1}").starts_with("a.har:2:10: no HAR: "));
        assert_eq!(fault(b"{\"log\": {\"entries\": []}}"), "a.har: there is no request");
        for (request, expected) in [
            (json!({"method": "GET", "url": "http://a b/", "headers": []}), "\"http://a b/\" is no URL"),
            (json!({"method": "G T", "url": "http://a/", "headers": []}), "unsupported HTTP version"),
            (
                json!({"method": "GET", "url": "http://a/", "headers": [{"name": "x", "value": "1\r\ny: 2"}]}),
                "the header \"x\" has more than one line",
            ),
            (
                json!({
                    "method": "POST", "url": "http://a/", "headers": [],
                    "postData": {"mimeType": "multipart/form-data", "params": [{"name": "q"}]},
                }),
                "postData has no text, and parameters stand for the body of a form only",
            ),
        ] {
            assert_eq!(fault(&archive(&request)), format!("a.har, entry 2: {expected}"));
        }
    }
}
