//! Connection ids, in the form of QUIC-LB (draft-ietf-quic-load-balancers): one octet with the number of the
//! configuration, and a block of AES that holds the replica's name and a nonce.
//!
//! Three bits of the first octet number the processes that replace one another in an upgrade, since they
//! share their sockets for a while.
//!
//! The worker is not written in an id. It follows from a hash of the encrypted block whose key is the
//! process's own: an id is drawn until the hash is its worker's number. A filter of the kernel can compute
//! that hash ([`steering`](super::steering)), and can decrypt nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::cipher::{AES_128, DecryptingKey, DecryptionContext, EncryptingKey, UnboundCipherKey};
use aws_lc_rs::rand::fill;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use super::others::Others;
use super::packet::{Neighbour, SERVER_ID_BYTES, ServerId};

pub(super) const BLOCK_BYTES: usize = 16;
pub(super) const ID_BYTES: usize = 1 + BLOCK_BYTES;
const KEY_BYTES: usize = 16;
/// The highest three bits of the first octet are the number of the configuration, which is 0.
const CONFIGURATION_BITS: u8 = 0b1110_0000;
/// The lowest three bits of the first octet are the number of the process.
const GENERATION_BITS: u8 = 0b0000_0111;
/// Ids that are drawn for one worker, for each worker that there is: one in 10^27 is still another worker's,
/// whose packets are handed over.
const DRAWS_PER_WORKER: u32 = 64;

/// Numbers with which the hash multiplies the words of a block.
pub(super) type Spread = [u32; BLOCK_BYTES / 4];

/// Makes and reads connection ids.
pub(super) struct Ids {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
    spread: Spread,
    own: ServerId,
    workers: u32,
    generation: u8,
    /// The process has the sockets of one before it, or has handed its own to one after it.
    shares_sockets: AtomicBool,
}

impl Ids {
    /// `key` is that of the blocks, `hash_key` that of the hash, and `own` the name of this replica.
    pub(super) fn new(
        key: &[u8; 2 * KEY_BYTES],
        hash_key: [u8; BLOCK_BYTES],
        own: ServerId,
        workers: u32,
    ) -> io::Result<Self> {
        let unbound = || {
            let key = UnboundCipherKey::new(&AES_128, &key[..KEY_BYTES]);
            key.map_err(|_| io::Error::other("no key for connection ids"))
        };
        let error = |_| io::Error::other("no cipher for connection ids");
        Ok(Self {
            encrypting: EncryptingKey::ecb(unbound()?).map_err(error)?,
            decrypting: DecryptingKey::ecb(unbound()?).map_err(error)?,
            // An even factor would leave some bits of its word out.
            spread: words(&hash_key).map(|word| word | 1),
            own,
            workers: workers.max(1),
            generation: 0,
            shares_sockets: AtomicBool::new(false),
        })
    }

    /// The same for the process of this number, of those that replace one another.
    pub(super) fn with_generation(self, generation: u8) -> Self {
        Self { generation: generation & GENERATION_BITS, ..self }
    }

    /// Notes that other processes have the sockets as well, with ids of their own.
    pub(super) fn share_sockets(&self) {
        self.shares_sockets.store(true, Ordering::Relaxed);
    }

    pub(super) fn generation(&self) -> u8 {
        self.generation
    }

    /// The other process that has made an id with the name of this replica, if it was not this one.
    pub(super) fn neighbour(&self, id: &[u8]) -> Option<Neighbour> {
        let of_id = id.first()? & GENERATION_BITS;
        match of_id.wrapping_sub(self.generation) & GENERATION_BITS {
            0 => None,
            1 => Some(Neighbour::Successor),
            _ => Some(Neighbour::Predecessor),
        }
    }

    /// Whether a process that has made an id with the name of this replica is one that this process has had a
    /// channel to. One further away is reached by way of others, whose end says nothing of it. Where no
    /// processes have replaced one another, the id is from before a restart.
    fn has_channel_to_maker(&self, id: &[u8]) -> bool {
        let of_id = id.first().copied().unwrap_or_default() & GENERATION_BITS;
        let distance = of_id.wrapping_sub(self.generation) & GENERATION_BITS;
        !self.shares_sockets.load(Ordering::Relaxed) || [1, GENERATION_BITS].contains(&distance)
    }

