//! The thread that sends the counts of this replica to the others, and receives theirs, over UDP.
//!
//! Never in here: the format of a datagram, which is `datagram`'s.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use aws_lc_rs::hmac::Key;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use clients::limits::QUOTA_TELL_INTERVAL;
use clock::Moment;
use observe::Counter;
use socket2::{Domain, Protocol, Socket, Type};

use crate::datagram::{COUNTS_PER_DATAGRAM, Datagrams};
use crate::limits::{BIND_INTERVAL, REPORT_DATAGRAMS_MAX, UDP_BYTES_MAX};
use crate::parts::{Parts, Replicas};

/// The thread, which runs until this is dropped.
#[derive(Debug)]
pub(crate) struct ReplicasThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Running {
    parts: Parts,
    datagrams: Datagrams,
    port: u16,
    replicas: Box<dyn Fn() -> Replicas + Send>,
    stop: Arc<AtomicBool>,
    /// The own address, and the socket bound to it.
    socket: Option<(IpAddr, UdpSocket)>,
    /// When opening the socket last failed.
    failed: Option<Moment>,
    others: BTreeSet<IpAddr>,
}

impl ReplicasThread {
    pub(crate) fn start(
        key: Key,
        port: u16,
        replicas: Box<dyn Fn() -> Replicas + Send>,
        parts: Parts,
    ) -> io::Result<Self> {
        let mut identity = [0; 8];
        SystemRandom::new().fill(&mut identity).map_err(|_| io::Error::other("no randomness"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let running = Running {
            parts,
            datagrams: Datagrams::new(key, u64::from_be_bytes(identity)),
            port,
            replicas,
            stop: Arc::clone(&stop),
            socket: None,
            failed: None,
            others: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new().name("counts".to_owned()).spawn(move || running.run())?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ReplicasThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread ends with the next turn, and cannot panic.
            let _ = thread.join();
        }
    }
}

impl Running {
    fn run(mut self) {
        let mut datagram = vec![0; UDP_BYTES_MAX];
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

    /// Reads the current replicas, and opens the socket at the own address.
    fn follow_members(&mut self) {
        let replicas = (self.replicas)();
        self.others = replicas.others;
        let Some(own) = replicas.own else {
            self.socket = None;
            return;
        };
        if self.socket.as_ref().is_some_and(|(address, _)| *address == own) {
            return;
        }
        let now = self.parts.clock.now();
        if self.failed.is_some_and(|at| now.since(at) < BIND_INTERVAL) {
            return;
        }
        let address = SocketAddr::new(own, self.port);
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

    /// Sends the counts that have changed to all others.
    fn tell(&mut self) {
        let Some((_, socket)) = &self.socket else { return };
        if self.others.is_empty() {
            // A replica that joins receives recent counts with the next change.
            return;
        }
        let Parts { clients, clock, recorder } = &self.parts;
        let counts = clients.quotas.outgoing(REPORT_DATAGRAMS_MAX * COUNTS_PER_DATAGRAM, clock.now());
        for datagram in self.datagrams.write(&counts, clock.unix().as_secs()) {
            for &other in &self.others {
                let is_sent = socket.send_to(&datagram, (other, self.port)).is_ok();
                recorder.count(if is_sent { Counter::CountsSent } else { Counter::CountsUnsent });
            }
        }
    }

    /// Receives datagrams until the next report is due.
    fn hear(&mut self, until: Moment, datagram: &mut [u8]) {
        let Some((_, socket)) = &self.socket else { return };
        let Parts { clients, clock, recorder } = &self.parts;
        loop {
            let left = until.since(clock.now());
            // A shorter timeout would be rounded to none at all.
            if left < Duration::from_millis(1) || socket.set_read_timeout(Some(left)).is_err() {
                return;
            }
            let received = socket.recv_from(datagram);
            clock.update();
            // A peer's refusal (ICMP) is reported as an error, and concerns no other peer.
            let Ok((len, from)) = received else { continue };
            if !self.others.contains(&from.ip().to_canonical()) {
                recorder.count(Counter::CountsStrange);
                continue;
            }
            match self.datagrams.read(&datagram[..len], clock.unix().as_secs()) {
                Ok((replica, counts)) => {
                    clients.quotas.receive(replica, &counts, clock.now());
                    recorder.count(Counter::CountsTaken);
                }
                Err(refusal) => recorder.count(refusal.counter()),
            }
        }
    }
}

/// The port is shared, so that a process can start while its predecessor still has the port.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
