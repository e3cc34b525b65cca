//! Accounts and certificates in memory, as they were stored last.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use super::answer::Answer;
use super::entry::{AccountEntry, Entry, Kind, Stored};
use super::state::{Held, HostState};
use crate::certificate::Pair;
use crate::names::NsName;

/// Everything that is known of accounts and certificates.
#[derive(Default)]
pub(super) struct Book {
    certificates: BTreeMap<String, Kept>,
    accounts: BTreeMap<String, AccountEntry>,
}

/// A certificate with what was made of it.
struct Kept {
    entry: Entry,
    state: Arc<HostState>,
}

impl Book {
    /// The content of a store. Entries that are the same as before stay.
    pub(super) fn replace(&mut self, stored: &Stored, name_of: impl Fn(&str) -> NsName) {
        let mut before = std::mem::take(&mut self.certificates);
        self.accounts.clear();
        for ((kind, name), files) in stored {
            match kind {
                Kind::Account => {
                    self.accounts.extend(AccountEntry::read(name, files).map(|entry| (name.clone(), entry)));
                }
                Kind::Certificate => {
                    let entry = Entry::read(name, files);
                    let kept = before.remove(name);
                    self.certificates.insert(name.clone(), Kept::new(name, entry, kept, &name_of(name)));
                }
            }
        }
    }

    /// The stored entry of a host; an empty one where nothing is stored.
    pub(super) fn entry(&self, host: &str) -> Entry {
        self.certificates.get(host).map(|kept| kept.entry.clone()).unwrap_or_default()
    }

    /// The entry of a host without a copy.
    pub(super) fn look(&self, host: &str) -> Option<&Entry> {
        self.certificates.get(host).map(|kept| &kept.entry)
    }

    /// The certificate of a host, valid or not.
    pub(super) fn pair(&self, host: &str) -> Option<&Arc<Pair>> {
        self.certificates.get(host)?.state.pair.as_ref()
    }

    pub(super) fn set(&mut self, host: &str, entry: Entry, owner: &NsName) {
        let before = self.certificates.remove(host);
        self.certificates.insert(host.to_owned(), Kept::new(host, entry, before, owner));
    }

    pub(super) fn remove(&mut self, host: &str) {
        self.certificates.remove(host);
    }

    /// The hosts of which something is stored.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.certificates.iter().map(|(host, kept)| (host, &kept.entry))
    }

    /// The stored entry of the account at a directory.
    pub(super) fn account(&self, directory: &str) -> Option<&AccountEntry> {
        self.accounts.get(&account_name(directory))
    }

    pub(super) fn set_account(&mut self, entry: AccountEntry) {
        self.accounts.insert(account_name(&entry.directory), entry);
    }

    /// The state of all hosts.
    pub(super) fn held(&self, revision: u64) -> Held {
        let hosts = self.certificates.iter();
        let hosts = hosts.map(|(host, kept)| (host.clone(), Arc::clone(&kept.state))).collect();
        Held { revision, hosts }
    }
}

impl Kept {
    fn new(host: &str, entry: Entry, before: Option<Self>, owner: &NsName) -> Self {
        let Some(before) = before else {
            let state = Arc::new(made(host, &entry, None, owner));
            return Self { entry, state };
        };
        if before.entry == entry {
            return before;
        }
        let is_same_pair = before.entry.chain == entry.chain && before.entry.key == entry.key;
        let state = made(host, &entry, before.state.pair.clone().filter(|_| is_same_pair), owner);
        // The certificate of a challenge is made anew each time, so that it is not compared but kept.
        let is_same_answer = before.entry.state.challenge == entry.state.challenge;
        let answer = if is_same_answer { before.state.answer.clone() } else { state.answer.clone() };
        let state = HostState { answer, ..state };
        let is_same = is_same_pair && is_same_answer && before.state.fault == state.fault;
        let state = if is_same { before.state } else { Arc::new(state) };
        Self { entry, state }
    }
}

fn made(host: &str, entry: &Entry, pair: Option<Arc<Pair>>, owner: &NsName) -> HostState {
    let read = || {
        let (chain, key) = (entry.chain.as_ref()?, entry.key.as_ref()?);
        let pair = Pair::parse(owner, chain, key);
        let pair = pair.inspect_err(|why| {
            tracing::error!(host, why, "a stored certificate cannot be used; another one is obtained");
        });
        pair.ok().filter(|pair| pair.is_for(host)).map(Arc::new)
    };
    let answer = entry.state.challenge.as_ref().and_then(|challenge| {
        let answer = Answer::of(host, challenge);
        answer.inspect_err(|why| tracing::error!(host, why, "a challenge cannot be answered")).ok()
    });
    HostState { pair: pair.or_else(read), answer, fault: fault(entry) }
}

/// Why the last order failed, in the words of each authority.
fn fault(entry: &Entry) -> Option<String> {
    let failures = entry.state.failures.iter();
    let told = failures.map(|(directory, failure)| format!("{}: {}", host_of(directory), failure.why));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The host of a directory's URL, for messages.
pub(super) fn host_of(directory: &str) -> &str {
    let rest = directory.split_once("://").map_or(directory, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The name under which the account at a directory is stored.
pub(super) fn account_name(directory: &str) -> String {
    let host: String = host_of(directory)
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || char == '.' { char.to_ascii_lowercase() } else { '-' })
        .collect();
    format!("{}-{}", host.trim_matches(['.', '-']), &short_digest(directory)[..8])
}

/// The first 16 digits of the SHA-256 of a text.
pub(super) fn short_digest(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let first: [u8; 8] = digest.as_ref()[..8].try_into().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(first))
}
