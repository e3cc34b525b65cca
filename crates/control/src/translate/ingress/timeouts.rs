//! Timeouts towards endpoints.

use model::Timeouts;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, set};

annotations! {
    "proxy-connect-timeout", Location, "5", Supported(|s, v| set(&mut s.timeouts.connect, value::seconds(v))),
        "Seconds for an endpoint to accept the connection.";
    "proxy-read-timeout", Location, "60", Supported(|s, v| set(&mut s.timeouts.read, value::seconds(v))),
        "Seconds between two reads of a response.";
    "proxy-send-timeout", Location, "60", Supported(|s, v| set(&mut s.timeouts.send, value::seconds(v))),
        "Seconds between two writes of a request.";
}

pub(super) fn apply(settings: &Timeouts, route: &mut DraftRoute) {
    route.timeouts = *settings;
}
