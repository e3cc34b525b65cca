//! The state that all tasks of providers share with those who look something up there.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use identity::KeySource;
use identity::oidc::directory::Directory;
use identity::oidc::provider::Provider;

use super::address::Place;
use super::client::Client;

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) client: Client,
    /// Providers at which people sign in.
    pub(super) sign_ins: Directory,
    /// Fetches of keys that gave some.
    pub(super) fetched: AtomicU64,
    /// Fetches of keys that failed.
    pub(super) failed: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) sources: HashMap<Place, Weak<KeySource>>,
    /// Providers at which people sign in for which no task has been started.
    pub(super) new_sign_ins: Vec<Weak<Provider>>,
    /// Sources for which no task has been started.
    pub(super) new: Vec<(Place, Weak<KeySource>)>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a source that nobody but its task has, and returns whether that was so. Nobody can get hold of
    /// the source meanwhile.
    pub(super) fn forget_unused(&self, place: &Place, source: &Arc<KeySource>) -> bool {
        let mut state = self.lock();
        if Arc::strong_count(source) > 1 {
            return false;
        }
        if state.sources.get(place).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(source))) {
            state.sources.remove(place);
        }
        true
    }
}
