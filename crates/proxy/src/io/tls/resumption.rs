//! Resumption of sessions with clients, shared by all workers and all generations of the configuration.
//!
//! A session may be resumed only if a full handshake would have had the same result. rustls ensures that the
//! server name is the same; beyond that, every session belongs to a [`Scope`], which stands for the
//! certificate shown and for what was asked of the client. The client's certificate is verified again on
//! each connection.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use clock::{Clock, Moment, Start};
use model::{ClientAuth, VerifyClient};
use parking_lot::Mutex;
use rustls::server::{ProducesTickets, StoresServerSessions};

use crate::limits::SESSION_BYTES_MAX;

/// The shared state: the cache of sessions, and the key of session tickets.
pub(super) struct Resumption {
    clock: Clock,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    ticketer: Option<Arc<dyn ProducesTickets>>,
}

/// Everything that a session and the handshake that resumes it must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope([u8; SCOPE_BYTES]);

/// The sessions of one scope.
pub(super) struct Scoped {
    pub(super) shared: Arc<Resumption>,
    pub(super) scope: Scope,
    /// Age after which a session is not resumed.
    pub(super) timeout: Duration,
}

/// Sessions that are evicted by age. `quick_cache` would evict new ones first that have not been read yet,
/// and in TLS 1.3 a session is read once.
#[derive(Default)]
struct Shard {
    sessions: HashMap<Vec<u8>, StoredTicket>,
    /// The keys, sorted by age with the oldest first. Some belong to sessions that are gone.
    by_age: VecDeque<(Vec<u8>, u64)>,
    bytes: usize,
    serial: u64,
}

struct StoredTicket {
    value: Vec<u8>,
    scope: Scope,
    expires: Moment,
    serial: u64,
}

/// Number of locks, so that workers seldom wait for each other.
const SHARDS: usize = 16;
const SCOPE_BYTES: usize = 16;
/// Bytes that a session takes beside its own data: its places in the table and in the queue, and the second
/// copy of its key.
const OVERHEAD_BYTES: usize = 224;
/// Length of what precedes the session in a ticket.
const TICKET_PREFIX_BYTES: usize = SCOPE_BYTES + 8;

impl Resumption {
    pub(super) fn new(start: Start) -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::new(start),
            hasher: RandomState::new(),
            shards: Default::default(),
            // This fails only without a source of randomness, in which case handshakes fail too.
            ticketer: rustls::crypto::aws_lc_rs::Ticketer::new().ok(),
        })
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn now(&self) -> Moment {
        self.clock.update();
        self.clock.now()
    }
}

impl Scope {
    /// `leaf` is the certificate that is shown, in DER.
    pub(super) fn new(leaf: &[u8], client_auth: Option<&ClientAuth>) -> Self {
        let mut digest = Context::new(&SHA256);
        let mut add = |bytes: &[u8]| {
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        add(leaf);
        if let Some(ClientAuth { authorities, verify, depth, ends_handshake }) = client_auth {
            // A session without a client certificate must not be resumed once a certificate is required.
            add(&[u8::from(*verify == VerifyClient::On), u8::from(*ends_handshake)]);
            add(&depth.to_be_bytes());
            authorities.certificates.iter().for_each(|der| add(der));
        }
        let mut scope = [0; SCOPE_BYTES];
        scope.copy_from_slice(&digest.finish().as_ref()[..SCOPE_BYTES]);
        Self(scope)
    }

    /// The same for sessions over QUIC, which are not resumed on TCP, nor those of TCP on QUIC.
    pub(super) fn of_quic(mut self) -> Self {
        self.0.iter_mut().for_each(|byte| *byte = !*byte);
        self
    }
}

impl Scope {
    /// The same for sessions that may be resumed with early data: a client may rely on what it was promised
    /// then, and has to ask from the same address.
    pub(super) fn bound_to(self, binding: &[u8]) -> Self {
        let mut digest = Context::new(&SHA256);
        digest.update(&self.0);
        digest.update(binding);
        let mut scope = [0; SCOPE_BYTES];
        scope.copy_from_slice(&digest.finish().as_ref()[..SCOPE_BYTES]);
        Self(scope)
    }
}

/// No session is kept by the client: each is in the cache, from which it is taken once.
#[derive(Debug)]
pub(super) struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

// === impl StoresServerSessions ===

impl StoresServerSessions for Scoped {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let now = self.shared.now();
        let kept = StoredTicket { value, scope: self.scope, expires: now.after(self.timeout), serial: 0 };
        self.shared.shard(&key).lock().put(key, kept, now);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now = self.shared.now();
        let shard = self.shared.shard(key).lock();
        shard.sessions.get(key).filter(|kept| self.may_resume(kept, now)).map(|kept| kept.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now = self.shared.now();
        let mut shard = self.shared.shard(key).lock();
        shard.sessions.get(key).filter(|kept| self.may_resume(kept, now))?;
        shard.remove(key).map(|kept| kept.value)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl Scoped {
    fn may_resume(&self, kept: &StoredTicket, now: Moment) -> bool {
        kept.scope == self.scope && now < kept.expires
    }
}

impl Shard {
    fn put(&mut self, key: Vec<u8>, kept: StoredTicket, now: Moment) {
        self.remove(&key);
        self.serial += 1;
        let kept = StoredTicket { serial: self.serial, ..kept };
        self.bytes += weight(&key, &kept);
        self.by_age.push_back((key.clone(), kept.serial));
        self.sessions.insert(key, kept);
        while let Some((key, serial)) = self.by_age.front() {
            let found = self.sessions.get(key).filter(|kept| kept.serial == *serial);
            let is_to_go =
                found.is_none_or(|kept| kept.expires <= now || self.bytes > SESSION_BYTES_MAX / SHARDS);
            if !is_to_go {
                break;
            }
            let is_there = found.is_some();
            if let Some((key, _)) = self.by_age.pop_front()
                && is_there
            {
                self.remove(&key);
            }
        }
        self.compact();
    }

    fn remove(&mut self, key: &[u8]) -> Option<StoredTicket> {
        let kept = self.sessions.remove(key)?;
        self.bytes -= weight(key, &kept);
        Some(kept)
    }

    /// Removes the keys of sessions that were resumed. Otherwise they would stay until the oldest session
    /// expires.
    fn compact(&mut self) {
        if self.by_age.len() > 2 * self.sessions.len() + 64 {
            let sessions = &self.sessions;
            self.by_age.retain(|(key, serial)| sessions.get(key).is_some_and(|kept| kept.serial == *serial));
        }
    }
}

fn weight(key: &[u8], kept: &StoredTicket) -> usize {
    OVERHEAD_BYTES + 2 * key.len() + kept.value.len()
}

// === impl ProducesTickets ===

/// In a ticket, the scope and the time of its expiry precede the session.
impl ProducesTickets for Scoped {
    fn enabled(&self) -> bool {
        self.shared.ticketer.is_some()
    }

    fn lifetime(&self) -> u32 {
        let timeout = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX);
        self.shared.ticketer.as_ref().map_or(0, |ticketer| ticketer.lifetime().min(timeout))
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let expires = (self.shared.clock_unix() + self.timeout).as_secs();
        let mut bytes = Vec::with_capacity(TICKET_PREFIX_BYTES + plain.len());
        bytes.extend_from_slice(&self.scope.0);
        bytes.extend_from_slice(&expires.to_be_bytes());
        bytes.extend_from_slice(plain);
        self.shared.ticketer.as_ref()?.encrypt(&bytes)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.shared.ticketer.as_ref()?.decrypt(cipher)?;
        let (scope, rest) = bytes.split_first_chunk::<SCOPE_BYTES>()?;
        let (expires, _) = rest.split_first_chunk()?;
        let is_fresh = self.shared.clock_unix().as_secs() < u64::from_be_bytes(*expires);
        if *scope != self.scope.0 || !is_fresh {
            return None;
        }
        bytes.drain(..TICKET_PREFIX_BYTES);
        Some(bytes)
    }
}

impl Resumption {
    fn clock_unix(&self) -> Duration {
        self.clock.update();
        self.clock.unix()
    }
}

/// The content is secret.
impl fmt::Debug for Scoped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scoped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(600);

