//! `kubectl forebay doctor --since`: what the doctor's checks find in the record of each Forebay. The records
//! are fetched and judged here, so that no Forebay spends CPU time on it.

use std::process::ExitCode;

use ::doctor::Verdict;
use anyhow::Context;
use futures::stream::{self, StreamExt};
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::cluster::Cluster;
use super::doctor::on_node;
use super::forward::{AdminLink, PODS_AT_ONCE};
use super::pods::ForebayPod;
use crate::cli::{Output, PastOfPods};
use crate::doctor::{exit_code, show};
use crate::language::Language;
use crate::output;
use crate::past::{self, Manner, Range, Told};

/// The past of one Pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Examined {
    namespace: String,
    name: String,
    node: Option<String>,
    /// The judgement of its record; none where there is a trouble.
    past: Option<Told>,
    /// Why it could not be asked.
    trouble: Option<String>,
}

pub(super) async fn run(
    cluster: &Cluster,
    form: Output,
    asked: &PastOfPods,
    language: Language,
) -> anyhow::Result<ExitCode> {
    let range = Range::of(asked.since, asked.until, &Zoned::now())?;
    let pods = cluster.pods().await?;
    let examined = stream::iter(pods.iter().map(|pod| examine(cluster, pod, range)));
    let examined: Vec<_> = examined.buffered(PODS_AT_ONCE).collect().await;
    let manner = Manner { language, colour: show::has_colour(), all: asked.all, zone: TimeZone::system() };
    let text = match form {
        Output::Text => text(&examined, &manner),
        Output::Json => format!("{:#}\n", serde_json::json!({"pods": examined})),
    };
    output::print(text)?;
    Ok(exit_code(worst(&examined, asked.all)))
}

/// The worst verdict; a Pod that could not be asked is a failure.
fn worst(examined: &[Examined], all: bool) -> Verdict {
    let verdict = |one: &Examined| match &one.past {
        Some(told) => past::exit_verdict(told, all),
        None => Verdict::Failure,
    };
    examined.iter().map(verdict).max().unwrap_or(Verdict::Unknown)
}

async fn examine(cluster: &Cluster, pod: &ForebayPod, range: Range) -> Examined {
    let (past, trouble) = match judged(cluster, pod, range).await {
        Ok(told) => (Some(told), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    Examined {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: pod.node.clone(),
        past,
        trouble,
    }
}

async fn judged(cluster: &Cluster, pod: &ForebayPod, range: Range) -> anyhow::Result<Told> {
    let mut link = AdminLink::open(cluster, pod).await?;
    let answer = link.ask(&past::target(range)).await?;
    let record = past::read(&answer.content(&link.whose)?, &link.whose)?;
    let told = tokio::task::spawn_blocking(move || past::judge(&record, range)).await;
    told.context("the record could not be judged")
}

fn text(examined: &[Examined], manner: &Manner) -> String {
    let of = |one: &Examined| {
        let node = on_node(one.node.as_deref(), manner.language);
        let told = match (&one.past, &one.trouble) {
            (Some(told), _) => past::text(told, manner),
            (None, trouble) => format!("{}\n", trouble.as_deref().unwrap_or_default()),
        };
        format!("Pod {}/{}{node}\n{told}", one.namespace, one.name)
    };
    examined.iter().map(of).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_has_its_past_or_its_trouble() {
        let record = record::Recorder::in_memory(1 << 20).record().unwrap();
        let quiet = past::judge(&record, Range::ALL);
        let pod = |name: &str, past, trouble: Option<&str>| Examined {
            namespace: "edge".to_owned(),
            name: name.to_owned(),
            node: Some("node-1".to_owned()),
            past,
            trouble: trouble.map(str::to_owned),
        };
        let pods = [pod("one", Some(quiet), None), pod("two", None, Some("it is away"))];
        let manner = Manner { language: Language::En, colour: false, all: false, zone: TimeZone::UTC };
        assert_eq!(
            text(&pods, &manner),
            "Pod edge/one on node node-1\nnothing is recorded of that time\n\nPod edge/two on node node-1\nit is away\n"
        );
        assert_eq!(worst(&pods, false), Verdict::Failure);
        assert_eq!(worst(&pods[..1], false), Verdict::Ok);
    }
}
