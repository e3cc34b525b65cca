//! Tracing with OpenTelemetry.

use std::sync::Arc;

use model::Tracing;
use model::template::Template;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "enable-opentelemetry", Location, "false", Supported(|s, v| set(&mut s.tracing.is_on, value::boolean(v).map(Some))),
        "Traces requests.";
    "opentelemetry-operation-name", Location, "", Supported(operation_name), IgnoresIngress,
        "Name of a span; without it, the path of the rule.", Medium;
    "opentelemetry-trust-incoming-span", Location, "true", Supported(trust), "Takes the client's span as parent.";
}

/// Settings of tracing.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// Requests are traced unless an Ingress sets otherwise.
    pub(in crate::translate) everywhere: bool,
    /// The tracing of Ingresses without settings of their own, shared by all routes.
    pub(in crate::translate) usual: Arc<Tracing>,
    /// A collector for spans is configured.
    pub(in crate::translate) has_collector: bool,
    is_on: Option<bool>,
    operation: Option<Template>,
    trusts_client: Option<bool>,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.tracing = settings.tracing();
}

impl Resolve for Settings {
    type Resolved = ();

    /// Reports spans that have no collector.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        const NAME: &str = "enable-opentelemetry";
        if self.is_on == Some(true) && !self.has_collector {
            let message = format!(
                "{}: the ConfigMap has no otlp-collector-host: endpoints get trace headers, and no spans are sent",
                context.asker.called(NAME)
            );
            findings.problems.extend(context.without_effect(NAME, message));
        }
    }
}

impl Settings {
    /// The tracing of requests; none if they are not traced.
    fn tracing(&self) -> Option<Arc<Tracing>> {
        if !self.is_on.unwrap_or(self.everywhere) {
            return None;
        }
        if self.operation.is_none() && self.trusts_client.is_none() {
            return Some(Arc::clone(&self.usual));
        }
        let usual = &*self.usual;
        Some(Arc::new(Tracing {
            operation: self.operation.clone().or_else(|| usual.operation.clone()),
            trusts_client: self.trusts_client.unwrap_or(usual.trusts_client),
            sampler: usual.sampler,
        }))
    }
}

/// Whether the annotation itself turns tracing on. Only then the other annotations have an effect; a key of
/// the `ConfigMap` is not enough. The annotation precedes the others by name.
fn is_led(settings: &super::Settings) -> bool {
    settings.tracing.is_on == Some(true)
}

fn trust(settings: &mut super::Settings, text: &str) -> Applied {
    if !is_led(settings) {
        return Ok(None);
    }
    set(&mut settings.tracing.trusts_client, value::boolean(text).map(Some))
}

fn operation_name(settings: &mut super::Settings, text: &str) -> Applied {
    if !is_led(settings) {
        return Ok(None);
    }
    let name = name(text, settings.is_lenient).map(Some);
    set(&mut settings.tracing.operation, name)
}

/// Parses a name of letters, digits, `-` and `_`, and so without variables. `is_lenient` accepts any text,
/// with variables.
fn name(text: &str, is_lenient: bool) -> Parsed<Template> {
    let name = if is_lenient { text.trim().to_owned() } else { value::characters(text, "-_")? };
    Template::parse(&name).map_err(|error| error.to_string())
}
