//! nginx's configuration in annotations, as far as it is understood. Where something in it is not, what it is for is closed.

use std::sync::Arc;

use model::Block;
use model::template::Template;

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;
use super::guards;
use crate::objects::Ingress as Object;
use crate::objects::Sourced;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::{Claim, DraftRoute};
use crate::translate::snippet::{self, Names, OfHost, OfLocation};
use crate::translate::value::{self, set};

annotations! {
    "configuration-snippet", Location, "", Supported(|s, v| set(&mut s.snippets.configuration, Ok(value::unless_blank(v)))),
        "nginx configuration for the locations: headers, conditions, answers, rewriting, addresses.", Critical;
    "server-snippet", Ingress, "", Supported(|s, v| set(&mut s.snippets.server, Ok(value::unless_blank(v)))),
        "nginx configuration for the host: headers, conditions, answers, rewriting, addresses, and locations of its own.", Critical;
    "stream-snippet", Ingress, "", Ignored("TCP and UDP services are those of tcp-services and udp-services, and have no other settings"),
        "nginx configuration for TCP and UDP.", Critical;
}

/// The snippets of an Ingress, and those of the `ConfigMap`.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    configuration: Option<String>,
    server: Option<String>,
    /// For the request to the auth service.
    pub(super) auth: Option<String>,
    pub(in crate::translate) global: Arc<Global>,
}

/// What the snippets of the `ConfigMap` hold for every Ingress.
#[derive(Debug, Default)]
pub(in crate::translate) struct Global {
    pub(in crate::translate) names: Names,
    pub(in crate::translate) location: OfLocation,
    pub(in crate::translate) host: Option<Arc<OfHost>>,
}

/// What snippets come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved {
    location: OfLocation,
    /// What is said of the location, where that is anything but addresses.
    block: Option<Arc<Block>>,
    /// What the Ingress says of its hosts.
    host: Option<Arc<OfHost>>,
    /// What the `ConfigMap` says of all hosts.
    global: Option<Arc<OfHost>>,
    /// Headers for the request to the Ingress' own auth service.
    pub(super) auth_headers: Vec<(String, Template)>,
}

/// An annotation, and why its snippet cannot be used.
type Faulty = (&'static str, String);

impl Settings {
    /// Reads the snippets. Those that cannot be used are as good as empty, and named.
    pub(super) fn resolve(&self) -> (Resolved, Vec<Faulty>) {
        let global = &*self.global;
        let (mut names, mut faults) = (global.names.clone(), Vec::new());
        [&self.configuration, &self.server].into_iter().flatten().for_each(|text| names.add_set_by(text));
        let mut location = OfLocation::default();
        if let Some(text) = &self.configuration {
            let read = snippet::location(text, &names);
            location = read.unwrap_or_else(|fault| {
                faults.push(("configuration-snippet", fault.to_string()));
                OfLocation::default()
            });
        }
        let mut host = None;
        if let Some(text) = &self.server {
            match snippet::server(text, &names) {
                Ok(of_host) => host = Some(Arc::new(of_host)),
                Err(fault) => faults.push(("server-snippet", fault.to_string())),
            }
        }
        let mut auth_headers = Vec::new();
        if let Some(text) = &self.auth {
            match snippet::auth_headers(text, &names) {
                Ok(headers) => auth_headers = headers,
                Err(fault) => faults.push(("auth-snippet", fault.to_string())),
            }
        }
        let location = location.then(&global.location);
        let block = (location.block != Block::default()).then(|| Arc::new(location.block.clone()));
        (Resolved { location, block, host, global: global.host.clone(), auth_headers }, faults)
    }
}

/// Closes what a snippet is for that cannot be used.
pub(super) fn close(
    (name, why): Faulty,
    ingress: &Sourced<Object>,
    prefix: &str,
    guards: &mut guards::Settings,
    problems: &mut Vec<Problem>,
) {
    let key = format!("{prefix}/{name}");
    let (denials, what) = if name == "server-snippet" {
        (&mut guards.of_hosts, "all locations of its hosts")
    } else {
        (&mut guards.of_locations, "the locations of this Ingress")
    };
    denials.push(format!("annotation {key}: {why}"));
    let message = format!("annotation {key}: {why}: {what} answer 503");
    let problem = Problem::of_annotation(Severity::Error, ingress, &key, message);
    problems.push(problem.because(Reason::Unsupported));
}

pub(super) fn apply(resolved: &Resolved, route: &mut DraftRoute) {
    route.script.location.clone_from(&resolved.block);
    route.script.global.clone_from(&resolved.global);
    if !resolved.location.rules.is_empty() {
        route.access.networks.get_or_insert_default().rules = resolved.location.rules.as_slice().into();
    }
}

pub(super) fn apply_to_host(resolved: &Resolved, claim: &mut Claim) {
    claim.script.clone_from(&resolved.host);
}
