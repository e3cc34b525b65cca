//! The first packets of a client of QUIC (RFC 9000), read without being answered: for connections that are
//! forwarded by name and terminated elsewhere.
//!
//! [`Initial`] is the layout of a packet, whose owner has the keys; [`Hello`] puts the `ClientHello` together
//! from frames that may come in any order and in several packets.

use std::ops::Range;

use crate::client_hello::HELLO_BYTES_MAX;
use crate::varint;

/// The unprotected part of an Initial packet (RFC 9000 section 17.2.2), at the front of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initial<'a> {
    /// The version of QUIC.
    pub version: u32,
    /// The id that the client has chosen for the server, from which the keys are derived.
    pub destination: &'a [u8],
    /// Where the packet number is, which is protected.
    pub number_start: usize,
    /// The end of the packet; others may follow in the datagram.
    pub end: usize,
}

/// The `ClientHello` of a connection, as far as it has come.
#[derive(Debug, Default)]
pub struct Hello {
    bytes: Vec<u8>,
    /// The parts that have come: sorted, neither overlapping nor touching.
    parts: Vec<Range<usize>>,
}

/// Frames that no client sends, or a hello that two readers could understand differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no beginning of a connection")]
pub struct NotHello;

const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const KIND_MASK: u8 = 0x30;
const INITIAL: u8 = 0x00;
/// Longest connection id of the versions that are known (RFC 9000 section 17.2).
const ID_BYTES_MAX: usize = 20;
/// Parts of a hello that may have gaps between them.
const PARTS_MAX: usize = 32;

// Kinds of frames (RFC 9000 section 19) that an Initial packet of a beginning may have (section 17.2.2).
const PADDING: u64 = 0x00;
const PING: u64 = 0x01;
const ACK: u64 = 0x02;
const ACK_ECN: u64 = 0x03;
const CRYPTO: u64 = 0x06;

/// The number of the transport parameter `active_connection_id_limit` (RFC 9000 section 18.2).
const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;

/// Whether a datagram begins with an Initial packet of version 1, or of a draft of it.
pub fn is_initial(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & (LONG_HEADER | KIND_MASK) == LONG_HEADER | INITIAL)
}

/// Lowers the number of connection ids that the peer stores, in its transport parameters (RFC 9000 section
/// 18), to `max`, which is below 64. Parameters that cannot be read stay as they are.
pub fn limit_connection_ids(parameters: &mut [u8], max: u8) {
    let mut rest = parameters;
    while let Some((id, id_len)) = varint::read(rest)
        && let Some((len, len_len)) = varint::read(&rest[id_len..])
        && let Ok(len) = usize::try_from(len)
        && let Some((value, others)) = rest[id_len + len_len..].split_at_mut_checked(len)
    {
        if id == ACTIVE_CONNECTION_ID_LIMIT
            && varint::read(value).is_some_and(|(limit, read)| read == len && limit > max.into())
        {
            // The form of a varint that is longer than it has to be is valid too (section 16).
            let form = value[0] & 0xc0;
            value.fill(0);
            value[len - 1] = max;
            value[0] |= form;
        }
        rest = others;
    }
}

/// The destination id of a packet with a long header (RFC 8999 section 5.1); none for other packets.
pub fn long_destination(datagram: &[u8]) -> Option<&[u8]> {
    let (first, rest) = datagram.split_first()?;
    let (len, rest) = rest.get(4..)?.split_first()?;
    rest.get(..usize::from(*len)).filter(|_| first & LONG_HEADER != 0)
}

/// The source id of a packet with a long header (RFC 8999 section 5.1); none for other packets.
pub fn long_source(datagram: &[u8]) -> Option<&[u8]> {
    let start = 6 + long_destination(datagram)?.len();
    let (len, rest) = datagram.get(start..)?.split_first()?;
    rest.get(..usize::from(*len))
}

impl<'a> Initial<'a> {
    /// Reads the packet at the front of a datagram; none if it is no Initial packet of version 1, or cut off.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let first = *datagram.first()?;
        if first & (LONG_HEADER | FIXED_BIT | KIND_MASK) != LONG_HEADER | FIXED_BIT | INITIAL {
            return None;
        }
        let version = u32::from_be_bytes(*datagram.get(1..)?.first_chunk()?);
        let destination = long_destination(datagram).filter(|id| id.len() <= ID_BYTES_MAX)?;
        let mut at = 6 + destination.len();
        at += 1 + usize::from(*datagram.get(at)?);
        let token_len = read_varint(datagram, &mut at)?;
        at = at.checked_add(usize::try_from(token_len).ok()?)?;
        let len = usize::try_from(read_varint(datagram, &mut at)?).ok()?;
        let end = at.checked_add(len).filter(|end| *end <= datagram.len())?;
        Some(Self { version, destination, number_start: at, end })
    }
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let (value, len) = varint::read(bytes.get(*at..)?)?;
    *at += len;
    Some(value)
}

