//! A relay between a client of UDP and a server, which keeps what the client sends and can hold back what the
//! server answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A relay for one client. Its threads end with it.
#[derive(Debug)]
pub struct UdpRelay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    front: UdpSocket,
    back: UdpSocket,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    client: Option<SocketAddr>,
    /// Datagrams of the client.
    seen: Vec<Vec<u8>>,
    /// Datagrams of the server that are held back.
    held: Vec<Vec<u8>>,
    is_holding: bool,
    has_ended: bool,
}

/// The loopback address of the same family.
fn loopback(address: SocketAddr) -> IpAddr {
    if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// The longest datagram.
const DATAGRAM_BYTES: usize = 64 << 10;

impl UdpRelay {
    /// A relay to a server. With `is_holding` nothing comes back before [`release`](Self::release).
    pub fn new(server: SocketAddr, is_holding: bool) -> Self {
        let bind = || UdpSocket::bind((loopback(server), 0)).expect("a free port");
        let shared = Arc::new(Shared {
            front: bind(),
            back: bind(),
            state: Mutex::new(State { is_holding, ..State::default() }),
        });
        shared.back.connect(server).expect("an address of loopback");
        let address = shared.front.local_addr().expect("it is bound");
        let (forth, back) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads =
            vec![std::thread::spawn(move || forth.forward()), std::thread::spawn(move || back.backward())];
        Self { address, shared, threads }
    }

    /// The address for the client.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the client what was held back, and holds back no more.
    pub fn release(&self) {
        let mut state = self.shared.state();
        state.is_holding = false;
        let held = std::mem::take(&mut state.held);
        for datagram in &held {
            self.shared.to_client(&state, datagram);
        }
    }

    /// The datagrams that the client has sent.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.shared.state().seen.clone()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_client(&self, state: &State, datagram: &[u8]) {
        if let Some(client) = state.client {
            // One that is lost is sent again.
            let _ = self.front.send_to(datagram, client);
        }
    }

    fn forward(&self) {
        let mut space = vec![0; DATAGRAM_BYTES];
        loop {
            let received = self.front.recv_from(&mut space);
            let mut state = self.state();
            if state.has_ended {
                return;
            }
            let Ok((len, client)) = received else { continue };
            state.client = Some(client);
            state.seen.push(space[..len].to_vec());
            let _ = self.back.send(&space[..len]);
        }
    }

    fn backward(&self) {
        let mut space = vec![0; DATAGRAM_BYTES];
        loop {
            let received = self.back.recv(&mut space);
            let mut state = self.state();
            if state.has_ended {
                return;
            }
            let Ok(len) = received else { continue };
            if state.is_holding {
                state.held.push(space[..len].to_vec());
            } else {
                self.to_client(&state, &space[..len]);
            }
        }
    }
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        self.shared.state().has_ended = true;
        // A datagram wakes each thread. The back takes none but from where it is connected to.
        let back = self.shared.back.local_addr().expect("it is bound");
        let waking = UdpSocket::bind((loopback(self.address), 0)).expect("a free port");
        let _ = waking.send_to(&[], self.address);
        let _ = self.shared.back.connect(waking.local_addr().expect("it is bound"));
        let _ = waking.send_to(&[], back);
        self.threads.drain(..).for_each(|thread| thread.join().expect("it does not panic"));
    }
}
