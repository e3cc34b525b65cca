//! Answers of auth services that are kept, for all workers together.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use quick_cache::sync::{Cache as Map, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, UnitWeighter};

use crate::clock::Moment;
use crate::limits::{AUTH_ANSWER_BYTES_MAX, AUTH_ANSWERS_MAX, AUTH_UNSHARED_TIME};

/// What an auth service has answered.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) status: u16,
    /// Headers that the endpoint is to get.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    /// Values of variables of snippets.
    pub(crate) variables: Vec<(Arc<str>, Vec<u8>)>,
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
        let of_variables: usize = self.variables.iter().map(|(_, value)| value.len()).sum();
        of_fields + of_variables + self.challenges.iter().map(Vec::len).sum::<usize>()
    }
}

/// Answers by the digest of what tells them apart. Where there is no room, those go that are asked for least.
pub(crate) struct AuthCache {
    answers: Map<[u8; 32], Kept>,
}

/// A cached answer, and its expiry.
#[derive(Clone)]
struct Kept {
    until: Moment,
    /// None where the service's answer may not be kept, so that each request asks by itself.
    verdict: Option<Arc<Verdict>>,
}

/// Outcome of a look-up for a request whose answer may be cached.
pub(crate) enum Looked<'c> {
    /// There is an answer.
    Known(Arc<Verdict>),
    /// It asks, and others wait for what it learns.
    Ask(Asking<'c>),
    /// It asks for itself alone.
    AskAlone,
}

/// The right to ask for a key, and the duty to tell what came of it. One that is dropped passes to another request that waits.
pub(crate) struct Asking<'c>(
    PlaceholderGuard<'c, [u8; 32], Kept, UnitWeighter, DefaultHashBuilder, DefaultLifecycle<[u8; 32], Kept>>,
);

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

/// An unambiguous text of a value, for a [`Key`].
pub(crate) fn identity(value: &impl Hash) -> Vec<u8> {
    struct Bytes(Vec<u8>);
    impl Hasher for Bytes {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }
    let mut bytes = Bytes(Vec::new());
    value.hash(&mut bytes);
    bytes.0
}

impl Default for AuthCache {
    fn default() -> Self {
        Self { answers: Map::new(AUTH_ANSWERS_MAX) }
    }
}

impl AuthCache {
    /// Looks for an answer, and waits for one that another request has asked for.
    pub(crate) async fn look(&self, key: &Key, now: Moment) -> Looked<'_> {
        self.answers.remove_if(&key.0, |kept| kept.until <= now);
        match self.answers.get_value_or_guard_async(&key.0).await {
            Ok(Kept { verdict: Some(verdict), .. }) => Looked::Known(verdict),
            Ok(Kept { verdict: None, .. }) => Looked::AskAlone,
            Err(guard) => Looked::Ask(Asking(guard)),
        }
    }
}

impl Asking<'_> {
    /// Keeps an answer, and gives it to those who wait.
    pub(crate) fn keep(self, verdict: &Arc<Verdict>, until: Moment, now: Moment) {
        if verdict.bytes() > AUTH_ANSWER_BYTES_MAX {
            return self.keep_none(now);
        }
        let _ = self.0.insert(Kept { until, verdict: Some(Arc::clone(verdict)) });
    }

    /// Has those who wait ask by themselves, all at once: there is no answer for them.
    pub(crate) fn keep_none(self, now: Moment) {
        let _ = self.0.insert(Kept { until: now.after(AUTH_UNSHARED_TIME), verdict: None });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    fn poll<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
        std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn look<'c>(cache: &'c AuthCache, key: &Key, now: Moment) -> Looked<'c> {
        match poll(pin!(cache.look(key, now))) {
            Poll::Ready(looked) => looked,
            Poll::Pending => panic!("nobody asks"),
        }
    }

    fn put(cache: &AuthCache, key: &Key, now: Moment) {
        let Looked::Ask(asking) = look(cache, key, now) else { panic!("nothing is known") };
        asking.keep(&Arc::new(Verdict::bare(200)), now.after(SECOND), now);
    }

    #[test]
    fn answers_have_their_time_and_their_number() {
        let now = Clock::new(Clock::begin()).now();
        let (cache, key) = (AuthCache::default(), Key::of(&[b"a", b"b"]));
        put(&cache, &key, now);
        assert!(matches!(look(&cache, &key, now), Looked::Known(_)));
        assert!(matches!(look(&cache, &key, now.after(SECOND)), Looked::Ask(_)));
        assert!(matches!(look(&cache, &Key::of(&[b"ab", b""]), now), Looked::Ask(_)), "parts are told apart");
    }

    #[test]
    fn one_answer_too_many_takes_the_place_of_another_one_only() {
        let now = Clock::new(Clock::begin()).now();
        let cache = AuthCache::default();
        for number in 0..2 * AUTH_ANSWERS_MAX {
            put(&cache, &Key::of(&[&number.to_be_bytes()]), now);
        }
        let known = cache.answers.len();
        assert!((AUTH_ANSWERS_MAX / 2..=AUTH_ANSWERS_MAX * 11 / 10).contains(&known), "{known}");
    }

    #[test]
    fn one_request_asks_for_all_that_come_meanwhile() {
        let now = Clock::new(Clock::begin()).now();
        let (cache, key) = (AuthCache::default(), Key::of(&[b"a"]));
        let Looked::Ask(asking) = look(&cache, &key, now) else { panic!("nothing is known") };
        let (mut one, mut other) = (Box::pin(cache.look(&key, now)), Box::pin(cache.look(&key, now)));
        assert!(poll(&mut one).is_pending() && poll(&mut other).is_pending());
        asking.keep(&Arc::new(Verdict::bare(200)), now.after(SECOND), now);
        for waiting in [one, other] {
            assert!(matches!(poll(waiting), Poll::Ready(Looked::Known(verdict)) if verdict.status == 200));
        }
    }

    #[test]
    fn no_request_waits_for_an_answer_that_is_not_for_it() {
        let now = Clock::new(Clock::begin()).now();
        let (cache, key) = (AuthCache::default(), Key::of(&[b"a"]));
        let Looked::Ask(asking) = look(&cache, &key, now) else { panic!("nothing is known") };
        let mut waiting = Box::pin(cache.look(&key, now));
        assert!(poll(&mut waiting).is_pending());
        asking.keep_none(now);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Looked::AskAlone)));
        let Looked::Ask(asking) = look(&cache, &key, now.after(2 * SECOND)) else {
            panic!("it was forgotten")
        };
        let mut waiting = Box::pin(cache.look(&key, now));
        assert!(poll(&mut waiting).is_pending());
        drop(asking);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Looked::Ask(_))), "whose client has gone");
    }
}
