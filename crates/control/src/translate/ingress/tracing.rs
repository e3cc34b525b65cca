//! Tracing with OpenTelemetry. Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::Location;
use super::annotation::annotations;

annotations! {
    "enable-opentelemetry", Location, "false", Unsupported, "Traces requests.";
    "opentelemetry-operation-name", Location, "", Unsupported, "Name of a span.", Medium;
    "opentelemetry-trust-incoming-span", Location, "true", Unsupported, "Takes the client's span as parent.";
}
