//! A thousand attackers, who send what they have to send, now and again, and connect anew when they are
//! thrown out.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::attackers::{Attacker, Port};
use super::quic;
use super::stage::Stage;

pub(super) const THREADS: usize = 4;
/// Small, so that what is not read soon waits elsewhere.
const RECEIVE_BUFFER_BYTES: usize = 4096;

/// The attackers, which attack until they are stopped.
pub(super) struct Crowd {
    is_over: Arc<AtomicBool>,
    connections: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// One of them.
struct Member {
    stream: TcpStream,
    /// Unsent data of this round.
    pending: Vec<u8>,
    round: u32,
}

impl Crowd {
    pub(super) fn begin(attacker: &'static Attacker, stage: &Stage) -> Self {
        let address = match attacker.port {
            Port::Http => stage.forebay.address(),
            Port::Https | Port::Quic(_) => stage.forebay.https_address(),
            Port::Admin => stage.forebay.admin_address(),
            Port::Udp => stage.udp.address(),
        };
        let (is_over, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..THREADS)
            .map(|number| {
                let (is_over, connections) = (Arc::clone(&is_over), Arc::clone(&connections));
                thread::spawn(move || {
                    // Others come first.
                    let _ = rustix::process::setpriority_process(None, 19);
                    match attacker.port {
                        Port::Udp => flood(attacker, address, number, &is_over, &connections),
                        Port::Quic(way) => {
                            quic::attack(way, attacker, address, number, &is_over, &connections);
                        }
                        _ => attack(attacker, address, &is_over, &connections),
                    }
                })
            })
            .collect();
        Self { is_over, connections, threads }
    }

    /// Everybody goes home; how many connections they have made.
    pub(super) fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        self.connections.load(Ordering::Relaxed)
    }
}

fn attack(attacker: &Attacker, address: SocketAddr, is_over: &AtomicBool, connections: &AtomicU64) {
    let mut members: Vec<Option<Member>> = (0..attacker.connections / THREADS).map(|_| None).collect();
    while !is_over.load(Ordering::Relaxed) {
        for member in &mut members {
            if member.is_none() {
                *member = Member::join(address);
                connections.fetch_add(u64::from(member.is_some()), Ordering::Relaxed);
            }
            if member.as_mut().is_some_and(|one| one.act(attacker).is_none()) {
                *member = None;
            }
        }
        thread::sleep(attacker.pace);
    }
}

impl Member {
    fn join(address: SocketAddr) -> Option<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).ok()?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).ok()?;
        socket.connect_timeout(&address.into(), Duration::from_secs(1)).ok()?;
        socket.set_nonblocking(true).ok()?;
        // A reset leaves no port in TIME_WAIT.
        socket.set_linger(Some(Duration::ZERO)).ok()?;
        Some(Self { stream: socket.into(), pending: Vec::new(), round: 0 })
    }

    /// Sends what can be sent of a round; `None` when the connection has ended.
    fn act(&mut self, attacker: &Attacker) -> Option<()> {
        if attacker.reads {
            let mut sink = [0; 16 * 1024];
            match self.stream.read(&mut sink) {
                Ok(0) => return None,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return None,
                _ => {}
            }
        }
        if self.pending.is_empty() {
            self.pending = (attacker.bytes)(self.round);
            self.round += 1;
            // An attacker without further data leaves.
            if self.pending.is_empty() && !attacker.stays {
                return None;
            }
        }
        match self.stream.write(&self.pending) {
            Ok(len) => drop(self.pending.drain(..len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        Some(())
    }
}

/// Datagrams, each from an address of its own.
fn flood(attacker: &Attacker, address: SocketAddr, thread: usize, is_over: &AtomicBool, senders: &AtomicU64) {
    let mut number = 0_u16;
    while !is_over.load(Ordering::Relaxed) {
        let [high, low] = number.to_be_bytes();
        let source = Ipv4Addr::new(127, 100 + thread as u8, high, low);
        if let Ok(socket) = UdpSocket::bind((source, 0)) {
            let _ = socket.send_to(&(attacker.bytes)(0), address);
            senders.fetch_add(1, Ordering::Relaxed);
        }
        number = number.wrapping_add(1);
        if number.is_multiple_of(16) {
            thread::sleep(attacker.pace);
        }
    }
}
