//! Canary Ingresses, which take a part of another Ingress' requests. Not supported yet: they are left out.

use super::annotation::Effect::{Supported, Unsupported};
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use crate::translate::value::{self, set};

annotations! {
    "canary", Ingress, "false", Supported(|s, v| set(&mut s.canary.is_canary, value::boolean(v))),
        "Makes the Ingress an alternative to one with the same host and path.";
    "canary-by-cookie", Ingress, "", Unsupported, "Cookie that sends a request to the canary, or never.", Medium;
    "canary-by-header", Ingress, "", Unsupported, "Header that sends a request to the canary, or never.", Medium;
    "canary-by-header-pattern", Ingress, "", Unsupported,
        "Regular expression for the value of `canary-by-header`.", Medium;
    "canary-by-header-value", Ingress, "", Unsupported,
        "Value of `canary-by-header` that sends a request to the canary.", Medium;
    "canary-weight", Ingress, "0", Unsupported, "Share of requests that go to the canary.";
    "canary-weight-total", Ingress, "100", Unsupported, "What `canary-weight` is a share of.";
}

/// Settings of a canary Ingress.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(super) is_canary: bool,
}
