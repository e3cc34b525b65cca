//! The cluster that is looked at, and which Pods of it are meant.

use std::time::Duration;

use anyhow::bail;
use control::{Connection, UserAddress};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use super::pods::ForebayPod;
use super::right::Right;
use crate::cli::Reach;

/// A cluster, with the rights of a user.
pub(super) struct Cluster {
    pub(super) connection: Connection,
    /// URL of the API server.
    pub(super) url: String,
    /// Time that the API server, or a Pod, has for an answer.
    pub(super) patience: Duration,
    namespace: Option<String>,
    selector: String,
    port: Option<u16>,
}

impl Cluster {
    /// Reads the kubeconfig; makes no request yet.
    pub(super) async fn open(reach: &Reach) -> anyhow::Result<Self> {
        let address = UserAddress {
            kubeconfig: reach.kubeconfig.clone(),
            context: reach.context.clone(),
            connect_timeout: Some(reach.request_timeout),
        };
        let connection = Connection::of_user(&address).await?;
        Ok(Self {
            url: connection.url.trim_end_matches('/').to_owned(),
            connection,
            patience: reach.request_timeout,
            namespace: reach.namespace.clone(),
            selector: reach.selector.clone(),
            port: reach.port,
        })
    }

    /// The Pods of Forebay, by namespace and name.
    ///
    /// # Errors
    /// When they cannot be listed, and when there are none.
    pub(super) async fn pods(&self) -> anyhow::Result<Vec<ForebayPod>> {
        let pods = self.list().await?;
        if pods.is_empty() {
            bail!("{}", self.none_found());
        }
        Ok(pods)
    }

    /// The same, but none is no error.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<ForebayPod>> {
        let client = self.connection.client();
        let api: Api<Pod> = match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let right = Right {
            verbs: "list",
            resource: "pods",
            namespace: self.namespace.as_deref(),
            instead: match self.namespace {
                Some(_) => "-n looks into another namespace",
                None => "with -n NAMESPACE, a Role in the namespace of Forebay is enough",
            },
        };
        let listed = self.within(api.list(&ListParams::default().labels(&self.selector))).await?;
        let listed = listed.map_err(|error| right.refusal(&error, &self.url))?;
        let mut pods: Vec<_> = listed.items.iter().map(|pod| ForebayPod::of(pod, self.port)).collect();
        pods.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        Ok(pods)
    }

    /// The message for a search without a result.
    pub(super) fn none_found(&self) -> String {
        let of = match &self.namespace {
            Some(namespace) => format!("namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        format!(
            "no Pod with the labels {} in {of} of {}; -l chooses other labels, -n another namespace",
            self.selector, self.url
        )
    }

    /// Waits for an answer of the API server, but not for ever.
    pub(super) async fn within<T>(&self, answer: impl Future<Output = T>) -> anyhow::Result<T> {
        let late = |_| {
            anyhow::anyhow!(
                "{} has not answered within {} s; --request-timeout gives it longer",
                self.url,
                self.patience.as_secs_f64()
            )
        };
        tokio::time::timeout(self.patience, answer).await.map_err(late)
    }
}
