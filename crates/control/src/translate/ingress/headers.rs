//! Headers of requests and responses.

use std::sync::Arc;

use model::ConnectionHeader;
use model::template::Template;

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::problem::Reason;
use crate::translate::characters::{NAME, consists_of};
use crate::translate::claim::DraftRoute;
use crate::translate::header;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "connection-proxy-header", Location, "", Supported(|s, v| set(&mut s.headers.connection, value::connection_header(v).map(Some))), IgnoresIngress,
        "Connection header towards endpoints.";
    "custom-headers", Location, "", Supported(|s, v| set(&mut s.headers.custom, Ok(value::name(v)))),
        "ConfigMap with headers for responses, `namespace/name`: those that `global-allowed-response-headers` lists.", Medium;
    "http2-push-preload", Location, "false", Ignored("HTTP/2 push is gone from browsers, and from nginx since 1.25"), IgnoresIngress,
        "Pushes preloaded resources.";
    "upstream-vhost", Location, "", Supported(|s, v| set(&mut s.headers.host, host(v).map(Some))), IgnoresIngress,
        "Host header towards endpoints.";
}

/// Settings of headers.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// Value of `Connection` towards endpoints; none to leave the header to the proxy.
    pub(in crate::translate) connection: Option<ConnectionHeader>,
    /// `Host` towards endpoints; none for the client's.
    host: Option<Template>,
    /// The `ConfigMap` with response headers.
    custom: Option<String>,
    /// Header names that the `ConfigMap` may set. The key `global-allowed-response-headers` lists them.
    pub(in crate::translate) allowed: Arc<[String]>,
}

/// Response headers with their values.
pub(super) type CustomHeaders = Arc<[(String, String)]>;

impl Resolve for Settings {
    type Resolved = Option<CustomHeaders>;

    /// Looks up the response headers. If they cannot be set, the locations are closed.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) -> Self::Resolved {
        const NAME: &str = "custom-headers";
        let found = context.configmap(self.custom.as_ref()?).and_then(|configmap| {
            let headers = header::literals(configmap, &self.allowed);
            headers.map_err(|why| (Reason::Invalid, format!("ConfigMap {}: {why}", configmap.key())))
        });
        let refused = |fault| {
            findings.guards.of_locations.push(format!("{} cannot be read", context.asker.called(NAME)));
            findings.problems.push(context.closing(NAME, fault));
        };
        found.map_err(refused).ok()
    }
}

pub(super) fn apply(settings: &Settings, custom: Option<&CustomHeaders>, route: &mut DraftRoute) {
    route.connection_header = settings.connection;
    route.head.host.clone_from(&settings.host);
    route.custom_headers = custom.cloned();
}

fn host(text: &str) -> Parsed<Template> {
    if text.is_empty() || !consists_of(text, &[NAME, r"^$[](){}*+?|&=\"]) {
        return Err(format!("{text:?} is not a host name, nor one with variables"));
    }
    Template::parse(text).map_err(|error| error.to_string())
}
