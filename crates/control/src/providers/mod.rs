//! Providers of identity: the keys of issuers, fetched by URL beside translation and requests.
//!
//! A translation names the keys that it needs and receives a [`KeySource`], empty at first, which its model
//! hands to the workers. `Providers::start` begins one task for each new source; the task ends when no
//! model has the source any more. What a task fetches never causes a translation.
//!
//! Never in here: what a token may say, requests of clients.

mod address;
pub(crate) mod client;
mod keys;
mod shared;
mod sign_in;

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use identity::KeySource;
use identity::keys::Condition;
use identity::oidc::directory::Directory;
use identity::oidc::provider::{Provider, Settings};

use crate::options::Options;
use address::Reach;
pub(crate) use address::{Place, Url};
use shared::Shared;

/// The providers of a configuration.
#[derive(Clone, Default)]
pub struct Providers {
    shared: Arc<Shared>,
    /// For objects that are only examined: what they need is not fetched.
    is_review: bool,
}

impl Providers {
    /// The same providers for objects that are only examined.
    pub(crate) fn for_review(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_review: true }
    }

    /// The keys at a place, which are fetched from the next [`start`](Self::start) on.
    pub(crate) fn keys(&self, place: &Place) -> Arc<KeySource> {
        let mut state = self.shared.lock();
        if let Some(known) = state.sources.get(place).and_then(Weak::upgrade) {
            return known;
        }
        let source = Arc::new(KeySource::fetched(place.url.to_string()));
        if !self.is_review {
            state.sources.insert(place.clone(), Arc::downgrade(&source));
            state.new.push((place.clone(), Arc::downgrade(&source)));
        }
        source
    }

    /// Fetches what the last translation needs, until no model needs it. Has to be called within a runtime of
    /// tokio.
    pub(crate) fn start(&self, options: &Options) {
        self.shared.client.set_reach(Reach::of(options));
        for provider in std::mem::take(&mut self.shared.lock().new_sign_ins) {
            tokio::spawn(sign_in::follow(Arc::clone(&self.shared), provider));
        }
        let new = std::mem::take(&mut self.shared.lock().new);
        for (place, source) in new {
            if source.strong_count() > 0 {
                let shared = Arc::clone(&self.shared);
                tokio::spawn(async move { keys::follow(&shared, &place, &source).await });
            }
        }
    }

    /// Begins to ask the providers of an operator, who may name any address, such as this machine's. Has to
    /// be called within a runtime of tokio.
    pub fn start_for_operator(&self) {
        self.start(&Options::default());
    }

    /// The provider at which people sign in with these settings. It is asked from the next
    /// [`start`](Self::start_for_operator) on.
    pub fn sign_in(&self, settings: Settings) -> Arc<Provider> {
        let mut state = self.shared.lock();
        if let Some(known) = self.shared.sign_ins.find(&settings) {
            return known;
        }
        let provider = Provider::new(settings);
        if !self.is_review {
            self.shared.sign_ins.add(&provider);
            state.new_sign_ins.push(Arc::downgrade(&provider));
        }
        provider
    }

    /// The providers at which people sign in.
    pub fn sign_ins(&self) -> Vec<Arc<Provider>> {
        self.shared.sign_ins.all()
    }

    /// The same for others, now and later.
    pub fn directory(&self) -> Directory {
        self.shared.sign_ins.clone()
    }

    /// Fetches of keys so far: those that gave keys, and those that failed.
    pub fn fetches(&self) -> [u64; 2] {
        [&self.shared.fetched, &self.shared.failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// The condition of each source of keys, with its URL.
    pub fn conditions(&self) -> Vec<(String, Condition)> {
        let state = self.shared.lock();
        let sources = state.sources.values().filter_map(Weak::upgrade);
        let mut conditions: Vec<_> =
            sources.map(|source| (source.name().to_owned(), source.condition())).collect();
        conditions.sort_by(|one, other| one.0.cmp(&other.0));
        conditions
    }
}

impl PartialEq for Providers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Providers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
