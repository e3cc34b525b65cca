//! CPUs and a folder for all situations, and the proxies as one would configure them for a service that can
//! be overloaded.
//!
//! Must not be in here: loads and figures.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::json;
use strum::IntoStaticStr;
use tempfile::TempDir;

use crate::ask;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::machine::Cpus;
use crate::peers;
use crate::peers::Ingress;
use crate::proxies::Definition;
use crate::template;

pub(super) use crate::peers::HOST;

/// Names and values.
pub(super) type Pairs = BTreeMap<String, String>;

/// The entries of `overload/proxies.yaml`.
static DEFINITIONS: LazyLock<BTreeMap<String, Definition>> =
    LazyLock::new(|| template::data("overload/proxies.yaml").expect("a test reads the file"));

/// The resources of all situations.
pub(super) struct Site {
    pub(super) interrupt: Interrupt,
    pub(super) cpus: Cpus,
    pub(super) folder: TempDir,
    /// How long the main part of a situation lasts.
    pub(super) time: Duration,
    /// The profile that the binary was built with.
    pub(super) profile: String,
}

/// A proxy between the load and the endpoints. The order is that of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, IntoStaticStr, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Peer {
    Nginx,
    Haproxy,
    /// Without limits, queues, ejection and shedding.
    ForebayOff,
    /// With `forebay.io/overload: enforce`.
    Forebay,
}

/// The task of a proxy.
pub(super) struct Setup {
    pub(super) endpoints: Vec<SocketAddr>,
    /// The concurrency of an endpoint: a configuration of `HAProxy` has it as a number.
    pub(super) parallel: usize,
    /// Hosts, each an Ingress with these annotations of Forebay's beside those of the peer.
    pub(super) hosts: BTreeMap<String, Pairs>,
    /// Keys of Forebay's `ConfigMap`.
    pub(super) settings: Pairs,
    /// Another Service of Forebay's, and its endpoints.
    pub(super) service: Option<(&'static str, Vec<SocketAddr>)>,
    /// Further arguments of Forebay.
    pub(super) arguments: Vec<String>,
}

/// A proxy that listens.
pub(super) struct Proxy {
    pub(super) program: Program,
    pub(super) address: SocketAddr,
    /// Forebay's admin port; nothing listens there for others.
    admin: SocketAddr,
}

impl Proxy {
    /// The sum of a metric of Forebay's.
    pub(super) fn metric(&self, name: &str) -> Result<f64> {
        ask::metric(self.admin, name)?.with_context(|| format!("there is no metric {name}"))
    }
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        self.into()
    }

    /// Where its program comes from.
    pub(super) fn definition(self) -> &'static Definition {
        match self {
            Peer::Nginx | Peer::Haproxy => &DEFINITIONS[self.name()],
            Peer::ForebayOff | Peer::Forebay => peers::Peer::Forebay.definition(),
        }
    }

    /// Starts it, and waits until it listens.
    pub(super) fn start(self, site: &Site, setup: &Setup) -> Result<Proxy> {
        self.start_as(site, setup, self.name(), free_address()?)
    }

    /// The same under a name of its own, for several at a time.
    pub(super) fn start_as(
        self,
        site: &Site,
        setup: &Setup,
        name: &str,
        address: SocketAddr,
    ) -> Result<Proxy> {
        let admin = free_address()?;
        let mut groups = BTreeMap::from([("web", &setup.endpoints)]);
        groups.extend(setup.service.iter().map(|(name, endpoints)| (*name, endpoints)));
        let context = json!({
            "address": address,
            "admin": admin,
            "port": address.port(),
            "host": HOST,
            "clients": "clear",
            "upstream": "http1",
            "workers": 1,
            "groups": groups,
            "parallel": setup.parallel,
            "profile": site.profile,
            "folder": site.folder.path(),
            "settings": setup.settings(self),
            "ingresses": setup.ingresses(),
            "feature": {"forebay": {"objects": "", "arguments": setup.arguments}},
        });
        let command = self.definition().command(&context, name, site.folder.path())?;
        let mut program = Program::start(name, command, &site.cpus.proxy, site.folder.path())?;
        program.wait_for(address, &site.interrupt)?;
        Ok(Proxy { program, address, admin })
    }
}

impl Setup {
    /// One host, which goes to these endpoints.
    pub(super) fn to(endpoints: &[SocketAddr], parallel: usize) -> Setup {
        Setup {
            endpoints: endpoints.to_vec(),
            parallel,
            hosts: [(HOST.to_owned(), Pairs::new())].into(),
            settings: Pairs::new(),
            service: None,
            arguments: Vec::new(),
        }
    }

    fn settings(&self, peer: Peer) -> Pairs {
        let mode = if peer == Peer::Forebay { "enforce" } else { "off" };
        // As nginx has it here: a timeout may not last longer than the client waits.
        let own =
            [("disable-access-log", "true"), ("proxy-connect-timeout", "1"), ("forebay-overload", mode)];
        own.map(|(key, value)| (key.into(), value.into())).into_iter().chain(self.settings.clone()).collect()
    }

    fn ingresses(&self) -> Vec<Ingress> {
        let ingress = |(number, (host, annotations)): (usize, (&String, &Pairs))| Ingress {
            name: format!("web-{number}"),
            host: host.clone(),
            service: "web".into(),
            annotations: annotations.clone(),
            paths: vec!["/".into()],
        };
        self.hosts.iter().enumerate().map(ingress).collect()
    }
}

/// A file of the situation's, gone when all are over.
pub(super) fn write(site: &Site, name: &str, text: &str) -> Result<PathBuf> {
    let path = site.folder.path().join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
