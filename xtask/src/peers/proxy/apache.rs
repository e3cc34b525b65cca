//! Apache of Debian's unstable suite, with its event MPM as Debian configures it: a proxy with what a feature asks for.
//!
//! Must not be in here: what the other peers are told.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;

use super::{HOST, Setup, write};
use crate::peers::unstable::{self, Part};

/// Those that caches, compression and files need.
const MODULES: [&str; 10] = [
    "mpm_event",
    "authz_core",
    "filter",
    "deflate",
    "brotli",
    "cache",
    "cache_disk",
    "alias",
    "proxy",
    "proxy_http",
];
/// Whom it runs as where it is started by root, as which it serves nothing: somebody who may still read the folders of the measurement.
const NOBODY: &[&str] = &[
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
];

/// The program itself.
pub(super) fn program() -> Result<Command> {
    unstable::command(Part::Apache, "apache2")
}

pub(super) fn command(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let modules = unstable::apache_modules()?;
    let load = MODULES.map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display()));
    let load = load.concat();
    let folder = setup.folder.join("apache");
    std::fs::create_dir_all(folder.join("cache"))?;
    let config = format!(
        "ServerRoot {folder}\nDefaultRuntimeDir {folder}\nPidFile apache.pid\nErrorLog error.log\nListen {address}\n\
         ServerName {HOST}\n{load}KeepAlive on\nMaxKeepAliveRequests 0\nKeepAliveTimeout 75\n{feature}\
         CacheRoot {folder}/cache\nProxyPreserveHost on\nProxyPass / http://{backend}/\n",
        folder = folder.display(),
        feature = setup.feature.apache,
        backend = setup.upstreams[0],
    );
    let file = write(setup, "apache.conf", &config)?;
    let mut apache = program()?;
    apache.arg("-f").arg(file).arg("-DFOREGROUND");
    if !rustix::process::geteuid().is_root() {
        return Ok(apache);
    }
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(apache.get_program()).args(apache.get_args());
    Ok(command)
}
