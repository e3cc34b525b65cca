//! Cached answers of auth services, for all workers together.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use clock::Moment;
use deciders::authz::Verdict;
use quick_cache::sync::{Cache as Map, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, UnitWeighter};

use crate::limits::{AUTH_ANSWER_BYTES_MAX, AUTH_ANSWERS_MAX, AUTH_UNSHARED_TIME};

/// The answer of an auth service.
#[derive(Debug, Default)]
pub struct AuthAnswer {
    /// The status that the authentication service answered.
    pub status: u16,
    /// Headers for the endpoint.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Values of variables of snippets.
    pub variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Values of `WWW-Authenticate`.
    pub challenges: Vec<Vec<u8>>,
    /// Values of `Set-Cookie`.
    pub cookies: Vec<Vec<u8>>,
    /// Whether it may be cached (RFC 9111 section 3, as far as nginx follows it).
    pub is_cacheable: bool,
}

impl AuthAnswer {
    /// An answer with nothing but a status.
    pub fn bare(status: u16) -> Self {
        Self { status, ..Self::default() }
    }
}

impl CachedAnswer for AuthAnswer {
    fn bytes(&self) -> usize {
        let of_fields: usize = self.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        let of_variables: usize = self.variables.iter().map(|(_, value)| value.len()).sum();
        of_fields + of_variables + self.challenges.iter().map(Vec::len).sum::<usize>()
    }
}

impl CachedAnswer for Verdict {
    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// Cached answers by key. Where there is no room, those are evicted that are used least.
pub struct AuthCache<A = AuthAnswer> {
    answers: Map<[u8; 32], Entry<A>>,
}

/// An answer that can be cached.
pub trait CachedAnswer {
    /// Approximate bytes of memory.
    fn bytes(&self) -> usize;
}

/// A cached answer, and its expiry.
struct Entry<A> {
    until: Moment,
    /// None where the answer may not be cached, so that each request calls the service itself.
    answer: Option<Arc<A>>,
}

impl<A> Clone for Entry<A> {
    fn clone(&self) -> Self {
        Self { until: self.until, answer: self.answer.clone() }
    }
}

/// The result of a lookup in an [`AuthCache`].
pub enum Lookup<'c, A = AuthAnswer> {
    /// The answer is cached.
    Cached(Arc<A>),
    /// The request calls the service, and others with the same key wait for its answer.
    Fetch(Fetch<'c, A>),
    /// The request calls the service for itself alone.
    FetchAlone,
}

/// The obligation of one request to call the service for all with the same key. One that is dropped passes to
/// another request that waits.
pub struct Fetch<'c, A = AuthAnswer>(Guard<'c, A>);

/// The place of an answer in the map until it is known.
type Guard<'c, A> = PlaceholderGuard<
    'c,
    [u8; 32],
    Entry<A>,
    UnitWeighter,
    DefaultHashBuilder,
    DefaultLifecycle<[u8; 32], Entry<A>>,
>;

/// The key of a cached answer: a digest of what the answer depends on.
pub struct AuthKey([u8; 32]);

impl AuthKey {
    /// The key of several texts. Each is preceded by its length, so that two lists of texts have different
    /// keys.
    pub fn of(parts: &[&[u8]]) -> Self {
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

/// The bytes that a value feeds to a hasher, as an unambiguous text for an [`AuthKey`].
pub fn identity(value: &impl Hash) -> Vec<u8> {
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

impl<A> Default for AuthCache<A> {
    fn default() -> Self {
        Self { answers: Map::new(AUTH_ANSWERS_MAX) }
    }
}

impl<A> AuthCache<A> {
    /// Looks an answer up. Waits while another request calls the service for the same key.
    pub async fn look_up(&self, key: &AuthKey, now: Moment) -> Lookup<'_, A> {
        self.answers.remove_if(&key.0, |entry| entry.until <= now);
        match self.answers.get_value_or_guard_async(&key.0).await {
            Ok(Entry { answer: Some(answer), .. }) => Lookup::Cached(answer),
            Ok(Entry { answer: None, .. }) => Lookup::FetchAlone,
            Err(guard) => Lookup::Fetch(Fetch(guard)),
        }
    }
}

impl<A: CachedAnswer> Fetch<'_, A> {
    /// Caches an answer until a moment, and gives it to the requests that wait. One that is too large is not
    /// cached.
    pub fn store(self, answer: &Arc<A>, until: Moment, now: Moment) {
        if answer.bytes() > AUTH_ANSWER_BYTES_MAX {
            return self.store_none(now);
        }
        let _ = self.0.insert(Entry { until, answer: Some(Arc::clone(answer)) });
    }

    /// Records that the answer cannot be cached: the requests that wait call the service themselves, all at
    /// once.
    pub fn store_none(self, now: Moment) {
        let _ = self.0.insert(Entry { until: now.after(AUTH_UNSHARED_TIME), answer: None });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use clock::Clock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn poll<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
        std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn look_up<'c>(cache: &'c AuthCache, key: &AuthKey, now: Moment) -> Lookup<'c> {
        match poll(pin!(cache.look_up(key, now))) {
            Poll::Ready(found) => found,
            Poll::Pending => panic!("no other request calls the service"),
        }
    }

