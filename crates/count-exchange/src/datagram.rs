//! Datagrams with which replicas exchange their counts: the sender, a number that only grows, the time, and
//! an authentication code under the secret of the replicas.
//!
//! ```text
//! "FBQ1" | replica: 8 | number: 8 | seconds since 1970: 8 | counts of 28 bytes each | code: 32
//! ```
//!
//! A datagram that is lost, late or duplicated does no harm: counts are totals, and older ones than the
//! newest are refused. A replica that restarts at the same address takes a new identity.
//!
//! Never in here: sockets, a clock.

use aws_lc_rs::hmac::{Key, sign, verify};
use clients::limits::REPLICAS_MAX;
use clients::quota::Count;
use observe::Counter;

use crate::limits::{DATAGRAM_AGE_MAX, DATAGRAM_BYTES_MAX};

const MAGIC: &[u8; 4] = b"FBQ1";
const HEAD_BYTES: usize = 4 + 3 * 8;
const COUNT_BYTES: usize = 16 + 3 * 4;
const CODE_BYTES: usize = 32;

/// Counts that fit into one datagram.
pub(crate) const COUNTS_PER_DATAGRAM: usize = (DATAGRAM_BYTES_MAX - HEAD_BYTES - CODE_BYTES) / COUNT_BYTES;

/// One end of the exchange of counts.
pub(crate) struct Datagrams {
    key: Key,
    /// Identity of this replica, until its process ends.
    replica: u64,
    /// Number of the datagram that was written last.
    number: u64,
    known: Vec<NewestDatagram>,
}

/// The newest datagram of another replica.
struct NewestDatagram {
    replica: u64,
    /// Number of the newest datagram.
    number: u64,
    /// When it was written, in seconds since 1970.
    at: u64,
}

/// Why a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The bytes are no such datagram.
    Garbage,
    /// The code is wrong: the sender does not know the secret.
    Forged,
    /// The datagram is too old, or from a clock that is wrong.
    Stale,
    /// This datagram or a newer one has been received already.
    Replayed,
}

impl Refusal {
    pub(crate) fn counter(self) -> Counter {
        match self {
            Self::Garbage => Counter::CountsGarbage,
            Self::Forged => Counter::CountsForged,
            Self::Stale => Counter::CountsStale,
            Self::Replayed => Counter::CountsReplayed,
        }
    }
}

impl Datagrams {
    /// The end of a replica with this identity, a random number.
    pub(crate) fn new(key: Key, replica: u64) -> Self {
        Self { key, replica, number: 0, known: Vec::new() }
    }

    /// Writes datagrams with counts, for all other replicas.
    pub(crate) fn write(&mut self, counts: &[Count], now: u64) -> Vec<Vec<u8>> {
        counts.chunks(COUNTS_PER_DATAGRAM).map(|counts| self.write_one(counts, now)).collect()
    }

    fn write_one(&mut self, counts: &[Count], now: u64) -> Vec<u8> {
        self.number += 1;
        let mut datagram = Vec::with_capacity(HEAD_BYTES + counts.len() * COUNT_BYTES + CODE_BYTES);
        datagram.extend_from_slice(MAGIC);
        for number in [self.replica, self.number, now] {
            datagram.extend_from_slice(&number.to_be_bytes());
        }
        for Count { subject, seconds, admitted, recent } in counts {
            datagram.extend_from_slice(&subject.to_be_bytes());
            for number in [seconds, admitted, recent] {
                datagram.extend_from_slice(&number.to_be_bytes());
            }
        }
        let code = sign(&self.key, &datagram);
        datagram.extend_from_slice(code.as_ref());
        datagram
    }

    /// Reads a datagram: the sender's identity, and its counts.
    pub(crate) fn read(&mut self, datagram: &[u8], now: u64) -> Result<(u64, Vec<Count>), Refusal> {
        let said = datagram.len().checked_sub(CODE_BYTES).ok_or(Refusal::Garbage)?;
        let (said, code) = datagram.split_at(said);
        let head = said.strip_prefix(MAGIC).ok_or(Refusal::Garbage)?;
        let (replica, rest) = number(head).ok_or(Refusal::Garbage)?;
        let (sequence, rest) = number(rest).ok_or(Refusal::Garbage)?;
        let (at, counts) = number(rest).ok_or(Refusal::Garbage)?;
        let (counts, []) = counts.as_chunks::<COUNT_BYTES>() else { return Err(Refusal::Garbage) };
        verify(&self.key, said, code).map_err(|_| Refusal::Forged)?;
        if at.abs_diff(now) > DATAGRAM_AGE_MAX.as_secs() {
            return Err(Refusal::Stale);
        }
        self.note(replica, sequence, at, now)?;
        Ok((replica, counts.iter().map(count).collect()))
    }

