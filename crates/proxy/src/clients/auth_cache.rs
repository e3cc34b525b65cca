//! Answers of auth services that are kept, for all workers together.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;

use crate::clock::Moment;
use crate::limits::{AUTH_ANSWER_BYTES_MAX, AUTH_ANSWERS_MAX};

/// What an auth service has answered.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) status: u16,
    /// Headers that the endpoint is to get.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    /// Values of `WWW-Authenticate`.
    pub(crate) challenges: Vec<Vec<u8>>,
    pub(crate) cookies: Vec<Vec<u8>>,
    /// Whether it may be kept (RFC 9111 section 3, as far as nginx looks).
    pub(crate) is_kept: bool,
}

impl Verdict {
    /// An answer of which nothing but the status is known.
    pub(crate) fn bare(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// How much memory it takes, roughly.
    fn bytes(&self) -> usize {
        let of_fields: usize = self.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        of_fields + self.challenges.iter().map(Vec::len).sum::<usize>()
    }
}

/// Answers by the digest of what tells them apart.
#[derive(Default)]
pub(crate) struct AuthCache {
    answers: Mutex<HashMap<[u8; 32], Kept>>,
}

/// An answer, and until when it counts.
type Kept = (Moment, Arc<Verdict>);

/// What an answer is kept under.
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of several texts. Each is preceded by its length, so that no two lists have the same one.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut text = Vec::new();
        for part in parts {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, &text).as_ref());
        Self(key)
    }
}

impl AuthCache {
    pub(crate) fn get(&self, key: &Key, now: Moment) -> Option<Arc<Verdict>> {
        let answers = self.answers.lock();
        answers.get(&key.0).filter(|(until, _)| now < *until).map(|(_, verdict)| Arc::clone(verdict))
    }

    /// Keeps an answer. Where there is no room, those go that have had their time, and otherwise all.
    pub(crate) fn put(&self, key: &Key, until: Moment, verdict: &Arc<Verdict>, now: Moment) {
        if verdict.bytes() > AUTH_ANSWER_BYTES_MAX {
            return;
        }
        let mut answers = self.answers.lock();
        if answers.len() >= AUTH_ANSWERS_MAX {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() >= AUTH_ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(key.0, (until, Arc::clone(verdict)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn answers_have_their_time_and_their_number() {
        let clock = Clock::new(Clock::begin());
        let (cache, verdict) = (AuthCache::default(), Arc::new(Verdict::default()));
        let (now, until) = (clock.now(), clock.now().after(Duration::from_secs(1)));
        let key = Key::of(&[b"a", b"b"]);
        cache.put(&key, until, &verdict, now);
        assert!(cache.get(&key, now).is_some() && cache.get(&key, until).is_none());
        assert!(cache.get(&Key::of(&[b"ab", b""]), now).is_none(), "parts are told apart");
        for number in 0..AUTH_ANSWERS_MAX {
            cache.put(&Key::of(&[&number.to_be_bytes()]), until, &verdict, now);
        }
        assert!(cache.answers.lock().len() <= AUTH_ANSWERS_MAX);
    }
}
