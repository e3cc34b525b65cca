//! `forebay explain`: what becomes of a request, step by step, and which object asks for each step.
//!
//! What becomes of it says the code that serves ([`proxy::explain`]); here the objects are added that the steps come from.

mod question;
mod show;
mod sources;
mod told;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::bail;
use control::Connection;
use http::Method;
use proxy::guard::Relief;

use crate::ask::ask;
use crate::cli::{self, ApiServer, Output};
use crate::output;
pub(crate) use question::Question;
pub(crate) use sources::Objects;
pub(crate) use told::{Told, tell};

/// The exit status says whether the request is served: 0 if so, 1 if it is refused or answered with an error.
pub(crate) fn run(options: cli::Explain) -> anyhow::Result<ExitCode> {
    let question = Question::from(options.asked);
    let told = if let Some(url) = &options.admin {
        ask(url, Method::GET, &question.target()?)?
    } else {
        let paths = options.paths.into_iter().chain(options.manifests).collect();
        tell(&objects(&options.api_server, options.reading, paths)?, &question, Relief::default())?
    };
    print(&told, options.output)
}

/// Prints an explanation.
pub(crate) fn print(told: &Told, output: Output) -> anyhow::Result<ExitCode> {
    let text = match output {
        Output::Text => show::text(told),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(told)?),
    };
    output::print(&text)?;
    Ok(ExitCode::from(u8::from(!told.is_served)))
}

fn objects(api_server: &ApiServer, reading: cli::Reading, paths: Vec<PathBuf>) -> anyhow::Result<Objects> {
    let is_cluster = api_server.kubeconfig.is_some() || api_server.apiserver_host.is_some();
    if paths.is_empty() && !is_cluster {
        bail!("nothing to explain: give a PATH with manifests, --kubeconfig, --apiserver-host or --admin");
    }
    let reading = reading.into_options(paths);
    let prefix = reading.annotations_prefix.clone();
    let translation = if is_cluster {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let connection = Connection::open(&api_server.address()).await?;
            let checked = control::check_cluster(&connection, api_server.scope(), reading, SystemTime::now());
            anyhow::Ok(checked.await?.0)
        })?
    } else {
        control::load_at(&reading, SystemTime::now())?
    };
    let snapshot = Arc::new(routing::compile(&translation.model, None, 1));
    Ok(Objects { snapshot, translation: Arc::new(translation), prefix: prefix.into() })
}
