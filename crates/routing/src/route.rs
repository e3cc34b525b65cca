use std::sync::Arc;

use model::{Action, Filter, HostName, Labels, PathMatch};

/// A [`model::Route`], ready to serve.
#[derive(Debug, PartialEq)]
pub struct Route {
    /// The host that it belongs to.
    pub host: Arc<HostName>,
    /// Which paths it takes.
    pub path: PathMatch,
    /// Steps before the action, in the order of the model.
    pub filters: Vec<Filter>,
    /// What is done in the end. A cluster in it is one of the Snapshot: [`Snapshot::cluster`](crate::Snapshot::cluster).
    pub action: Action,
    /// What it is called in metrics and logs. The same allocation for as long as the labels stay the same.
    pub labels: Arc<Labels>,
    /// Whether its requests are written to the access log.
    pub access_log: bool,
}
