//! `kubectl forebay status`: one row for each Forebay of the cluster.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::forward::{AdminLink, PODS_AT_ONCE};
use super::pods::ForebayPod;
use super::table::{age, table};
use crate::cli::Output;
use crate::instance_status::{InstanceStatus, ProblemLine, Problems};
use crate::output;

/// Time between the two looks that a rate is made of.
const RATE_OVER: Duration = Duration::from_secs(1);

/// Problems that are shown for each Pod. `-o json` has more of them.
const PROBLEMS_SHOWN: usize = 5;

const HEADS: [&str; 11] = [
    "NAMESPACE",
    "NAME",
    "NODE",
    "VERSION",
    "READY",
    "AGE",
    "GENERATION",
    "REQUESTS",
    "REQUESTS/S",
    "PROBLEMS",
    "DOCTOR",
];

/// A Pod with its status.
struct Row {
    pod: ForebayPod,
    /// Or why it says nothing.
    heard: Result<Heard, String>,
}

struct Heard {
    status: InstanceStatus,
    requests_per_second: f64,
}

pub(super) async fn run(cluster: &Cluster, form: Output) -> anyhow::Result<ExitCode> {
    let pods = cluster.pods().await?;
    let rows = pods.into_iter().map(async |pod| {
        let heard = listen(cluster, &pod).await.map_err(|error| crate::in_one_line(&error));
        Row { pod, heard }
    });
    let rows: Vec<_> = stream::iter(rows).buffered(PODS_AT_ONCE).collect().await;
    let text = match form {
        Output::Text => text(&rows, Timestamp::now()),
        Output::Json => format!("{:#}\n", json!({"pods": rows.iter().map(as_json).collect::<Vec<_>>()})),
    };
    output::print(text)?;
    let is_well = |row: &Row| row.pod.is_ready && row.heard.is_ok();
    Ok(ExitCode::from(u8::from(!rows.iter().all(is_well))))
}

async fn listen(cluster: &Cluster, pod: &ForebayPod) -> anyhow::Result<Heard> {
    let mut link = AdminLink::open(cluster, pod).await?;
    let before: InstanceStatus = link.get("/status").await?;
    tokio::time::sleep(RATE_OVER).await;
    let status: InstanceStatus = link.get("/status").await?;
    let requests = status.requests.saturating_sub(before.requests) as f64;
    let seconds = (status.up_seconds - before.up_seconds).max(f64::EPSILON);
    Ok(Heard { status, requests_per_second: requests / seconds })
}

