//! Headers of requests and responses.

use model::ConnectionHeader;
use model::template::Template;

use super::annotation::Effect::{Ignored, Supported, Unsupported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::characters::{NAME, consists_of};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "connection-proxy-header", Location, "", Supported(|s, v| set(&mut s.headers.connection, value::connection_header(v).map(Some))), IgnoresIngress,
        "Connection header towards endpoints.";
    "custom-headers", Location, "", Unsupported, "ConfigMap with headers for responses.";
    "http2-push-preload", Location, "false", Ignored("HTTP/2 push is gone from browsers, and from nginx since 1.25"), IgnoresIngress,
        "Pushes preloaded resources.";
    "upstream-vhost", Location, "", Supported(|s, v| set(&mut s.headers.host, host(v).map(Some))), IgnoresIngress,
        "Host header towards endpoints.";
}

/// Settings of headers.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// Value of `Connection` towards endpoints; none to leave it to the proxy.
    pub(in crate::translate) connection: Option<ConnectionHeader>,
    /// `Host` towards endpoints, if it is not the client's.
    host: Option<Template>,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.connection_header = settings.connection;
    route.head.host.clone_from(&settings.host);
}

fn host(text: &str) -> Parsed<Template> {
    if text.is_empty() || !consists_of(text, &[NAME, r"^$[](){}*+?|&=\"]) {
        return Err(format!("{text:?} is not a host name, nor one with variables"));
    }
    Template::parse(text).map_err(|error| error.to_string())
}
