//! The shared state of the orders of one process: the store, the content in memory, accounts, and the
//! published state of hosts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use instant_acme::Account;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Shared;
use super::book::{Book, account_name, host_of};
use super::entry::{AccountEntry, Entry, Kind, Stored};
use super::failed::Failed;
use super::report::Report;
use super::schedule::{self, Due, Work};
use super::settings::Settings;
use super::state::{Wanted, now};
use super::store::Store;
use crate::providers::client::Client;

/// Longest wait until all workers serve an answer. The authority is asked to look all the same: it looks
/// several times.
const SERVED_MAX: Duration = Duration::from_secs(30);

/// Time that other replicas have to see and serve an answer that a Secret has.
const REPLICAS_TIME: Duration = Duration::from_secs(3);

/// Seconds for which the remains of a host that is not wanted any more are kept.
const KEPT_S: i64 = 7 * 86_400;

/// The shared state of all orders.
pub(super) struct Desk {
    pub(super) store: Store,
    pub(super) client: Arc<Client>,
    /// Accounts that have been used, by URL of their directory.
    pub(super) accounts: tokio::sync::Mutex<HashMap<String, Account>>,
    book: Mutex<Book>,
    /// Held while an account is stored: of two states of it, the newer one must be written last.
    storing: tokio::sync::Mutex<()>,
    shared: Arc<Shared>,
}

impl Desk {
    pub(super) fn new(store: Store, shared: Arc<Shared>) -> Self {
        let (client, accounts) = (Arc::default(), tokio::sync::Mutex::default());
        let storing = tokio::sync::Mutex::default();
        Self { store, client, accounts, book: Mutex::default(), storing, shared }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what is stored, and publishes it.
    pub(super) fn replace(&self, stored: &Stored) {
        self.book().replace(stored, |host| self.store.name_of(host));
        self.publish();
    }

    pub(super) fn entry(&self, host: &str) -> Entry {
        self.book().entry(host)
    }

    /// DER of the host's certificate; none without one.
    pub(super) fn leaf(&self, host: &str) -> Option<Vec<u8>> {
        let book = self.book();
        book.pair(host)?.certificate.chain.first().cloned()
    }

    /// Changes what is known of a host, publishes and stores it. Returns the revision that has the change.
    ///
    /// # Errors
    ///
    /// When it cannot be stored. It is known and published all the same, until the process ends.
    pub(super) async fn update(&self, host: &str, change: impl FnOnce(&mut Entry)) -> Result<u64, String> {
        let mut entry = self.book().entry(host);
        change(&mut entry);
        let files = entry.files();
        self.book().set(host, entry, &self.store.name_of(host));
        let revision = self.publish();
        self.store.save(Kind::Certificate, host, &files).await?;
        Ok(revision)
    }

    pub(super) fn account_entry(&self, directory: &str) -> AccountEntry {
        self.book()
            .account(directory)
            .cloned()
            .unwrap_or_else(|| AccountEntry { directory: directory.to_owned(), ..AccountEntry::default() })
    }

    /// Changes what is known of an account, and stores it.
    pub(super) async fn update_account(
        &self,
        directory: &str,
        change: impl FnOnce(&mut AccountEntry),
    ) -> Result<(), String> {
        let _storing = self.storing.lock().await;
        let mut entry = self.account_entry(directory);
        change(&mut entry);
        let files = entry.files();
        self.book().set_account(entry);
        self.store.save(Kind::Account, &account_name(directory), &files).await
    }

    /// Publishes what hosts have, if that has changed. Returns the revision.
    fn publish(&self) -> u64 {
        let book = self.book();
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = book.held(state.held.revision + 1);
        if next.differences(&state.held).is_empty() {
            return state.held.revision;
        }
        let revision = next.revision;
        state.held = Arc::new(next);
        self.shared.changed.notify_one();
        revision
    }

    /// Has the driver look again, although nothing has changed.
    pub(super) fn wake(&self) {
        self.shared.changed.notify_one();
    }

    /// Forgets an account in memory, so that the directory is read again.
    pub(super) async fn forget_account(&self, directory: &str) {
        self.accounts.lock().await.remove(directory);
    }

    /// Waits until all workers, and those of other replicas, serve a revision.
    pub(super) async fn await_served(&self, revision: u64) {
        let mut served = self.shared.served.subscribe();
        let is_served = served.wait_for(|served| served.is_none_or(|served| served >= revision));
        if timeout(SERVED_MAX, is_served).await.is_err() {
            tracing::warn!("the answer to a challenge is not served yet by all workers");
        }
        if self.store.is_shared() {
            tokio::time::sleep(REPLICAS_TIME).await;
        }
    }

    /// Records a failure at a directory.
    pub(super) async fn note_failure(&self, host: &str, directory: &str, failed: Failed) {
        let Failed { why, retry_after, is_busy, ends_order, ends_account, .. } = failed;
        if is_busy || ends_account {
            let until = if is_busy { schedule::account_pause(retry_after, now()) } else { 0 };
            let stored = self.update_account(directory, |account| {
                account.until = account.until.max(until);
                if ends_account {
                    account.credentials = serde_json::Value::Null;
                }
            });
            if let Err(error) = stored.await {
                tracing::error!(%error, "the state of an account cannot be stored");
            }
        }
        let stored = self.update(host, |entry| {
            let state = &mut entry.state;
            let failure = schedule::failed(state.failures.get(directory), why.clone(), retry_after, now());
            let seconds = failure.until - now();
            let authority = host_of(directory);
            tracing::warn!(
                host,
                authority,
                why,
                seconds,
                "no certificate was obtained; it is tried again later"
            );
            state.failures.insert(directory.to_owned(), failure);
            if ends_order {
                (state.order, state.challenge) = (None, None);
            }
        });
        if let Err(error) = stored.await {
            tracing::error!(host, %error, "the state of a certificate cannot be stored");
        }
    }

    /// The next work for each wanted host. Renewals come before hosts that are new, of which somebody may
    /// have added many; among equals the one comes first whose time came first.
    pub(super) fn due(&self, wanted: &Wanted, settings: &Settings) -> Vec<(String, Due)> {
        let (book, now) = (self.book(), now());
        let nothing = Entry::default();
        let next = |host: &String| {
            let entry = book.look(host).unwrap_or(&nothing);
            let pair = book.pair(host).map(|pair| &**pair);
            let due = schedule::next(entry, pair, settings, |url| book.account(url), now)?;
            Some((pair.is_some(), host.clone(), due))
        };
        let mut due: Vec<_> = wanted.hosts.iter().filter_map(next).collect();
        due.sort_by_key(|(has_pair, _, due)| (!*has_pair, due.at));
        due.into_iter().map(|(_, host, due)| (host, due)).collect()
    }

    /// Publishes a report about all wanted hosts. `busy` has the work in progress.
    pub(super) fn tell(&self, wanted: &Wanted, due: &[(String, Due)], busy: &BTreeMap<String, Work>) {
        let report = Report::of(wanted, &self.book(), due, busy);
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).report = report;
    }

