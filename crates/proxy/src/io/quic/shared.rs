//! The state of QUIC that the workers of a process share: keys, the packets that one worker hands to another,
//! and the replicas that packets are forwarded to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::Arc;

use bytes::BytesMut;
use model::ListenerId;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::ids::{Ids, destination_id};
use super::keys::{CommonSecret, Keys};
use super::others::Others;
use super::packet::{Neighbour, Owner, Packet};
use super::processes::{HandedSockets, Inherited, Neighbours, QuicLegacy, Receives};
use super::socket::{WorkerSockets, bind};
use super::steering::{Groups, shared_out};
use super::tokens::UsedTokens;
use crate::limits::QUIC_HANDED_OVER_MAX;

/// The state that the workers of a process share for QUIC.
pub(crate) struct SharedQuic {
    pub(super) keys: Keys,
    /// Tokens for later connections that have been used.
    pub(super) used_tokens: Arc<UsedTokens>,
    mailboxes: Mutex<HashMap<(ListenerId, SocketAddr), Workers>>,
    groups: Mutex<Groups>,
    /// The workers that have the sessions of clients that are passed through: the ids in their packets are
    /// an endpoint's, and say nothing here.
    passing: Mutex<HashMap<(ListenerId, SocketAddr), u32>>,
    others: Arc<Others>,
    /// The processes before and after this one, during an upgrade.
    pub(super) neighbours: Neighbours,
    /// Sockets of the process before that no worker has taken over.
    handed: Mutex<HandedSockets>,
    workers: u32,
}

/// The mailboxes of the workers of a listener, by their numbers.
type Workers = HashMap<u32, mpsc::Sender<Packet>>;

impl SharedQuic {
    /// Makes the keys, from the replicas' secret if they have one, and those that the process before has
    /// left. Fails without a source of randomness.
    pub(crate) fn new(
        secret: Option<&CommonSecret<'_>>,
        workers: u32,
        inherited: Option<Inherited>,
    ) -> io::Result<Arc<Self>> {
        let (seed, generation) = match &inherited {
            Some(before) => (Some(before.seed), before.generation.wrapping_add(1)),
            None => (None, 0),
        };
        let shared = Arc::new(Self {
            keys: Keys::new(secret, workers, seed, generation)?,
            used_tokens: Arc::default(),
            mailboxes: Mutex::default(),
            groups: Mutex::default(),
            passing: Mutex::default(),
            others: Arc::default(),
            neighbours: Neighbours::default(),
            handed: Mutex::default(),
            workers: workers.max(1),
        });
        if let Some(Inherited { channel, mut sockets, .. }) = inherited {
            for of_address in sockets.values_mut() {
                let before: Vec<_> = of_address.iter().map(|(worker, _)| *worker).collect();
                for ((worker, _), takes) in of_address.iter_mut().zip(shared_out(&before, shared.workers)) {
                    *worker = takes;
                }
            }
            *shared.handed.lock() = sockets;
            shared.neighbours.follow(&shared, channel)?;
        }
        Ok(shared)
    }

    /// The sockets and keys, for a process that replaces this one; none where there are no sockets.
    pub(crate) fn bequeath(self: &Arc<Self>) -> io::Result<Option<QuicLegacy>> {
        let copies = self.groups.lock().copies(self.workers)?;
        if copies.is_empty() {
            return Ok(None);
        }
        let (workers, sockets): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
        let (generation, seed) = (self.ids().generation(), &self.keys.seed);
        self.ids().share_sockets();
        let channel = self.neighbours.open(self, generation, seed, &workers)?;
        Ok(Some(QuicLegacy { channel, sockets }))
    }

    pub(super) fn others(&self) -> &Arc<Others> {
        &self.others
    }

    pub(super) fn ids(&self) -> &Arc<Ids> {
        &self.keys.ids
    }

    /// The owner of the connection that a packet is for.
    pub(super) fn owner_of(&self, datagram: &[u8]) -> Owner {
        let Some(id) = destination_id(datagram) else { return Owner::Nobody };
        let Some((server, worker)) = self.ids().read(id) else { return Owner::Nobody };
        if server != self.ids().own() {
            return self.others.owner(server);
        }
        self.ids().neighbour(id).map_or(Owner::Worker(worker), Owner::Process)
    }

