//! The `forebay` command: reads the command line and runs a command.

mod abuse;
mod admin;
mod ask;
mod bench;
mod cache;
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
mod guard;
mod ignored;
mod limit_redis;
mod log_output;
mod machine;
mod output;
mod payload;
mod query;
mod replicas;
mod serve;
mod server;
mod shell;
#[cfg(test)]
mod tested;
mod trouble;
mod webhook;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What jemalloc reads at its start. A thread looks through its cache of free memory after so many bytes of allocations: by default after
/// 64 KiB, which is every 24 requests, and costs each of them 1.5 %.
#[expect(unsafe_code, reason = "this is the name that jemalloc looks for, and nothing else has it")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_OPTIONS: &[u8] = b"tcache_gc_incr_bytes:2097152\0";

/// Exit status if arguments, addresses or files cannot be used.
const EXIT_UNUSABLE: u8 = 2;

/// What a newcomer needs; the whole is a page.
const WELCOME: &str = "\
Forebay: a Kubernetes ingress controller with its own HTTP proxy. To begin with:

  forebay demo                   what an ingress costs, measured on this machine in half a minute
  forebay check MANIFESTS        what of your Ingresses would be served, and what is wrong with them
  forebay serve --manifests DIR --http-port 8080 --https-port 8443
                                 serve them; in a Pod, `forebay serve` follows the cluster

All commands: forebay --help. Where to read on: README.md and docs/, beside the source.
";

fn main() -> ExitCode {
    if std::env::args_os().len() <= 1 {
        // Not what was asked for, since nothing was.
        let _ = std::io::stderr().write_all(WELCOME.as_bytes());
        return ExitCode::from(EXIT_UNUSABLE);
    }
    let (arguments, ignored) = ignored::split_off(with_command(std::env::args_os()));
    let known = Cli::known_flags();
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let (arguments, unknown) = ignored::split_off_unknown(arguments, &known);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return cli::explain(&error),
    };
    let result = match cli.command {
        Command::Serve(options) => {
            let passed_over: Vec<_> = ignored.into_iter().map(Into::into).chain(unknown).collect();
            serve::run(*options, &passed_over)
        }
        Command::Check(options) => check::run(*options),
        Command::Explain(options) => explain::run(*options),
        Command::Convert(options) => convert::run(options.command),
        Command::Cache(options) => cache::run(options.command),
        Command::Abuse(options) => abuse::run(options.command),
        Command::Demo(options) => demo::run(&options),
        Command::PlainProxy(options) => demo::plain_proxy(&options),
        Command::Doctor(options) => doctor::run(options),
        Command::Payload(options) => payload::run(&options),
        Command::Bench(options) => bench::run(*options),
        Command::Completions(options) => shell::completions(&options),
        Command::Man(options) => shell::man(&options),
    };
    result.unwrap_or_else(|error| {
        if error.is::<output::ReaderGone>() {
            return ExitCode::SUCCESS;
        }
        output::complain(&in_one_line(&error));
        ExitCode::from(EXIT_UNUSABLE)
    })
}

/// Inserts `serve` if it is missing: a Deployment of ingress-nginx passes its binary's path and flags.
fn with_command(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    if first.rsplit('/').next() == Some("nginx-ingress-controller") {
        arguments[1] = "serve".into();
    } else if first.starts_with("--") && !["--help", "--version"].contains(&first) {
        arguments.insert(1, "serve".into());
    }
    arguments
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
    fn the_arguments_of_an_ingress_nginx_deployment_are_those_of_serve() {
        let with = |line: &str| with_command(line.split(' ').map(OsString::from)).join(" ".as_ref());
        assert_eq!(
            with("forebay /nginx-ingress-controller --configmap=a/b"),
            "forebay serve --configmap=a/b"
        );
        assert_eq!(with("forebay --configmap=a/b"), "forebay serve --configmap=a/b");
        assert_eq!(with("forebay check a.yaml"), "forebay check a.yaml");
        assert_eq!(with("forebay --version"), "forebay --version");
        assert_eq!(with("forebay"), "forebay");
    }

    #[test]
    fn no_cause_is_told_twice() {
        assert_eq!(in_one_line(&anyhow!("in use").context("cannot listen")), "cannot listen: in use");
        assert_eq!(in_one_line(&anyhow!("gone").context("cannot read x: gone")), "cannot read x: gone");
    }
}
