//! The snippets of the `ConfigMap`. They need no permission; where something in one of them is not understood, everything is closed.

use std::sync::Arc;

use model::template::Template;

use super::Global;
use crate::translate::ingress::snippets;
use crate::translate::snippet;

/// A key, and why its snippet cannot be used.
pub(super) type Faulty = (&'static str, String);

/// Reads the snippets: tables of variables first, since the others may use them. `text` gives the value of a key.
pub(super) fn read<'t>(text: impl Fn(&str) -> Option<&'t str>, global: &mut Global) -> Vec<Faulty> {
    let mut faults = Vec::new();
    let mut found = snippets::Global::default();
    let text = |key: &str| text(key).filter(|text| !text.trim().is_empty());
    if let Some(text) = text("http-snippet") {
        match snippet::http(text) {
            Ok(names) => found.names = names,
            Err(fault) => faults.push(("http-snippet", fault.to_string())),
        }
    }
    ["location-snippet", "server-snippet"]
        .into_iter()
        .filter_map(text)
        .for_each(|it| found.names.add_set_by(it));
    if let Some(text) = text("location-snippet") {
        match snippet::location(text, &found.names) {
            Ok(location) => found.location = location,
            Err(fault) => faults.push(("location-snippet", fault.to_string())),
        }
    }
    if let Some(text) = text("server-snippet") {
        match snippet::server(text, &found.names) {
            Ok(host) => found.host = Some(Arc::new(host)),
            Err(fault) => faults.push(("server-snippet", fault.to_string())),
        }
    }
    if let Some(text) = text("global-auth-snippet") {
        match snippet::auth_headers(text, &found.names) {
            Ok(headers) => set_auth(global, headers),
            Err(fault) => faults.push(("global-auth-snippet", fault.to_string())),
        }
    }
    global.defaults.snippets.global = Arc::new(found);
    faults
}

fn set_auth(global: &mut Global, headers: Vec<(String, Template)>) {
    global.defaults.auth.global.snippet_headers = headers;
}
