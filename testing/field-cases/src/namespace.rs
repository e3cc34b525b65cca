//! Network namespaces with names, and the cables between them.
//!
//! Must not be in here: addresses and parameters of a case.

use std::fs::{self, File};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::inside::ip;

/// A network namespace, which goes with this value and with what runs in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

/// Puts the thread back where it came from, even when the work there panics.
struct Return(File);

impl Namespace {
    /// Makes one, with its loopback interface up.
    pub fn create(name: &str) -> Result<Namespace> {
        ip(&format!("netns add {name}"))?;
        let file = File::open(format!("/run/netns/{name}"))?;
        let namespace = Namespace { name: name.into(), file };
        ip(&format!("-n {name} link set lo up"))?;
        Ok(namespace)
    }

    /// Does something on this thread while it is in the namespace. Programs and threads that are started meanwhile stay there.
    pub fn enter<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _return = Return(File::open("/proc/thread-self/ns/net")?);
        move_to(&self.file).with_context(|| format!("cannot enter namespace {}", self.name))?;
        work()
    }

    /// Sets a kernel parameter by its path below `/proc/sys/net`.
    pub fn set(&self, parameter: &str, value: &str) -> Result<()> {
        self.enter(|| set_parameter(parameter, value))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&format!("netns del {}", self.name)) {
            eprintln!("warning: {error:#}");
        }
    }
}

impl Drop for Return {
    fn drop(&mut self) {
        move_to(&self.0).expect("a thread may go back to where it was");
    }
}

/// Sets a kernel parameter of this thread's namespace by its path below `/proc/sys/net`.
pub fn set_parameter(parameter: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/net/{parameter}");
    fs::write(&path, value).with_context(|| format!("cannot write {path}"))
}

/// Lays a cable between two namespaces; each end is named after the other's namespace, and has these addresses with their
/// prefix length (`10.0.0.1/24`).
pub fn link(left: (&Namespace, &[&str]), right: (&Namespace, &[&str])) -> Result<()> {
    let (a, b) = (&left.0.name, &right.0.name);
    ip(&format!("link add {b} netns {a} type veth peer name {a} netns {b}"))?;
    for ((own, addresses), device) in [(left, b), (right, a)] {
        let own = &own.name;
        for address in addresses {
            ip(&format!("-n {own} address add {address} dev {device}"))?;
        }
        ip(&format!("-n {own} link set {device} up"))?;
    }
    Ok(())
}

fn move_to(namespace: &File) -> Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