    /// Sets the other replicas.
    pub(crate) fn set_replicas(&self, others: impl Iterator<Item = IpAddr>) {
        if let Some(keys) = &self.keys.replicas {
            let listed = others.map(|address| (keys.name(address), address.to_canonical()));
            self.others.set(listed, clock::instant());
        }
    }

    /// Binds the socket of a worker beside those of the others, or takes over its sockets from the process
    /// before.
    pub(crate) fn bind(&self, address: SocketAddr, only_v6: bool, worker: u32) -> io::Result<WorkerSockets> {
        // The kernel numbers the sockets of an address in the order in which they are bound.
        let mut groups = self.groups.lock();
        if let Some(sockets) = self.take_over(&mut groups, address, worker) {
            return Ok(sockets);
        }
        let is_beside_handed = self.handed.lock().contains_key(&address);
        let own = bind(address, only_v6)?;
        if self.neighbours.has(Neighbour::Predecessor) && !is_beside_handed {
            groups.join_others(&own, worker)?;
        } else {
            groups.join(&own, worker, self.ids())?;
        }
        Ok(WorkerSockets { own, more: Vec::new() })
    }

    /// Takes over the sockets that are a worker's of those that the process before had; none where there are
    /// fewer sockets than workers.
    fn take_over(&self, groups: &mut Groups, address: SocketAddr, worker: u32) -> Option<WorkerSockets> {
        let mut handed = self.handed.lock();
        let sockets = handed.get_mut(&address)?;
        let workers: Vec<_> = sockets.iter().map(|(worker, _)| *worker).collect();
        if let Some(any) = sockets.iter().find_map(|(_, socket)| socket.as_ref()) {
            groups.inherit(address, any, workers.into_iter(), self.ids());
        }
        let mut taken = Vec::new();
        for (place, (_, socket)) in sockets.iter_mut().enumerate().filter(|(_, (of, _))| *of == worker) {
            let Some(socket) = socket.take() else { continue };
            groups.adopt(address, place, &socket);
            taken.push(socket);
        }
        let mut taken = taken.into_iter();
        let own = taken.next()?;
        self.neighbours.tell_reads();
        Some(WorkerSockets { own, more: taken.collect() })
    }

    /// Waits for the end of the process before this one, if another one gives it packets through this one.
    pub(crate) fn await_predecessor(&self) {
        self.neighbours.await_predecessor();
    }

    /// Notes that these sockets of an address are closed, in this order.
    pub(super) fn leave(&self, address: SocketAddr, sockets: impl Iterator<Item = RawFd>) {
        self.groups.lock().leave(address, sockets);
    }

    /// Opens the mailbox of a worker for the packets of a socket's address.
    pub(super) fn open_mailbox(
        &self,
        listener: ListenerId,
        address: SocketAddr,
        worker: u32,
    ) -> mpsc::Receiver<Packet> {
        let (sender, receiver) = mpsc::channel(QUIC_HANDED_OVER_MAX);
        self.mailboxes.lock().entry((listener, address)).or_default().insert(worker, sender);
        receiver
    }

    /// Notes that a worker passes the packets of a client through, or does so no more.
    pub(super) fn set_passing(&self, listener: ListenerId, client: SocketAddr, worker: Option<u32>) {
        let mut passing = self.passing.lock();
        match worker {
            Some(worker) => passing.insert((listener, client), worker),
            None => passing.remove(&(listener, client)),
        };
    }

    /// The worker that passes the packets of a client through.
    pub(super) fn passing(&self, listener: ListenerId, client: SocketAddr) -> Option<u32> {
        self.passing.lock().get(&(listener, client)).copied()
    }

    /// Whether workers have sockets at other addresses than this one.
    pub(super) fn has_addresses_besides(&self, address: SocketAddr) -> bool {
        self.mailboxes.lock().keys().any(|(_, other)| *other != address)
    }

