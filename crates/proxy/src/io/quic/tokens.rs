//! Tokens by which a client shows at its next connection that it receives at its address (`NEW_TOKEN`, RFC
//! 9000 section 8.1.3). Each is taken once: a token that was overheard would let others have responses sent
//! to that address.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use quinn_proto::{TokenLog, TokenReuseError};

use crate::limits::QUIC_TOKENS_USED_MAX;

/// The tokens that have been used, by their nonces.
#[derive(Default)]
pub(crate) struct UsedTokens(Mutex<Used>);

/// Two sets, so that those of tokens that have expired are dropped together.
#[derive(Default)]
struct Used {
    recent: HashSet<u128>,
    older: HashSet<u128>,
    /// When the first token of `recent` was issued at the earliest.
    since: Option<SystemTime>,
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        self.0.lock().note(nonce, issued, lifetime).then_some(()).ok_or(TokenReuseError)
    }
}

impl Used {
    /// Notes a token. False where it has been used, or there is no room to note it: then the client's address
    /// is validated as if it had none.
    fn note(&mut self, nonce: u128, issued: SystemTime, lifetime: Duration) -> bool {
        // A token is issued before it is used. Once one has come that was issued a lifetime after the first
        // of the recent ones came, those before them have all expired.
        let since = *self.since.get_or_insert(issued);
        let is_later = issued.duration_since(since).is_ok_and(|age| age > lifetime);
        if is_later {
            self.older = std::mem::take(&mut self.recent);
            self.since = Some(issued);
        }
        let is_new = !self.recent.contains(&nonce) && !self.older.contains(&nonce);
        is_new && self.recent.len() < QUIC_TOKENS_USED_MAX && self.recent.insert(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    #[test]
    fn a_token_is_taken_once_and_forgotten_no_sooner_than_it_expires() {
        let mut used = Used::default();
        let begin = SystemTime::UNIX_EPOCH;
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(used.note(1, at(0), LIFETIME));
        assert!(used.note(2, at(59), LIFETIME));
        assert!(!used.note(1, at(0), LIFETIME) && !used.note(2, at(59), LIFETIME));
        assert!(used.note(3, at(61), LIFETIME));
        assert!(!used.note(2, at(59), LIFETIME), "it has not expired");
        assert!(used.note(4, at(122), LIFETIME));
        assert!(!used.note(3, at(61), LIFETIME), "it has not expired");
        assert_eq!((used.recent.len(), used.older.len()), (1, 1));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut used = Used::default();
        let issued = SystemTime::UNIX_EPOCH;
        assert!((0..QUIC_TOKENS_USED_MAX as u128).all(|nonce| used.note(nonce, issued, LIFETIME)));
        assert!(!used.note(u128::MAX, issued, LIFETIME));
    }
}
