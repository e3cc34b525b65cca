//! The keys of QUIC. They are random, unless the replicas have a secret: then all derive the same keys from
//! it, so that each can read the others' connection ids and tokens, and those from before its restart. A
//! process that replaces this one in an upgrade has the same seed, and reads this one's connection ids.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, Tag, sign};
use aws_lc_rs::rand::fill;

use super::ids::Ids;
use super::packet::ServerId;

/// The secret of the replicas, and the address of this one.
pub(crate) struct CommonSecret<'a> {
    pub(crate) key: &'a Key,
    /// None where the replica does not know it: its connections then stay with it.
    pub(crate) own: Option<IpAddr>,
}

/// Random bytes, from which a process derives what it has in common with no other replica.
pub(super) type Seed = [u8; SEED_BYTES];
pub(super) const SEED_BYTES: usize = 32;

/// All keys of a process.
pub(super) struct Keys {
    pub(super) seed: Seed,
    /// Signs the tokens of stateless resets.
    pub(super) reset: Arc<Key>,
    /// Encrypts the tokens of Retry packets and of `NEW_TOKEN` frames.
    pub(super) token: Arc<Prk>,
    pub(super) ids: Arc<Ids>,
    /// Names and authenticates replicas; none where packets are not forwarded.
    pub(super) replicas: Option<ReplicaKeys>,
}

/// The keys by which replicas recognise each other's ids and packets.
pub(super) struct ReplicaKeys {
    names: Key,
    /// The address of this replica.
    pub(super) own: IpAddr,
    /// Signs forwarded packets.
    pub(super) packets: Key,
}

const KEY_BYTES: usize = 32;

impl Keys {
    /// Makes the keys of the process of this number, of those that replace one another; `seed` is that of the
    /// process before. Fails without a source of randomness.
    pub(super) fn new(
        secret: Option<&CommonSecret<'_>>,
        workers: u32,
        seed: Option<Seed>,
        generation: u8,
    ) -> io::Result<Self> {
        let is_successor = seed.is_some();
        let seed = seed.map_or_else(random, Ok)?;
        let of_seed = Key::new(HMAC_SHA256, &seed);
        let key = |label: &[u8]| -> [u8; KEY_BYTES] {
            first_of(sign(secret.map_or(&of_seed, |secret| secret.key), label))
        };
        let replicas = secret.and_then(|secret| secret.own).map(|own| {
            let names = Key::new(HMAC_SHA256, &key(b"\0quic replica"));
            let packets = Key::new(HMAC_SHA256, &key(b"\0quic forwarded"));
            ReplicaKeys { names, own, packets }
        });
        let own = match &replicas {
            Some(keys) => keys.name(keys.own),
            None => first_of(sign(&of_seed, b"\0quic name")),
        };
        // A token is taken once: those of the process before are not known here.
        let token = if secret.is_some() { key(b"\0quic token") } else { random()? };
        let hash = first_of(sign(&of_seed, b"\0quic hash"));
        let ids = Ids::new(&key(b"\0quic ids"), hash, own, workers)?.with_generation(generation);
        if is_successor {
            ids.share_sockets();
        }
        Ok(Self {
            seed,
            reset: Arc::new(Key::new(HMAC_SHA256, &key(b"\0quic reset"))),
            token: Arc::new(Salt::new(HKDF_SHA256, &[]).extract(&token)),
            ids: Arc::new(ids),
            replicas,
        })
    }
}

impl ReplicaKeys {
    /// The name of a replica in connection ids.
    pub(super) fn name(&self, replica: IpAddr) -> ServerId {
        first_of(sign(&self.names, replica.to_canonical().to_string().as_bytes()))
    }
}

fn first_of<const N: usize>(code: Tag) -> [u8; N] {
    code.as_ref().first_chunk().copied().unwrap_or([0; N])
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes).map_err(|_| io::Error::other("no randomness for the keys of QUIC"))?;
    Ok(bytes)
}
