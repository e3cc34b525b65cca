//! Custom error pages. Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::Location;
use super::annotation::annotations;

annotations! {
    "custom-http-errors", Location, "", Unsupported,
        "Statuses whose responses come from the default backend.";
    "default-backend", Location, "", Unsupported, "Service that answers when the endpoints cannot.";
    "disable-proxy-intercept-errors", Location, "false", Unsupported,
        "Leaves error responses as they are in spite of `custom-http-errors`.";
}