    fn scoped(shared: &Arc<Resumption>, leaf: &[u8], timeout: Duration) -> Scoped {
        Scoped { shared: Arc::clone(shared), scope: Scope::new(leaf, None), timeout }
    }

    fn key(number: u32) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    #[test]
    fn a_session_is_taken_once_and_only_in_its_scope() {
        let shared = Resumption::new(Clock::begin());
        let (ours, theirs) = (scoped(&shared, b"a", TIMEOUT), scoped(&shared, b"b", TIMEOUT));
        assert!(ours.put(key(1), b"secret".to_vec()));
        assert_eq!(theirs.get(&key(1)), None);
        assert_eq!(theirs.take(&key(1)), None);
        assert_eq!(ours.get(&key(1)).as_deref(), Some(&b"secret"[..]));
        assert_eq!(ours.take(&key(1)).as_deref(), Some(&b"secret"[..]));
        assert_eq!(ours.take(&key(1)), None);
    }

    #[test]
    fn a_session_expires() {
        let shared = Resumption::new(Clock::begin());
        let store = scoped(&shared, b"a", Duration::ZERO);
        assert!(store.put(key(1), b"secret".to_vec()));
        assert_eq!(store.get(&key(1)), None);
        let ticket = store.encrypt(b"secret").unwrap();
        assert_eq!(store.decrypt(&ticket), None);
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let shared = Resumption::new(Clock::begin());
        let store = scoped(&shared, b"a", TIMEOUT);
        let count = (2 * SESSION_BYTES_MAX / 1000) as u32;
        for number in 0..count {
            store.put(key(number), vec![0; 1000 - OVERHEAD_BYTES]);
        }
        let bytes: usize = shared.shards.iter().map(|shard| shard.lock().bytes).sum();
        assert!((SESSION_BYTES_MAX / 2..=SESSION_BYTES_MAX).contains(&bytes), "{bytes}");
        assert!(store.get(&key(0)).is_none() && store.get(&key(count - 1)).is_some());
    }

    #[test]
    fn what_is_resumed_leaves_nothing_behind() {
        let shared = Resumption::new(Clock::begin());
        let store = scoped(&shared, b"a", TIMEOUT);
        for number in 0..10_000 {
            store.put(key(number), vec![0; 100]);
            assert!(store.take(&key(number)).is_some());
        }
        for shard in shared.shards.iter().map(Mutex::lock) {
            assert_eq!((shard.bytes, shard.sessions.len()), (0, 0));
            assert!(shard.by_age.len() <= 65, "{}", shard.by_age.len());
        }
    }

    #[test]
    fn a_ticket_is_good_in_its_scope() {
        let shared = Resumption::new(Clock::begin());
        let (ours, theirs) = (scoped(&shared, b"a", TIMEOUT), scoped(&shared, b"b", TIMEOUT));
        let ticket = ours.encrypt(b"secret").unwrap();
        assert_eq!(ours.decrypt(&ticket).as_deref(), Some(&b"secret"[..]));
        assert_eq!(theirs.decrypt(&ticket), None);
        assert_eq!(ours.lifetime(), 600);
    }
}
