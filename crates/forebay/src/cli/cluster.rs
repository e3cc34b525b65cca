//! Flags of the cluster whose objects are served.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use control::Scope;
use control::relay::Relay;

/// The API server, and the selection of its objects.
#[derive(Args, Debug)]
pub(crate) struct ApiServer {
    /// Kubeconfig file [default: for `serve` the service account of the Pod that this runs in, for other
    /// commands what the variable KUBECONFIG names].
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// URL of the API server; overrides the kubeconfig's.
    #[arg(long, value_name = "URL")]
    pub(crate) apiserver_host: Option<String>,
    /// PEM file with the authorities of the API server's certificate.
    #[arg(long, value_name = "PATH")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Namespace whose objects are served [default: all].
    #[arg(long, value_name = "NAMESPACE", default_value = "", conflicts_with = "watch_namespace_selector")]
    pub(crate) watch_namespace: String,
    /// Labels of the namespaces whose Ingresses are served.
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub(crate) watch_namespace_selector: String,
}

/// The cluster whose objects are served where there are no --manifests.
#[derive(Args, Debug)]
pub(crate) struct Cluster {
    #[command(flatten)]
    pub(crate) api_server: ApiServer,
    /// Prefer endpoints of this node or of its zone, by the hints of EndpointSlices.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) enable_topology_aware_routing: bool,
    /// Folder for a copy of the objects, with certificates and keys, which is served if the API server is
    /// away at the start.
    #[arg(long, value_name = "PATH")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Replicas for each watch of EndpointSlices at the API server: one replica watches, and sends what
    /// changes to the others. It needs --replicas-secret and --replicas-service [default: each watches by
    /// itself].
    #[arg(long, value_name = "NUMBER", requires = "replicas_secret", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) replicas_per_watch: Option<u32>,
    /// TCP port at which replicas ask each other for EndpointSlices, the same for all.
    #[arg(long, value_name = "PORT", default_value_t = 8474, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) replicas_watch_port: u16,
}

impl ApiServer {
    pub(crate) fn address(&self) -> control::ClusterAddress {
        control::ClusterAddress {
            kubeconfig: self.kubeconfig.clone(),
            apiserver_host: self.apiserver_host.clone(),
            certificate_authority: self.certificate_authority.clone(),
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        match (self.watch_namespace.as_str(), self.watch_namespace_selector.as_str()) {
            ("", "") => Scope::All,
            ("", selector) => Scope::Selector(selector.to_owned()),
            (namespace, _) => Scope::Namespace(namespace.to_owned()),
        }
    }
}

impl Cluster {
    pub(crate) fn options(&self, relay: Option<Relay>) -> control::ClusterOptions {
        control::ClusterOptions { scope: self.api_server.scope(), state_dir: self.state_dir.clone(), relay }
    }
}
