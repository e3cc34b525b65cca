//! Named network namespaces, and the cables between them.
//!
//! Must not be in here: addresses and parameters of a case.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::route;

/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";
const LOOPBACK: &str = "lo";

/// A network namespace, which ends with this value and the programs in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

/// Returns the thread to its own namespace, even if the work panics.
struct Return(File);

impl Namespace {
    /// Creates a namespace with its loopback interface enabled.
    pub fn create(name: &str) -> Result<Namespace> {
        // A separate thread creates the namespace and ends, so that no other thread changes its own.
        let made = thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            set_loopback_up()?;
            Ok(File::open(OWN)?)
        });
        let made = made.join().unwrap_or_else(|panic| resume_unwind(panic));
        let file = made.with_context(|| format!("cannot make a network namespace for {name}"))?;
        Ok(Namespace { name: name.into(), file })
    }

    /// Runs a function on this thread inside the namespace. Programs and threads that it starts stay there.
    pub fn enter<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _return = Return(File::open(OWN)?);
        move_to(&self.file).with_context(|| format!("cannot enter namespace {}", self.name))?;
        work()
    }

    /// A path by which other processes find it while this value is there.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// An end of a cable in this namespace, with these addresses and their prefix lengths (`10.0.0.1/24`).
    pub fn end<'a>(&'a self, addresses: &'a [&'a str]) -> CableEnd<'a> {
        CableEnd { namespace: self, addresses }
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

/// One end of a cable, made by [`Namespace::end`].
#[derive(Clone, Copy, Debug)]
pub struct CableEnd<'a> {
    namespace: &'a Namespace,
    addresses: &'a [&'a str],
}

/// Connects two namespaces by a cable; each end is named after the other's namespace.
pub fn link(left: CableEnd<'_>, right: CableEnd<'_>) -> Result<()> {
    let (a, b) = (&left.namespace.name, &right.namespace.name);
    let far = right.namespace.file.as_fd();
    left.namespace
        .enter(|| Ok(route::add_cable(b, a, far)?))
        .with_context(|| format!("no cable from {a} to {b}"))?;
    for (end, device) in [(left, b), (right, a)] {
        end.namespace.enter(|| {
            for address in end.addresses {
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

/// Enables the loopback interface of this thread's namespace.
pub(crate) fn set_loopback_up() -> Result<()> {
    route::set_up(LOOPBACK).context("cannot switch the loopback interface on")
}

fn move_to(namespace: &File) -> Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