    pub(super) fn own(&self) -> ServerId {
        self.own
    }

    pub(super) fn spread(&self) -> Spread {
        self.spread
    }

    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    /// The worker that the hash of a block names.
    fn worker(&self, block: &[u8; BLOCK_BYTES]) -> u32 {
        let products = words(block).into_iter().zip(self.spread).map(|(word, by)| word.wrapping_mul(by));
        (products.fold(0, u32::wrapping_add) >> HASH_SHIFT) % self.workers
    }

    /// The name of the replica whose connection an id is, and the worker if it is this one. Ids that nobody
    /// has made have names that no replica has.
    pub(super) fn read(&self, id: &[u8]) -> Option<(ServerId, u32)> {
        let (first, block) = id.split_first()?;
        let block = block.first_chunk::<BLOCK_BYTES>().filter(|_| id.len() == ID_BYTES)?;
        if first & CONFIGURATION_BITS != 0 {
            return None;
        }
        let mut plain = *block;
        self.decrypting.decrypt(&mut plain, DecryptionContext::None).ok()?;
        Some((*plain.first_chunk()?, self.worker(block)))
    }

    fn make(&self, worker: u32) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        let mut nonce = [0; 1 + BLOCK_BYTES - SERVER_ID_BYTES];
        // Without randomness no handshake succeeds.
        let _ = fill(&mut nonce);
        let [first, nonce @ ..] = nonce;
        id[0] = first & !CONFIGURATION_BITS & !GENERATION_BITS | self.generation;
        let nonce = u64::from_be_bytes(nonce);
        for draw in 0..DRAWS_PER_WORKER * self.workers {
            let mut block = [0; BLOCK_BYTES];
            block[..SERVER_ID_BYTES].copy_from_slice(&self.own);
            block[SERVER_ID_BYTES..].copy_from_slice(&nonce.wrapping_add(draw.into()).to_be_bytes());
            // It fails for lengths only that are no multiple of a block's.
            let _ = self.encrypting.encrypt(&mut block);
            id[1..].copy_from_slice(&block);
            if self.worker(&block) == worker {
                break;
            }
        }
        ConnectionId::new(&id)
    }
}

/// The hash is the upper half of a sum: its lower bits depend on the lower bits of the words alone.
pub(super) const HASH_SHIFT: u32 = 16;

fn words(block: &[u8; BLOCK_BYTES]) -> [u32; BLOCK_BYTES / 4] {
    let (words, _) = block.as_chunks::<4>();
    std::array::from_fn(|at| words.get(at).map_or(0, |word| u32::from_be_bytes(*word)))
}

/// Makes the connection ids of a worker, and decides on stateless resets.
pub(super) struct WorkerIds {
    pub(super) ids: Arc<Ids>,
    pub(super) worker: u32,
    pub(super) others: Arc<Others>,
}

/// Whose connection it was that a client is told is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// One of this worker, which has ended; or of the process before a restart.
    Ended,
    /// One of another process of this replica, which has ended.
    Process,
    /// One of a replica that is gone.
    Replica,
}

impl WorkerIds {
    /// Whose connection an id was that this worker has none of; none where nobody knows that it has ended.
    /// Packets with ids of another process come here only where the channel to it has ended. A stateless
    /// reset for a connection that is alive elsewhere would end it (RFC 9000 section 21.11).
    pub(super) fn lost(&self, id: &[u8]) -> Option<Lost> {
        let (server, worker) = self.ids.read(id)?;
        if server != self.ids.own() {
            return self.others.is_gone(server).then_some(Lost::Replica);
        }
        match self.ids.neighbour(id) {
            None => (worker == self.worker).then_some(Lost::Ended),
            Some(_) => self.ids.has_channel_to_maker(id).then_some(Lost::Process),
        }
    }
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.ids.make(self.worker)
    }

    /// Called for ids of which this worker has no connection. A stateless reset answers those that are valid.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.lost(id).map(|_| ()).ok_or(InvalidCid)
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

