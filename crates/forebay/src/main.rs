//! The `forebay` command: reads the command line and runs a command.

mod abuse;
mod admin;
mod allocator;
mod ask;
mod bench;
mod cache;
mod canaries;
mod check;
mod cli;
mod configuration;
mod console;
mod convert;
mod demo;
#[cfg(test)]
mod docs;
mod doctor;
mod explain;
mod fallback_certificate;
mod firewalls;
mod guard;
mod health_news;
mod ignored;
mod instance_status;
mod kubectl;
mod language;
mod limit_redis;
mod line;
mod log_output;
mod machine;
mod output;
mod past;
mod payload;
mod query;
mod recorder;
mod relay;
mod replicas;
mod rule_sets;
mod serve;
mod server;
mod service_manager;
mod shell;
mod successor;
#[cfg(test)]
mod tested;
mod top;
mod trouble;
mod version;
mod waf;
mod webhook;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, Plugin};
use crate::ignored::PassedOver;

/// Exit status if arguments, addresses or files cannot be used.
const EXIT_UNUSABLE: u8 = 2;

/// The text for a newcomer; the complete help is a page long.
const WELCOME: &str = "\
Forebay: a Kubernetes ingress controller with its own HTTP proxy. To begin with:

  forebay demo                   what an ingress costs, measured on this machine in half a minute
  forebay check MANIFESTS        what of your Ingresses would be served, and what is wrong with them
  forebay serve --manifests DIR --http-port 8080 --https-port 8443
                                 serve them; in a Pod, `forebay serve` follows the cluster

All commands: forebay --help. Documentation beside the source: README.md, docs/index.md; when something fails: docs/troubleshooting.md.
";

fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    if kubectl::is_plugin(&program) {
        return match Plugin::try_parse() {
            Ok(plugin) => end(kubectl::run(plugin.kubectl)),
            Err(error) => cli::explain(&error),
        };
    }
    if kubectl::is_completer(&program) {
        let words: Vec<_> =
            std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        return end(output::print(kubectl::offers(&words)).map(|()| ExitCode::SUCCESS));
    }
    if std::env::args_os().len() <= 1 {
        // Standard error, since no output was requested.
        let _ = std::io::stderr().write_all(WELCOME.as_bytes());
        return ExitCode::from(EXIT_UNUSABLE);
    }
    let line = line::split(std::env::args_os());
    match Cli::try_parse_from(line.arguments) {
        Ok(cli) => end(run(cli.command, &line.passed_over)),
        Err(error) => cli::explain(&error),
    }
}

/// Runs a command to its end. `passed_over` are flags of `serve`.
fn run(command: Command, passed_over: &[PassedOver]) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(options) => serve::run(*options, passed_over),
        Command::Check(options) => check::run(*options),
        Command::Explain(options) => explain::run(*options),
        Command::Convert(options) => convert::run(options.command),
        Command::Kubectl(options) => kubectl::run(*options),
        Command::Cache(options) => cache::run(options.command),
        Command::Abuse(options) => abuse::run(options.command),
        Command::Waf(options) => waf::run(options.command),
        Command::Demo(options) => demo::run(&options),
        Command::PlainProxy(options) => demo::plain_proxy(&options),
        Command::Doctor(options) => doctor::run(*options),
        Command::Record(options) => past::run(options),
        Command::Top(options) => top::run(&options),
        Command::Payload(options) => payload::run(&options),
        Command::Bench(options) => bench::run(*options),
        Command::Completions(options) => shell::completions(&options),
        Command::Man(options) => shell::man(&options),
        Command::Version(options) => version::run(&options),
    }
}

/// The exit status of a command, and the message of its failure.
fn end(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        if error.is::<output::ReaderGone>() {
            return ExitCode::SUCCESS;
        }
        output::complain(&in_one_line(&error));
        ExitCode::from(EXIT_UNUSABLE)
    })
}

/// An error with its causes in one line, except for causes that its text contains already.
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
