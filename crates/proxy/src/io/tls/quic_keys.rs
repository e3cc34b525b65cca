//! Keys of the phases after the first one (RFC 9001 section 6), which are made when a packet needs them.
//!
//! `quinn-proto` asks for the keys of the next phase as soon as the handshake is complete, and few
//! connections live to see one: two contexts of AES-GCM would take 1.3 KB of each. A packet with a forged bit
//! of the phase has them made, twice for each phase: the first one's are dropped, since the zeros by which
//! some clients pad their first datagram look like such a packet. Must not be in here: the handshake, keys of
//! headers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, KeyPair, PacketKey};
use rustls::quic::{PacketKeySet, Secrets};

/// The phases that follow.
pub(super) enum NextPhases {
    /// No keys have been given: the secrets are those of the first one.
    Begun(Box<Secrets>),
    /// The last phase whose keys were given.
    Given(Arc<Phase>),
}

/// The secrets of a phase, and its keys once they have been made.
pub(super) struct Phase {
    secrets: Secrets,
    keys: OnceLock<PacketKeySet>,
    /// A packet could not be decrypted.
    has_failed: AtomicBool,
}

/// The key of a phase for one direction.
struct PhaseKey {
    phase: Arc<Phase>,
    is_local: bool,
}

impl NextPhases {
    /// The phases that begin with these secrets.
    pub(super) fn new(secrets: Secrets) -> Self {
        Self::Begun(Box::new(secrets))
    }

    /// The keys of the next phase.
    pub(super) fn next_keys(&mut self) -> KeyPair<Box<dyn PacketKey>> {
        let secrets = match self {
            Self::Begun(secrets) => Secrets::clone(secrets),
            Self::Given(last) => {
                let mut secrets = last.secrets.clone();
                // Nothing but the making of keys leads from one phase's secrets to the next one's.
                drop(secrets.next_packet_keys());
                secrets
            }
        };
        let phase = Arc::new(Phase { secrets, keys: OnceLock::new(), has_failed: AtomicBool::new(false) });
        *self = Self::Given(Arc::clone(&phase));
        let key = |is_local| Box::new(PhaseKey { phase: Arc::clone(&phase), is_local });
        KeyPair { local: key(true), remote: key(false) }
    }
}

impl Phase {
    fn make_keys(&self) -> PacketKeySet {
        self.secrets.clone().next_packet_keys()
    }
}

impl PhaseKey {
    fn of_side<'a>(&self, keys: &'a PacketKeySet) -> &'a dyn PacketKey {
        if self.is_local { &keys.local } else { &keys.remote }
    }

    fn key(&self) -> &dyn PacketKey {
        self.of_side(self.phase.keys.get_or_init(|| self.phase.make_keys()))
    }
}

impl PacketKey for PhaseKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.key().encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        if self.phase.keys.get().is_some() {
            return self.key().decrypt(packet, header, payload);
        }
        let keys = self.phase.make_keys();
        let decrypted = self.of_side(&keys).decrypt(packet, header, payload);
        if decrypted.is_ok() || self.phase.has_failed.swap(true, Ordering::Relaxed) {
            // Another thread may have made the same ones.
            let _ = self.phase.keys.set(keys);
        }
        decrypted
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

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::quic::{ClientConnection, Connection, KeyChange, ServerConnection, Version};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};

    use super::*;
    use crate::io::tls::provider::provider;

    const HEADER: [u8; 3] = [0x44, 1, 2];

    /// Writes what one side has to say, which the other reads; the secrets of later phases, once there are
    /// some.
    fn speak(from: &mut Connection, to: &mut Connection) -> Option<Secrets> {
        let mut secrets = None;
        loop {
            let mut bytes = Vec::new();
            let change = from.write_hs(&mut bytes);
            to.read_hs(&bytes).unwrap();
            match change {
                Some(KeyChange::OneRtt { next, .. }) => secrets = Some(next),
                Some(KeyChange::Handshake { .. }) => {}
                None => return secrets,
            }
        }
    }

    /// The phases of a server, and the secrets of its client, after a handshake.
    fn handshake() -> (NextPhases, Secrets) {
        let made = generate_simple_self_signed(["web.test".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let versions = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(provider(&[])).with_protocol_versions(versions);
        let mut server =
            server.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let client = ClientConfig::builder_with_provider(provider(&[])).with_protocol_versions(versions);
        let mut client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        let name = "web.test".try_into().unwrap();
        client.alpn_protocols.push(b"h3".to_vec());
        server.alpn_protocols.push(b"h3".to_vec());
        let client = ClientConnection::new(Arc::new(client), Version::V1, name, Vec::new());
        let server = ServerConnection::new(Arc::new(server), Version::V1, Vec::new());
        let mut client = Connection::from(client.unwrap());
        let mut server = Connection::from(server.unwrap());
        let mut of_client = None;
        let mut of_server = None;
        for _ in 0..3 {
            of_client = speak(&mut client, &mut server).or(of_client);
            of_server = speak(&mut server, &mut client).or(of_server);
        }
        (NextPhases::new(of_server.unwrap()), of_client.unwrap())
    }

    /// A packet with one byte of content, as the client encrypts it.
    fn packet(keys: &PacketKeySet) -> BytesMut {
        let mut bytes = [&HEADER[..], b"x"].concat();
        bytes.resize(bytes.len() + PacketKey::tag_len(&keys.local), 0);
        PacketKey::encrypt(&keys.local, 7, &mut bytes, HEADER.len());
        BytesMut::from(&bytes[HEADER.len()..])
    }

    fn has_keys(phases: &NextPhases) -> bool {
        matches!(phases, NextPhases::Given(phase) if phase.keys.get().is_some())
    }

    #[test]
    fn keys_of_each_phase_are_made_when_a_packet_needs_them() {
        let (mut phases, mut client) = handshake();
        for _ in 0..3 {
            let keys = phases.next_keys();
            assert!(!has_keys(&phases));
            let mut bytes = packet(&client.next_packet_keys());
            keys.remote.decrypt(7, &HEADER, &mut bytes).unwrap();
            assert_eq!(bytes, &b"x"[..]);
            assert!(has_keys(&phases));
        }
    }

    #[test]
    fn keys_that_the_first_packet_does_not_fit_are_dropped() {
        let (mut phases, mut client) = handshake();
        let keys = phases.next_keys();
        let forged = || BytesMut::from(&[0; 32][..]);
        assert!(keys.remote.decrypt(7, &HEADER, &mut forged()).is_err());
        assert!(!has_keys(&phases));
        assert!(keys.remote.decrypt(7, &HEADER, &mut forged()).is_err());
        assert!(has_keys(&phases), "forged packets would have them made again and again");
        keys.remote.decrypt(7, &HEADER, &mut packet(&client.next_packet_keys())).unwrap();
    }
}
