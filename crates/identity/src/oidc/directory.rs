//! The providers of a process, for those who know no more of one than its digest.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::provider::{Provider, Settings};

/// The providers that some configuration has. Copies have the same content.
#[derive(Clone, Default)]
pub struct Directory(Arc<RwLock<Vec<Weak<Provider>>>>);

impl Directory {
    /// The provider with these settings, if it is there.
    pub fn find(&self, settings: &Settings) -> Option<Arc<Provider>> {
        self.all().into_iter().find(|one| one.settings() == settings)
    }

    /// Adds a provider. Those that nobody has any more are forgotten.
    pub fn add(&self, provider: &Arc<Provider>) {
        let mut all = self.0.write();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(provider));
    }

    /// Returns the providers that somebody still has.
    pub fn all(&self) -> Vec<Arc<Provider>> {
        self.0.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// The providers with a digest: the same client of an issuer may be there with several secrets.
    pub fn of_digest(&self, digest: &[u8; 32]) -> Vec<Arc<Provider>> {
        self.all().into_iter().filter(|one| one.digest() == digest).collect()
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}
