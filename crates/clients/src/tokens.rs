//! JSON Web Tokens that were verified, and those that were forged, for all workers together.
//!
//! A token that comes again costs a look-up: it is compared byte by byte, and no signature is checked. Forged
//! tokens are remembered apart from the others, so that a flood of them evicts none that is good, and each
//! client has a number of them in a second.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use clock::Moment;
use identity::json::Object;
use quick_cache::sync::Cache as Map;
use quick_cache::{Equivalent, Weighter};

use crate::failures::Failures;
use crate::limits::{
    TOKEN_BYTES_FIXED, TOKENS_BYTES_MAX, TOKENS_FORGED_MAX, TOKENS_FORGED_PER_SECOND, TOKENS_FORGED_TIME,
    TOKENS_LIKELY, TOKENS_SUSPECT_SECONDS,
};

/// A token that was verified.
#[derive(Debug)]
pub struct VerifiedToken {
    /// The number of its issuer among those of the settings.
    pub issuer: usize,
    /// The generation of the issuer's keys with which it was verified.
    pub generation: u64,
    /// When it ends.
    pub until: Moment,
    /// The claims of the token.
    pub claims: Object,
}

/// The tokens of all workers.
pub struct Tokens {
    verified: Map<Key, Arc<VerifiedToken>, Weights>,
    forged: Map<[u8; 32], Forged>,
    /// Forged tokens of clients.
    failures: Failures,
}

#[derive(Clone, Copy)]
struct Forged {
    generation: u64,
    until: Moment,
}

/// A token, and the digest of the settings that it satisfies.
#[derive(PartialEq, Eq)]
struct Key {
    settings: [u8; 32],
    token: Box<[u8]>,
}

struct Query<'q> {
    settings: &'q [u8; 32],
    token: &'q [u8],
}

/// The end of a token is its signature, which nobody but the issuer can choose: it suffices for a hash.
const HASHED_BYTES: usize = 32;

impl Hash for Query<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.settings[..8]);
        state.write(&self.token[self.token.len().saturating_sub(HASHED_BYTES)..]);
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Query { settings: &self.settings, token: &self.token }.hash(state);
    }
}

impl Equivalent<Key> for Query<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.settings == key.settings && *self.token == *key.token
    }
}

#[derive(Clone)]
struct Weights;

impl Weighter<Key, Arc<VerifiedToken>> for Weights {
    /// Approximate bytes of memory: the claims are in the token too, encoded, and take more as a table.
    fn weight(&self, key: &Key, _: &Arc<VerifiedToken>) -> u64 {
        (TOKEN_BYTES_FIXED + 4 * key.token.len()) as u64
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            verified: Map::with_weighter(TOKENS_LIKELY, TOKENS_BYTES_MAX, Weights),
            forged: Map::new(TOKENS_FORGED_MAX),
            failures: Failures::new(Duration::from_secs(1), TOKENS_FORGED_PER_SECOND),
        }
    }
}

impl Tokens {
    /// A token that was verified for settings with this digest, and has not ended. The caller compares the
    /// generation of its keys.
    pub fn verified(&self, settings: &[u8; 32], token: &[u8], now: Moment) -> Option<Arc<VerifiedToken>> {
        self.verified.get(&Query { settings, token }).filter(|known| now < known.until)
    }

    /// Remembers a token that was verified.
    pub fn keep(&self, settings: &[u8; 32], token: &[u8], verified: Arc<VerifiedToken>) {
        if verified.generation != 0 {
            self.verified.insert(Key { settings: *settings, token: token.into() }, verified);
        }
    }

    /// Whether a token was found to be forged a short time ago, with keys of this generation.
    pub fn is_forged(&self, settings: &[u8; 32], token: &[u8], generation: u64, now: Moment) -> bool {
        let known = self.forged.get(&digest(settings, token));
        known.is_some_and(|known| known.generation == generation && now < known.until)
    }

