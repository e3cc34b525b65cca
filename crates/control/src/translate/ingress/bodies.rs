//! Request bodies, and the version of HTTP towards endpoints.

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Applied, Parsed, positive, set};

annotations! {
    "client-body-buffer-size", Location, "8k", Supported(buffer_size), IgnoresIngress,
        "Request body kept in memory; a longer one goes to a file, where `--body-buffer-dir` names a folder.";
    "proxy-body-size", Location, "1m", Supported(|s, v| set(&mut s.bodies.bytes_max, value::size(v).map(positive))),
        "Longest request body; 0 for no limit.", Medium;
    "proxy-http-version", Location, "1.1", Supported(|s, v| set(&mut s.bodies.uses_http_1_0, is_http_1_0(v))),
        "HTTP version towards endpoints: 1.1 or 1.0.";
    "proxy-request-buffering", Location, "on", Supported(|s, v| set(&mut s.bodies.are_buffered, value::on_off(v))),
        "Reads request bodies before endpoints are contacted.";
}

/// Settings of request bodies.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// Longest body, in bytes; none for no limit.
    pub(in crate::translate) bytes_max: Option<u64>,
    /// Bodies are read completely before an endpoint gets the request.
    pub(in crate::translate) are_buffered: bool,
    /// Bytes of such a body that stay in memory.
    pub(in crate::translate) buffer_bytes: u64,
    pub(in crate::translate) uses_http_1_0: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { bytes_max: Some(1 << 20), are_buffered: true, buffer_bytes: 8 << 10, uses_http_1_0: false }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.body_bytes_max = settings.bytes_max;
    route.transfer.request_buffer_bytes = settings.are_buffered.then_some(settings.buffer_bytes);
    route.transfer.uses_http_1_0 = settings.uses_http_1_0;
}

/// Reads the size. ingress-nginx ignores spaces in its check, and uses only a value that nginx can parse
/// unchanged.
fn buffer_size(settings: &mut super::Settings, text: &str) -> Applied {
    match value::size(text) {
        Err(why) if is_let_through(text) => {
            Ok(Some(format!("{why}; the default is used, as by ingress-nginx")))
        }
        size => set(&mut settings.bodies.buffer_bytes, size),
    }
}

/// Whether ingress-nginx accepts a text as a size: digits and a letter, with spaces anywhere.
fn is_let_through(text: &str) -> bool {
    let bare = text.replace(' ', "");
    let digits = bare.strip_suffix(['b', 'k', 'm', 'g', 'B', 'K', 'M', 'G']).unwrap_or(&bare);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(in crate::translate) fn is_http_1_0(text: &str) -> Parsed<bool> {
    match text.trim() {
        "1.0" => Ok(true),
        "1.1" => Ok(false),
        _ => Err(format!("{text:?} is neither \"1.0\" nor \"1.1\"")),
    }
}
