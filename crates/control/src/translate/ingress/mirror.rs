//! Mirroring: copies of requests for another service.

use std::sync::Arc;

use model::template::Template;
use model::{MirrorCopy, Share};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::auth::external::parse_url;
use crate::translate::characters::{NAME, consists_of};
use crate::translate::claim::{AuthService, DraftRoute, MirrorDraft};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "mirror-host", Ingress, "", Supported(|s, v| set(&mut s.mirror.host, host(v).map(Some))),
        "Host header of mirrored requests.", High;
    "mirror-request-body", Ingress, "on", Supported(|s, v| set(&mut s.mirror.has_body, value::on_off(v))),
        "Mirrors request bodies too.";
    "mirror-target", Ingress, "", Supported(|s, v| set(&mut s.mirror.target, target(v).map(Some))),
        "URL to which requests are mirrored.", High;
}

/// Settings of mirroring.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    target: Option<Target>,
    host: Option<Template>,
    has_body: bool,
    /// The share of the requests that are copied.
    pub(super) share: Share,
}

/// The URL that receives the copies.
#[derive(Clone, Debug)]
struct Target {
    service: AuthService,
    path: Template,
    adds_query: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { target: None, host: None, has_body: true, share: Share::ALL }
    }
}

/// Applies mirroring to a route. "Host header = target host without port or mirror-host."
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.mirror = settings.target.as_ref().map(|target| {
        let host = settings.host.clone();
        let own_host = || Template::parse(&target.service.host).expect("a host has no dollar sign");
        let copy = MirrorCopy {
            host: host.unwrap_or_else(own_host),
            target: target.path.clone(),
            adds_query: target.adds_query,
            has_body: settings.has_body,
        };
        MirrorDraft { service: target.service.clone(), copy: Arc::new(copy), share: settings.share }
    });
}

/// Parses the target. "URL = mirror-target + the query (with variables exactly as evaluated)."
fn target(text: &str) -> Parsed<Target> {
    check_characters(text)?;
    // The host may be followed directly by a variable whose value begins with the slash of the path.
    let authority = text.find("://").map_or(0, |at| at + 3);
    let path = text[authority..].find(['/', '?']).map_or(text.len(), |at| authority + at);
    let value = ["$request_uri", "$uri"].iter().filter_map(|name| text[authority..path].find(name)).min();
    let (url, value) = text.split_at(value.map_or(text.len(), |at| authority + at));
    let (service, path) = parse_url(url)?;
    let path = if value.is_empty() { path } else { Template::parse(value).map_err(|why| why.to_string())? };
    Ok(Target { service, path, adds_query: !text.contains('$') })
}

fn host(text: &str) -> Parsed<Template> {
    check_characters(text)?;
    Template::parse(text).map_err(|error| error.to_string())
}

fn check_characters(text: &str) -> Parsed<()> {
    if !text.is_empty() && consists_of(text, &[NAME, r"^$[](){}*+?|&=\"]) {
        return Ok(());
    }
    Err(format!("{text:?} has characters that ingress-nginx does not allow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_taken_apart() {
        let parse = |text: &str| Template::parse(text).unwrap();
        for (text, host, path, adds_query) in [
            ("http://a.test/m", "a.test", "/m", true),
            ("http://A.test:81", "a.test", "/", true),
            ("https://a.test/$request_uri", "a.test", "/$request_uri", false),
            ("https://192.0.2.1$request_uri", "192.0.2.1", "$request_uri", false),
            ("http://a.test$uri?of=$host", "a.test", "$uri?of=$host", false),
        ] {
            let target = target(text).unwrap();
            assert_eq!((target.service.host.as_str(), target.adds_query), (host, adds_query), "{text}");
            assert_eq!(target.path, parse(path), "{text}");
        }
        for text in ["", "/m", "http://$host/", "http://a.test/ b", "http://a.test/;", "http://a.test/$"] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
