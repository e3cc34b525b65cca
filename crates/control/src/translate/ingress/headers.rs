//! Headers of requests and responses.

use std::sync::Arc;

use model::ConnectionHeader;
use model::template::Template;

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::named::configmap;
use crate::objects::{Ingress, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::characters::{NAME, consists_of};
use crate::translate::claim::DraftRoute;
use crate::translate::header;
use crate::translate::inputs::Inputs;
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
    /// Value of `Connection` towards endpoints; none to leave it to the proxy.
    pub(in crate::translate) connection: Option<ConnectionHeader>,
    /// `Host` towards endpoints, if it is not the client's.
    host: Option<Template>,
    /// The `ConfigMap` with headers of responses.
    custom: Option<String>,
    /// Headers that it may set. The key `global-allowed-response-headers` lists them.
    pub(in crate::translate) allowed: Arc<[String]>,
}

/// Headers of responses.
pub(super) type CustomHeaders = Arc<[(String, String)]>;

impl Settings {
    /// Looks up the headers of responses. Where they cannot be set, the locations are closed: the reason, and the problem.
    pub(super) fn resolve(
        &self,
        ingress: &Sourced<Ingress>,
        prefix: &str,
        crosses_namespaces: bool,
        inputs: &Inputs<'_>,
    ) -> Result<Option<CustomHeaders>, Box<(String, Problem)>> {
        let Some(text) = &self.custom else { return Ok(None) };
        let key = format!("{prefix}/custom-headers");
        let namespace = Some(ingress.namespace()).filter(|_| !crosses_namespaces);
        let found = configmap(text, namespace, inputs).and_then(|configmap| {
            let headers = header::literals(configmap, &self.allowed);
            headers.map_err(|why| (Reason::Invalid, format!("ConfigMap {}: {why}", configmap.key())))
        });
        found.map(Some).map_err(|(reason, why)| {
            let message = format!("annotation {key}: {why}: the locations of this Ingress return 503");
            let problem = Problem::of_annotation(Severity::Error, ingress, &key, message);
            Box::new((format!("annotation {key} cannot be read"), problem.because(reason)))
        })
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
