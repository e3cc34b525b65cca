//! Keys of the phases after the first one (RFC 9001 section 6), which are made when a packet needs them.
//!
//! `quinn-proto` asks for the keys of the next phase as soon as the handshake is complete, and few
//! connections live to see one: two contexts of AES-GCM would take 1.3 KB of each. A packet with a forged bit
//! of the phase has them made, once for each phase. Must not be in here: the handshake, keys of headers.

use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, KeyPair, PacketKey};
use rustls::quic::{PacketKeySet, Secrets};

/// The phases that follow.
pub(super) struct NextPhases {
    /// The secrets of the last phase whose keys were given.
    secrets: Secrets,
    has_given: bool,
}

/// The secrets of a phase, and its keys once they have been made.
struct Phase {
    secrets: Secrets,
    keys: OnceLock<PacketKeySet>,
}

/// The key of a phase for one direction.
struct PhaseKey {
    phase: Arc<Phase>,
    is_local: bool,
}

impl NextPhases {
    /// The phases that begin with these secrets.
    pub(super) fn new(secrets: Secrets) -> Self {
        Self { secrets, has_given: false }
    }

    /// The keys of the next phase.
    pub(super) fn next_keys(&mut self) -> KeyPair<Box<dyn PacketKey>> {
        if std::mem::replace(&mut self.has_given, true) {
            // Nothing but the making of keys leads from one phase's secrets to the next one's.
            drop(self.secrets.next_packet_keys());
        }
        let phase = Arc::new(Phase { secrets: self.secrets.clone(), keys: OnceLock::new() });
        let key = |is_local| Box::new(PhaseKey { phase: Arc::clone(&phase), is_local });
        KeyPair { local: key(true), remote: key(false) }
    }
}

impl PhaseKey {
    fn key(&self) -> &dyn PacketKey {
        let keys = self.phase.keys.get_or_init(|| self.phase.secrets.clone().next_packet_keys());
        if self.is_local { &keys.local } else { &keys.remote }
    }
}

impl PacketKey for PhaseKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.key().encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key().decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key().tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key().confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key().integrity_limit()
    }
}
