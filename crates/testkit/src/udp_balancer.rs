//! A load balancer of UDP between one client and servers: each server sees an address of the balancer, and
//! the client sees the balancer's alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{JoinHandle, JoinSet};

use crate::runtime::{driver, wait};

/// A balancer with one client. It ends with this value.
#[derive(Debug)]
pub struct UdpBalancer {
    address: SocketAddr,
    moves: UnboundedSender<SocketAddr>,
    shared: Arc<Shared>,
    running: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    front: UdpSocket,
    client: Mutex<Option<SocketAddr>>,
    /// Packets of the client that may pass.
    packets_max: u64,
    packets: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
    /// Packets to the client that are lost from now on.
    losing: AtomicU64,
}

impl UdpBalancer {
    /// Leads to this server.
    pub fn new(server: SocketAddr) -> Self {
        Self::passing(server, u64::MAX)
    }

    /// The same for the first packets of the client; further ones are lost.
    pub fn passing(server: SocketAddr, packets_max: u64) -> Self {
        let front = wait("a socket", UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let address = front.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            front,
            client: Mutex::default(),
            packets_max,
            packets: AtomicU64::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
            losing: AtomicU64::new(0),
        });
        let (moves, orders) = mpsc::unbounded_channel();
        let running = driver().spawn(run(Arc::clone(&shared), orders));
        let balancer = Self { address, moves, shared, running };
        balancer.move_to(server);
        balancer
    }

    /// Where its client sends to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends further packets of the client from another port, and to this server. Packets from before may
    /// still be answered.
    pub fn move_to(&self, server: SocketAddr) {
        self.moves.send(server).expect("it runs");
    }

    /// Loses the next packets to the client.
    pub fn lose(&self, packets: u64) {
        self.shared.losing.store(packets, Ordering::SeqCst);
    }

    /// The bytes that the servers have got.
    pub fn bytes_to_server(&self) -> u64 {
        self.shared.to_server.load(Ordering::SeqCst)
    }

    /// The bytes that they have sent.
    pub fn bytes_to_client(&self) -> u64 {
        self.shared.to_client.load(Ordering::SeqCst)
    }
}

impl Drop for UdpBalancer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn run(shared: Arc<Shared>, mut orders: UnboundedReceiver<SocketAddr>) {
    let mut back: Option<Arc<UdpSocket>> = None;
    let mut answering = JoinSet::new();
    let mut packet = vec![0; 65_535];
    loop {
        tokio::select! {
            biased;
            Some(server) = orders.recv() => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
                // A connected socket takes packets from no other address, as a client does.
                socket.connect(server).await.expect("a route");
                let socket = Arc::new(socket);
                answering.spawn(answer(Arc::clone(&shared), Arc::clone(&socket)));
                back = Some(socket);
            }
            Ok((len, from)) = shared.front.recv_from(&mut packet) => {
                *shared.client.lock().expect("nobody panics") = Some(from);
                if shared.packets.fetch_add(1, Ordering::SeqCst) < shared.packets_max
                    && let Some(back) = &back
                {
                    shared.to_server.fetch_add(len as u64, Ordering::SeqCst);
                    // A server that is gone refuses it.
                    let _ = back.send(&packet[..len]).await;
                }
            }
        }
    }
}

async fn answer(shared: Arc<Shared>, back: Arc<UdpSocket>) {
    let mut packet = vec![0; 65_535];
    loop {
        let Ok(len) = back.recv(&mut packet).await else { continue };
        shared.to_client.fetch_add(len as u64, Ordering::SeqCst);
        let lose = |losing: u64| losing.checked_sub(1);
        if shared.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok() {
            continue;
        }
        let client = *shared.client.lock().expect("nobody panics");
        if let Some(client) = client {
            let _ = shared.front.send_to(&packet[..len], client).await;
        }
    }
}
