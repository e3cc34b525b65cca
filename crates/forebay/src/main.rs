//! The `forebay` command: command line, wiring, signals, admin server. What it does is done elsewhere.

mod admin;
mod check;
mod cli;
mod configuration;
#[cfg(test)]
mod docs;
mod ignored;
mod machine;
mod payload;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Arguments, addresses or files that cannot be used.
const EXIT_UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let (arguments, ignored) = ignored::split_off(std::env::args_os());
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return cli::explain(&error),
    };
    let result = match cli.command {
        Command::Serve(options) => serve::run(*options, &ignored),
        Command::Check(options) => check::run(*options),
        Command::Payload(options) => payload::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("forebay: {}", in_one_line(&error));
        ExitCode::from(EXIT_UNUSABLE)
    })
}

/// An error with its causes, less those that it tells already.
fn in_one_line(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.contains(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn no_cause_is_told_twice() {
        assert_eq!(in_one_line(&anyhow!("in use").context("cannot listen")), "cannot listen: in use");
        assert_eq!(in_one_line(&anyhow!("gone").context("cannot read x: gone")), "cannot read x: gone");
    }
}
