//! The task that obtains certificates, and its connection to the driver.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::desk::{Desk, changed};
use super::entry::Stored;
use super::schedule::{Due, Work};
use super::settings::Settings;
use super::state::{Wanted, now};
use super::store::Store;
use super::{Acme, order};

/// Most orders at a time.
const ORDERS_MAX: usize = 8;

/// Longest time for which the first configuration waits for what is stored.
const FIRST_LOAD_MAX: Duration = Duration::from_secs(5);

/// Time between two attempts to read what is stored.
const LOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Longest sleep, after which times are compared with the clock again, and old certificates are removed.
const SLEEP_MAX: Duration = Duration::from_hours(1);

/// Obtains the certificates that translations want.
pub(crate) struct Manager {
    acme: Acme,
    wanted: watch::Sender<Arc<Wanted>>,
    task: Option<JoinHandle<()>>,
    loaded: watch::Receiver<bool>,
}

impl Manager {
    pub(crate) fn new(acme: Acme) -> Self {
        let wanted = watch::Sender::new(Arc::default());
        Self { acme, wanted, task: None, loaded: watch::channel(true).1 }
    }

    /// Obtains what a new translation wants. The task starts when certificates are wanted for the first time.
    pub(crate) fn want(&mut self, wanted: &Wanted) {
        self.wanted.send_if_modified(|before| {
            let is_same = before.settings == wanted.settings
                && before.hosts == wanted.hosts
                && before.by_handshake == wanted.by_handshake;
            if !is_same {
                *before = Arc::new(wanted.clone());
            }
            !is_same
        });
        if self.task.is_some() || wanted.settings.is_none() {
            return;
        }
        let Some(store) = Store::of(&self.acme.shared) else { return };
        let desk = Desk::new(store, Arc::clone(&self.acme.shared));
        let (loaded, is_loaded) = watch::channel(false);
        self.loaded = is_loaded;
        self.task = Some(tokio::spawn(run(desk, self.wanted.subscribe(), loaded)));
    }

    /// Whether stored certificates are being read, so that a configuration has to wait.
    pub(crate) fn is_pending(&self) -> bool {
        !*self.loaded.borrow()
    }

    /// Waits until hosts have something else. The future is cancel-safe.
    pub(crate) async fn changed(&mut self) {
        self.acme.shared.changed.notified().await;
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// Follows what is stored, and obtains certificates while it is this process's turn.
async fn run(desk: Desk, mut wanted: watch::Receiver<Arc<Wanted>>, loaded: watch::Sender<bool>) {
    let first = timeout(FIRST_LOAD_MAX, desk.store.load()).await;
    if let Ok(Some(stored)) = first {
        desk.replace(&stored);
    }
    loaded.send_replace(true);
    desk.wake();
    loop {
        let mut turn = tokio::select! {
            turn = desk.store.turn() => turn,
            stored = desk.store.changed() => {
                follow(&desk, &stored, &wanted);
                continue;
            }
        };
        let Some(stored) = desk.store.load().await else {
            sleep(LOAD_INTERVAL).await;
            continue;
        };
        desk.replace(&stored);
        tokio::select! {
            () = lead(&desk, &mut wanted) => {}
            () = turn.end() => {}
        }
    }
}

/// Takes over what another process has stored.
fn follow(desk: &Desk, stored: &Stored, wanted: &watch::Receiver<Arc<Wanted>>) {
    desk.replace(stored);
    let wanted = Arc::clone(&wanted.borrow());
    if let Some(settings) = &wanted.settings {
        let due = desk.due(&wanted, settings);
        desk.tell(&wanted, &due, &BTreeMap::new());
    }
}

/// Does what is due, for ever.
async fn lead(desk: &Desk, wanted: &mut watch::Receiver<Arc<Wanted>>) {
    let mut works = FuturesUnordered::new();
    let mut busy = BTreeMap::new();
    let mut swept = None;
    loop {
        let wishes = Arc::clone(&wanted.borrow_and_update());
        let mut wake = SLEEP_MAX;
        if let Some(settings) = &wishes.settings {
            if swept.is_none_or(|swept: Instant| swept.elapsed() >= SLEEP_MAX) {
                desk.sweep(&wishes).await;
                swept = Some(Instant::now());
            }
            let due = desk.due(&wishes, settings);
            for (host, due) in due.iter().filter(|(host, _)| !busy.contains_key(host)).collect::<Vec<_>>() {
                let wait = u64::try_from(due.at - now()).unwrap_or_default();
                if wait > 0 {
                    wake = wake.min(Duration::from_secs(wait));
                } else if works.len() < ORDERS_MAX {
                    busy.insert(host.clone(), due.work);
                    works.push(work(desk, host.clone(), *due, wishes.settings_of(host, settings)));
                }
            }
            desk.tell(&wishes, &due, &busy);
        }
        tokio::select! {
            Some(host) = works.next(), if !works.is_empty() => drop(busy.remove(&host)),
            () = changed(wanted) => {}
            () = sleep(wake) => {}
        }
    }
}

/// Does one thing for a host. Returns the host.
async fn work(desk: &Desk, host: String, due: Due, settings: Arc<Settings>) -> String {
    match due.work {
        Work::AskRenewal => order::ask_renewal(desk, &host, &settings, random()).await,
        Work::Order(number) => {
            let directory = &settings.directories[number];
            if let Err(failed) = order::obtain(desk, &host, &settings, directory).await {
                desk.forget_account(&directory.url).await;
                desk.note_failure(&host, &directory.url, failed).await;
            }
        }
    }
    host
}

/// A random number from 0 to 1.
fn random() -> f64 {
    // Each `RandomState` has its own random keys.
    let share = RandomState::new().hash_one(()) as u32;
    f64::from(share) / f64::from(u32::MAX)
}
