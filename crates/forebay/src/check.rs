//! `forebay check`: prints the configuration that would be served, the problems, and the changes for users
//! who come from ingress-nginx.

mod page;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, bail};
use control::Translation;
use control::migration::Report;
use jiff::Zoned;
use serde_json::{Value, json};

use crate::cli::{self, ApiServer, Output, Source};
use crate::output;
use crate::rule_sets::RuleSets;

/// The exit status says whether there is something to do: 0 for nothing, 1 for problems to look at. What
/// cannot be read, and what holds nothing to judge, is an error.
pub(crate) fn run(options: cli::Check) -> anyhow::Result<ExitCode> {
    let api_server = options.api_server;
    let (translation, report) = match options.manifests.source(&api_server)? {
        None => bail!(
            "nothing to check: give a PATH with manifests, `-` for standard input, --kubeconfig or KUBECONFIG"
        ),
        Some(Source::Cluster) => {
            let mut reading = options.reading.into_options(Vec::new())?;
            reading.watch_namespace = api_server.scope().only_namespace();
            reading.from = options.from;
            check_cluster(&api_server, reading)?
        }
        Some(Source::Files { paths, stdin }) => {
            let mut reading = options.reading.of_files().into_options(paths)?;
            reading.watch_namespace = api_server.scope().only_namespace();
            reading.from = options.from;
            control::check_at(&reading, stdin, SystemTime::now())?
        }
    };
    judgeable(&translation, &report)?;
    tell(&translation, &report, options.output, options.report.as_deref())
}

/// Fails where there is nothing to judge: a gate that passes because it was given the wrong folder is open.
fn judgeable(translation: &Translation, report: &Report) -> anyhow::Result<()> {
    if report.judged > 0 || control::report::has_problems(translation) {
        return Ok(());
    }
    if report.other_classes.is_empty() {
        let others: Vec<_> =
            translation.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let found = if others.is_empty() {
            "no object was found".to_owned()
        } else {
            format!("found {}", others.join(", "))
        };
        bail!("nothing to judge: there is no Ingress, Gateway or route; {found}");
    }
    let classes: Vec<_> = report.other_classes.iter().map(ToString::to_string).collect();
    bail!("nothing to judge: {}; --ingress-class names the class that is judged", classes.join("; "));
}

/// Prints what was found, and writes it to a file, as one page of HTML.
pub(crate) fn tell(
    translation: &Translation,
    report: &Report,
    form: Output,
    file: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let text = match form {
        Output::Text => as_text(translation, report)?,
        Output::Json => format!("{:#}\n", as_json(translation, report)),
    };
    if let Some(file) = file {
        fs::write(file, page::page(translation, report, &Zoned::now()).html())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    output::print(&text)?;
    let needs_a_look = control::report::has_problems(translation) || !report.need_a_look.is_empty();
    Ok(ExitCode::from(u8::from(needs_a_look)))
}

fn check_cluster(api_server: &ApiServer, reading: control::Options) -> anyhow::Result<(Translation, Report)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = api_server.connect().await?;
        Ok(control::check_cluster(&connection, api_server.scope(), reading, SystemTime::now()).await?)
    })
}

fn as_text(translation: &Translation, report: &Report) -> anyhow::Result<String> {
    let mut text = String::new();
    control::report::write(&mut text, translation)?;
    if report.ingresses > 0 {
        text.push('\n');
        report.write(&mut text)?;
    }
    if let Some(rule_sets) = RuleSets::of(&translation.model) {
        writeln!(text, "\n{rule_sets}")?;
    }
    Ok(text)
}

fn as_json(translation: &Translation, report: &Report) -> Value {
    let routes = control::report::rows(translation).into_iter().map(|row| {
        json!({
            "host": row.host, "path": row.path, "pathType": row.path_type, "state": row.state,
            "upstream": row.upstream,
            "endpoints": row.endpoints, "from": row.origin,
        })
    });
    let problems = translation.problems.iter().map(|problem| {
        json!({
            "severity": problem.severity.as_str(), "reason": problem.reason.as_str(),
            "object": problem.object.as_ref().map(ToString::to_string),
            "file": problem.file.as_ref().map(|file| file.display().to_string()),
            "line": problem.line, "message": problem.message,
        })
    });
    json!({
        "verdict": report.verdict(),
        "migration": report,
        "routes": routes.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
        "firewall": RuleSets::of(&translation.model),
    })
}