impl Hello {
    /// Adds what the frames of an Initial packet have of the hello.
    ///
    /// # Errors
    /// A frame is not allowed, or the hello is longer than [`HELLO_BYTES_MAX`], comes in too many parts, or
    /// differs from what has come before.
    pub fn add_frames(&mut self, payload: &[u8]) -> Result<(), NotHello> {
        let mut at = 0;
        let number = |at: &mut usize| read_varint(payload, at).ok_or(NotHello);
        while at < payload.len() {
            match number(&mut at)? {
                PADDING | PING => {}
                kind @ (ACK | ACK_ECN) => {
                    // Largest, delay, count of ranges, and two numbers for each after the first.
                    number(&mut at)?;
                    number(&mut at)?;
                    let ranges = number(&mut at)?;
                    let counts = if kind == ACK_ECN { 3 } else { 0 };
                    for _ in 0..ranges.checked_mul(2).ok_or(NotHello)?.saturating_add(1 + counts) {
                        number(&mut at)?;
                    }
                }
                CRYPTO => {
                    let offset = number(&mut at)?;
                    let len = usize::try_from(number(&mut at)?).map_err(|_| NotHello)?;
                    let end = at.checked_add(len).ok_or(NotHello)?;
                    self.add(offset, payload.get(at..end).ok_or(NotHello)?)?;
                    at = end;
                }
                _ => return Err(NotHello),
            }
        }
        Ok(())
    }

    /// The bytes from the beginning to the first gap.
    pub fn bytes(&self) -> &[u8] {
        let end = self.parts.first().filter(|part| part.start == 0).map_or(0, |part| part.end);
        &self.bytes[..end]
    }

