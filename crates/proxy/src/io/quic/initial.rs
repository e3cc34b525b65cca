//! The protection of Initial packets, removed from those of connections that end elsewhere.

use bytes::BytesMut;
use quinn_proto::ConnectionId;
use quinn_proto::crypto::ServerConfig;
use wire::quic::Initial;

/// The frames of an Initial packet. Its keys are known to all who see it (RFC 9001 section 5.2). None if it
/// is not what its front says.
pub(crate) fn frames(crypto: &dyn ServerConfig, datagram: &[u8], initial: &Initial<'_>) -> Option<BytesMut> {
    let keys = crypto.initial_keys(initial.version, &ConnectionId::new(initial.destination)).ok()?;
    let mut packet = BytesMut::from(datagram.get(..initial.end)?);
    let start = initial.number_start;
    let sample_end = start + NUMBER_BYTES_MAX + keys.header.remote.sample_size();
    if packet.len() < sample_end {
        return None;
    }
    keys.header.remote.decrypt(start, &mut packet);
    // The two lowest bits are the length of the packet number, which is below 2^32 at this time.
    let end = start + 1 + usize::from(packet[0] & 0b11);
    let number = packet[start..end].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let front = packet.split_to(end);
    keys.packet.remote.decrypt(number, &front, &mut packet).ok()?;
    Some(packet)
}

/// The longest packet number (RFC 9000 section 17.1).
const NUMBER_BYTES_MAX: usize = 4;
