//! Network namespaces with names, and the cables between them.
//!
//! Must not be in here: addresses and parameters of a case.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::route;

/// The namespace of the thread that looks.
const OWN: &str = "/proc/thread-self/ns/net";
const LOOPBACK: &str = "lo";

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
        // A thread of its own makes it and goes, so that nobody else has been moved.
        let made = thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            set_loopback_up()?;
            Ok(File::open(OWN)?)
        });
        let made = made.join().unwrap_or_else(|panic| resume_unwind(panic));
        let file = made.with_context(|| format!("cannot make a network namespace for {name}"))?;
        Ok(Namespace { name: name.into(), file })
    }

    /// Does something on this thread while it is in the namespace. Programs and threads that are started meanwhile stay there.
    pub fn enter<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _return = Return(File::open(OWN)?);
        move_to(&self.file).with_context(|| format!("cannot enter namespace {}", self.name))?;
        work()
    }

    /// Sets a kernel parameter by its path below `/proc/sys/net`.
    pub fn set(&self, parameter: &str, value: &str) -> Result<()> {
        self.enter(|| set_parameter(parameter, value))
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
    let far = right.0.file.as_fd();
    left.0.enter(|| Ok(route::add_cable(b, a, far)?)).with_context(|| format!("no cable from {a} to {b}"))?;
    for ((own, addresses), device) in [(left, b), (right, a)] {
        own.enter(|| {
            for address in addresses {
                add_address(device, address).with_context(|| format!("cannot give {device} {address}"))?;
            }
            Ok(route::set_up(device)?)
        })?;
    }
    Ok(())
}

fn add_address(device: &str, address: &str) -> Result<()> {
    let (address, bits) = address.split_once('/').context("no prefix length")?;
    Ok(route::add_address(device, address.parse::<Ipv4Addr>()?, bits.parse()?)?)
}

/// Switches the loopback interface of this thread's namespace on.
pub(crate) fn set_loopback_up() -> Result<()> {
    route::set_up(LOOPBACK).context("cannot switch the loopback interface on")
}

fn move_to(namespace: &File) -> Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
