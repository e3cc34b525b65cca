//! Tracing with OpenTelemetry.

use std::sync::Arc;

use model::Tracing;
use model::template::Template;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::asker::Asker;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, Taken, set};

annotations! {
    "enable-opentelemetry", Location, "false", Supported(|s, v| set(&mut s.tracing.is_on, value::boolean(v).map(Some))),
        "Traces requests.";
    "opentelemetry-operation-name", Location, "", Supported(operation_name), IgnoresIngress,
        "Name of a span; without it, the path of the rule.", Medium;
    "opentelemetry-trust-incoming-span", Location, "true", Supported(trust), "Takes the client's span as parent.";
}

/// Settings of traces.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// Requests are traced where an Ingress says nothing else.
    pub(in crate::translate) everywhere: bool,
    /// How they are traced where an Ingress says nothing else, in one place for all routes.
    pub(in crate::translate) usual: Arc<Tracing>,
    /// There is somebody to send spans to.
    pub(in crate::translate) has_collector: bool,
    is_on: Option<bool>,
    operation: Option<Template>,
    trusts_client: Option<bool>,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.tracing = settings.tracing();
}

/// Tells who asks for traces that spans go nowhere.
pub(super) fn problem(settings: &Settings, asker: &dyn Asker) -> Option<Problem> {
    const NAME: &str = "enable-opentelemetry";
    if settings.is_on != Some(true) || settings.has_collector {
        return None;
    }
    let place = asker.given(NAME)?;
    let message = format!(
        "{}: the ConfigMap has no otlp-collector-host: endpoints get trace headers, and no spans are sent",
        asker.called(NAME)
    );
    Some(Problem::in_place(Severity::Warning, &place, message).because(Reason::NoEffect))
}

impl Settings {
    /// How requests are traced; none where they are not.
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

/// Only the annotation itself asks for the others, not the `ConfigMap`. It comes before them by name.
fn is_led(settings: &super::Settings) -> bool {
    settings.tracing.is_on == Some(true)
}

fn trust(settings: &mut super::Settings, text: &str) -> Taken {
    if !is_led(settings) {
        return Ok(None);
    }
    set(&mut settings.tracing.trusts_client, value::boolean(text).map(Some))
}

fn operation_name(settings: &mut super::Settings, text: &str) -> Taken {
    if !is_led(settings) {
        return Ok(None);
    }
    let name = name(text, settings.is_lenient).map(Some);
    set(&mut settings.tracing.operation, name)
}

/// Letters, digits, `-` and `_`, and so no variables. `is_lenient`: any text, with variables.
fn name(text: &str, is_lenient: bool) -> Parsed<Template> {
    let name = if is_lenient { text.trim().to_owned() } else { value::characters(text, "-_")? };
    Template::parse(&name).map_err(|error| error.to_string())
}
