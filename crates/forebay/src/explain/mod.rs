//! `forebay explain`: what becomes of a request, step by step, and which object asks for each step.
//!
//! The code that serves says what becomes of it ([`proxy::explain`]); here the objects are added that the
//! steps come from.

#[cfg(test)]
mod converted;
mod question;
mod report;
mod show;
mod sources;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use http::Method;
use proxy::guard::Relief;

use crate::ask::ask_with;
use crate::cli::{self, ApiServer, Output, Source};
use crate::output;
pub(crate) use question::{BODY_BYTES_MAX, Question};
pub(crate) use report::{Report, report};
pub(crate) use sources::Objects;

/// The admin server that is queried by default.
const LOCAL: &str = "http://127.0.0.1:10254";

/// The exit status says whether the request is served: 0 if so, 1 if it is refused or answered with an error.
pub(crate) fn run(options: cli::Explain) -> anyhow::Result<ExitCode> {
    let question = Question::try_from(options.asked)?;
    let source = match &options.admin {
        Some(_) => None,
        None => options.manifests.source(&options.api_server)?,
    };
    let told = match source {
        Some(source) => report(
            &objects(&options.api_server, options.reading, source)?,
            &question,
            Relief::default(),
            None,
        )?,
        None => running(options.admin.as_deref(), &question)?,
    };
    print(&told, options.output)
}

/// Asks a running Forebay.
fn running(admin: Option<&str>, question: &Question) -> anyhow::Result<Report> {
    let method = if question.body.is_empty() { Method::GET } else { Method::POST };
    let told = ask_with(admin.unwrap_or(LOCAL), method, &question.target()?, question.body.clone());
    match admin {
        Some(_) => told,
        None => told.context(
            "no manifests, cluster or --admin are named, so that a Forebay on this machine was asked",
        ),
    }
}

/// Prints an explanation.
pub(crate) fn print(told: &Report, output: Output) -> anyhow::Result<ExitCode> {
    let text = match output {
        Output::Text => show::text(told),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(told)?),
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(!told.is_served)))
}

fn objects(api_server: &ApiServer, reading: cli::Reading, source: Source) -> anyhow::Result<Objects> {
    let prefix = reading.annotations_prefix.clone();
    let with_scope = |mut options: control::Options| {
        options.watch_namespace = api_server.scope().only_namespace();
        options
    };
    let now = SystemTime::now();
    let translation = match source {
        Source::Cluster => {
            let options = with_scope(reading.into_options(Vec::new())?);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let connection = api_server.connect().await?;
                anyhow::Ok(control::check_cluster(&connection, api_server.scope(), options, now).await?.0)
            })?
        }
        Source::Files { paths, stdin } => {
            control::load_text_at(&with_scope(reading.of_files().into_options(paths)?), stdin, now)?
        }
    };
    let snapshot = Arc::new(routing::compile(&translation.model, None, 1));
    Ok(Objects { snapshot, translation: Arc::new(translation), prefix: prefix.into() })
}
