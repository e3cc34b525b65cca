//! The admin server of a Pod, over a port that the API server forwards. The admin server sees a client on the
//! Pod's own machine, which may read everything.

use std::pin::Pin;
use std::time::Duration;

use anyhow::Context;
use futures::future::FutureExt;
use http::Method;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Portforwarder;
use serde::de::DeserializeOwned;
use tokio::time::error::Elapsed;

use super::cluster::Cluster;
use super::pods::ForebayPod;
use super::right::Right;
use crate::ask::{Answer, Conversation};

/// Pods that are queried at a time. Each is a connection to the API server.
pub(super) const PODS_AT_ONCE: usize = 16;

/// Host name of the admin server: one that is valid wherever it runs.
const HOST: &str = "localhost";

/// Time for the reason why a forwarded port was closed, which comes beside the stream.
const REASON_WITHIN: Duration = Duration::from_millis(500);

/// A conversation with the admin server of a Pod.
pub(super) struct AdminLink {
    conversation: Conversation,
    /// Says why the port cannot be used, if so.
    failure: Pin<Box<dyn Future<Output = Option<String>> + Send>>,
    patience: Duration,
    /// Whose port it is, for people.
    pub(super) whose: String,
    // Its tasks pass the bytes on while it lives.
    _forwarder: Portforwarder,
}

impl AdminLink {
    /// Has the admin port of a Pod forwarded.
    ///
    /// # Errors
    ///
    /// The API server does not forward it. A port without a listener is an error of the first query.
    pub(super) async fn open(cluster: &Cluster, pod: &ForebayPod) -> anyhow::Result<Self> {
        let right = Right {
            verbs: "create and get",
            resource: "pods/portforward",
            namespace: Some(&pod.namespace),
            instead: "without it there are `status` as far as the API server knows, `check`, and `logs` without --host and --status",
        };
        let api: Api<Pod> = Api::namespaced(cluster.connection.client(), &pod.namespace);
        let whose = format!("port {} of Pod {}", pod.admin_port, pod.title());
        let forwarded = cluster.within(api.portforward(&pod.name, &[pod.admin_port])).await?;
        let mut forwarder = forwarded
            .map_err(|error| right.refusal(&error, &cluster.url))
            .with_context(|| format!("cannot forward {whose}"))?;
        let stream = forwarder.take_stream(pod.admin_port).context("no stream for the port")?;
        let failure = forwarder.take_error(pod.admin_port).context("no errors for the port")?;
        let conversation = Conversation::over(stream, HOST).await?;
        Ok(Self {
            conversation,
            failure: failure.fuse().boxed(),
            patience: cluster.patience,
            whose,
            _forwarder: forwarder,
        })
    }

    /// Asks for a target, which is answered with JSON.
    pub(super) async fn get<A: DeserializeOwned>(&mut self, target: &str) -> anyhow::Result<A> {
        self.ask(target).await?.read(&self.whose)
    }

    /// Posts a body to a target, which answers with JSON.
    pub(super) async fn post<A: DeserializeOwned>(
        &mut self,
        target: &str,
        body: &Bytes,
    ) -> anyhow::Result<A> {
        let talk = self.conversation.send(Method::POST, target, None, body.clone());
        let asked = tokio::time::timeout(self.patience, talk).await;
        self.answer(asked).await?.read(&self.whose)
    }

    /// Asks for a target, and waits for the answer, whatever it is.
    pub(super) async fn ask(&mut self, target: &str) -> anyhow::Result<Answer> {
        let asked = tokio::time::timeout(self.patience, self.conversation.ask(Method::GET, target)).await;
        self.answer(asked).await
    }

    async fn answer(&mut self, asked: Result<anyhow::Result<Answer>, Elapsed>) -> anyhow::Result<Answer> {
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(match self.reason().await {
                Some(reason) => anyhow::anyhow!("cannot ask {}: {reason}", self.whose),
                None => error.context(format!("cannot ask {}", self.whose)),
            }),
            Err(_) => {
                let seconds = self.patience.as_secs_f64();
                anyhow::bail!("{} has not answered within {seconds} s", self.whose)
            }
        }
    }

    /// Why the port is closed, where that is said.
    async fn reason(&mut self) -> Option<String> {
        tokio::time::timeout(REASON_WITHIN, &mut self.failure).await.ok().flatten()
    }
}