    fn add(&mut self, offset: u64, data: &[u8]) -> Result<(), NotHello> {
        let start = usize::try_from(offset).map_err(|_| NotHello)?;
        let end = start.checked_add(data.len()).filter(|end| *end <= HELLO_BYTES_MAX).ok_or(NotHello)?;
        if start == end {
            return Ok(());
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let mut whole = start..end;
        let touching = |part: &Range<usize>| part.start <= end && start <= part.end;
        for part in self.parts.iter().filter(|part| touching(part)) {
            let both = part.start.max(start)..part.end.min(end);
            if self.bytes[both.clone()] != data[both.start - start..both.end - start] {
                return Err(NotHello);
            }
            whole = whole.start.min(part.start)..whole.end.max(part.end);
        }
        self.bytes[start..end].copy_from_slice(data);
        self.parts.retain(|part| !touching(part));
        if self.parts.len() == PARTS_MAX {
            return Err(NotHello);
        }
        let at = self.parts.partition_point(|part| part.start < whole.start);
        self.parts.insert(at, whole);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The front of the client's Initial packet in RFC 9001 appendix A.2.
    const FRONT: &[u8] = b"\xc0\x00\x00\x00\x01\x08\x83\x94\xc8\xf0\x3e\x51\x57\x08\x00\x00\x44\x9e";

    #[test]
    fn the_packet_of_the_standard_is_read() {
        let mut datagram = FRONT.to_vec();
        datagram.resize(1200, 0);
        let initial = Initial::read(&datagram).unwrap();
        assert_eq!((initial.version, initial.destination), (1, &datagram[6..14]));
        assert_eq!((initial.number_start, initial.end), (18, 1200));
        assert_eq!(long_destination(&datagram), Some(initial.destination));
        assert_eq!(long_source(&datagram), Some(&[][..]));
        for len in 0..datagram.len() {
            assert_eq!(Initial::read(&datagram[..len]), None, "{len}");
        }
    }

    #[test]
    fn other_packets_are_none() {
        let mut datagram = FRONT.to_vec();
        datagram.resize(1200, 0);
        // 0-RTT, Handshake, Retry, a short header, one without the fixed bit, and an id that is too long.
        for (at, byte) in [(0, 0xd0), (0, 0xe0), (0, 0xf0), (0, 0x40), (0, 0x80), (5, 21)] {
            let mut other = datagram.clone();
            other[at] = byte;
            assert_eq!(Initial::read(&other), None, "{at} {byte:x}");
        }
        assert_eq!(long_destination(b"\x40\0\0\0\x01\x01a"), None);
    }

    fn crypto(offset: u8, data: &[u8]) -> Vec<u8> {
        [&[0x06, offset, data.len() as u8][..], data].concat()
    }

    #[test]
    fn frames_of_other_kinds_are_skipped_or_refused() {
        let mut hello = Hello::default();
        let ack = [0x02, 5, 0, 1, 2, 0, 0];
        let ack_ecn = [0x03, 5, 0, 0, 2, 1, 1, 1];
        let payload = [&[0, 0, 1][..], &ack, &crypto(0, b"ab"), &ack_ecn, &crypto(2, b"c"), &[0; 9]].concat();
        assert_eq!(hello.add_frames(&payload), Ok(()));
        assert_eq!(hello.bytes(), b"abc");
        // STREAM, CONNECTION_CLOSE, a frame that is cut off, and counts of ranges that cannot be.
        for wrong in [
            &[0x08, 0][..],
            &[0x1c, 0, 0, 0],
            &[0x06, 0, 5, 1],
            &[0x02, 0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255],
        ] {
            assert_eq!(Hello::default().add_frames(wrong), Err(NotHello), "{wrong:x?}");
        }
    }

    #[test]
    fn a_hello_is_bounded_and_has_one_meaning() {
        let mut hello = Hello::default();
        assert_eq!(hello.add(HELLO_BYTES_MAX as u64, b"a"), Err(NotHello));
        assert_eq!(hello.add(u64::MAX >> 2, b"a"), Err(NotHello));
        assert_eq!(hello.add(2, b"cd"), Ok(()));
        assert_eq!(hello.bytes(), b"");
        assert_eq!(hello.add(1, b"bxd"), Err(NotHello));
        assert_eq!(hello.add(0, b"abcde"), Ok(()));
        assert_eq!(hello.bytes(), b"abcde");
        let mut holes = Hello::default();
        let added = (0..100).take_while(|at| holes.add(2 * at, b"a").is_ok()).count();
        assert_eq!(added, PARTS_MAX);
    }

    proptest! {
        #[test]
        fn parts_in_any_order_become_the_whole(
            cuts in proptest::collection::vec((0..200_usize, 1..60_usize), 0..30), seed in any::<u64>()
        ) {
            let whole: Vec<u8> = (0..200_u64).map(|at| ((at * 7) ^ seed) as u8).collect();
            let mut hello = Hello::default();
            let mut seen = [false; 200];
            for (start, len) in cuts {
                let end = (start + len).min(whole.len());
                prop_assert_eq!(hello.add(start as u64, &whole[start..end]), Ok(()));
                seen[start..end].fill(true);
                let expected = seen.iter().position(|seen| !seen).unwrap_or(seen.len());
                prop_assert_eq!(hello.bytes(), &whole[..expected]);
            }
        }

        #[test]
        fn noise_is_read_without_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Initial::read(&noise);
            let _ = Initial::read(&[FRONT, &noise].concat());
            let _ = Hello::default().add_frames(&noise);
        }
    }

    #[test]
    fn the_peers_limit_of_connection_ids_is_lowered_and_nothing_else() {
        let of = |value: &[u8]| [&[1, 2, 0x40, 9, 0x0e, value.len() as u8][..], value, &[0x0c, 0]].concat();
        for (value, expected) in [
            (&[8][..], &[3][..]),
            (&[2], &[2]),
            (&[0x40, 0x08], &[0x40, 0x03]),
            (&[0x80, 0, 1, 0], &[0x80, 0, 0, 3]),
            (&[0xff; 8], &[0xc0, 0, 0, 0, 0, 0, 0, 3]),
            (&[8, 8], &[8, 8]),
            (&[], &[]),
        ] {
            let mut parameters = of(value);
            limit_connection_ids(&mut parameters, 3);
            assert_eq!(parameters, of(expected), "{value:x?}");
        }
        for cut_off in [&[0x0e][..], &[0x0e, 1], &[0x0e, 2, 8], &[0x4e]] {
            let mut parameters = cut_off.to_vec();
            limit_connection_ids(&mut parameters, 3);
            assert_eq!(parameters, cut_off);
        }
    }

    #[test]
    fn an_initial_packet_is_told_from_others_by_its_first_byte() {
        assert!(is_initial(&[0xc3]) && is_initial(&[0x8f]));
        for first in [0x43, 0xd0, 0xe0, 0xf0] {
            assert!(!is_initial(&[first]), "{first:x}");
        }
        assert!(!is_initial(&[]));
    }
}
