//! A client's cryptography that changes the acknowledgements in its packets before they are encrypted: they
//! say that packets have come which are still on their way (RFC 9000 section 21.4).
//!
//! Must not be in here: what the client asks for.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// A configuration whose connections acknowledge so many packets more than have come.
pub(crate) struct Optimist {
    pub(crate) inner: Arc<dyn ClientConfig>,
    pub(crate) ahead: u64,
}

struct OptimisticSession {
    inner: Box<dyn Session>,
    ahead: u64,
    /// Sets of keys that the session has given out: those of the handshake, and those after it.
    keys: usize,
}

struct OptimisticKey {
    inner: Box<dyn PacketKey>,
    ahead: u64,
}

impl ClientConfig for Optimist {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.inner).start_session(version, server_name, params)?;
        Ok(Box::new(OptimisticSession { inner, ahead: self.ahead, keys: 0 }))
    }
}

impl OptimisticSession {
    fn wrap(&self, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(OptimisticKey { inner, ahead: self.ahead })
    }
}

impl Session for OptimisticSession {
    fn initial_keys(&self, destination: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(destination, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn quinn_proto::crypto::HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(bytes)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(bytes)?;
        self.keys += 1;
        if self.keys > 1 {
            keys.packet.local = self.wrap(keys.packet.local);
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let KeyPair { local, remote } = self.inner.next_1rtt_keys()?;
        Some(KeyPair { local: self.wrap(local), remote })
    }

    fn is_valid_retry(&self, destination: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(destination, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

impl PacketKey for OptimisticKey {
    fn encrypt(&self, packet: u64, bytes: &mut [u8], header_len: usize) {
        let end = bytes.len() - self.inner.tag_len();
        if let Some(payload) = bytes.get_mut(header_len..end) {
            acknowledge_more(payload, self.ahead);
        }
        self.inner.encrypt(packet, bytes, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

/// Adds to the largest number and to the first range of an ACK frame with which a payload begins (RFC 9000
/// section 19.3), where both keep their lengths.
fn acknowledge_more(payload: &mut [u8], ahead: u64) -> Option<()> {
    let is_ack = matches!(payload.first()?, 0x02 | 0x03);
    let largest = Number::read(payload, 1).filter(|_| is_ack)?;
    let delay = Number::read(payload, largest.end)?;
    let count = Number::read(payload, delay.end)?;
    let range = Number::read(payload, count.end)?;
    if largest.has_room(ahead) && range.has_room(ahead) {
        largest.add(ahead, payload);
        range.add(ahead, payload);
    }
    Some(())
}

/// A number of variable length (RFC 9000 section 16), and where it is.
struct Number {
    value: u64,
    begin: usize,
    end: usize,
}

impl Number {
    fn read(bytes: &[u8], begin: usize) -> Option<Self> {
        let first = *bytes.get(begin)?;
        let end = begin + (1 << (first >> 6));
        let rest = bytes.get(begin + 1..end)?;
        let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
        Some(Self { value, begin, end })
    }

    fn has_room(&self, more: u64) -> bool {
        self.value + more < 1 << (8 * (self.end - self.begin) - 2)
    }

    fn add(&self, more: u64, bytes: &mut [u8]) {
        let length = bytes[self.begin] & 0xc0;
        let value = (self.value + more).to_be_bytes();
        let place = &mut bytes[self.begin..self.end];
        place.copy_from_slice(&value[value.len() - place.len()..]);
        place[0] |= length;
    }
}
