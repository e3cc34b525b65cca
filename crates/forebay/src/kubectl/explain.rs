//! `kubectl forebay explain`: has a running Forebay explain a request.

use std::process::ExitCode;

use anyhow::Context;

use super::cluster::Cluster;
use super::forward::AdminLink;
use super::pods::ForebayPod;
use crate::cli::{Asked, Output};
use crate::explain::{self, Question, Report};
use crate::output;

/// Asks the Pods that are ready, one after the other, until one answers.
pub(super) async fn run(cluster: &Cluster, asked: Asked, form: Output) -> anyhow::Result<ExitCode> {
    let question = Question::try_from(asked)?;
    let target = question.target()?;
    let pods = cluster.pods().await?;
    let count = pods.len();
    let mut failure = None;
    for pod in pods.iter().filter(|pod| pod.is_ready) {
        match ask(cluster, pod, &target, &question).await {
            Ok(told) => {
                output::complain(&format!("as Pod {} sees it", pod.title()));
                return explain::print(&told, form);
            }
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.with_context(|| {
        format!("none of {count} Pods of Forebay is ready; `kubectl forebay status` gives the reason")
    })?)
}

async fn ask(
    cluster: &Cluster,
    pod: &ForebayPod,
    target: &str,
    question: &Question,
) -> anyhow::Result<Report> {
    let mut link = AdminLink::open(cluster, pod).await?;
    if question.body.is_empty() { link.get(target).await } else { link.post(target, &question.body).await }
}
