//! The page itself: files that are part of the binary, compressed at the first request.

use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    IF_NONE_MATCH, VARY,
};

/// A file of the page.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $content_type:expr, $file:literal) => {
        Asset { path: $path, content_type: $content_type, content: include_bytes!(concat!("assets/", $file)) }
    };
}

const ASSETS: &[Asset] = &[
    asset!("/console/", "text/html; charset=utf-8", "index.html"),
    asset!("/console/style.css", "text/css; charset=utf-8", "style.css"),
    asset!("/console/main.js", SCRIPT, "main.js"),
    asset!("/console/dom.js", SCRIPT, "dom.js"),
    asset!("/console/language.js", SCRIPT, "language.js"),
    asset!("/console/zh.js", SCRIPT, "zh.js"),
    asset!("/console/live.js", SCRIPT, "live.js"),
    asset!("/console/chart.js", SCRIPT, "chart.js"),
    asset!("/console/table.js", SCRIPT, "table.js"),
    asset!("/console/overview.js", SCRIPT, "overview.js"),
    asset!("/console/lists.js", SCRIPT, "lists.js"),
    asset!("/console/explain.js", SCRIPT, "explain.js"),
    asset!("/console/doctor.js", SCRIPT, "doctor.js"),
    asset!("/console/report.js", SCRIPT, "report.js"),
    asset!("/console/replicas.js", SCRIPT, "replicas.js"),
    asset!("/console/requests.js", SCRIPT, "requests.js"),
    asset!("/console/firewall.js", SCRIPT, "firewall.js"),
    asset!("/console/past.js", SCRIPT, "past.js"),
];

/// Compressed contents, in the order of [`ASSETS`].
static COMPRESSED: [OnceLock<Bytes>; ASSETS.len()] = [const { OnceLock::new() }; ASSETS.len()];

/// The file of a path; none if there is no such.
pub(super) fn file(path: &str, headers: &HeaderMap) -> Option<Response<Bytes>> {
    let at = ASSETS.iter().position(|asset| asset.path == path)?;
    let tag = tag();
    let mut response = if headers.get(IF_NONE_MATCH) == Some(&tag) {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else if takes_gzip(headers) {
        let mut response =
            Response::new(COMPRESSED[at].get_or_init(|| compressed(ASSETS[at].content)).clone());
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        Response::new(Bytes::from_static(ASSETS[at].content))
    };
    let head = response.headers_mut();
    head.insert(CONTENT_TYPE, HeaderValue::from_static(ASSETS[at].content_type));
    // It may be another release behind the same address the next time: each use asks.
    head.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    head.insert(VARY, HeaderValue::from_static("accept-encoding"));
    head.insert(ETAG, tag);
    Some(response)
}

/// One tag for all files: they change with the binary. It is weak, since a compressed form has the same.
fn tag() -> HeaderValue {
    static TAG: OnceLock<HeaderValue> = OnceLock::new();
    let make = || {
        let mut hasher = std::hash::DefaultHasher::new();
        for asset in ASSETS {
            std::hash::Hash::hash(asset.content, &mut hasher);
        }
        let tag = format!("W/\"{:016x}\"", std::hash::Hasher::finish(&hasher));
        HeaderValue::try_from(tag).expect("hexadecimal digits")
    };
    TAG.get_or_init(make).clone()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let codings = accepted.flat_map(|value| value.split(',')).map(str::trim);
    codings.into_iter().any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = parameters.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

fn compressed(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(coding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(coding))])
    }

    #[test]
    fn files_are_compressed_for_those_who_take_that() {
        for (coding, is_compressed) in [
            ("gzip, br", true),
            ("br;q=1, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
        ] {
            let response = file("/console/main.js", &asked(coding)).unwrap();
            assert_eq!(response.headers().contains_key(CONTENT_ENCODING), is_compressed, "{coding}");
        }
        assert!(file("/console/other.js", &asked("gzip")).is_none());
        assert!(file("/console/assets/../main.js", &asked("gzip")).is_none());
    }

    #[test]
    fn who_has_a_file_is_not_sent_it_again() {
        let first = file("/console/", &asked("gzip")).unwrap();
        let mut again = asked("gzip");
        again.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        let second = file("/console/", &again).unwrap();
        assert_eq!((second.status(), second.body().len()), (StatusCode::NOT_MODIFIED, 0));
    }

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        let size: usize = ASSETS.iter().map(|asset| compressed(asset.content).len()).sum();
        assert!(size <= 150 << 10, "{size} bytes compressed");
        // The targets of scripts are bound by the policy, which a browser in the conformance tests verifies.
        for asset in ASSETS.iter().filter(|asset| asset.content_type != SCRIPT) {
            let text = std::str::from_utf8(asset.content).unwrap();
            assert!(!text.contains("//"), "{} refers to something elsewhere", asset.path);
        }
    }
}
