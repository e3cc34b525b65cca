//! What is known of clients for all workers together, and what the checks of one have found out.
//!
//! Never in here: requests, and who is let in, which is `access`'s to say.

pub(crate) mod abuse;
mod admitted;
mod auth_cache;
mod connections;
mod limiter;
mod nonces;
mod password;
mod quota;
mod verifier;

use std::io;
use std::sync::Arc;

use abuse::Abuse;
pub(crate) use admitted::Admitted;
pub(crate) use auth_cache::{Asking, AuthCache, Key, Looked, Verdict, identity};
use connections::ClientConnections;
pub(crate) use connections::ClientPlace;
use limiter::Limiter;
pub(crate) use nonces::{NonceUse, Nonces};
pub(crate) use quota::{
    Away, Count, Quotas, Store, Stored, Subject, ToStore, Told as QuotaTold, Verdict as QuotaVerdict,
};
pub(crate) use verifier::{Overloaded, Verifier};

/// What the checks of clients remember.
pub(crate) struct Clients {
    pub(crate) answers: AuthCache,
    pub(crate) verifier: Verifier,
    pub(crate) nonces: Nonces,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) quotas: Quotas,
    pub(crate) connections: Arc<ClientConnections>,
    pub(crate) abuse: Arc<Abuse>,
}

impl Clients {
    /// Nothing is known yet; so many workers share it, and a Redis counts what replicas share, if there is one.
    pub(crate) fn start(workers: usize, store: Option<Store>) -> io::Result<Arc<Self>> {
        let (answers, limiter, connections) = (AuthCache::default(), Arc::default(), Arc::default());
        let (verifier, nonces) = (Verifier::start()?, Nonces::new()?);
        let abuse = Abuse::new(workers);
        Ok(Arc::new(Self {
            answers,
            verifier,
            nonces,
            limiter,
            connections,
            abuse,
            quotas: Quotas::with_store(store),
        }))
    }
}
