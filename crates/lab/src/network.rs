//! The network of the field cases: a client, a proxy and a backend, each in a network namespace of its own.
//!
//! The kernel counts per namespace, so that connections that the proxy opens are distinguished from those
//! that it accepts, and from those of others. Ports are fixed, since nothing else runs there. Must not be in
//! here: the programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Result;

use crate::counters::Connections;
use crate::namespace::{Namespace, link};

/// Three namespaces, each with a cable to the two others.
#[derive(Debug)]
pub struct Network {
    /// Namespace of the load generator.
    pub client: Namespace,
    /// Namespace of the proxy.
    pub proxy: Namespace,
    /// Namespace of the Pods.
    pub backend: Namespace,
}

impl Network {
    /// The port of everything that speaks HTTP.
    pub const HTTP: u16 = 80;
    /// Address of the proxy for the client.
    pub const PROXY: SocketAddr = address([10, 91, 1, 1], Self::HTTP);
    /// Address of the backend for the client, without a proxy in between.
    pub const DIRECT: SocketAddr = address([10, 91, 3, 1], Self::HTTP);
    /// Number of addresses of the backend.
    pub const BACKENDS: u8 = 5;

    /// Creates the namespaces and cables.
    pub fn set_up() -> Result<Network> {
        let [client, proxy, backend] = ["client", "proxy", "backend"].map(Namespace::create);
        let client = client?;
        let proxy = proxy?;
        let backend = backend?;
        link(client.end(&["10.91.1.2/24"]), proxy.end(&["10.91.1.1/24"]))?;
        link(client.end(&["10.91.3.2/24"]), backend.end(&["10.91.3.1/24"]))?;
        let addresses: Vec<String> = Self::backends().map(|backend| format!("{}/24", backend.ip())).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        link(proxy.end(&["10.91.2.1/24"]), backend.end(&addresses))?;
        Ok(Network { client, proxy, backend })
    }

    /// The addresses that the backend has for the proxy.
    pub fn backends() -> impl Iterator<Item = SocketAddr> {
        (11..11 + Self::BACKENDS).map(|last| address([10, 91, 2, last], Self::HTTP))
    }

    /// The kernel's counters in the proxy's namespace; `TIME_WAIT` counts connections to backends.
    pub fn connections(&self) -> Result<Connections> {
        self.proxy.enter(|| Connections::read(Self::HTTP))
    }
}

const fn address(ip: [u8; 4], port: u16) -> SocketAddr {
    let [a, b, c, d] = ip;
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}
