//! The command line of the plugin for kubectl: `kubectl forebay`, or `forebay kubectl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use observe::Reason;

use super::{Asked, Output, Watching};
use crate::language::Language;
use crate::past::When;

/// The program under the name by which kubectl knows it as a plugin.
#[derive(Debug, Parser)]
#[command(name = "kubectl-forebay", bin_name = "kubectl forebay", version, args_override_self = true)]
#[command(about = "Examine the Forebays of a cluster. Changes nothing.")]
pub(crate) struct Plugin {
    #[command(flatten)]
    pub(crate) kubectl: Kubectl,
}

#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct Kubectl {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    pub(crate) command: KubectlCommand,
}

/// The cluster, and the Pods in it.
#[derive(Args, Debug)]
pub(crate) struct Reach {
    /// Kubeconfig file [default: as kubectl has it].
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace of the Pods [default: all].
    #[arg(short = 'n', long, global = true, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Pods of all namespaces, which is the default.
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Labels of the Pods.
    #[arg(short = 'l', long, global = true, value_name = "SELECTOR", default_value = SELECTOR)]
    pub(crate) selector: String,
    /// Admin port of the Pods [default: the container's port `metrics`, or that of its readiness probe, or
    /// else 10254].
    #[arg(long, global = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Time that the API server, or a Pod, has for an answer.
    #[arg(long, global = true, value_name = "TIME", value_parser = model::parse_duration, default_value = "10s")]
    pub(crate) request_timeout: Duration,
}

/// The labels that the chart gives to Pods of the controller.
const SELECTOR: &str = "app.kubernetes.io/name=forebay,app.kubernetes.io/component=controller";

#[derive(Debug, Subcommand)]
pub(crate) enum KubectlCommand {
    /// Show the state of each Forebay of the cluster. Exit status: 0 all are ready and have responded, 1 some
    /// are not or have not, 2 it could not be done.
    Status(OutputArgs),
    /// Explain a request step by step, as a running Forebay sees it. Sends no request. Exit status: 0 it is
    /// served, 1 it is refused or gets an error, 2 it could not be done.
    Explain {
        #[command(flatten)]
        asked: Asked,
        #[command(flatten)]
        told: OutputArgs,
    },
    /// Check the cluster as the Forebay in it sees it: print what is served, every problem, and what changes
    /// for users of ingress-nginx. Exit status: 0 clean, 1 problems, 2 it could not be done.
    Check {
        #[command(flatten)]
        told: OutputArgs,
        /// Also write it to this file, as one page of HTML.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Flags of `forebay serve` that hold before those of the Pod, or without any Pod:
        /// `-- --ingress-class=nginx`
        #[arg(last = true, value_name = "FLAG")]
        flags: Vec<String>,
    },
    /// Show what the doctor's checks find at each Forebay: what costs QPS there. With --since, what they find
    /// in what was recorded. Exit status: 0 clean, 1 warnings, 2 failures, or it could not be done.
    Doctor {
        #[command(flatten)]
        told: OutputArgs,
        #[command(flatten)]
        past: PastOfPods,
        /// Language of the text [default: that of LC_ALL, LC_MESSAGES or LANG if it is Chinese, else
        /// English]. JSON has both.
        #[arg(long, value_enum, value_name = "LANGUAGE")]
        lang: Option<Language>,
    },
    /// Watch a Forebay in the terminal, as `forebay top` does: rates, times, connections and what needs a
    /// look, and routes, hosts and clusters.
    Top {
        /// Pod that is watched: NAME, or NAMESPACE/NAME [default: the first one that is ready].
        #[arg(value_name = "POD")]
        pod: Option<String>,
        #[command(flatten)]
        watching: Watching,
    },
    /// Print the logs of all Forebays, ordered by time. With --host or --status, only lines of the access
    /// log.
    Logs(Logs),
}

