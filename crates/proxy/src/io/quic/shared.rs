//! The state of QUIC that the workers of a process share: keys, the packets that one worker hands to another,
//! and the replicas that packets are forwarded to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::ListenerId;
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc;

use super::ids::{Ids, ServerId, destination_id};
use super::keys::{CommonSecret, Keys};
use super::packet::{Owner, Packet};
use super::socket::bind;
use super::steering::Groups;
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
    /// The other replicas, by their names in connection ids.
    replicas: RwLock<HashMap<ServerId, IpAddr>>,
}

/// The mailboxes of the workers of a listener, by their numbers.
type Workers = HashMap<u32, mpsc::Sender<Packet>>;

impl SharedQuic {
    /// Makes the keys, from the replicas' secret if they have one. Fails without a source of randomness.
    pub(crate) fn new(secret: Option<&CommonSecret<'_>>, workers: u32) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            keys: Keys::new(secret, workers)?,
            used_tokens: Arc::default(),
            mailboxes: Mutex::default(),
            groups: Mutex::default(),
            passing: Mutex::default(),
            replicas: RwLock::default(),
        }))
    }

    pub(super) fn ids(&self) -> &Arc<Ids> {
        &self.keys.ids
    }

    /// The owner of the connection that a packet is for.
    pub(super) fn owner_of(&self, datagram: &[u8]) -> Owner {
        let Some((server, worker)) = destination_id(datagram).and_then(|id| self.ids().read(id)) else {
            return Owner::Nobody;
        };
        if server == self.ids().own() {
            return Owner::Worker(worker);
        }
        self.replicas.read().get(&server).map_or(Owner::Nobody, |address| Owner::Replica(*address))
    }

    /// Sets the other replicas.
    pub(crate) fn set_replicas(&self, others: impl Iterator<Item = IpAddr>) {
        if let Some(keys) = &self.keys.replicas {
            *self.replicas.write() =
                others.map(|address| (keys.name(address), address.to_canonical())).collect();
        }
    }

    /// Whether an address is another replica's.
    pub(super) fn is_replica(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.replicas.read().values().any(|one| *one == address)
    }

    /// Binds the socket of a worker beside those of the others.
    pub(crate) fn bind(
        &self,
        address: SocketAddr,
        only_v6: bool,
        worker: u32,
    ) -> io::Result<std::net::UdpSocket> {
        // The kernel numbers the sockets of an address in the order in which they are bound.
        let mut groups = self.groups.lock();
        let socket = bind(address, only_v6)?;
        groups.join(&socket, worker, self.ids())?;
        Ok(socket)
    }

    /// Notes that the socket of a worker is closed.
    pub(super) fn leave(&self, address: SocketAddr, worker: u32) {
        self.groups.lock().leave(address, worker);
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

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key};
    use quinn_proto::ConnectionIdGenerator;

    use super::super::ids::WorkerIds;
    use super::*;

    fn replica(secret: &str, own: &str) -> Arc<SharedQuic> {
        let key = Key::new(HMAC_SHA256, secret.as_bytes());
        let secret = CommonSecret { key: &key, own: Some(own.parse().unwrap()) };
        SharedQuic::new(Some(&secret), 2).unwrap()
    }

    fn packet(of: &Arc<SharedQuic>) -> Vec<u8> {
        let id = WorkerIds { ids: Arc::clone(of.ids()), worker: 1 }.generate_cid();
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
        assert!(two.is_replica("::ffff:10.0.0.1".parse().unwrap()));
        two.set_replicas(std::iter::empty());
        assert_eq!(two.owner_of(&packet_of_one), Owner::Nobody, "it is gone");
        let after_restart = replica("secret", "10.0.0.1");
        assert!(matches!(after_restart.owner_of(&packet_of_one), Owner::Worker(_)));
        assert_eq!(replica("another", "10.0.0.1").owner_of(&packet_of_one), Owner::Nobody);
    }
}