/// The connection id of a packet with a short header.
pub(super) fn short_id(packet: &[u8]) -> Option<[u8; ID_BYTES]> {
    const LONG_HEADER: u8 = 0x80;
    let (first, rest) = packet.split_first()?;
    (first & LONG_HEADER == 0).then(|| rest.first_chunk().copied()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(own: u8, workers: u32) -> Arc<Ids> {
        Arc::new(Ids::new(&[7; 2 * KEY_BYTES], [9; BLOCK_BYTES], [own; SERVER_ID_BYTES], workers).unwrap())
    }

    #[test]
    fn an_id_tells_its_worker_and_no_other_id_does() {
        let (ours, others) = (ids(1, 256), ids(2, 256));
        for worker in 0..256 {
            let mut generator = WorkerIds { ids: Arc::clone(&ours), worker, others: Arc::default() };
            let id = generator.generate_cid();
            assert_eq!(ours.read(&id), Some((ours.own(), worker)));
            assert!(generator.validate(&id).is_ok());
            let another =
                WorkerIds { ids: Arc::clone(&ours), worker: (worker + 1) % 256, others: Arc::default() };
            assert!(another.validate(&id).is_err());
            assert!(
                WorkerIds { ids: Arc::clone(&others), worker, others: Arc::default() }.validate(&id).is_err()
            );
            for at in 0..ID_BYTES {
                let mut changed = id.to_vec();
                changed[at] ^= 0x80;
                assert!(generator.validate(&ConnectionId::new(&changed)).is_err(), "octet {at}");
            }
            assert_eq!(ours.read(&id[1..]), None);
        }
    }

    #[test]
    fn ids_of_one_worker_have_nothing_in_common_but_their_configuration() {
        let mut generator = WorkerIds { ids: ids(1, 4), worker: 1, others: Arc::default() };
        let ids: Vec<_> = (0..64).map(|_| generator.generate_cid().to_vec()).collect();
        for at in 1..ID_BYTES {
            let values: std::collections::HashSet<u8> = ids.iter().map(|id| id[at]).collect();
            assert!(values.len() > 16, "octet {at} has {} values", values.len());
        }
        assert!(ids.iter().all(|id| id[0] & CONFIGURATION_BITS == 0));
    }

    #[test]
    fn only_the_end_of_a_process_with_a_channel_is_known() {
        let of = |generation| {
            let ids = Ids::new(&[7; 2 * KEY_BYTES], [9; BLOCK_BYTES], [1; SERVER_ID_BYTES], 4).unwrap();
            Arc::new(ids.with_generation(generation))
        };
        let lost = |ids: &Arc<Ids>, generation| {
            let worker = WorkerIds { ids: Arc::clone(ids), worker: 2, others: Arc::default() };
            worker.lost(&of(generation).make(2))
        };
        let this = of(1);
        for generation in [0, 2, 3, 7] {
            assert_eq!(lost(&this, generation), Some(Lost::Process), "it is from before a restart");
        }
        assert_eq!(lost(&this, 1), Some(Lost::Ended));
        this.share_sockets();
        assert_eq!(
            [0, 1, 2].map(|at| lost(&this, at)),
            [Lost::Process, Lost::Ended, Lost::Process].map(Some)
        );
        for generation in 3..8 {
            assert_eq!(lost(&this, generation), None, "that of the one between says nothing");
        }
    }

    #[test]
    fn an_id_tells_which_process_of_a_replica_has_made_it() {
        let of = |generation| {
            let ids = Ids::new(&[7; 2 * KEY_BYTES], [9; BLOCK_BYTES], [1; SERVER_ID_BYTES], 4).unwrap();
            Arc::new(ids.with_generation(generation))
        };
        for generation in 0..8 {
            let before = of(generation);
            let this = of(generation + 1);
            let after = of(generation + 2);
            let id = this.make(2);
            assert_eq!(this.neighbour(&id), None);
            assert_eq!(before.neighbour(&id), Some(Neighbour::Successor));
            assert_eq!(after.neighbour(&id), Some(Neighbour::Predecessor));
            assert_eq!([&before, &after].map(|ids| ids.read(&id)), [Some((this.own(), 2)); 2]);
        }
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

    #[test]
    fn only_packets_with_a_short_header_are_answered_by_resets() {
        let packet = |first: u8| [&[first][..], &[7; ID_BYTES], &[1, 2, 3]].concat();
        assert_eq!(short_id(&packet(0x40)), Some([7; ID_BYTES]));
        assert_eq!(short_id(&packet(0xc0)), None);
        assert_eq!(short_id(&packet(0x40)[..ID_BYTES]), None, "it is too short for an id");
        assert_eq!(short_id(&[]), None);
    }
}
