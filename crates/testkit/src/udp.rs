//! An upstream that sends every datagram back.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A UDP server that returns datagrams. It listens until it is dropped.
#[derive(Debug)]
pub struct UdpEcho {
    address: SocketAddr,
    shared: Arc<Shared>,
    echoing: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    datagrams: AtomicUsize,
    peers: Mutex<Vec<SocketAddr>>,
}

impl Default for UdpEcho {
    fn default() -> Self {
        Self::answering(1)
    }
}

impl UdpEcho {
    /// Sends every datagram back so many times.
    pub fn answering(times: usize) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let echoing = Some(std::thread::spawn(move || for_thread.echo(&socket, times)));
        Self { address, shared, echoing }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Datagrams so far.
    pub fn datagrams(&self) -> usize {
        self.shared.datagrams.load(Ordering::SeqCst)
    }

    /// From where they came, each once, in order of appearance.
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.shared.peers.lock().expect("no thread panics with it").clone()
    }
}

impl Drop for UdpEcho {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(&[], self.address);
        }
        if let Some(thread) = self.echoing.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn echo(&self, socket: &UdpSocket, times: usize) {
        let mut datagram = vec![0; 65_536];
        while let Ok((len, peer)) = socket.recv_from(&mut datagram) {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            self.datagrams.fetch_add(1, Ordering::SeqCst);
            let mut peers = self.peers.lock().expect("no thread panics with it");
            if !peers.contains(&peer) {
                peers.push(peer);
            }
            drop(peers);
            for _ in 0..times {
                // A peer that is gone gets nothing.
                let _ = socket.send_to(&datagram[..len], peer);
            }
        }
    }
}
