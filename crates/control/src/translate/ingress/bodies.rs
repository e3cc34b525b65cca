//! Bodies of requests and responses.

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, positive, set};

annotations! {
    "client-body-buffer-size", Location, "8k", Ignored("bodies are streamed, not buffered"),
        "Request body kept in memory.";
    "proxy-body-size", Location, "1m", Supported(|s, v| set(&mut s.bodies.bytes_max, value::size(v).map(positive))),
        "Longest request body; 0 for no limit.", Medium;
    "proxy-buffer-size", Location, "4k", Ignored("response heads have a limit of their own"),
        "Longest response head.";
    "proxy-buffering", Location, "off", Ignored("responses are streamed, with backpressure"),
        "Buffers responses.";
    "proxy-buffers-number", Location, "4", Ignored("responses are streamed, with backpressure"),
        "Buffers for a response.";
    "proxy-busy-buffers-size", Location, "", Ignored("responses are streamed, with backpressure"),
        "Buffers that may be busy sending.";
    "proxy-max-temp-file-size", Location, "1024m", Ignored("nothing is spooled to disk"),
        "Disk space for a response.";
    "proxy-request-buffering", Location, "on", Ignored("request bodies are streamed, with backpressure"),
        "Reads request bodies before endpoints are contacted.";
}

/// Settings of bodies.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// Longest request body, in bytes; none for no limit.
    pub(in crate::translate) bytes_max: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { bytes_max: Some(1 << 20) }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.body_bytes_max = settings.bytes_max;
}
