//! `forebay cache`: asks a running Forebay for its cache, and has it forget.

mod purge;
mod status;

use std::process::ExitCode;

use control::legible;
use http::Method;
use serde::Serialize;

use crate::ask::ask;
use crate::cli::{self, CacheCommand, Output};
use crate::output;
pub(crate) use purge::{Orders, Purged, without_cache};
pub(crate) use status::{CacheStatus, disk_figures};

/// Carries out a command on the cache of a running Forebay.
pub(crate) fn run(command: CacheCommand) -> anyhow::Result<ExitCode> {
    match command {
        CacheCommand::Purge(options) => purge(options),
        CacheCommand::Status(asking) => {
            let status: CacheStatus = ask(&asking.admin, Method::GET, "/cache/status")?;
            print(asking.output, &status, CacheStatus::text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The exit status is 1 where nothing was in memory and a host is named that has no cache, or where it is not
/// known that all replicas have forgotten.
fn purge(options: cli::Purge) -> anyhow::Result<ExitCode> {
    let cli::Purge { url, prefix, host, tag, all, asking } = options;
    let orders = Orders { urls: url, prefixes: prefix, hosts: host, tags: tag, all };
    orders.purges()?;
    let purged: Purged = ask(&asking.admin, Method::POST, &format!("/cache/purge?{}", orders.query()))?;
    print(asking.output, &purged, Purged::text)?;
    let is_in_vain = purged.objects == 0 && !purged.hosts_without_cache.is_empty();
    Ok(ExitCode::from(u8::from(is_in_vain || !purged.replicas_unreached.is_empty())))
}

fn print<A: Serialize>(output: Output, answer: &A, text: impl FnOnce(&A) -> String) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => legible::lines(&text(answer)).into_owned(),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
    };
    output::print(&text)
}
