//! `kubectl forebay check`: what `forebay check` says of a cluster, read with the flags of the Forebay that
//! runs in it.

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use super::cluster::Cluster;
use super::flags::how_to_read;
use crate::check;
use crate::cli::Output;
use crate::output::complain;

pub(super) async fn run(
    cluster: &Cluster,
    form: Output,
    report: Option<&Path>,
    flags: Vec<String>,
) -> anyhow::Result<ExitCode> {
    let pods = match cluster.list().await {
        Ok(pods) if pods.is_empty() => {
            complain(&format!("{}: read as `forebay serve` does without flags", cluster.none_found()));
            pods
        }
        Ok(pods) => pods,
        Err(error) => {
            complain(&format!("{error}; read as `forebay serve` does without flags"));
            Vec::new()
        }
    };
    let pod = pods.iter().find(|pod| pod.is_ready).or(pods.first());
    let how = how_to_read(pod, flags)?;
    if let Some(pod) = pod {
        complain(&format!("read with the flags of Pod {}", pod.title()));
    }
    let checked =
        control::check_cluster(&cluster.connection, how.scope, how.options, SystemTime::now()).await;
    let (translation, found) = checked.map_err(|unlisted| {
        anyhow::anyhow!(
            "{unlisted}; it takes a ClusterRole with list and watch on these, or for one namespace a Role and `-- --watch-namespace=NAME`; \
             `kubectl forebay status` tells of the problems that a running Forebay has found, and needs none of them"
        )
    })?;
    check::tell(&translation, &found, form, report)
}
