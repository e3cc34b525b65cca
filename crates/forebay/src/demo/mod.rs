//! `forebay demo`: what an ingress costs, measured here and now, and the field cases made to happen.
//!
//! This binary is all that it needs: servers, clients and proxies are processes and threads of it. It leaves
//! nothing running.

mod cases;
mod cost;
mod page;
mod programs;
mod scene;
mod table;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Args;

pub(crate) use cases::Case;

/// Shortest time for which something is measured: less says nothing.
const DURATION_MIN: Duration = Duration::from_millis(100);

/// Options of `forebay demo`.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Reproduce a field case: the problem, the doctor's findings, and Forebay instead.
    #[arg(long, value_enum, value_name = "CASE")]
    case: Option<Case>,
    /// Also draw the case to this file, as one page of HTML.
    #[arg(long, value_name = "FILE", requires = "case")]
    report: Option<PathBuf>,
    /// How long each way is measured.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "4s")]
    duration: Duration,
    /// Keep serving the examples until Ctrl-C.
    #[arg(long, conflicts_with = "case")]
    stay: bool,
    /// In the namespaces of a case already.
    #[arg(long, hide = true, requires = "case")]
    inside: bool,
}

/// Options of `forebay plain-proxy`.
#[derive(Args, Debug)]
pub(crate) struct PlainProxy {
    /// Address to listen at.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Idle connections that are kept to each Pod.
    #[arg(long, value_name = "N")]
    keepalive: usize,
    /// Addresses of the Pods.
    #[arg(value_name = "ADDRESS:PORT", required = true)]
    backends: Vec<SocketAddr>,
}

/// Whether a signal has asked to end.
#[derive(Clone, Debug, Default)]
struct Interrupt(Arc<AtomicBool>);

pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    ensure!(options.duration >= DURATION_MIN, "--duration is {DURATION_MIN:?} at least");
    crate::machine::descriptors_max();
    match options.case {
        Some(case) => cases::run(case, options),
        None => cost::run(options),
    }
}

/// Runs the proxy that cases have in place of Forebay, until the process ends.
pub(crate) fn plain_proxy(options: &PlainProxy) -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind(options.listen)?;
    bench::plain_proxy::serve(&listener, &options.backends, options.keepalive)?;
    Ok(ExitCode::SUCCESS)
}

impl Interrupt {
    /// Handles the signals that would end the process, so that its children end first.
    fn install() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once it is wanted.
    fn check(&self) -> anyhow::Result<()> {
        if self.is_wanted() {
            bail!("interrupted");
        }
        Ok(())
    }
}
