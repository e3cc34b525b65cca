//! The nonces of Digest authentication (RFC 7616 section 3.3). A nonce is stored only once it is used, so
//! that a flood of requests without a password takes no memory, and a request that is replayed is refused.
//!
//! A nonce consists of the second in which it was made, a random part, and a message authentication code over
//! both under a key of this process.

use std::collections::HashMap;
use std::io;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use parking_lot::Mutex;

use crate::limits::NONCES_USED_MAX;
use crate::password::equals;

/// Seconds within which a nonce has to be used for the first time (nginx's digest module:
/// `auth_digest_timeout`).
const TIMEOUT: u64 = 60;
/// Seconds for which it can be used after its first use (`auth_digest_expires`).
const EXPIRES: u64 = 10;
/// Request counts from which on it cannot be used (`auth_digest_replays`).
const REPLAYS: u32 = 20;

/// Hexadecimal digits of the second and of the random part.
const STAMP_BYTES: usize = 24;
/// Bytes of the code, each two digits.
const CODE_BYTES: usize = 16;

/// The nonces of all workers.
pub struct Nonces {
    key: Key,
    /// Nonces that have been used, by their random part. No cache: a nonce that is evicted before it expires
    /// could be replayed, so that clients are refused where there is no room.
    used: Mutex<HashMap<u64, Use>>,
}

/// A nonce that has been used.
struct Use {
    /// Second since 1970 from which on it cannot be used.
    expires: u64,
    /// Request counts that have been used, as a set of bits.
    counts: u32,
}

/// The validity of a nonce in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceUse {
    /// It is used for the first time with this request count.
    Good,
    /// It is too old, not ours, or used up: the client is to try again with a new one.
    Stale,
    /// There is no room to store its use.
    NoRoom,
}

impl Nonces {
    /// No nonce has been used.
    ///
    /// # Errors
    ///
    /// When the system has no randomness for the key.
    pub(crate) fn new() -> io::Result<Self> {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self { key, used: Mutex::default() })
    }

    /// A new nonce, at a second since 1970; `random` must be unique.
    pub fn make(&self, now: u64, random: u64) -> String {
        let stamp = format!("{:08x}{random:016x}", now as u32);
        let code = self.code(&stamp);
        stamp + &code
    }

    /// Uses a nonce for a request with this count (`nc`) whose password was right, at a second since 1970.
    pub fn take(&self, nonce: &str, count: u32, now: u64) -> NonceUse {
        let Some((made, random)) = self.read(nonce) else { return NonceUse::Stale };
        if count == 0 || count >= REPLAYS {
            return NonceUse::Stale;
        }
        let mut used = self.used.lock();
        if let Some(known) = used.get_mut(&random) {
            let is_good = now < known.expires && known.counts & 1 << count == 0;
            known.counts |= 1 << count;
            return if is_good { NonceUse::Good } else { NonceUse::Stale };
        }
        let is_in_time = made <= now + TIMEOUT && now < made + TIMEOUT;
        if !is_in_time {
            return NonceUse::Stale;
        }
        if used.len() >= NONCES_USED_MAX {
            // Once its time for a first use is over as well, a nonce that is forgotten counts as stale.
            used.retain(|_, known| now < known.expires + TIMEOUT);
        }
        if used.len() >= NONCES_USED_MAX {
            return NonceUse::NoRoom;
        }
        used.insert(random, Use { expires: now + EXPIRES, counts: 1 << count });
        NonceUse::Good
    }

    /// The second in which a nonce of ours was made, and its random part; none if the code does not match.
    fn read(&self, nonce: &str) -> Option<(u64, u64)> {
        let (stamp, code) = nonce.split_at_checked(STAMP_BYTES)?;
        if !equals(self.code(stamp).as_bytes(), code.as_bytes()) {
            return None;
        }
        let (made, random) = stamp.split_at_checked(8)?;
        Some((u64::from_str_radix(made, 16).ok()?, u64::from_str_radix(random, 16).ok()?))
    }

    fn code(&self, stamp: &str) -> String {
        let code = sign(&self.key, stamp.as_bytes());
        let code = code.as_ref().first_chunk::<CODE_BYTES>().expect("a code has 32 bytes");
        format!("{:032x}", u128::from_be_bytes(*code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn each_count_is_good_once() {
        let nonces = Nonces::new().unwrap();
        let nonce = nonces.make(NOW, 7);
        assert_eq!(nonces.take(&nonce, 1, NOW), NonceUse::Good);
        assert_eq!(nonces.take(&nonce, 3, NOW), NonceUse::Good);
        assert_eq!(nonces.take(&nonce, 2, NOW + 9), NonceUse::Good);
        for count in [0, 1, 2, 3, 20, u32::MAX] {
            assert_eq!(nonces.take(&nonce, count, NOW + 9), NonceUse::Stale, "{count}");
        }
        assert_eq!(nonces.take(&nonce, 19, NOW + 9), NonceUse::Good);
        assert_eq!(nonces.take(&nonce, 4, NOW + 10), NonceUse::Stale, "it is used for ten seconds");
    }

    #[test]
    fn one_that_is_not_used_in_time_is_stale() {
        let nonces = Nonces::new().unwrap();
        assert_eq!(nonces.take(&nonces.make(NOW, 1), 1, NOW + 59), NonceUse::Good);
        assert_eq!(nonces.take(&nonces.make(NOW, 2), 1, NOW + 60), NonceUse::Stale);
    }

    #[test]
    fn nonces_of_other_processes_are_stale() {
        let (nonces, others) = (Nonces::new().unwrap(), Nonces::new().unwrap());
        let mut nonce = nonces.make(NOW, 1);
        for other in [&others.make(NOW, 1)[..], "", "abc", "é", &nonce[..STAMP_BYTES]] {
            assert_eq!(nonces.take(other, 1, NOW), NonceUse::Stale, "{other}");
        }
        nonce.replace_range(..1, "7");
        assert_eq!(nonces.take(&nonce, 1, NOW), NonceUse::Stale, "the time is part of what is signed");
    }

    #[test]
    fn a_used_nonce_is_stored_until_it_is_stale_anyway() {
        let nonces = Nonces::new().unwrap();
        let used: Vec<_> = (0..NONCES_USED_MAX as u64).map(|number| nonces.make(NOW, number)).collect();
        assert!(used.iter().all(|nonce| nonces.take(nonce, 1, NOW) == NonceUse::Good));
        let next = nonces.make(NOW + 59, u64::MAX);
        assert_eq!(nonces.take(&next, 1, NOW + 59), NonceUse::NoRoom);
        let next = nonces.make(NOW + 70, u64::MAX);
        assert_eq!(nonces.take(&next, 1, NOW + 70), NonceUse::Good);
        assert_eq!(nonces.used.lock().len(), 1);
        assert!(used.iter().all(|nonce| nonces.take(nonce, 1, NOW + 70) == NonceUse::Stale));
    }
}
