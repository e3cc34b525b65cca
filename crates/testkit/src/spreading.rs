//! A load balancer without memory, of TCP and UDP at one port: a hash of the client's address selects the
//! server, for each connection of TCP and for each packet of UDP. When the servers change, packets of
//! connections over QUIC come to other servers than before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, JoinSet};

use crate::runtime::{driver, wait};

/// A balancer. It ends with this value.
#[derive(Debug)]
pub struct SpreadingBalancer {
    address: SocketAddr,
    servers: Arc<Servers>,
    running: [JoinHandle<()>; 2],
}

#[derive(Debug, Default)]
struct Servers(Mutex<Vec<SocketAddr>>);

/// Attempts to find a port that is free for both protocols.
const PORTS_TRIED_MAX: usize = 100;

impl SpreadingBalancer {
    /// Leads to these servers.
    pub fn new(servers: Vec<SocketAddr>) -> Self {
        let mut tries = (0..PORTS_TRIED_MAX).filter_map(|_| wait("a port", bind()).ok());
        let (tcp, udp) = tries.next().expect("a port that is free for TCP and UDP");
        let address = udp.local_addr().expect("it is bound");
        let servers = Arc::new(Servers(Mutex::new(servers)));
        let running = [
            driver().spawn(spread_connections(tcp, Arc::clone(&servers))),
            driver().spawn(spread_packets(Arc::new(udp), Arc::clone(&servers))),
        ];
        Self { address, servers, running }
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads to these servers from now on. Connections over TCP stay where they are.
    pub fn set(&self, servers: Vec<SocketAddr>) {
        *self.servers.0.lock().expect("nobody panics") = servers;
    }
}

impl Drop for SpreadingBalancer {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

impl Servers {
    /// The server for a client; none while there are no servers.
    fn of(&self, client: SocketAddr) -> Option<SocketAddr> {
        let servers = self.0.lock().expect("nobody panics");
        let mut hasher = DefaultHasher::new();
        client.hash(&mut hasher);
        let at = hasher.finish().checked_rem(servers.len() as u64)?;
        servers.get(at as usize).copied()
    }
}

async fn bind() -> io::Result<(TcpListener, UdpSocket)> {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let udp = UdpSocket::bind(tcp.local_addr()?).await?;
    Ok((tcp, udp))
}

async fn spread_connections(listener: TcpListener, servers: Arc<Servers>) {
    let mut passing = JoinSet::new();
    loop {
        let Ok((mut client, from)) = listener.accept().await else { continue };
        let Some(server) = servers.of(from) else { continue };
        passing.spawn(async move {
            // A client whose server cannot be reached, or has ended, sees the end of its connection.
            if let Ok(mut server) = TcpStream::connect(server).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

async fn spread_packets(front: Arc<UdpSocket>, servers: Arc<Servers>) {
    let mut backs = HashMap::new();
    let mut answering = JoinSet::new();
    let mut packet = vec![0; 65_535];
    loop {
        let Ok((len, client)) = front.recv_from(&mut packet).await else { continue };
        let Some(server) = servers.of(client) else { continue };
        let back = if let Some(back) = backs.get(&(client, server)) {
            Arc::clone(back)
        } else {
            let back = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a free port");
            back.connect(server).await.expect("a route");
            let back = Arc::new(back);
            answering.spawn(answer(Arc::clone(&front), Arc::clone(&back), client));
            backs.insert((client, server), Arc::clone(&back));
            back
        };
        // A server that is gone refuses it, and the packet is lost.
        let _ = back.send(&packet[..len]).await;
    }
}

async fn answer(front: Arc<UdpSocket>, back: Arc<UdpSocket>, client: SocketAddr) {
    let mut packet = vec![0; 65_535];
    loop {
        let Ok(len) = back.recv(&mut packet).await else { continue };
        let _ = front.send_to(&packet[..len], client).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_one_server_until_the_servers_change() {
        let server = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let servers = Servers(Mutex::new((1..4).map(server).collect()));
        let clients: Vec<_> = (40_000..40_100).map(server).collect();
        let of_all = || clients.iter().map(|client| servers.of(*client)).collect::<Vec<_>>();
        let before = of_all();
        assert_eq!(of_all(), before);
        for port in 1..4 {
            assert!(before.contains(&Some(server(port))));
        }
        servers.0.lock().unwrap().remove(0);
        assert_ne!(of_all(), before);
        servers.0.lock().unwrap().clear();
        assert!(of_all().iter().all(Option::is_none));
    }
}
