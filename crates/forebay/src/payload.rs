//! `forebay payload`: the static payload server.

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::{cli, output, trouble};

pub(crate) fn run(options: &cli::Payload) -> anyhow::Result<ExitCode> {
    let address = options.address();
    let payload = ::bench::payload::Payload::bind(address, options.threads)
        .map_err(|error| trouble::cannot_listen(&address.to_string(), &error, "--port"))?;
    let mut text = format!("payload server on http://{}\n", payload.local_addr());
    for (path, what) in ::bench::payload::RESOURCES {
        let _ = writeln!(text, "  {path:<14} {what}");
    }
    output::print(text)?;
    payload.serve_forever();
    Ok(ExitCode::SUCCESS)
}