/// The table, and below it the remarks that have no column; equal remarks of several Pods once.
fn text(rows: &[Row], now: Timestamp) -> String {
    let mut text = table(HEADS, &rows.iter().map(|row| cells(row, now)).collect::<Vec<_>>());
    let mut said = Vec::<(Vec<String>, Vec<String>)>::new();
    for row in rows {
        let remarks = match &row.heard {
            Ok(heard) => remarks(&heard.status),
            Err(why) => vec![format!("what only the Forebay knows is missing: {why}")],
        };
        match said.iter_mut().find(|(_, known)| *known == remarks) {
            Some((pods, _)) => pods.push(row.pod.title()),
            None => said.push((vec![row.pod.title()], remarks)),
        }
    }
    for (pods, remarks) in said.iter().filter(|(_, remarks)| !remarks.is_empty()) {
        let _ = writeln!(text, "\n{}", pods.join(", "));
        for remark in remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    text
}

fn cells(row: &Row, now: Timestamp) -> [String; HEADS.len()] {
    let Row { pod, heard } = row;
    let heard = heard.as_ref().ok();
    let of = |cell: &dyn Fn(&Heard) -> String| heard.map_or_else(|| "-".to_owned(), cell);
    let dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
    [
        pod.namespace.clone(),
        pod.name.clone(),
        dash(pod.node.as_ref()),
        dash(heard.map(|heard| &heard.status.version).or(pod.version.as_ref())),
        if pod.is_ready { "yes".to_owned() } else { pod.state.clone() },
        pod.started.map_or_else(|| "-".to_owned(), |started| age(now.as_second() - started.as_second())),
        of(&|heard| heard.status.generation.to_string()),
        of(&|heard| heard.status.requests.to_string()),
        of(&|heard| format!("{:.1}", heard.requests_per_second)),
        of(&|heard| problems(&heard.status.problems)),
        of(&|heard| match &heard.status.finding {
            Some(finding) => format!("{}: {}", finding.verdict.name(), finding.id),
            None => "ok".to_owned(),
        }),
    ]
}

/// `2 errors, 1 warning`. What only informs is no problem.
fn problems(problems: &Problems) -> String {
    let count = |count: usize, name: &str| match count {
        0 => None,
        1 => Some(format!("1 {name}")),
        count => Some(format!("{count} {name}s")),
    };
    let counts = [count(problems.errors, "error"), count(problems.warnings, "warning")];
    let told: Vec<_> = counts.into_iter().flatten().collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

/// Problems of the Forebay, in sentences.
fn remarks(status: &InstanceStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if status.from_disk {
        lines.push("serves what was kept on disk: the API server does not tell of everything".to_owned());
    }
    lines.extend(status.watch_troubles.iter().map(|trouble| format!("cannot watch {trouble}")));
    let is_wrong = |problem: &&ProblemLine| problem.severity != "notice";
    for problem in status.problems.first.iter().filter(is_wrong).take(PROBLEMS_SHOWN) {
        let object = problem.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
        lines.push(format!("{}: {object}{}", problem.severity, problem.message));
    }
    let more = (status.problems.errors + status.problems.warnings).saturating_sub(PROBLEMS_SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more problems: `kubectl forebay check` lists all"));
    }
    if let Some(finding) = &status.finding {
        lines.push(format!("doctor: {}: {}: {}", finding.verdict.name(), finding.id, finding.message));
    }
    lines
}

fn as_json(row: &Row) -> Value {
    let Row { pod, heard } = row;
    let known = heard.as_ref().ok();
    json!({
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node,
        "version": known.map(|heard| &heard.status.version).or(pod.version.as_ref()),
        "isReady": pod.is_ready,
        "state": pod.state,
        "started": pod.started.map(|started| started.to_string()),
        "requestsPerSecond": known.map(|heard| heard.requests_per_second),
        "status": known.map(|heard| &heard.status),
        "trouble": heard.as_ref().err(),
    })
}

#[cfg(test)]
mod tests {
    use ::doctor::Verdict;

    use super::*;
    use crate::instance_status::WorstFinding;

    fn row(name: &str, heard: Result<InstanceStatus, &str>) -> Row {
        let pod = json!({
            "metadata": {"namespace": "edge", "name": name},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "forebay:0.1.0"}]},
            "status": {"phase": "Running", "startTime": "2026-01-02T03:04:05Z", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let heard = heard.map(|status| Heard { status, requests_per_second: 12.34 });
        let pod = ForebayPod::of(&serde_json::from_value(pod).unwrap(), None);
        Row { pod, heard: heard.map_err(str::to_owned) }
    }

    fn status(errors: usize, notices: usize) -> InstanceStatus {
        let problem = |severity: &str| ProblemLine {
            severity: severity.to_owned(),
            object: Some("Ingress shop/web".to_owned()),
            message: "it is wrong".to_owned(),
        };
        let first = std::iter::repeat_n(problem("error"), errors)
            .chain(std::iter::repeat_n(problem("notice"), notices));
        let problems = Problems { errors, warnings: 0, notices, first: first.collect() };
        InstanceStatus {
            version: "0.1.1".to_owned(),
            generation: 7,
            requests: 99,
            problems,
            ..InstanceStatus::default()
        }
    }

    #[test]
    fn a_row_for_each_and_once_what_several_say() {
        let troubled = InstanceStatus {
            from_disk: true,
            watch_troubles: vec!["ingresses: forbidden".to_owned()],
            finding: Some(WorstFinding {
                id: "ports".to_owned(),
                verdict: Verdict::Failure,
                message: "none is left".to_owned(),
            }),
            ..status(0, 0)
        };
        let rows = [
            row("one", Ok(status(7, 1))),
            row("two", Ok(status(7, 1))),
            row("three", Ok(status(0, 3))),
            row("four", Ok(troubled)),
            row("five", Err("it is away")),
        ];
        let told = text(&rows, "2026-01-02T03:14:05Z".parse().unwrap());
        let lines: Vec<_> = told.lines().collect();
        let cells = |line: &str| {
            line.split("   ")
                .map(|cell| cell.trim().to_owned())
                .filter(|cell| !cell.is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            cells(lines[1]),
            ["edge", "one", "node-1", "0.1.1", "yes", "10m", "7", "99", "12.3", "7 errors", "ok"]
        );
        assert_eq!(cells(lines[3])[9..], ["none", "ok"]);
        assert_eq!(cells(lines[4])[9..], ["none", "failure: ports"]);
        assert_eq!(cells(lines[5])[3..], ["0.1.0", "yes", "10m", "-", "-", "-", "-", "-"]);
        assert_eq!(lines[7], "edge/one, edge/two");
        assert_eq!(lines[8], "  error: Ingress shop/web: it is wrong");
        assert_eq!(lines[8 + PROBLEMS_SHOWN], "  and 2 more problems: `kubectl forebay check` lists all");
        let rest = [
            "",
            "edge/four",
            "  serves what was kept on disk: the API server does not tell of everything",
            "  cannot watch ingresses: forbidden",
            "  doctor: failure: ports: none is left",
            "",
            "edge/five",
            "  what only the Forebay knows is missing: it is away",
        ];
        assert_eq!(lines[9 + PROBLEMS_SHOWN..], rest);
    }
}
