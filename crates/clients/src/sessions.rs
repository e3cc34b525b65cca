//! Sessions of clients that have signed in, by their cookies, so that a cookie that comes again is not
//! decrypted again.

use std::sync::Arc;

use identity::oidc::session::Session;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Map;

use crate::limits::{SESSIONS_BYTES_MAX, SESSIONS_KNOWN};

/// Opened sessions, for all workers. Where there is no room, those are evicted that are used least.
pub struct Sessions(Map<Box<[u8]>, Arc<Session>, ByBytes>);

/// A session weighs what it takes in memory, approximately: its cookie, and as much again.
#[derive(Clone)]
struct ByBytes;

impl Weighter<Box<[u8]>, Arc<Session>> for ByBytes {
    fn weight(&self, key: &Box<[u8]>, _: &Arc<Session>) -> u64 {
        2 * key.len() as u64
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self(Map::with_weighter(SESSIONS_KNOWN, SESSIONS_BYTES_MAX, ByBytes))
    }
}

impl Sessions {
    /// The session of a cookie. The key also has whatever the opening of the cookie depends on.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Session>> {
        self.0.get(key)
    }

    /// Keeps a session that has been opened.
    pub fn put(&self, key: &[u8], session: &Arc<Session>) {
        self.0.insert(key.into(), Arc::clone(session));
    }
}

#[cfg(test)]
mod tests {
    use identity::oidc::tokens::Granted;

    use super::*;

    #[test]
    fn a_session_is_found_by_its_whole_key_and_the_memory_is_bounded() {
        let granted = Granted { claims: None, refresh_token: None, id_token: None, at: 5, seconds: 60 };
        let session = Arc::new(Session::begin(&granted, &[]));
        let sessions = Sessions::default();
        sessions.put(b"key", &session);
        assert!(sessions.get(b"key").is_some_and(|found| Arc::ptr_eq(&found, &session)));
        assert!(sessions.get(b"ke").is_none() && sessions.get(b"keyx").is_none());
        let long = vec![0; 100_000];
        for number in 0..1000_u32 {
            sessions.put(&[&number.to_be_bytes()[..], &long].concat(), &session);
        }
        assert!(sessions.0.weight() <= SESSIONS_BYTES_MAX);
    }
}
