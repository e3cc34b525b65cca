//! Parameters for `FastCGI` endpoints (`fastcgi-*`; `backend-protocol` selects the protocol).

use std::sync::Arc;

use model::FastCgi;
use model::template::Template;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Fault, Findings, Resolve};
use crate::objects::{At, ConfigMap};
use crate::problem::{Reason, Severity};
use crate::translate::characters::consists_of;
use crate::translate::claim::DraftRoute;
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
    /// Name of the `ConfigMap`: `[namespace/]name`.
    params: Option<String>,
}

/// The reason why the parameters cannot be sent, and the effect on the Ingress.
enum Refusal {
    Closes(Fault),
    /// The Ingress is ignored, because the check of annotations refuses the value, as in ingress-nginx.
    Ignores(Fault),
}

impl Resolve for Settings {
    type Resolved = Arc<FastCgi>;

    /// Looks up the parameters. If they cannot be sent, the locations are closed, or the Ingress is ignored.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) -> Arc<FastCgi> {
        const NAME: &str = "fastcgi-params-configmap";
        let asker = context.asker;
        let own = self.own_params(context).unwrap_or_else(|refusal| {
            let problem = match refusal {
                Refusal::Closes(fault) => {
                    findings.guards.of_locations.push(format!("{} cannot be read", asker.called(NAME)));
                    context.closing(NAME, fault)
                }
                Refusal::Ignores((reason, why)) => {
                    findings.guards.ignores_ingress = true;
                    let message =
                        format!("{}: {why}: the Ingress is ignored, as by ingress-nginx", asker.called(NAME));
                    asker.problem(Severity::Error, NAME, message).because(reason)
                }
            };
            findings.problems.push(problem);
            Vec::new()
        });
        Arc::new(FastCgi::new(self.index.clone(), own))
    }
}

impl Settings {
    fn own_params(&self, context: &Context<'_, '_>) -> Result<Vec<(String, Template)>, Refusal> {
        let Some(text) = &self.params else { return Ok(Vec::new()) };
        let configmap = context.configmap(&context.with_namespace(text)).map_err(Refusal::Closes)?;
        configmap.data.iter().map(|pair| param(configmap, pair)).collect()
    }
}

/// Adds the parameters to routes with `FastCGI` endpoints.
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
