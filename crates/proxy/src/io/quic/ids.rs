//! The keys that the workers of a process share, connection ids, and the packets that one worker hands to
//! another.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac::{HMAC_SHA256, Key};
use aws_lc_rs::rand::fill;
use bytes::BytesMut;
use model::ListenerId;
use parking_lot::Mutex;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, EcnCodepoint, InvalidCid};
use tokio::sync::mpsc;

use crate::limits::QUIC_HANDED_OVER_MAX;

/// The keys and mailboxes that the workers of a process share for QUIC.
pub(crate) struct SharedQuic {
    /// Signs the tokens of stateless resets.
    pub(super) reset_key: Arc<Key>,
    /// Encrypts the tokens of Retry packets.
    pub(super) token_key: Arc<Prk>,
    id_key: HeaderProtectionKey,
    mailboxes: Mutex<HashMap<(ListenerId, SocketAddr), Workers>>,
}

/// The mailboxes of the workers of a listener, by their numbers.
type Workers = HashMap<u8, mpsc::Sender<Packet>>;

/// A packet that has come to another worker than the connection's.
pub(crate) struct Packet {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<std::net::IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) bytes: BytesMut,
}

/// An id is a nonce, the worker's number and check bytes, the latter two hidden by a mask that the nonce and
/// the key determine.
const NONCE_BYTES: usize = 7;
const CHECK_BYTES: usize = 2;
pub(super) const ID_BYTES: usize = NONCE_BYTES + 1 + CHECK_BYTES;
const KEY_BYTES: usize = 32;
const ID_KEY_BYTES: usize = 16;
/// Bytes of which a mask is computed (RFC 9001 section 5.4.3).
const SAMPLE_BYTES: usize = 16;

impl SharedQuic {
    /// New keys. Fails without a source of randomness.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let mut reset = [0; KEY_BYTES];
        let mut token = [0; KEY_BYTES];
        let mut id = [0; ID_KEY_BYTES];
        for key in [&mut reset[..], &mut token, &mut id] {
            fill(key).map_err(|_| io::Error::other("no randomness for the keys of QUIC"))?;
        }
        let id_key = HeaderProtectionKey::new(&AES_128, &id)
            .map_err(|_| io::Error::other("no key for connection ids"))?;
        Ok(Arc::new(Self {
            reset_key: Arc::new(Key::new(HMAC_SHA256, &reset)),
            token_key: Arc::new(Salt::new(HKDF_SHA256, &[]).extract(&token)),
            id_key,
            mailboxes: Mutex::default(),
        }))
    }

    /// The mask of a nonce.
    fn mask(&self, nonce: [u8; NONCE_BYTES]) -> [u8; 1 + CHECK_BYTES] {
        let mut sample = [0; SAMPLE_BYTES];
        sample[..NONCE_BYTES].copy_from_slice(&nonce);
        // It fails for samples of another length only.
        let mask = self.id_key.new_mask(&sample).unwrap_or_default();
        [mask[0], mask[1], mask[2]]
    }

    /// The worker whose connection an id is; none if the id is not one of this process.
    pub(super) fn worker_of(&self, id: &[u8]) -> Option<u8> {
        let (nonce, hidden) = id.split_first_chunk::<NONCE_BYTES>()?;
        let mask = self.mask(*nonce);
        let [worker, check @ ..] = <[u8; 1 + CHECK_BYTES]>::try_from(hidden).ok()?;
        (check == mask[1..]).then_some(worker ^ mask[0])
    }

    fn id(&self, worker: u8) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        // Without randomness no handshake succeeds.
        let _ = fill(&mut id[..NONCE_BYTES]);
        if let Some((nonce, hidden)) = id.split_first_chunk_mut::<NONCE_BYTES>() {
            hidden.copy_from_slice(&self.mask(*nonce));
            hidden[0] ^= worker;
        }
        ConnectionId::new(&id)
    }

    /// Opens the mailbox of a worker for the packets of a socket's address.
    pub(super) fn open_mailbox(
        &self,
        listener: ListenerId,
        address: SocketAddr,
        worker: u8,
    ) -> mpsc::Receiver<Packet> {
        let (sender, receiver) = mpsc::channel(QUIC_HANDED_OVER_MAX);
        self.mailboxes.lock().entry((listener, address)).or_default().insert(worker, sender);
        receiver
    }

    /// Hands a packet over to its worker. One for which there is no room is lost, as packets are.
    pub(super) fn hand_over(&self, listener: ListenerId, address: SocketAddr, worker: u8, packet: Packet) {
        let mailboxes = self.mailboxes.lock();
        let sender = mailboxes.get(&(listener, address)).and_then(|of_address| of_address.get(&worker));
        if let Some(sender) = sender {
            let _ = sender.try_send(packet);
        }
    }
}

/// Makes the connection ids of a worker.
pub(super) struct WorkerIds {
    pub(super) shared: Arc<SharedQuic>,
    pub(super) worker: u8,
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.shared.id(self.worker)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match self.shared.worker_of(id) {
            Some(worker) if worker == self.worker => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// The destination id of a packet, where it can be one of ours (RFC 8999 section 5).
pub(super) fn destination_id(packet: &[u8]) -> Option<&[u8]> {
    const LONG_HEADER: u8 = 0x80;
    const VERSION_BYTES: usize = 4;
    let (first, rest) = packet.split_first()?;
    if first & LONG_HEADER == 0 {
        return rest.get(..ID_BYTES);
    }
    let (len, rest) = rest.get(VERSION_BYTES..)?.split_first()?;
    rest.get(..usize::from(*len)).filter(|id| id.len() == ID_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_worker_and_no_other_id_does() {
        let (ours, others) = (SharedQuic::new().unwrap(), SharedQuic::new().unwrap());
        let mut seen = 0;
        for worker in 0..=255 {
            let id = WorkerIds { shared: Arc::clone(&ours), worker }.generate_cid();
            assert_eq!(ours.worker_of(&id), Some(worker));
            assert!(WorkerIds { shared: Arc::clone(&ours), worker }.validate(&id).is_ok());
            seen += usize::from(others.worker_of(&id).is_some());
            for at in 0..ID_BYTES {
                let mut changed = id.to_vec();
                changed[at] ^= 1;
                seen += usize::from(at != NONCE_BYTES && ours.worker_of(&changed).is_some());
            }
            assert_eq!(ours.worker_of(&id[1..]), None);
        }
        // One in 65,536 passes the check by chance.
        assert!(seen <= 2, "{seen}");
    }

    #[test]
    fn the_destination_of_short_and_long_packets_is_found() {
        let id = [7; ID_BYTES];
        let short = [&[0x40][..], &id, &[1, 2, 3]].concat();
        let long = [&[0xc0, 0, 0, 0, 1, ID_BYTES as u8][..], &id, &[0]].concat();
        assert_eq!(destination_id(&short), Some(&id[..]));
        assert_eq!(destination_id(&long), Some(&id[..]));
        let other_len = [&[0xc0, 0, 0, 0, 1, 8][..], &id, &[0]].concat();
        for none in [&[][..], &[0x40, 1], &[0xc0, 0, 0], &other_len] {
            assert_eq!(destination_id(none), None, "{none:?}");
        }
    }
}