/// The time of which the records of Pods are asked.
#[derive(Args, Debug)]
pub(crate) struct PastOfPods {
    /// Judge what was recorded from this time on: 02:50 (the last time it was), "2026-11-27 02:50",
    /// 2026-11-27T02:50:00Z, or -30m for half an hour ago.
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true)]
    pub(crate) since: Option<When>,
    /// Judge what was recorded up to this time [default: now].
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true, requires = "since")]
    pub(crate) until: Option<When>,
    /// With --since: also show findings in full that were there all the time, and warnings that were there
    /// only once.
    #[arg(long, requires = "since")]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OutputArgs {
    /// How the result is printed.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// Host of the requests, for which the format of the access log has to have `$host` or the like. May be
    /// given several times.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Status of the answers: 404, or 5xx for all of a class. May be given several times.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    pub(crate) status: Vec<(u16, u16)>,
    /// Reason of the fault, such as `queue_full`, for which the format of the access log needs
    /// `$forebay_reason`. May be given several times.
    #[arg(long, value_name = "REASON", value_delimiter = ',', value_parser = reason)]
    pub(crate) reason: Vec<Reason>,
    /// Go on with what is written from now on, as it comes.
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// Only lines that are not older: 10m.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only so many lines from the end of each log, before any are left out.
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<u32>,
    /// Logs of the containers before those that run now.
    #[arg(short = 'p', long, conflicts_with = "follow")]
    pub(crate) previous: bool,
    /// Begin each line with the name of its Pod.
    #[arg(long)]
    pub(crate) prefix: bool,
}

/// The statuses, from the first to the last.
fn status(text: &str) -> Result<(u16, u16), String> {
    let (digit, rest) = text.split_at_checked(1).unwrap_or_default();
    match (digit.parse(), rest) {
        (Ok(class @ 1..=5), "xx" | "XX") => Ok((class * 100, class * 100 + 99)),
        _ => match text.parse() {
            Ok(status @ 100..=599) => Ok((status, status)),
            _ => Err("a status is 404 or the like, or 5xx for all of a class".to_owned()),
        },
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    let known = Reason::ALL.iter().find(|reason| reason.name() == text).copied();
    known.ok_or_else(|| {
        "reasons are those of forebay_faults_total, listed in docs/troubleshooting.md".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_plugin_has_a_consistent_command_line() {
        Plugin::command().debug_assert();
    }

    #[test]
    fn flags_of_kubectl_may_be_before_and_behind_a_command() {
        for line in
            ["-n shop --context=c status -o json", "status --namespace shop --output=json --context c"]
        {
            let line = ["kubectl-forebay"].into_iter().chain(line.split(' '));
            let plugin = Plugin::try_parse_from(line).unwrap();
            assert_eq!(plugin.kubectl.reach.namespace.as_deref(), Some("shop"));
            assert_eq!(plugin.kubectl.reach.context.as_deref(), Some("c"));
            assert!(matches!(
                plugin.kubectl.command,
                KubectlCommand::Status(OutputArgs { output: Output::Json })
            ));
        }
    }

    #[test]
    fn a_doctor_may_be_asked_of_the_past() {
        let line = ["kubectl-forebay", "doctor", "--since", "-30m", "--until=now", "--all"];
        let plugin = Plugin::try_parse_from(line).unwrap();
        let KubectlCommand::Doctor { past, .. } = plugin.kubectl.command else { panic!("another command") };
        assert!(past.since.is_some() && past.until.is_some() && past.all);
        for wrong in [&["--until", "now"][..], &["--all"], &["--since", "soon"]] {
            let line = ["kubectl-forebay", "doctor"].iter().chain(wrong);
            assert!(Plugin::try_parse_from(line).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_status_is_one_or_a_class() {
        assert_eq!(status("404"), Ok((404, 404)));
        assert_eq!(status("5xx"), Ok((500, 599)));
        for wrong in ["", "5", "5x", "6xx", "99", "600", "ä", "-1"] {
            assert!(status(wrong).is_err(), "{wrong}");
        }
    }
}
