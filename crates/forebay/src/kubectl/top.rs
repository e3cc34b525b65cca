//! `kubectl forebay top`: `forebay top` of a Pod.

use std::process::ExitCode;

use anyhow::{Context, bail};

use super::cluster::Cluster;
use super::forward::AdminLink;
use super::pods::ForebayPod;
use crate::ask::Answer;
use crate::cli::Watching;
use crate::top::{self, Link, Source};

/// The Pod that is named, or the first one that is ready; where that is gone, another one.
struct Pods {
    cluster: Cluster,
    name: Option<String>,
}

pub(super) async fn run(
    cluster: Cluster,
    name: Option<String>,
    watching: &Watching,
) -> anyhow::Result<ExitCode> {
    top::watch(Pods { cluster, name }, watching).await
}

impl Source for Pods {
    type Link = AdminLink;

    async fn open(&mut self) -> anyhow::Result<AdminLink> {
        let pods = self.cluster.pods().await?;
        AdminLink::open(&self.cluster, choose(&pods, self.name.as_deref())?).await
    }
}

fn choose<'a>(pods: &'a [ForebayPod], name: Option<&str>) -> anyhow::Result<&'a ForebayPod> {
    let Some(name) = name else {
        let ready = pods.iter().find(|pod| pod.is_ready);
        return ready.with_context(|| {
            format!(
                "none of {} Pods of Forebay is ready; `kubectl forebay status` gives the reason",
                pods.len()
            )
        });
    };
    let name = name.strip_prefix("pod/").unwrap_or(name);
    let Some(pod) = pods.iter().find(|pod| pod.name == name || pod.title() == name) else {
        let there = pods.iter().map(ForebayPod::title).collect::<Vec<_>>().join(", ");
        bail!("no Pod of Forebay is called {name:?}; there are {there}");
    };
    Ok(pod)
}

impl Link for AdminLink {
    fn whose(&self) -> String {
        self.whose.clone()
    }

    async fn ask(&mut self, target: &str) -> anyhow::Result<Answer> {
        AdminLink::ask(self, target).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, is_ready: bool) -> ForebayPod {
        let ready = if is_ready { "True" } else { "False" };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "edge", "name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .expect("a Pod");
        ForebayPod::of(&pod, None)
    }

    #[test]
    fn the_pod_is_the_one_that_is_named_or_the_first_that_is_ready() {
        let pods = [pod("one", false), pod("two", true), pod("three", true)];
        let chosen =
            |name| choose(&pods, name).map(|pod| pod.name.as_str()).map_err(|error| error.to_string());
        assert_eq!(chosen(None), Ok("two"));
        for name in ["one", "pod/one", "edge/one"] {
            assert_eq!(chosen(Some(name)), Ok("one"), "{name}");
        }
        let error = chosen(Some("other/one")).unwrap_err();
        assert_eq!(
            error,
            "no Pod of Forebay is called \"other/one\"; there are edge/one, edge/two, edge/three"
        );
        assert!(choose(&pods[..1], None).is_err());
    }
}
