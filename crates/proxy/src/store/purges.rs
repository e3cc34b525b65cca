//! Recent purges and changes: a response that was requested before one must not be stored after it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use cache_disk::Purge as Matcher;

use super::labels::Labels;
use crate::limits::{CACHE_CHANGES_MAX, CACHE_PURGES_MAX};

/// A purge, which may have several matchers.
pub(super) type Matchers = Arc<[Matcher]>;

/// The recent purges and changes, by number.
pub(super) struct Purges {
    /// The running purge: responses that match it are not stored meanwhile, so that no entry escapes by
    /// being rewritten.
    running: Option<Matchers>,
    /// Finished purges, each with the count after it.
    over: VecDeque<(u64, Matchers)>,
    count: u64,
    /// The number of the latest purge or change that is no longer remembered.
    forgotten: u64,
    /// The count after the last change of a key, by the key's hash.
    changes: HashMap<u64, u64>,
    /// The changes in their order: the number of each, and the hash of its key.
    order: VecDeque<(u64, u64)>,
    hasher: RandomState,
}

impl Default for Purges {
    fn default() -> Self {
        Self {
            running: None,
            over: VecDeque::new(),
            count: 0,
            forgotten: 0,
            changes: HashMap::new(),
            order: VecDeque::new(),
            hasher: RandomState::new(),
        }
    }
}

impl Purges {
    pub(super) fn begin(&mut self, matchers: Matchers) {
        self.running = Some(matchers);
    }

    /// Ends the running purge. Returns the new count.
    pub(super) fn end(&mut self) -> u64 {
        if let Some(matchers) = self.running.take() {
            self.count += 1;
            self.over.push_back((self.count, matchers));
            if self.over.len() > CACHE_PURGES_MAX
                && let Some((number, _)) = self.over.pop_front()
            {
                self.forgotten = self.forgotten.max(number);
            }
        }
        self.count
    }

    /// Notes that the resource of a key has changed. Returns the new count.
    pub(super) fn note_change(&mut self, key: &[u8]) -> u64 {
        self.count += 1;
        let hash = self.hasher.hash_one(key);
        self.changes.insert(hash, self.count);
        self.order.push_back((self.count, hash));
        if self.order.len() > CACHE_CHANGES_MAX
            && let Some((number, hash)) = self.order.pop_front()
        {
            if self.changes.get(&hash) == Some(&number) {
                self.changes.remove(&hash);
            }
            self.forgotten = self.forgotten.max(number);
        }
        self.count
    }

    /// Whether the running purge matches these labels.
    pub(super) fn match_running(&self, labels: &Labels) -> bool {
        self.running.as_ref().is_some_and(|matchers| labels.are_meant(matchers))
    }

    /// Whether a response that was requested when the count was `since` must not be stored any more.
    pub(super) fn have_purged(&self, key: &[u8], labels: &Labels, since: u64) -> bool {
        let later = self.over.iter().rev().take_while(|(number, _)| *number > since);
        since < self.forgotten
            || self.changes.get(&self.hasher.hash_one(key)).is_some_and(|number| since < *number)
            || self.match_running(labels)
            || later.into_iter().any(|(_, matchers)| labels.are_meant(matchers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(target: &str) -> Labels {
        Labels::of_url(b"a.test", target.as_bytes(), true).unwrap()
    }

    fn purge(target: &str) -> Matchers {
        super::super::Purge::Url("a.test".to_owned(), target.to_owned()).matchers().into()
    }

    #[test]
    fn what_began_before_is_met_and_what_began_later_is_not() {
        let mut purges = Purges::default();
        purges.begin(purge("/a"));
        assert!(purges.match_running(&labels("/a")) && purges.have_purged(b"key", &labels("/a"), 0));
        assert!(!purges.match_running(&labels("/b")) && !purges.have_purged(b"key", &labels("/b"), 0));
        assert_eq!(purges.end(), 1);
        assert!(!purges.match_running(&labels("/a")));
        assert!(
            purges.have_purged(b"key", &labels("/a"), 0) && !purges.have_purged(b"key", &labels("/a"), 1)
        );
        assert!(!purges.have_purged(b"key", &labels("/b"), 0));
    }

    #[test]
    fn what_began_before_a_forgotten_one_is_met() {
        let mut purges = Purges::default();
        for _ in 0..=CACHE_PURGES_MAX {
            purges.begin(purge("/a"));
            purges.end();
        }
        assert!(
            purges.have_purged(b"key", &labels("/b"), 0) && !purges.have_purged(b"key", &labels("/b"), 1)
        );
    }

    #[test]
    fn what_began_before_a_change_is_met() {
        let mut purges = Purges::default();
        assert_eq!(purges.note_change(b"a"), 1);
        let labels = labels("/a");
        assert!(purges.have_purged(b"a", &labels, 0) && !purges.have_purged(b"a", &labels, 1));
        assert!((0..100_u32).all(|number| !purges.have_purged(&number.to_le_bytes(), &labels, 0)));
        purges.begin(purge("/b"));
        assert_eq!(purges.end(), 2);
        assert_eq!(purges.note_change(b"a"), 3);
        assert!(purges.have_purged(b"a", &labels, 2) && !purges.have_purged(b"a", &labels, 3));
    }

    #[test]
    fn what_began_before_a_forgotten_change_is_met() {
        let mut purges = Purges::default();
        purges.note_change(b"a");
        (0..CACHE_CHANGES_MAX as u32).for_each(|number| _ = purges.note_change(&number.to_le_bytes()));
        let labels = labels("/a");
        assert!(purges.have_purged(b"a", &labels, 0) && purges.have_purged(b"b", &labels, 0));
        assert!(
            !purges.have_purged(b"b", &labels, 1) && purges.have_purged(&0_u32.to_le_bytes(), &labels, 1)
        );
        assert_eq!(purges.changes.len(), CACHE_CHANGES_MAX);
    }
}
