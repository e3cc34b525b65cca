//! `cargo xtask overload`: services that are asked for more than they can do, and clients that ask for more
//! than their part, in namespaces and cgroups of its own.
//!
//! Must not be in here: how a situation is made.

mod abusive;
mod course;
pub(crate) mod endpoint;
mod load;
mod records;
mod shared_limit;
mod site;
mod situation;
mod slow;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum as _;
use lab::{inside, set_parameter};

use crate::interrupt::Interrupt;
use crate::machine::{self, Cpus};
use crate::measured::page::Block;
use crate::measured::{self, Measured};
use crate::proxies::forebay_of;
use site::{Peer, Site};
use situation::{Several, Situation, situations};

const NAME: &str = "overload";
const TITLE: &str = "Overload";

/// Options of `cargo xtask overload`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these situations.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// All but these peers.
    #[arg(long, num_args = 1.., value_name = "PEER")]
    without: Vec<Peer>,
    /// How long the main part of a situation lasts.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
    /// The profile that Forebay was built with.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Put the figures of what is measured, with machine and command, into docs/figures.md; others stay
    /// there.
    #[arg(long)]
    write: bool,
    /// The namespaces have been entered.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let wanted = measured::wanted(situations(), &arguments.only)?;
    let peers: Vec<_> =
        Peer::value_variants().iter().filter(|peer| !arguments.without.contains(peer)).collect();
    if !arguments.inside {
        forebay_of(&arguments.profile)?;
        for peer in peers.iter().filter(|peer| wanted.iter().any(|one| one.peers.contains(peer))) {
            peer.definition().prepare().context("or leave them out: --without nginx haproxy")?;
        }
        let ours: Vec<OsString> = env::args_os().skip(1).chain(["--inside".into()]).collect();
        return inside::enter(&ours);
    }
    prepare()?;
    let site = Site {
        interrupt: Interrupt::install()?,
        cpus: Cpus::choose()?,
        folder: tempfile::tempdir()?,
        time: Duration::from_secs(arguments.seconds.into()),
        profile: arguments.profile.clone(),
    };
    let write = arguments.write.then(block);
    let source = |situation: &Situation| arguments.source(situation);
    measured::run(&wanted, &site.interrupt, write.as_ref(), source, |situation| {
        let peers: Vec<_> = situation.peers.iter().filter(|peer| peers.contains(peer)).copied().collect();
        match situation.several {
            Some(Several::Abusive) => abusive::run(&site, situation, &peers),
            Some(Several::SharedLimit) => shared_limit::run(&site, &peers),
            None => course::run(&site, situation, &peers),
        }
    })
}

/// A network of its own, whose queues and ports are not what is measured.
fn prepare() -> Result<()> {
    inside::prepare()?;
    machine::raise_descriptor_limit();
    set_parameter("core/somaxconn", "65535")?;
    set_parameter("ipv4/tcp_max_syn_backlog", "65535")?;
    set_parameter("ipv4/ip_local_port_range", "10000 65000")
}

fn block() -> Block {
    Block { command: NAME, groups: vec![(TITLE, situations().iter().map(Measured::name).collect())] }
}

impl Arguments {
    /// The command that measures it alone, and the machine.
    fn source(&self, situation: &Situation) -> String {
        let without = measured::without(self.without.iter().map(|peer| peer.name()));
        let profile =
            if self.profile == "release" { String::new() } else { format!(" --profile {}", self.profile) };
        let (name, seconds) = (situation.name(), self.seconds);
        format!(
            "`cargo xtask {NAME} --only {name}{without} --seconds {seconds}{profile}`; {}",
            machine::describe()
        )
    }
}
