//! `kubectl forebay logs`: the logs of all Forebays, and the matching lines of the access log.

mod filter;
mod lines;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use control::legible;
use futures::future::join_all;
use futures::stream::{Stream, StreamExt, select_all};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;

use super::cluster::Cluster;
use super::forward::AdminLink;
use super::pods::ForebayPod;
use super::right::Right;
use crate::cli::Logs;
use crate::instance_status::{AccessLog, InstanceStatus};
use crate::output;
use filter::{Filter, Verdict};
use lines::{Line, Lines};

/// Bytes that are collected before they are written, unless the output follows the log.
const WRITTEN_AT_ONCE: usize = 32 << 10;

pub(super) async fn run(cluster: &Cluster, options: &Logs) -> anyhow::Result<ExitCode> {
    let pods = cluster.pods().await?;
    let is_filtered = !(options.host.is_empty() && options.status.is_empty() && options.reason.is_empty());
    let filter = if is_filtered {
        let log = access_log(cluster, &pods).await?;
        Some(Filter::new(&log, options.host.clone(), options.status.clone(), options.reason.clone())?)
    } else {
        None
    };
    let opened = join_all(pods.iter().map(|pod| open(cluster, pod, options))).await;
    let (mut logs, mut failures) = (Vec::new(), Vec::new());
    for log in opened {
        match log {
            Ok(log) => logs.push(log),
            Err(error) => failures.push(error),
        }
    }
    if logs.is_empty()
        && let Some(error) = failures.pop()
    {
        return Err(error);
    }
    for failure in &failures {
        output::complain(&crate::in_one_line(failure));
    }
    let is_terminal = std::io::stdout().is_terminal();
    let mut printer =
        Printer { filter, prefix: options.prefix, follow: options.follow, is_terminal, ..Printer::default() };
    if options.follow {
        printer.print(select_all(logs)).await?;
    } else {
        printer.print(lines::in_order(logs)).await?;
    }
    if printer.strange > 0 {
        output::complain(&format!(
            "omitted {} lines that are not of the access log, or not in its present format",
            printer.strange
        ));
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty() || printer.is_broken)))
}

/// Whether and how Forebay logs requests, as the first Pod says that answers.
async fn access_log(cluster: &Cluster, pods: &[ForebayPod]) -> anyhow::Result<AccessLog> {
    let mut failure = None;
    for pod in pods.iter().filter(|pod| pod.is_ready) {
        let asked: anyhow::Result<InstanceStatus> =
            async { AdminLink::open(cluster, pod).await?.get("/status").await }.await;
        match asked {
            Ok(status) => {
                let log = status.access_log;
                return log.with_context(|| format!("Pod {} has no configuration yet", pod.title()));
            }
            Err(error) => failure = Some(error),
        }
    }
    let failure = failure.unwrap_or_else(|| anyhow::anyhow!("no Pod of Forebay is ready"));
    Err(failure
        .context("cannot ask for the format of the access log, which --host, --status and --reason need"))
}

/// The log of a Pod.
async fn open(cluster: &Cluster, pod: &ForebayPod, options: &Logs) -> anyhow::Result<Lines> {
    let parameters = LogParams {
        container: Some(pod.container.clone()),
        follow: options.follow,
        previous: options.previous,
        since_seconds: options.since.map(|since| since.as_secs().max(1).cast_signed()),
        tail_lines: options.tail.map(i64::from),
        timestamps: true,
        ..LogParams::default()
    };
    let right = Right {
        verbs: "get",
        resource: "pods/log",
        namespace: Some(&pod.namespace),
        instead: "`status`, `explain`, `doctor` and `check` need no logs",
    };
    let api: Api<Pod> = Api::namespaced(cluster.connection.client(), &pod.namespace);
    let stream = cluster.within(api.log_stream(&pod.name, &parameters)).await?;
    let stream = stream
        .map_err(|error| right.refusal(&error, &cluster.url))
        .with_context(|| format!("cannot read the log of Pod {}", pod.title()))?;
    Ok(lines::of(pod.title(), stream))
}

/// Writes the matching lines.
#[derive(Default)]
struct Printer {
    filter: Option<Filter>,
    prefix: bool,
    follow: bool,
    /// Standard output is a terminal, which would act on escape sequences.
    is_terminal: bool,
    collected: Vec<u8>,
    /// Lines that could not be judged.
    strange: u64,
    /// A log has ended with an error.
    is_broken: bool,
}

impl Printer {
    async fn print(&mut self, lines: impl Stream<Item = anyhow::Result<Line>>) -> anyhow::Result<()> {
        let mut lines = std::pin::pin!(lines);
        while let Some(line) = lines.next().await {
            match line {
                Ok(line) => self.take(&line)?,
                Err(error) => {
                    self.is_broken = true;
                    output::complain(&crate::in_one_line(&error));
                }
            }
        }
        self.flush()
    }

    fn take(&mut self, line: &Line) -> anyhow::Result<()> {
        match self.filter.as_ref().map_or(Verdict::Meant, |filter| filter.judge(&line.text)) {
            Verdict::Meant => {}
            Verdict::Other => return Ok(()),
            Verdict::Strange => {
                self.strange += 1;
                return Ok(());
            }
        }
        if self.prefix {
            self.collected.extend_from_slice(format!("[{}] ", line.pod).as_bytes());
        }
        if self.is_terminal {
            // Clients decide about the content of lines, and with --log-format-escape=none nothing of it is
            // escaped.
            let text = String::from_utf8_lossy(&line.text);
            self.collected.extend_from_slice(legible::line(&text).as_bytes());
        } else {
            self.collected.extend_from_slice(&line.text);
        }
        self.collected.push(b'\n');
        if self.follow || self.collected.len() >= WRITTEN_AT_ONCE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        output::print(std::mem::take(&mut self.collected))
    }
}
