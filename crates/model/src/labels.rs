//! Names of routes and streams in metrics and logs. Must not be in here: how they are recorded.

use serde::Serialize;

/// The labels of a route in metrics, in the access log and on the configuration page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Labels {
    /// Namespace of the object that defines the route.
    pub namespace: String,
    /// Name of the object that defines the route.
    pub object: String,
    /// Service that the route forwards to, or empty.
    pub service: String,
    /// Port of that Service, as the object names it, or empty.
    pub service_port: String,
    /// The path as written.
    pub path: String,
    /// The host as written, or `_`.
    pub host: String,
    /// Name of the rule within the object, or empty: Ingresses have none.
    pub rule: String,
}