    fn put(cache: &AuthCache, key: &AuthKey, now: Moment) {
        let Lookup::Fetch(fetch) = look_up(cache, key, now) else { panic!("nothing is cached") };
        fetch.store(&Arc::new(AuthAnswer::bare(200)), now.after(SECOND), now);
    }

    #[test]
    fn answers_expire_and_have_keys_of_their_own() {
        let now = Clock::new(Clock::begin()).now();
        let (cache, key) = (AuthCache::default(), AuthKey::of(&[b"a", b"b"]));
        put(&cache, &key, now);
        assert!(matches!(look_up(&cache, &key, now), Lookup::Cached(_)));
        assert!(matches!(look_up(&cache, &key, now.after(SECOND)), Lookup::Fetch(_)));
        assert!(
            matches!(look_up(&cache, &AuthKey::of(&[b"ab", b""]), now), Lookup::Fetch(_)),
            "the parts differ"
        );
    }

    #[test]
    fn a_full_cache_evicts_single_answers() {
        let now = Clock::new(Clock::begin()).now();
        let cache = AuthCache::default();
        for number in 0..2 * AUTH_ANSWERS_MAX {
            put(&cache, &AuthKey::of(&[&number.to_be_bytes()]), now);
        }
        let known = cache.answers.len();
        assert!((AUTH_ANSWERS_MAX / 2..=AUTH_ANSWERS_MAX * 11 / 10).contains(&known), "{known}");
    }

    #[test]
    fn one_request_calls_the_service_for_all_that_wait() {
        let now = Clock::new(Clock::begin()).now();
        let (cache, key) = (AuthCache::default(), AuthKey::of(&[b"a"]));
        let Lookup::Fetch(fetch) = look_up(&cache, &key, now) else { panic!("nothing is cached") };
        let (mut one, mut other) = (Box::pin(cache.look_up(&key, now)), Box::pin(cache.look_up(&key, now)));
        assert!(poll(&mut one).is_pending() && poll(&mut other).is_pending());
        fetch.store(&Arc::new(AuthAnswer::bare(200)), now.after(SECOND), now);
        for waiting in [one, other] {
            assert!(matches!(poll(waiting), Poll::Ready(Lookup::Cached(answer)) if answer.status == 200));
        }
    }

    #[test]
    fn no_request_waits_for_an_answer_that_is_not_cached() {
        let now = Clock::new(Clock::begin()).now();
        let (cache, key) = (AuthCache::default(), AuthKey::of(&[b"a"]));
        let Lookup::Fetch(fetch) = look_up(&cache, &key, now) else { panic!("nothing is cached") };
        let mut waiting = Box::pin(cache.look_up(&key, now));
        assert!(poll(&mut waiting).is_pending());
        fetch.store_none(now);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Lookup::FetchAlone)));
        let Lookup::Fetch(fetch) = look_up(&cache, &key, now.after(2 * SECOND)) else {
            panic!("the entry has expired")
        };
        let mut waiting = Box::pin(cache.look_up(&key, now));
        assert!(poll(&mut waiting).is_pending());
        drop(fetch);
        assert!(
            matches!(poll(&mut waiting), Poll::Ready(Lookup::Fetch(_))),
            "the first request has ended without an answer"
        );
    }
}