    /// Hands a packet over to its worker. One for which there is no room is lost, as packets are; then it
    /// returns false.
    pub(super) fn hand_over(
        &self,
        listener: ListenerId,
        address: SocketAddr,
        worker: u32,
        packet: Packet,
    ) -> bool {
        let mailboxes = self.mailboxes.lock();
        let sender = mailboxes.get(&(listener, address)).and_then(|of_address| of_address.get(&worker));
        sender.is_some_and(|sender| sender.try_send(packet).is_ok())
    }
}

impl Receives for SharedQuic {
    /// Takes a packet that another process has received on the socket of an address.
    fn take_from(&self, from: Neighbour, address: SocketAddr, packet: Packet) {
        let worker = match self.owner_of(&packet.bytes) {
            Owner::Worker(worker) => worker,
            Owner::Process(to) if to != from => {
                // A packet without room is lost, as on a network.
                let _ = self.neighbours.send(to, address, &packet);
                return;
            }
            // It begins a connection. The next ones of its client go to the same worker.
            Owner::Nobody if from == Neighbour::Predecessor => u32::from(packet.remote.port()) % self.workers,
            Owner::Nobody | Owner::Process(_) | Owner::Replica(_) | Owner::Gone(_) => return,
        };
        let listener = self.mailboxes.lock().keys().find(|(_, at)| *at == address).map(|(id, _)| *id);
        if let Some(listener) = listener {
            self.hand_over(listener, address, worker, packet);
        }
    }

    /// Closes the sockets of the process before that no worker has taken over, once it has ended.
    fn close_handed(&self) {
        self.handed.lock().clear();
    }

    /// Has all workers read their sockets again, since the process that has read them is gone, and the kernel
    /// use this process's filter. A packet without a byte is none of anybody's.
    fn wake_receivers(&self) {
        self.groups.lock().restore(self.ids());
        let remote = SocketAddr::from(([0; 4], 0));
        for worker in self.mailboxes.lock().values().flat_map(HashMap::values) {
            let bytes = BytesMut::new();
            // One that is full wakes its worker anyway.
            let _ = worker.try_send(Packet { remote, local: None, ecn: None, bytes, via: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key};
    use quinn_proto::ConnectionIdGenerator;

    use super::super::ids::WorkerIds;
    use super::*;

    fn replica(secret: &str, own: &str) -> Arc<SharedQuic> {
        let key = Key::new(HMAC_SHA256, secret.as_bytes());
        let secret = CommonSecret { key: &key, own: Some(own.parse().unwrap()) };
        SharedQuic::new(Some(&secret), 2, None).unwrap()
    }

    fn packet(of: &Arc<SharedQuic>) -> Vec<u8> {
        let id = WorkerIds { ids: Arc::clone(of.ids()), worker: 1, others: Arc::default() }.generate_cid();
        [&[0x40][..], &id, &[0; 30]].concat()
    }

    #[test]
    fn replicas_with_one_secret_know_whose_a_connection_is() {
        let (one, two) = (replica("secret", "10.0.0.1"), replica("secret", "10.0.0.2"));
        let packet_of_one = packet(&one);
        assert_eq!(one.owner_of(&packet_of_one), Owner::Worker(1));
        assert_eq!(two.owner_of(&packet_of_one), Owner::Nobody, "it knows of no other yet");
        let first = "10.0.0.1".parse().unwrap();
        two.set_replicas([first].into_iter());
        assert_eq!(two.owner_of(&packet_of_one), Owner::Replica(first));
        assert!(two.others().has("::ffff:10.0.0.1".parse().unwrap()));
        two.set_replicas(std::iter::empty());
        assert_eq!(two.owner_of(&packet_of_one), Owner::Replica(first), "it may be finishing");
        let after_restart = replica("secret", "10.0.0.1");
        assert!(matches!(after_restart.owner_of(&packet_of_one), Owner::Worker(_)));
        assert_eq!(replica("another", "10.0.0.1").owner_of(&packet_of_one), Owner::Nobody);
    }
}
