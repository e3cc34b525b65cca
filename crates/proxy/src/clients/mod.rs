//! What is known of clients for all workers together, and what the checks of one have found out.
//!
//! Never in here: requests, and who is let in, which is `access`'s to say.

mod admitted;
mod auth_cache;
mod limiter;
mod nonces;
mod password;
mod verifier;

use std::io;
use std::sync::Arc;

pub(crate) use admitted::Admitted;
pub(crate) use auth_cache::{AuthCache, Key, Verdict};
use limiter::Limiter;
pub(crate) use nonces::{NonceUse, Nonces};
pub(crate) use verifier::{Overloaded, Verifier};

/// What the checks of clients remember.
pub(crate) struct Clients {
    pub(crate) answers: AuthCache,
    pub(crate) verifier: Verifier,
    pub(crate) nonces: Nonces,
    pub(crate) limiter: Arc<Limiter>,
}

impl Clients {
    /// Nothing is known yet.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let (answers, limiter) = (AuthCache::default(), Arc::default());
        let (verifier, nonces) = (Verifier::start()?, Nonces::new()?);
        Ok(Arc::new(Self { answers, verifier, nonces, limiter }))
    }
}
