//! The nonces of digest authentication (RFC 7616 section 3.3): given out without being remembered, and remembered once they are used, so
//! that neither a flood of requests without a password nor a request that is sent again comes to anything.
//!
//! A nonce is the second in which it was made, a random part, and a code over both under a key that nobody knows.

use std::collections::HashMap;
use std::io;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use parking_lot::Mutex;

use super::password::equals;
use crate::limits::NONCES_USED_MAX;

/// Seconds in which a nonce has to be used first (nginx's digest module: `auth_digest_timeout`).
const TIMEOUT: u64 = 60;
/// Seconds for which it can be used after that (`auth_digest_expires`).
const EXPIRES: u64 = 10;
/// Counts from which on it cannot be used (`auth_digest_replays`).
const REPLAYS: u32 = 20;

/// Hexadecimal digits of the second and of the random part.
const STAMP_BYTES: usize = 24;
/// Bytes of the code, each two digits.
const CODE_BYTES: usize = 16;

/// The nonces of all workers.
pub(crate) struct Nonces {
    key: Key,
    used: Mutex<HashMap<u64, Use>>,
}

/// A nonce that has been used, by its random part.
struct Use {
    /// The second after which it cannot be used, nor be taken for one that has not been.
    expires: u64,
    /// By number, the counts that have been seen.
    counts: u32,
}

/// What a nonce is worth whose password was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NonceUse {
    /// It is used for the first time with this count.
    Good,
    /// It is too old, or not ours, or was used too often: another one will do.
    Stale,
    /// There is no room to remember that it was used.
    NoRoom,
}

impl Nonces {
    /// None has been used.
    pub(super) fn new() -> io::Result<Self> {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self { key, used: Mutex::default() })
    }

    /// A new one, at this second; `random` is a number that nobody has had.
    pub(crate) fn make(&self, now: u64, random: u64) -> String {
        let stamp = format!("{:08x}{random:016x}", now as u32);
        let code = self.code(&stamp);
        stamp + &code
    }

    /// Uses one for the request with this count.
    pub(crate) fn take(&self, nonce: &str, count: u32, now: u64) -> NonceUse {
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
            // Those whose time to be used first is over are not taken for unused ones.
            used.retain(|_, known| now < known.expires + TIMEOUT);
        }
        if used.len() >= NONCES_USED_MAX {
            return NonceUse::NoRoom;
        }
        used.insert(random, Use { expires: now + EXPIRES, counts: 1 << count });
        NonceUse::Good
    }

    /// When a nonce of ours was made, and its random part.
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
    fn those_of_others_are_stale() {
        let (nonces, others) = (Nonces::new().unwrap(), Nonces::new().unwrap());
        let mut nonce = nonces.make(NOW, 1);
        for other in [&others.make(NOW, 1)[..], "", "abc", "é", &nonce[..STAMP_BYTES]] {
            assert_eq!(nonces.take(other, 1, NOW), NonceUse::Stale, "{other}");
        }
        nonce.replace_range(..1, "7");
        assert_eq!(nonces.take(&nonce, 1, NOW), NonceUse::Stale, "the time is part of what is signed");
    }

    #[test]
    fn what_was_used_is_remembered_until_it_is_stale_anyway() {
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
