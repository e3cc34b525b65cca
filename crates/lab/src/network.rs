//! The network that the field cases happen in: a client, a proxy and a backend, each in a network namespace of its own.
//!
//! The kernel counts per namespace, so that what the proxy opens is told from what it accepts, and from what the others do.
//! Ports are fixed, since nobody else is in there. Must not be in here: what runs there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Result;

use crate::counters::Connections;
use crate::namespace::{Namespace, link};

/// Three namespaces, each with a cable to the two others.
#[derive(Debug)]
pub struct Network {
    /// Where load comes from.
    pub client: Namespace,
    /// Where a proxy is.
    pub proxy: Namespace,
    /// Where Pods are.
    pub backend: Namespace,
}

impl Network {
    /// The port of everything that speaks HTTP.
    pub const HTTP: u16 = 80;
    /// Where the proxy is for the client.
    pub const PROXY: SocketAddr = address([10, 91, 1, 1], Self::HTTP);
    /// Where the backend is for the client, without a proxy between.
    pub const DIRECT: SocketAddr = address([10, 91, 3, 1], Self::HTTP);
    /// How many addresses the backend has.
    pub const BACKENDS: u8 = 5;

    /// Makes it.
    pub fn set_up() -> Result<Network> {
        let [client, proxy, backend] = ["client", "proxy", "backend"].map(Namespace::create);
        let (client, proxy, backend) = (client?, proxy?, backend?);
        link((&client, &["10.91.1.2/24"]), (&proxy, &["10.91.1.1/24"]))?;
        link((&client, &["10.91.3.2/24"]), (&backend, &["10.91.3.1/24"]))?;
        let addresses: Vec<String> = Self::backends().map(|backend| format!("{}/24", backend.ip())).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        link((&proxy, &["10.91.2.1/24"]), (&backend, &addresses))?;
        Ok(Network { client, proxy, backend })
    }

    /// The addresses that the backend has for the proxy.
    pub fn backends() -> impl Iterator<Item = SocketAddr> {
        (11..11 + Self::BACKENDS).map(|last| address([10, 91, 2, last], Self::HTTP))
    }

    /// What the kernel counts in the proxy's namespace; `TIME_WAIT` towards backends.
    pub fn connections(&self) -> Result<Connections> {
        self.proxy.enter(|| Connections::read(Self::HTTP))
    }
}

const fn address(ip: [u8; 4], port: u16) -> SocketAddr {
    let [a, b, c, d] = ip;
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}
