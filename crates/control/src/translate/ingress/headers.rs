//! Headers of requests and responses.

use model::ConnectionHeader;

use super::annotation::Effect::{Ignored, Supported, Unsupported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, set};

annotations! {
    "connection-proxy-header", Location, "", Supported(|s, v| set(&mut s.headers.connection, value::connection_header(v).map(Some))), IgnoresIngress,
        "Connection header towards endpoints.";
    "custom-headers", Location, "", Unsupported, "ConfigMap with headers for responses.";
    "http2-push-preload", Location, "false", Ignored("HTTP/2 push is gone from browsers, and from nginx since 1.25"),
        "Pushes preloaded resources.";
    "upstream-vhost", Location, "", Unsupported, "Host header towards endpoints.";
}

/// Settings of headers.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// Value of `Connection` towards endpoints; none to leave it to the proxy.
    connection: Option<ConnectionHeader>,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.connection_header = settings.connection;
}
