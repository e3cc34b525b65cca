//! `kubectl forebay doctor`: the findings of the doctor's checks at each Forebay.

use std::process::ExitCode;

use ::doctor::{Finding, Verdict};
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::forward::{AdminLink, PODS_AT_ONCE};
use super::pods::ForebayPod;
use crate::cli::Output;
use crate::doctor::{exit_code, show, worst};
use crate::language::Language;
use crate::output;

/// The answer of `/doctor`.
#[derive(Deserialize)]
struct Page {
    findings: Vec<Finding<String>>,
}

/// The answer of one Pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Examined {
    namespace: String,
    name: String,
    node: Option<String>,
    findings: Vec<Finding<String>>,
    /// Why it could not be asked.
    trouble: Option<String>,
}

pub(super) async fn run(cluster: &Cluster, form: Output, language: Language) -> anyhow::Result<ExitCode> {
    let pods = cluster.pods().await?;
    let examined = stream::iter(pods.iter().map(|pod| examine(cluster, pod)));
    let examined: Vec<_> = examined.buffered(PODS_AT_ONCE).collect().await;
    let text = match form {
        Output::Text => text(&examined, language, show::has_colour()),
        Output::Json => format!("{:#}\n", serde_json::json!({"pods": examined})),
    };
    output::print(text)?;
    let is_incomplete = examined.iter().any(|one| one.trouble.is_some());
    let findings = examined.iter().map(|one| worst(&one.findings)).max().unwrap_or(Verdict::Unknown);
    Ok(exit_code(if is_incomplete { Verdict::Failure } else { findings }))
}

async fn examine(cluster: &Cluster, pod: &ForebayPod) -> Examined {
    let page: anyhow::Result<Page> =
        async { AdminLink::open(cluster, pod).await?.get("/doctor").await }.await;
    let (findings, trouble) = match page {
        Ok(page) => (page.findings, None),
        Err(error) => (Vec::new(), Some(crate::in_one_line(&error))),
    };
    Examined {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: pod.node.clone(),
        findings,
        trouble,
    }
}

fn text(examined: &[Examined], language: Language, colour: bool) -> String {
    let of = |one: &Examined| {
        let node = on_node(one.node.as_deref(), language);
        let told = match &one.trouble {
            Some(trouble) => format!("{trouble}\n"),
            None => show::text(&one.findings, language, colour),
        };
        format!("Pod {}/{}{node}\n\n{told}", one.namespace, one.name)
    };
    examined.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// The node of a Pod, as it stands behind the Pod's name; empty where it is not known.
pub(super) fn on_node(node: Option<&str>, language: Language) -> String {
    let node = node.map(|node| match language {
        Language::En => format!(" on node {node}"),
        Language::Zh => format!("（节点 {node}）"),
    });
    node.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(name: &str, findings: &str, trouble: Option<&str>) -> Examined {
        let page: Page = serde_json::from_str(findings).unwrap();
        Examined {
            namespace: "edge".to_owned(),
            name: name.to_owned(),
            node: (name == "one").then(|| "node-1".to_owned()),
            findings: page.findings,
            trouble: trouble.map(str::to_owned),
        }
    }

    #[test]
    fn each_pod_has_its_findings_in_the_words_of_the_doctor() {
        let findings = r#"{"findings": [
            {"id": "ports", "category": "Ports", "verdict": "warning", "message": "few are left",
             "evidence": {"ports": 7}, "remedy": "more addresses", "doc": "docs/doctor.md#ports",
             "zh": {"message": "还剩不多", "remedy": "更多地址"}},
            {"id": "queues", "category": "Queues", "verdict": "ok", "message": "short", "evidence": {}, "remedy": "", "doc": ""}]}"#;
        let pods =
            [examined("one", findings, None), examined("two", r#"{"findings": []}"#, Some("it is away"))];
        let told = text(&pods, Language::En, false);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[0], "Pod edge/one on node node-1");
        assert!(lines[4].ends_with(" ports: few are left"), "{told}");
        assert_eq!(lines[5], "    evidence: ports=7");
        assert!(told.ends_with("2 checks: 1 ok, 1 warned\n\nPod edge/two\n\nit is away\n"), "{told}");
        let told = text(&pods, Language::Zh, false);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[0], "Pod edge/one（节点 node-1）");
        assert!(lines[4].ends_with(" ports：还剩不多"), "{told}");
        assert_eq!(lines[6], "    处理：    更多地址");
        assert!(told.contains(" queues：short\n\n2 项检查：1 项正常，1 项警告\n"), "an older one: {told}");
    }
}