    /// Notes a datagram of a replica. The first one of a replica must not be older than what was forgotten.
    fn note(&mut self, replica: u64, number: u64, at: u64, now: u64) -> Result<(), Refusal> {
        if replica == self.replica {
            return Err(Refusal::Replayed);
        }
        if let Some(known) = self.known.iter_mut().find(|known| known.replica == replica) {
            if number <= known.number {
                return Err(Refusal::Replayed);
            }
            (known.number, known.at) = (number, at.max(known.at));
            return Ok(());
        }
        // A replica is forgotten after a silence so long that all of its datagrams are stale.
        let age_max = 2 * DATAGRAM_AGE_MAX.as_secs();
        self.known.retain(|known| now.saturating_sub(known.at) <= age_max);
        if self.known.len() >= 4 * REPLICAS_MAX {
            return Err(Refusal::Stale);
        }
        self.known.push(NewestDatagram { replica, number, at });
        Ok(())
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn count(bytes: &[u8; COUNT_BYTES]) -> Count {
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let subject = bytes.first_chunk::<16>().expect("a count is longer");
    Count { subject: u128::from_be_bytes(*subject), seconds: word(16), admitted: word(20), recent: word(24) }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::HMAC_SHA256;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn end(secret: &str, replica: u64) -> Datagrams {
        Datagrams::new(Key::new(HMAC_SHA256, secret.as_bytes()), replica)
    }

    fn counts(number: usize) -> Vec<Count> {
        let count = |at| Count { subject: u128::MAX - at, seconds: 60, admitted: at as u32, recent: 7 };
        (0..number as u128).map(count).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut one, mut other) = (end("secret", 1), end("secret", 2));
        let all = counts(2 * COUNTS_PER_DATAGRAM + 1);
        let datagrams = one.write(&all, NOW);
        assert_eq!(datagrams.len(), 3);
        assert!(datagrams.iter().all(|datagram| datagram.len() <= DATAGRAM_BYTES_MAX));
        let read: Vec<_> =
            datagrams.iter().flat_map(|datagram| other.read(datagram, NOW).unwrap().1).collect();
        assert_eq!(read, all);
        assert!(one.write(&[], NOW).is_empty());
    }

    #[test]
    fn garbage_and_what_was_changed_is_refused() {
        let (mut one, mut other) = (end("secret", 1), end("secret", 2));
        let datagram = one.write(&counts(2), NOW).remove(0);
        for at in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 1;
            let expected = if at < MAGIC.len() { Refusal::Garbage } else { Refusal::Forged };
            assert_eq!(other.read(&changed, NOW), Err(expected), "byte {at}");
            assert!(other.read(&datagram[..at], NOW).is_err(), "{at} bytes");
        }
        assert_eq!(other.read(&[datagram.as_slice(), b"x"].concat(), NOW), Err(Refusal::Garbage));
        assert_eq!(end("another", 3).read(&datagram, NOW), Err(Refusal::Forged));
        assert!(other.read(&datagram, NOW).is_ok());
    }

    #[test]
    fn what_comes_again_late_or_back_is_refused() {
        let (mut one, mut other) = (end("secret", 1), end("secret", 2));
        let datagrams: Vec<_> = (0..3).map(|_| one.write(&counts(1), NOW).remove(0)).collect();
        assert!(other.read(&datagrams[0], NOW).is_ok() && other.read(&datagrams[2], NOW).is_ok());
        for datagram in &datagrams {
            assert_eq!(other.read(datagram, NOW), Err(Refusal::Replayed));
            assert_eq!(one.read(datagram, NOW), Err(Refusal::Replayed), "its own");
        }
        let age_max = DATAGRAM_AGE_MAX.as_secs();
        for (now, expected) in [
            (NOW + age_max, None),
            (NOW - age_max, None),
            (NOW + age_max + 1, Some(Refusal::Stale)),
            (0, Some(Refusal::Stale)),
        ] {
            assert_eq!(end("secret", 3).read(&datagrams[0], now).err(), expected, "{now}");
        }
        // A replica that has restarted has a new identity.
        assert!(other.read(&end("secret", 9).write(&counts(1), NOW).remove(0), NOW).is_ok());
    }

    #[test]
    fn who_has_ended_is_forgotten_and_no_sooner_than_its_datagrams_are_stale() {
        let mut end_of_all = end("secret", 0);
        let first = end("secret", 1).write(&counts(1), NOW).remove(0);
        assert!(end_of_all.read(&first, NOW).is_ok());
        for replica in 2..=4 * REPLICAS_MAX as u64 {
            let datagram = end("secret", replica).write(&counts(1), NOW).remove(0);
            assert!(end_of_all.read(&datagram, NOW).is_ok());
        }
        let one_more = end("secret", 999).write(&counts(1), NOW).remove(0);
        assert_eq!(end_of_all.read(&one_more, NOW), Err(Refusal::Stale), "there is no room");
        assert_eq!(end_of_all.read(&first, NOW), Err(Refusal::Replayed));
        let later = NOW + 2 * DATAGRAM_AGE_MAX.as_secs() + 1;
        let newer = end("secret", 999).write(&counts(1), later).remove(0);
        assert!(end_of_all.read(&newer, later).is_ok());
        assert_eq!(end_of_all.known.len(), 1);
    }
}
