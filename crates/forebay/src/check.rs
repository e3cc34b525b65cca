//! `forebay check`: prints what would be served, and the problems.

use std::io::Write;
use std::process::ExitCode;

use crate::cli;

pub(crate) fn run(options: cli::Check) -> anyhow::Result<ExitCode> {
    let translation = control::load_once(&options.reading.into_options(options.paths))?;
    let mut text = String::new();
    control::report::write(&mut text, &translation)?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(control::report::has_problems(&translation))))
}
