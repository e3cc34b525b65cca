//! `kubectl forebay`: examines the Forebays of a cluster, with the kubeconfig and the rights of the user who
//! runs it.
//!
//! Each Forebay is queried at its admin server, to which the API server forwards a port ([`forward`]). Must
//! not be in here: anything that changes a cluster or a Forebay.

mod check;
mod cluster;
mod complete;
mod doctor;
mod doctor_past;
mod explain;
mod flags;
mod forward;
mod logs;
mod pods;
mod right;
mod status;
mod table;
mod top;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::{Kubectl, KubectlCommand};
use crate::language::Language;
use cluster::Cluster;
pub(crate) use complete::{is_completer, offers};

/// The name by which kubectl finds a plugin for `kubectl forebay`.
const PLUGIN: &str = "kubectl-forebay";

/// Whether the program runs under its name as a plugin.
pub(crate) fn is_plugin(program: &OsStr) -> bool {
    Path::new(program).file_stem().is_some_and(|name| name == PLUGIN)
}

/// Carries out a command.
pub(crate) fn run(options: Kubectl) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = Cluster::open(&options.reach).await?;
        match options.command {
            KubectlCommand::Status(told) => status::run(&cluster, told.output).await,
            KubectlCommand::Explain { asked, told } => explain::run(&cluster, asked, told.output).await,
            KubectlCommand::Check { told, report, flags } => {
                check::run(&cluster, told.output, report.as_deref(), flags).await
            }
            KubectlCommand::Doctor { told, past, lang } if past.since.is_some() => {
                doctor_past::run(&cluster, told.output, &past, Language::chosen(lang)).await
            }
            KubectlCommand::Doctor { told, lang, .. } => {
                doctor::run(&cluster, told.output, Language::chosen(lang)).await
            }
            KubectlCommand::Top { pod, watching } => top::run(cluster, pod, &watching).await,
            KubectlCommand::Logs(options) => logs::run(&cluster, &options).await,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_known_by_its_name() {
        for name in ["kubectl-forebay", "/usr/local/bin/kubectl-forebay", "kubectl-forebay.exe"] {
            assert!(is_plugin(OsStr::new(name)), "{name}");
        }
        for name in ["forebay", "/kubectl-forebay/forebay", "kubectl", ""] {
            assert!(!is_plugin(OsStr::new(name)), "{name}");
        }
    }
}
