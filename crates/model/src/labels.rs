//! What a route, or what passes bytes on, is called. Must not be in here: whom that concerns.

/// What a route is called in metrics, in the access log and on the configuration page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// Namespace of the object that asked for the route.
    pub namespace: String,
    /// Name of the object that asked for the route.
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
