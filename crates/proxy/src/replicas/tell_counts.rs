//! The thread that tells the other replicas what is counted here, and hears what they count, over UDP.
//!
//! Never in here: what a datagram says, which is `counts`'.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use observe::{Counter, Recorder};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;

use super::counts::{COUNTS_PER_DATAGRAM, CountExchange};
use super::members::addresses;
use crate::clients::Clients;
use crate::clock::{Clock, Moment};
use crate::limits::{DATAGRAM_BYTES_MAX, QUOTA_TELL_INTERVAL, QUOTA_TOLD_MAX, REPLICA_BIND_INTERVAL};
use crate::worker::Published;

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct CountThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
pub(crate) struct CountParts {
    pub(crate) exchange: CountExchange,
    /// The same for all replicas.
    pub(crate) port: u16,
    pub(crate) clients: Arc<Clients>,
    pub(crate) published: watch::Receiver<Published>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
}

struct Running {
    parts: CountParts,
    stop: Arc<AtomicBool>,
    /// The own socket, and its address.
    socket: Option<(IpAddr, UdpSocket)>,
    /// When it could not be opened last.
    failed: Option<Moment>,
    others: BTreeSet<IpAddr>,
}

impl CountThread {
    pub(crate) fn start(parts: CountParts) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let running =
            Running { parts, stop: Arc::clone(&stop), socket: None, failed: None, others: BTreeSet::new() };
        let thread = std::thread::Builder::new().name("counts".to_owned()).spawn(move || running.run())?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for CountThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends with the next turn, and has nothing that could panic.
            let _ = thread.join();
        }
    }
}

impl Running {
    fn run(mut self) {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        while !self.stop.load(Ordering::Relaxed) {
            self.parts.clock.update();
            self.follow_members();
            self.tell();
            let until = self.parts.clock.now().after(QUOTA_TELL_INTERVAL);
            match &self.socket {
                Some(_) => self.hear(until, &mut datagram),
                None => std::thread::park_timeout(QUOTA_TELL_INTERVAL),
            }
        }
    }

    /// Looks who the replicas are, and opens the socket at the own address.
    fn follow_members(&mut self) {
        let snapshot = Arc::clone(&self.parts.published.borrow().snapshot);
        self.others = addresses(&snapshot).iter().map(SocketAddr::ip).collect();
        let Some(own) = snapshot.settings.replicas.as_ref().map(|replicas| replicas.own) else {
            self.socket = None;
            return;
        };
        if self.socket.as_ref().is_some_and(|(address, _)| *address == own) {
            return;
        }
        let now = self.parts.clock.now();
        if self.failed.is_some_and(|at| now.since(at) < REPLICA_BIND_INTERVAL) {
            return;
        }
        let address = SocketAddr::new(own, self.parts.port);
        match bind(address) {
            Ok(socket) => (self.socket, self.failed) = (Some((own, socket)), None),
            Err(error) => {
                if self.failed.replace(now).is_none() {
                    tracing::error!(%address, %error, "cannot hear what other replicas count");
                }
                self.socket = None;
            }
        }
    }

    /// Tells all others what has changed.
    fn tell(&mut self) {
        let Some((_, socket)) = &self.socket else { return };
        if self.others.is_empty() {
            // Who joins is told what is recent with the next change.
            return;
        }
        let CountParts { exchange, clients, clock, recorder, port, .. } = &mut self.parts;
        let counts = clients.quotas.tell(QUOTA_TOLD_MAX * COUNTS_PER_DATAGRAM, clock.now());
        for datagram in exchange.write(&counts, clock.unix().as_secs()) {
            for &other in &self.others {
                let is_sent = socket.send_to(&datagram, (other, *port)).is_ok();
                recorder.count(if is_sent { Counter::CountsSent } else { Counter::CountsUnsent });
            }
        }
    }

    /// Hears the others until it is time to tell.
    fn hear(&mut self, until: Moment, datagram: &mut [u8]) {
        let Some((_, socket)) = &self.socket else { return };
        let CountParts { exchange, clients, clock, recorder, .. } = &mut self.parts;
        loop {
            let left = until.since(clock.now());
            // Less than this counts as no timeout at all.
            if left < Duration::from_millis(1) || socket.set_read_timeout(Some(left)).is_err() {
                return;
            }
            let received = socket.recv_from(datagram);
            clock.update();
            // What a peer refuses comes back as an error, and concerns nobody else.
            let Ok((len, from)) = received else { continue };
            if !self.others.contains(&from.ip().to_canonical()) {
                recorder.count(Counter::CountsStrange);
                continue;
            }
            match exchange.read(&datagram[..len], clock.unix().as_secs()) {
                Ok((replica, counts)) => {
                    clients.quotas.hear(replica, &counts, clock.now());
                    recorder.count(Counter::CountsTaken);
                }
                Err(refusal) => recorder.count(refusal.counter()),
            }
        }
    }
}

/// Another process with the port must not be in the way of one that takes its place.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
