//! The keys of QUIC. They are random, unless the replicas have a secret: then all derive the same keys from
//! it, so that each can read the others' connection ids and tokens, and those from before its restart.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::fill;

use super::ids::{Ids, ServerId};

/// The secret of the replicas, and the address of this one.
pub(crate) struct CommonSecret<'a> {
    pub(crate) key: &'a Key,
    /// None where the replica does not know it: its connections then stay with it.
    pub(crate) own: Option<IpAddr>,
}

/// All keys of a process.
pub(super) struct Keys {
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
    /// Signs forwarded packets.
    pub(super) packets: Key,
}

const KEY_BYTES: usize = 32;

impl Keys {
    /// Fails without a source of randomness.
    pub(super) fn new(secret: Option<&CommonSecret<'_>>, workers: u32) -> io::Result<Self> {
        let key = |label: &[u8]| derive(secret, label);
        let replicas = match secret.and_then(|secret| secret.own) {
            Some(own) => {
                let names = Key::new(HMAC_SHA256, &key(b"\0quic replica")?);
                let packets = Key::new(HMAC_SHA256, &key(b"\0quic forwarded")?);
                Some((ReplicaKeys { names, packets }, own))
            }
            None => None,
        };
        let own = match &replicas {
            Some((keys, own)) => keys.name(*own),
            None => random()?,
        };
        Ok(Self {
            reset: Arc::new(Key::new(HMAC_SHA256, &key(b"\0quic reset")?)),
            token: Arc::new(Salt::new(HKDF_SHA256, &[]).extract(&key(b"\0quic token")?)),
            ids: Arc::new(Ids::new(&key(b"\0quic ids")?, random()?, own, workers)?),
            replicas: replicas.map(|(keys, _)| keys),
        })
    }
}

impl ReplicaKeys {
    /// The name of a replica in connection ids.
    pub(super) fn name(&self, replica: IpAddr) -> ServerId {
        let code = sign(&self.names, replica.to_canonical().to_string().as_bytes());
        code.as_ref().first_chunk().copied().unwrap_or_default()
    }
}

fn derive(secret: Option<&CommonSecret<'_>>, label: &[u8]) -> io::Result<[u8; KEY_BYTES]> {
    match secret {
        Some(secret) => Ok(sign(secret.key, label).as_ref().first_chunk().copied().unwrap_or_default()),
        None => random(),
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes).map_err(|_| io::Error::other("no randomness for the keys of QUIC"))?;
    Ok(bytes)
}
