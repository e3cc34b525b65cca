//! The name server, which may fall silent.
//!
//! Must not be in here: the format of DNS (`testkit::serve_names_while`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::mount_bind;

/// Name of the Service outside of the cluster.
pub(crate) const NAME: &str = "outside.soak.test";

/// Has this mount namespace ask a name server of its own. To be called inside.
pub(crate) fn ask(server: IpAddr, folder: &Path) -> Result<()> {
    let file = folder.join("resolv.conf");
    std::fs::write(&file, format!("nameserver {server}\noptions timeout:1 attempts:1\n"))?;
    mount_bind(&file, "/etc/resolv.conf").context("cannot mount over /etc/resolv.conf")
}

/// The names that there are.
pub(crate) fn names(address: Ipv4Addr) -> BTreeMap<String, Vec<Ipv4Addr>> {
    BTreeMap::from([(NAME.to_owned(), vec![address])])
}
