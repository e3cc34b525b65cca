//! `cargo xtask overload`: services that are asked for more than they can do, and clients that ask for more than their part, in
//! namespaces and cgroups of its own.
//!
//! Must not be in here: how a situation is made.

pub(crate) mod endpoint;
mod load;
mod records;
mod rows;
mod site;
mod slow;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lab::{inside, set_parameter};

use crate::interrupt::Interrupt;
use crate::machine::{self, Cpus};
use crate::measured::{self, Goals, Measured, Section};
use crate::peers::page::Block;
use crate::peers::{forebay_of, unstable};
use rows::ROWS;
use site::{Peer, Site};

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
    without: Vec<String>,
    /// How long the main part of a situation lasts.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: u16,
    /// The profile that Forebay was built with.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Put the figures of what is measured, with machine and command, into docs/figures.md; others stay there.
    #[arg(long)]
    write: bool,
    /// The namespaces have been entered.
    #[arg(long, hide = true)]
    inside: bool,
}

/// A situation.
struct Row {
    name: &'static str,
    what: &'static str,
    peers: &'static [Peer],
    run: fn(&Site, &[Peer]) -> Result<Findings>,
}

/// What came of a situation.
#[derive(Default)]
struct Findings {
    headings: Vec<&'static str>,
    rows: Vec<(String, Vec<String>)>,
    goals: Goals,
}

impl Measured for Row {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

impl Findings {
    fn with(headings: &[&'static str]) -> Findings {
        Findings { headings: headings.to_vec(), ..Findings::default() }
    }

    fn row(&mut self, name: impl Into<String>, figures: Vec<String>) {
        debug_assert_eq!(figures.len(), self.headings.len());
        self.rows.push((name.into(), figures));
    }

    fn goal(&mut self, what: impl Into<String>, met: bool) {
        self.goals.push((what.into(), met));
    }

    fn section(self, source: String) -> Section {
        let headings = [String::new()].into_iter().chain(self.headings.into_iter().map(Into::into));
        let rows = self.rows.into_iter().map(|(name, figures)| [name].into_iter().chain(figures).collect());
        Section { table: [headings.collect()].into_iter().chain(rows).collect(), goals: self.goals, source }
    }
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (rows, peers) = (measured::wanted(ROWS, &arguments.only)?, arguments.peers()?);
    if !arguments.inside {
        forebay_of(&arguments.profile)?;
        let is_needed =
            |row: &&Row| row.peers.iter().any(|peer| peer.is_of_unstable() && peers.contains(peer));
        if rows.iter().any(is_needed) {
            unstable::prepare(unstable::Part::Proxies)
                .context("or leave them out: --without nginx haproxy")?;
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
    measured::run(&rows, &site.interrupt, arguments.write.then(block).as_ref(), |row| {
        let of_row: Vec<_> = row.peers.iter().filter(|peer| peers.contains(peer)).copied().collect();
        Ok((row.run)(&site, &of_row)?.section(arguments.source(row)))
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
    Block { command: NAME, groups: vec![(TITLE, ROWS.iter().map(|row| row.name).collect())] }
}

impl Arguments {
    fn peers(&self) -> Result<Vec<Peer>> {
        if let Some(unknown) =
            self.without.iter().find(|name| !Peer::ALL.iter().any(|peer| peer.name() == **name))
        {
            bail!("there is no peer {unknown}; there are: {}", Peer::ALL.map(Peer::name).join(", "));
        }
        let is_left_out = |peer: &Peer| self.without.iter().any(|name| name == peer.name());
        Ok(Peer::ALL.into_iter().filter(|peer| !is_left_out(peer)).collect())
    }

    /// The command that measures it alone, and the machine.
    fn source(&self, row: &Row) -> String {
        let without = match self.without.as_slice() {
            [] => String::new(),
            peers => format!(" --without {}", peers.join(" ")),
        };
        let profile =
            if self.profile == "release" { String::new() } else { format!(" --profile {}", self.profile) };
        let (name, seconds) = (row.name, self.seconds);
        format!(
            "`cargo xtask {NAME} --only {name}{without} --seconds {seconds}{profile}`; {}",
            machine::describe()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_a_row_for_each_peer() {
        let mut findings = Findings::with(&["goodput"]);
        findings.row("nginx", vec!["0.10".into()]);
        findings.row("forebay", vec!["0.98".into()]);
        findings.goal("goodput at least 0.95", true);
        let text = findings.section("here".into()).text(&ROWS[0]);
        assert!(text.starts_with("#### rush\n\n"), "{text}");
        assert!(text.contains("| forebay |    0.98 |\n"), "{text}");
        assert!(text.ends_with("- goodput at least 0.95: met\n- here\n"), "{text}");
    }

    #[test]
    fn situations_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
