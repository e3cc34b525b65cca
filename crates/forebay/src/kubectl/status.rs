//! `kubectl forebay status`: one row for each Forebay of the cluster.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::forward::AdminLink;
use super::pods::ForebayPod;
use super::table::{age, table};
use crate::cli::Output;
use crate::output;
use crate::standing::{Problems, Standing};

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

/// A Pod, and what it says of itself.
struct Row {
    pod: ForebayPod,
    /// Or why it says nothing.
    heard: Result<Heard, String>,
}

struct Heard {
    standing: Standing,
    requests_per_second: f64,
}

pub(super) async fn run(cluster: &Cluster, form: Output) -> anyhow::Result<ExitCode> {
    let pods = cluster.pods().await?;
    let rows = join_all(pods.into_iter().map(|pod| async {
        let heard = listen(cluster, &pod).await.map_err(|error| crate::in_one_line(&error));
        Row { pod, heard }
    }));
    let rows = rows.await;
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
    let before: Standing = link.get("/status").await?;
    tokio::time::sleep(RATE_OVER).await;
    let standing: Standing = link.get("/status").await?;
    let requests = standing.requests.saturating_sub(before.requests) as f64;
    let seconds = (standing.up_seconds - before.up_seconds).max(f64::EPSILON);
    Ok(Heard { standing, requests_per_second: requests / seconds })
}

/// The table, and what there is to say that has no place in it.
fn text(rows: &[Row], now: Timestamp) -> String {
    let mut text = table(HEADS, &rows.iter().map(|row| cells(row, now)).collect::<Vec<_>>());
    let mut unheard = BTreeMap::<&str, Vec<String>>::new();
    for row in rows {
        match &row.heard {
            Ok(heard) => remarks(&mut text, &row.pod, &heard.standing),
            // The reason names the Pod, and then is one of its own.
            Err(why) => unheard.entry(why).or_default().push(row.pod.title()),
        }
    }
    for (why, pods) in unheard {
        let _ = writeln!(text, "\n{}: what only the Forebay knows is missing\n  {why}", pods.join(", "));
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
        dash(heard.map(|heard| &heard.standing.version).or(pod.version.as_ref())),
        if pod.is_ready { "yes".to_owned() } else { pod.state.clone() },
        pod.started.map_or_else(|| "-".to_owned(), |started| age(now.as_second() - started.as_second())),
        of(&|heard| heard.standing.generation.to_string()),
        of(&|heard| heard.standing.requests.to_string()),
        of(&|heard| format!("{:.1}", heard.requests_per_second)),
        of(&|heard| problems(&heard.standing.problems)),
        of(&|heard| match &heard.standing.finding {
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

/// What is wrong, in sentences.
fn remarks(text: &mut String, pod: &ForebayPod, standing: &Standing) {
    let mut lines = Vec::new();
    if standing.from_disk {
        lines.push("serves what was kept on disk: the API server does not tell of everything".to_owned());
    }
    lines.extend(standing.watch_troubles.iter().map(|trouble| format!("cannot watch {trouble}")));
    let wrong: Vec<_> =
        standing.problems.first.iter().filter(|problem| problem.severity != "notice").collect();
    for problem in wrong.iter().take(PROBLEMS_SHOWN) {
        let object = problem.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
        lines.push(format!("{}: {object}{}", problem.severity, problem.message));
    }
    let more = (standing.problems.errors + standing.problems.warnings).saturating_sub(PROBLEMS_SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more problems: `kubectl forebay check` lists all"));
    }
    if let Some(finding) = &standing.finding {
        lines.push(format!("doctor: {}: {}: {}", finding.verdict.name(), finding.id, finding.message));
    }
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{}", pod.title());
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
}

fn as_json(row: &Row) -> Value {
    let Row { pod, heard } = row;
    let known = heard.as_ref().ok();
    json!({
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node,
        "version": known.map(|heard| &heard.standing.version).or(pod.version.as_ref()),
        "isReady": pod.is_ready,
        "state": pod.state,
        "started": pod.started.map(|started| started.to_string()),
        "requestsPerSecond": known.map(|heard| heard.requests_per_second),
        "status": known.map(|heard| &heard.standing),
        "trouble": heard.as_ref().err(),
    })
}
