//! What replicas tell each other of their counts, as datagrams: who says it, a number that only grows, when, and a code over all of it
//! under the secret of the replicas.
//!
//! ```text
//! "FBQ1" | replica: 8 | number: 8 | seconds since 1970: 8 | counts of 28 bytes each | code: 32
//! ```
//!
//! A datagram that is lost, comes late or comes twice does no harm: counts are those of all time, and older ones than the newest are refused.
//! A replica is told apart from the one before it at the same address by a number that it takes when it begins.
//!
//! Never in here: sockets, a clock.

use aws_lc_rs::hmac::{sign, verify};
use observe::Counter;

use super::peers::ReplicaSecret;
use crate::clients::Count;
use crate::limits::{REPLICA_DATAGRAM_BYTES_MAX, REPLICA_MARK_AGE_MAX, REPLICAS_MAX};

const MAGIC: &[u8; 4] = b"FBQ1";
const HEAD_BYTES: usize = 4 + 3 * 8;
const COUNT_BYTES: usize = 16 + 3 * 4;
const CODE_BYTES: usize = 32;

/// Counts that one datagram has room for.
pub(super) const COUNTS_PER_DATAGRAM: usize =
    (REPLICA_DATAGRAM_BYTES_MAX - HEAD_BYTES - CODE_BYTES) / COUNT_BYTES;

/// One end of the exchange of counts.
pub(crate) struct CountExchange {
    secret: ReplicaSecret,
    /// This replica, from its beginning to its end.
    replica: u64,
    /// Of the datagram that was written last.
    number: u64,
    known: Vec<Known>,
}

/// Another replica.
struct Known {
    replica: u64,
    /// Of the newest datagram of it.
    number: u64,
    /// When it was written, in seconds since 1970.
    at: u64,
}

/// Why a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is none.
    Garbage,
    /// Whoever has written it does not know the secret.
    Forged,
    /// It is too old, or from a clock that is wrong.
    Stale,
    /// A newer one, or this one, has come already.
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

impl CountExchange {
    /// An end of a replica that is called by a random number.
    pub(crate) fn new(secret: ReplicaSecret, replica: u64) -> Self {
        Self { secret, replica, number: 0, known: Vec::new() }
    }

    /// Datagrams with counts, for all other replicas.
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
        let code = sign(self.secret.key(), &datagram);
        datagram.extend_from_slice(code.as_ref());
        datagram
    }

    /// Reads a datagram: which replica has written it, and what it counts.
    pub(crate) fn read(&mut self, datagram: &[u8], now: u64) -> Result<(u64, Vec<Count>), Refusal> {
        let said = datagram.len().checked_sub(CODE_BYTES).ok_or(Refusal::Garbage)?;
        let (said, code) = datagram.split_at(said);
        let head = said.strip_prefix(MAGIC).ok_or(Refusal::Garbage)?;
        let (replica, rest) = number(head).ok_or(Refusal::Garbage)?;
        let (sequence, rest) = number(rest).ok_or(Refusal::Garbage)?;
        let (at, counts) = number(rest).ok_or(Refusal::Garbage)?;
        let (counts, []) = counts.as_chunks::<COUNT_BYTES>() else { return Err(Refusal::Garbage) };
        verify(self.secret.key(), said, code).map_err(|_| Refusal::Forged)?;
        if at.abs_diff(now) > REPLICA_MARK_AGE_MAX.as_secs() {
            return Err(Refusal::Stale);
        }
        self.note(replica, sequence, at, now)?;
        Ok((replica, counts.iter().map(count).collect()))
    }

    /// Notes that a replica has sent a datagram; the first of them, where it is not older than what was forgotten.
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
        // Who is forgotten has been silent for so long that all of its datagrams are stale.
        let age_max = 2 * REPLICA_MARK_AGE_MAX.as_secs();
        self.known.retain(|known| now.saturating_sub(known.at) <= age_max);
        if self.known.len() >= 4 * REPLICAS_MAX {
            return Err(Refusal::Stale);
        }
        self.known.push(Known { replica, number, at });
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
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn end(secret: &str, replica: u64) -> CountExchange {
        CountExchange::new(ReplicaSecret::new(secret.as_bytes()), replica)
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
        assert!(datagrams.iter().all(|datagram| datagram.len() <= REPLICA_DATAGRAM_BYTES_MAX));
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
        let age_max = REPLICA_MARK_AGE_MAX.as_secs();
        for (now, expected) in [
            (NOW + age_max, None),
            (NOW - age_max, None),
            (NOW + age_max + 1, Some(Refusal::Stale)),
            (0, Some(Refusal::Stale)),
        ] {
            assert_eq!(end("secret", 3).read(&datagrams[0], now).err(), expected, "{now}");
        }
        // One that has begun anew is another.
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
        let later = NOW + 2 * REPLICA_MARK_AGE_MAX.as_secs() + 1;
        let newer = end("secret", 999).write(&counts(1), later).remove(0);
        assert!(end_of_all.read(&newer, later).is_ok());
        assert_eq!(end_of_all.known.len(), 1);
    }
}
