//! `forebay payload`: the static payload server.

use std::process::ExitCode;

use anyhow::Context;

use crate::cli;

pub(crate) fn run(options: &cli::Payload) -> anyhow::Result<ExitCode> {
    let address = options.address();
    let payload = ::bench::payload::Payload::bind(address, options.threads)
        .with_context(|| format!("cannot listen on {address}"))?;
    println!("payload server on http://{}", payload.local_addr());
    for (path, what) in ::bench::payload::RESOURCES {
        println!("  {path:<14} {what}");
    }
    payload.serve_forever();
    Ok(ExitCode::SUCCESS)
}