    /// Removes what is stored of hosts that are not wanted any more, once their certificates have expired.
    pub(super) async fn sweep(&self, wanted: &Wanted) {
        let end = now() - KEPT_S;
        let is_over = |book: &Book, host: &str, entry: &Entry| {
            let used = entry.state.failures.values().map(|failure| failure.until);
            let used = used.chain(entry.state.order.iter().map(|order| order.placed));
            let used = used.chain(book.pair(host).map(|pair| pair.not_after()));
            used.max().is_none_or(|used| used < end)
        };
        let gone: Vec<String> = {
            let book = self.book();
            let unwanted = book.hosts().filter(|(host, _)| !wanted.hosts.contains(*host));
            unwanted
                .filter(|(host, entry)| is_over(&book, host, entry))
                .map(|(host, _)| host.clone())
                .collect()
        };
        for host in gone {
            match self.store.remove(Kind::Certificate, &host).await {
                Ok(()) => {
                    tracing::info!(
                        host,
                        "the certificate of a host that is gone has expired, and is deleted"
                    );
                    self.book().remove(&host);
                }
                Err(error) => tracing::warn!(host, %error, "an expired certificate cannot be deleted"),
            }
        }
        self.publish();
    }
}

/// Waits for other wishes of the configuration.
pub(super) async fn changed(wanted: &mut watch::Receiver<Arc<Wanted>>) {
    if wanted.changed().await.is_err() {
        // The driver has ended, and this task ends with it.
        std::future::pending::<()>().await;
    }
}
