//! Sources of objects for commands that inspect them: files, standard input, or a cluster.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use control::{Connection, UserAddress};

use super::ApiServer;

/// The manifests that a command reads, named as kubectl names them.
#[derive(Args, Debug)]
pub(crate) struct Manifests {
    /// Files and folders with Kubernetes manifests, in place of a cluster; `-` is standard input.
    #[arg(value_name = "PATH", conflicts_with_all = ["kubeconfig", "apiserver_host"])]
    pub(crate) paths: Vec<PathBuf>,
    /// The same, as kubectl and `serve` have them. May be given several times.
    #[arg(short = 'f', long, visible_alias = "filename", value_name = "PATH", conflicts_with_all = ["kubeconfig", "apiserver_host"])]
    pub(crate) manifests: Vec<PathBuf>,
}

/// The source of the objects.
#[derive(Debug)]
pub(crate) enum Source {
    /// Files of manifests.
    Files {
        /// Files and folders.
        paths: Vec<PathBuf>,
        /// The text of standard input, if it is among them.
        stdin: Option<String>,
    },
    /// The objects of a cluster.
    Cluster,
}

impl Manifests {
    /// Whether no file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.manifests.is_empty()
    }

    /// The source of the objects; none where neither arguments nor the variable KUBECONFIG name one.
    ///
    /// # Errors
    ///
    /// Standard input cannot be read.
    pub(crate) fn source(self, api_server: &ApiServer) -> anyhow::Result<Option<Source>> {
        let (named, paths): (Vec<_>, Vec<_>) =
            self.paths.into_iter().chain(self.manifests).partition(|path| path == Path::new("-"));
        if named.is_empty() && paths.is_empty() {
            return Ok(api_server.is_named().then_some(Source::Cluster));
        }
        let stdin = (!named.is_empty()).then(read_stdin).transpose()?;
        Ok(Some(Source::Files { paths, stdin }))
    }
}

/// Reads standard input to its end.
///
/// # Errors
/// When it cannot be read, or is not UTF-8.
pub(crate) fn read_stdin() -> anyhow::Result<String> {
    std::io::read_to_string(std::io::stdin().lock()).context("cannot read standard input")
}

impl ApiServer {
    /// Whether a cluster is named, by arguments or by the variable KUBECONFIG.
    pub(crate) fn is_named(&self) -> bool {
        self.is_given() || env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
    }

    /// Whether arguments name a cluster.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.apiserver_host.is_some()
    }

    /// A connection to the cluster that is named.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read or used.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        if self.is_given() {
            return Ok(Connection::open(&self.address()).await?);
        }
        Ok(Connection::of_user(&UserAddress::default()).await?)
    }
}