    /// Remembers that a token has a signature that no key of this generation has made.
    pub fn keep_forged(&self, settings: &[u8; 32], token: &[u8], generation: u64, now: Moment) {
        let forged = Forged { generation, until: now.after(TOKENS_FORGED_TIME) };
        self.forged.insert(digest(settings, token), forged);
    }

    /// Whether a client has had so many forged tokens in this second that no signature is checked for it.
    pub fn is_exhausted(&self, client: IpAddr, now: Moment) -> bool {
        self.failures.exhausted_for(client, now).is_some()
    }

    /// Whether a client has had a forged token a short time ago.
    pub fn is_suspect(&self, client: IpAddr, now: Moment) -> bool {
        self.failures.has_failed(client, TOKENS_SUSPECT_SECONDS, now)
    }

    /// Counts a forged token of a client.
    pub fn count_forged(&self, client: IpAddr, now: Moment) {
        self.failures.count(client, now);
    }
}

fn digest(settings: &[u8; 32], token: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(settings);
    context.update(token);
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::BEGIN;
    const SETTINGS: [u8; 32] = [1; 32];

    fn token(until: Moment) -> Arc<VerifiedToken> {
        Arc::new(VerifiedToken { issuer: 0, generation: 7, until, claims: Object::new() })
    }

    #[test]
    fn a_token_is_known_for_its_settings_until_it_ends() {
        let (tokens, end) = (Tokens::default(), NOW.after(Duration::from_secs(5)));
        tokens.keep(&SETTINGS, b"a.b.c", token(end));
        assert!(tokens.verified(&SETTINGS, b"a.b.c", NOW).is_some());
        assert!(tokens.verified(&SETTINGS, b"a.b.c", end).is_none());
        assert!(tokens.verified(&[2; 32], b"a.b.c", NOW).is_none());
        assert!(tokens.verified(&SETTINGS, b"a.b.d", NOW).is_none());
        // These have the same hash.
        let (one, other) = ([b"x", &[b'a'; 40][..]].concat(), [b"y", &[b'a'; 40][..]].concat());
        tokens.keep(&SETTINGS, &one, token(end));
        assert!(tokens.verified(&SETTINGS, &one, NOW).is_some());
        assert!(tokens.verified(&SETTINGS, &other, NOW).is_none());
    }

    #[test]
    fn memory_is_bounded_by_bytes() {
        let tokens = Tokens::default();
        let many = 2 * TOKENS_BYTES_MAX / (4 * 10_000);
        for number in 0..many {
            let mut text = vec![b'a'; 10_000];
            text.extend_from_slice(number.to_string().as_bytes());
            tokens.keep(&SETTINGS, &text, token(Moment::NEVER));
        }
        assert!(tokens.verified.weight() <= TOKENS_BYTES_MAX, "{}", tokens.verified.weight());
        assert!(tokens.verified.len() as u64 > many / 4);
    }

    #[test]
    fn forged_tokens_are_known_for_a_while_and_their_keys() {
        let tokens = Tokens::default();
        tokens.keep_forged(&SETTINGS, b"a.b.c", 7, NOW);
        let known = |generation, now| tokens.is_forged(&SETTINGS, b"a.b.c", generation, now);
        assert!(known(7, NOW) && !known(8, NOW) && !known(7, NOW.after(TOKENS_FORGED_TIME)));
        assert!(!tokens.is_forged(&[2; 32], b"a.b.c", 7, NOW));
    }

    #[test]
    fn clients_have_a_number_of_forged_tokens_in_a_second() {
        let (tokens, client) = (Tokens::default(), "192.0.2.1".parse().unwrap());
        for _ in 0..TOKENS_FORGED_PER_SECOND {
            assert!(!tokens.is_exhausted(client, NOW));
            tokens.count_forged(client, NOW);
        }
        assert!(tokens.is_exhausted(client, NOW));
        assert!(!tokens.is_exhausted(client, NOW.after(Duration::from_secs(1))));
        assert!(tokens.is_suspect(client, NOW.after(Duration::from_secs(9))));
        assert!(!tokens.is_suspect(client, NOW.after(Duration::from_secs(12))));
    }
}
