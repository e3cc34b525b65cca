//! What endpoints that speak `FastCGI` are told (`fastcgi-*`; `backend-protocol` says that they do).

use std::sync::Arc;

use model::FastCgi;
use model::template::Template;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::guards;
use super::named::{Fault, configmap};
use crate::names::NsName;
use crate::objects::{At, ConfigMap, Ingress, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::characters::consists_of;
use crate::translate::claim::DraftRoute;
use crate::translate::inputs::Inputs;
use crate::translate::upstream_protocol::Protocol;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "fastcgi-index", Location, "", Supported(|s, v| set(&mut s.fastcgi.index, index(v))), IgnoresIngress,
        "Name appended to `$fastcgi_script_name` if the path ends in a slash.";
    "fastcgi-params-configmap", Location, "", Supported(|s, v| set(&mut s.fastcgi.params, Ok(value::name(v)))),
        "ConfigMap with parameters for endpoints that speak FastCGI, `[namespace/]name`.";
}

/// Settings of `FastCGI`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    index: String,
    /// `[namespace/]name` of the `ConfigMap`.
    params: Option<String>,
}

/// Why the parameters cannot be sent, and what becomes of the Ingress.
enum Refusal {
    Closes(Fault),
    /// As in ingress-nginx, one that the check of annotations refuses.
    Ignores(Fault),
}

impl Settings {
    /// Looks up the parameters. Where they cannot be sent, the locations are closed, or the Ingress is ignored.
    pub(super) fn resolve(
        &self,
        ingress: &Sourced<Ingress>,
        prefix: &str,
        crosses_namespaces: bool,
        inputs: &Inputs<'_>,
        guards: &mut guards::Settings,
        problems: &mut Vec<Problem>,
    ) -> Arc<FastCgi> {
        let own = self.own_params(ingress.namespace(), crosses_namespaces, inputs);
        let own = own.unwrap_or_else(|refusal| {
            let key = format!("{prefix}/fastcgi-params-configmap");
            let ((reason, why), what) = match refusal {
                Refusal::Closes(fault) => {
                    guards.of_locations.push(format!("annotation {key} cannot be read"));
                    (fault, "the locations of this Ingress return 503")
                }
                Refusal::Ignores(fault) => {
                    guards.ignores_ingress = true;
                    (fault, "the Ingress is ignored, as by ingress-nginx")
                }
            };
            let message = format!("annotation {key}: {why}: {what}");
            let problem = Problem::of_annotation(Severity::Error, ingress, &key, message);
            problems.push(problem.because(reason));
            Vec::new()
        });
        Arc::new(FastCgi::new(self.index.clone(), own))
    }

    fn own_params(
        &self,
        namespace: &str,
        crosses_namespaces: bool,
        inputs: &Inputs<'_>,
    ) -> Result<Vec<(String, Template)>, Refusal> {
        let Some(text) = &self.params else { return Ok(Vec::new()) };
        let text = if text.contains('/') { text.clone() } else { NsName::new(namespace, text).to_string() };
        let only = Some(namespace).filter(|_| !crosses_namespaces);
        let configmap = configmap(&text, only, inputs).map_err(Refusal::Closes)?;
        configmap.data.iter().map(|pair| param(configmap, pair)).collect()
    }
}

/// Tells endpoints that speak `FastCGI` what they are to be told.
pub(super) fn apply(resolved: &Arc<FastCgi>, route: &mut DraftRoute) {
    if route.upstream.protocol == Some(Protocol::Fcgi) {
        route.head.fast_cgi = Some(Arc::clone(resolved));
    }
}

fn param(configmap: &ConfigMap, (name, text): (&String, &At<String>)) -> Result<(String, Template), Refusal> {
    let named = format!("ConfigMap {}", configmap.metadata.name);
    if name.is_empty() || !is_plain(name) {
        return Err(Refusal::Ignores((
            Reason::Invalid,
            format!("{named}: {name:?} is no name of a parameter"),
        )));
    }
    let text = &text.value;
    if !consists_of(text, &["-_${}/."]) {
        let why = format!("{named}: {text:?} is no value that the parameter {name} may have");
        return Err(Refusal::Ignores((Reason::Invalid, why)));
    }
    let template = Template::parse(text).map_err(|error| {
        Refusal::Closes((Reason::Invalid, format!("{named}: the value of the parameter {name} has {error}")))
    })?;
    Ok((name.clone(), template))
}

fn is_plain(text: &str) -> bool {
    consists_of(text, &["-_."])
}

fn index(text: &str) -> Parsed<String> {
    if is_plain(text) { Ok(text.to_owned()) } else { Err(format!("{text:?} is no name of a file")) }
}
