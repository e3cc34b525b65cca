//! The memory about clients, for all workers together: rates and quotas, behaviour far off the others',
//! passwords that were right, nonces, and the answers of auth services.
//!
//! Time and random numbers are arguments ([`clock`]). Must not be in here: requests, sockets, and the
//! decision whom to let in.

pub mod abuse;
mod auth_cache;
mod connections;
mod eviction;
mod failures;
pub mod limits;
mod nonces;
mod password;
pub mod quota;
mod rate_limiter;
mod sessions;
mod tokens;
mod verifier;

use std::io;
use std::sync::Arc;

use abuse::Abuse;
pub use auth_cache::{AuthAnswer, AuthCache, AuthKey, CachedAnswer, Fetch, Lookup, identity};
pub use connections::{ClientConnection, ClientConnections};
use deciders::authz::Verdict;
pub use nonces::{NonceUse, Nonces};
use quota::{Quotas, RedisState};
pub use rate_limiter::{RateLimiter, RequestSlot};
pub use sessions::Sessions;
pub use tokens::{Tokens, VerifiedToken};
pub use verifier::{Attempt, Unverified, Verifier};

/// The memory of all workers about clients.
pub struct Clients {
    /// Cached answers of auth services.
    pub answers: AuthCache,
    /// JSON Web Tokens.
    pub tokens: Tokens,
    /// Cached verdicts of authorization services.
    pub verdicts: AuthCache<Verdict>,
    /// Passwords of Basic authentication.
    pub verifier: Verifier,
    /// Sessions of clients that have signed in.
    pub sessions: Sessions,
    /// Nonces of Digest authentication.
    pub nonces: Nonces,
    /// Rates and concurrent requests by client (ingress-nginx's `limit-rps`, `limit-rpm`,
    /// `limit-connections`).
    pub limiter: Arc<RateLimiter>,
    /// Requests by key in windows of time (`forebay.io/limit-requests`).
    pub quotas: Quotas,
    /// Open connections by client.
    pub connections: Arc<ClientConnections>,
    /// Clients whose behaviour is far off the others'.
    pub abuse: Arc<Abuse>,
}

impl Clients {
    /// An empty memory for so many workers. With `redis`, quotas that replicas share are counted there.
    /// `lower_priority` is called on the thread that verifies passwords, and is to make it yield the CPU to
    /// all others.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started, or the system has no randomness.
    pub fn start(
        workers: usize,
        redis: Option<RedisState>,
        lower_priority: fn() -> io::Result<()>,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            answers: AuthCache::default(),
            tokens: Tokens::default(),
            verdicts: AuthCache::default(),
            verifier: Verifier::start(lower_priority)?,
            sessions: Sessions::default(),
            nonces: Nonces::new()?,
            limiter: Arc::default(),
            quotas: Quotas::new(redis),
            connections: Arc::default(),
            abuse: Abuse::new(workers),
        }))
    }
}
