//! The incremental engine: keeps values for as long as making them again would give the same result.
//!
//! The terms are those of salsa. A *query* makes the value of a key. The inputs and the values of other memos
//! that the query reads are recorded as its *dependencies*. Each translation is a *revision*. A value of the
//! previous revision is kept if none of its dependencies has changed. At the end of a revision, values that
//! no query has read are removed.
//!
//! The engine compares only the revision of a dependency's last change, not the dependencies of the
//! dependency. So the caller has to update a value before it reads another value that depends on it.
//!
//! Never in here: the meaning of keys and values.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// An input or a value on which a query can depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node(u32);

/// The nodes that a query has read.
#[derive(Clone, Debug)]
pub(super) struct Dependencies {
    nodes: SmallVec<[Node; 4]>,
    /// The second since 1970 from which the value differs although the dependencies are the same; [`NEVER`]
    /// for never.
    until: u32,
    /// The last revision in which the value was verified.
    good: u32,
}

/// The second of [`Dependencies`] that stands for never, and for any after it, from 2106 on.
const NEVER: u32 = u32::MAX;

/// The current revision, the revision in which each [`Node`] changed, and the queries that are running.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    current: Cell<u32>,
    /// The oldest valid revision: values that were last verified before it have to be made again.
    oldest: Cell<u32>,
    /// The time of the revision, in seconds since 1970.
    now: Cell<i64>,
    states: RefCell<Vec<State>>,
    vacant: RefCell<Vec<Node>>,
    /// The dependencies of the running queries; each query was started by the one before it.
    open: RefCell<Vec<Dependencies>>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The revision of the node's last change.
    changed: u32,
    /// The last revision in which a stored value depended on the node.
    used: u32,
    /// The number of stored values that depend on the node.
    dependents: u32,
    /// The number of the key that has the node.
    number: u32,
}

impl Default for Dependencies {
    fn default() -> Self {
        Self { nodes: SmallVec::new(), until: NEVER, good: 0 }
    }
}

impl Dependencies {
    /// The second since 1970 from which the value differs; [`i64::MAX`] for never.
    fn until(&self) -> i64 {
        if self.until == NEVER { i64::MAX } else { i64::from(self.until) }
    }
}

// === impl Revisions ===

impl Revisions {
    /// Begins a revision, at a second since 1970.
    pub(super) fn begin(&self, now: i64) {
        self.current.set(self.current.get() + 1);
        self.now.set(now);
    }

    /// Makes all values of earlier revisions invalid.
    pub(super) fn invalidate(&self) {
        self.oldest.set(self.current.get());
    }

    /// Records that a node differs from the previous revision.
    pub(super) fn note_change(&self, node: Node) {
        self.states.borrow_mut()[node.0 as usize].changed = self.current.get();
    }

    /// Records that the running query depends on a node. If no query is running, the revision itself does.
    pub(super) fn read(&self, node: Node) {
        match self.open.borrow_mut().last_mut() {
            Some(open) if open.nodes.contains(&node) => {}
            Some(open) => open.nodes.push(node),
            None => self.use_in_this(node),
        }
    }

    /// Records that the running query has another value from this second since 1970 on, if the second is in
    /// the future.
    pub(super) fn note_turn(&self, second: i64) {
        if second > self.now.get()
            && let Some(open) = self.open.borrow_mut().last_mut()
        {
            open.until = open.until.min(u32::try_from(second).unwrap_or(NEVER));
        }
    }

    fn record<T>(&self, make: impl FnOnce() -> T) -> (T, Dependencies) {
        self.open.borrow_mut().push(Dependencies::default());
        let made = make();
        let mut dependencies = self.open.borrow_mut().pop().unwrap_or_default();
        dependencies.nodes.shrink_to_fit();
        dependencies.good = self.current.get();
        (made, dependencies)
    }

    /// Whether a value that was verified in an earlier revision is still valid.
    fn is_current(&self, dependencies: &Dependencies) -> bool {
        let (states, good) = (self.states.borrow(), dependencies.good);
        good >= self.oldest.get()
            && dependencies.until() > self.now.get()
            && dependencies.nodes.iter().all(|node| states[node.0 as usize].changed <= good)
    }

    fn is_used(&self, node: Node) -> bool {
        self.states.borrow()[node.0 as usize].used == self.current.get()
    }

    fn use_in_this(&self, node: Node) {
        self.states.borrow_mut()[node.0 as usize].used = self.current.get();
    }

    fn use_all_in_this(&self, dependencies: &Dependencies) {
        let (mut states, current) = (self.states.borrow_mut(), self.current.get());
        for node in &dependencies.nodes {
            states[node.0 as usize].used = current;
        }
    }

    /// Whether a stored value depends on a node.
    pub(super) fn has_dependents(&self, node: Node) -> bool {
        self.states.borrow()[node.0 as usize].dependents > 0
    }

    /// Counts a value that is stored from now on.
    fn hold(&self, dependencies: &Dependencies) {
        let mut states = self.states.borrow_mut();
        for node in &dependencies.nodes {
            states[node.0 as usize].dependents += 1;
        }
    }

    /// Counts a value that is no longer stored.
    fn release(&self, dependencies: &Dependencies) {
        let mut states = self.states.borrow_mut();
        for node in &dependencies.nodes {
            let dependents = &mut states[node.0 as usize].dependents;
            *dependents = dependents.saturating_sub(1);
        }
    }

    fn new_node(&self, number: u32) -> Node {
        let state = State { changed: self.current.get(), used: 0, dependents: 0, number };
        let mut states = self.states.borrow_mut();
        if let Some(node) = self.vacant.borrow_mut().pop() {
            states[node.0 as usize] = state;
            return node;
        }
        push(&mut states, state);
        Node(states.len() as u32 - 1)
    }
}

/// Numbers for keys, from 0, each with its [`Node`]. A key has the same number until it is removed; then
/// another key may get the number.
#[derive(Debug)]
pub(super) struct Numbers<K> {
    table: HashTable<u32>,
    keys: Vec<Option<(K, Node)>>,
    vacant: Vec<u32>,
}

/// Values by key, with their dependencies.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    numbers: Numbers<K>,
    values: Vec<Option<Made<V>>>,
}

#[derive(Debug)]
struct Made<V> {
    value: V,
    dependencies: Dependencies,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self { table: HashTable::new(), keys: Vec::new(), vacant: Vec::new() }
    }
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self { numbers: Numbers::default(), values: Vec::new() }
    }
}

// === impl Numbers ===

/// Places by which a full table grows at least.
const GROWTH_MIN: usize = 16;

const KEPT: &str = "whoever has a number keeps its key";

impl<K: Eq + Hash> Numbers<K> {
    /// The number of a key. A new key gets a free number.
    pub(super) fn number(&mut self, key: K, revisions: &Revisions) -> u32 {
        if let Some(number) = self.find(&key) {
            return number;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            push(&mut self.keys, None);
            self.keys.len() as u32 - 1
        });
        let hash = hash_of(&key);
        self.keys[number as usize] = Some((key, revisions.new_node(number)));
        let keys = &self.keys;
        self.table
            .insert_unique(hash, number, |&number| hash_of(&keys[number as usize].as_ref().expect(KEPT).0));
        number
    }

    /// The number of a key; none for an unknown key.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        let is_key =
            |&number: &u32| self.keys[number as usize].as_ref().is_some_and(|(known, _)| known == key);
        self.table.find(hash_of(key), is_key).copied()
    }

    pub(super) fn key(&self, number: u32) -> &K {
        &self.keys[number as usize].as_ref().expect(KEPT).0
    }

    pub(super) fn node(&self, number: u32) -> Node {
        self.keys[number as usize].as_ref().expect(KEPT).1
    }

    /// Removes the keys on which nothing in this revision depends.
    pub(super) fn sweep(&mut self, revisions: &Revisions, mut forget: impl FnMut(u32, K)) {
        for number in 0..self.keys.len() as u32 {
            let is_unused = |(_, node): &(K, Node)| !revisions.is_used(*node);
            if self.keys[number as usize].as_ref().is_some_and(is_unused)
                && let Some(key) = self.remove(number, revisions)
            {
                forget(number, key);
            }
        }
    }

    /// Removes the key with this number, on which nothing may depend.
    fn remove(&mut self, number: u32, revisions: &Revisions) -> Option<K> {
        let (key, node) = self.keys[number as usize].take()?;
        if let Ok(entry) = self.table.find_entry(hash_of(&key), |&other| other == number) {
            entry.remove();
        }
        self.vacant.push(number);
        revisions.vacant.borrow_mut().push(node);
        Some(key)
    }

    /// The number of the key with this node; none if it is not a node of these keys.
    fn number_of(&self, node: Node, revisions: &Revisions) -> Option<u32> {
        let number = revisions.states.borrow()[node.0 as usize].number;
        let key = self.keys.get(number as usize)?.as_ref();
        key.filter(|(_, own)| *own == node).map(|_| number)
    }
}

/// Adds an item to a table that may have 100,000 of them. A full table grows by an eighth: doubling it would
/// leave up to half of it unused.
fn push<T>(table: &mut Vec<T>, item: T) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 8).max(GROWTH_MIN));
    }
    table.push(item);
}

fn hash_of<K: Hash>(key: &K) -> u64 {
    FixedState::default().hash_one(key)
}

// === impl Memo ===

impl<K: Eq + Hash, V> Memo<K, V> {
    /// The number of a key. A new key gets a free number, and its value is not made yet.
    pub(super) fn number(&mut self, key: K, revisions: &Revisions) -> u32 {
        let number = self.numbers.number(key, revisions);
        if self.values.len() <= number as usize {
            push(&mut self.values, None);
        }
        number
    }

    /// Updates the value of a key: keeps it, or makes it again. Returns whether it was made again. `holds`
    /// compares the old value with arguments that are not dependencies; `make` receives the old value, if one
    /// exists.
    ///
    /// The running query depends on the value from now on.
    pub(super) fn get(
        &mut self,
        number: u32,
        revisions: &Revisions,
        holds: impl FnOnce(&V) -> bool,
        make: impl FnOnce(&K, Option<V>) -> V,
    ) -> bool {
        let is_new = self.refresh(number, revisions, holds, make);
        revisions.read(self.numbers.node(number));
        is_new
    }

    /// Updates a value as [`get`](Self::get) does, but neither the running query nor the revision depends on
    /// the value.
    pub(super) fn refresh(
        &mut self,
        number: u32,
        revisions: &Revisions,
        holds: impl FnOnce(&V) -> bool,
        make: impl FnOnce(&K, Option<V>) -> V,
    ) -> bool {
        let current = revisions.current.get();
        let place = &mut self.values[number as usize];
        if let Some(made) = place {
            let is_good = made.dependencies.good == current
                || revisions.is_current(&made.dependencies) && holds(&made.value);
            if is_good {
                made.dependencies.good = current;
                return false;
            }
        }
        let old = place.take();
        if let Some(old) = &old {
            revisions.release(&old.dependencies);
        }
        let key = self.numbers.key(number);
        let (value, dependencies) = revisions.record(|| make(key, old.map(|made| made.value)));
        revisions.hold(&dependencies);
        self.values[number as usize] = Some(Made { value, dependencies });
        revisions.note_change(self.numbers.node(number));
        true
    }

    /// The numbers of the values that depend on a node, by node.
    pub(super) fn dependents(&self) -> Vec<(Node, u32)> {
        let made = (0..).zip(&self.values).filter_map(|(number, made)| Some((number, made.as_ref()?)));
        let mut all: Vec<_> = made
            .flat_map(|(number, made)| made.dependencies.nodes.iter().map(move |&node| (node, number)))
            .collect();
        all.sort_unstable();
        all.shrink_to_fit();
        all
    }

    /// The value with this number. The running query depends on it from now on.
    pub(super) fn read(&self, number: u32, revisions: &Revisions) -> &V {
        revisions.read(self.numbers.node(number));
        self.value(number)
    }

    /// The value with this number, which must have been updated in this revision.
    pub(super) fn value(&self, number: u32) -> &V {
        &self.values[number as usize].as_ref().expect("a value that was asked for in this revision").value
    }

    /// The value with this number, valid or not; none if there is none.
    pub(super) fn peek(&self, number: u32) -> Option<&V> {
        self.values[number as usize].as_ref().map(|made| &made.value)
    }

    pub(super) fn key(&self, number: u32) -> &K {
        self.numbers.key(number)
    }

    /// Whether a number has a value, valid or not.
    pub(super) fn has(&self, number: u32) -> bool {
        self.values[number as usize].is_some()
    }

    /// An upper bound of all numbers, exclusive.
    pub(super) fn end(&self) -> usize {
        self.values.len()
    }

    /// Removes the values on which nothing in this revision depends. The memos that the remaining values
    /// depend on have to be swept later.
    pub(super) fn sweep(&mut self, revisions: &Revisions, mut forget: impl FnMut(u32)) {
        let Self { numbers, values } = self;
        numbers.sweep(revisions, |number, _| {
            if let Some(made) = values[number as usize].take() {
                revisions.release(&made.dependencies);
            }
            forget(number);
        });
        for made in values.iter().flatten() {
            revisions.use_all_in_this(&made.dependencies);
        }
    }

    /// Removes the key with this number and its value, on which nothing may depend.
    pub(super) fn remove(&mut self, number: u32, revisions: &Revisions) {
        if let Some(made) = self.values[number as usize].take() {
            revisions.release(&made.dependencies);
        }
        self.numbers.remove(number, revisions);
    }

    /// The number of the value with this node; none if the value is in another memo.
    pub(super) fn number_of(&self, node: Node, revisions: &Revisions) -> Option<u32> {
        self.numbers.number_of(node, revisions)
    }

    /// The number of a known key.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.numbers.find(key)
    }

    /// The nodes on which the value with this number depends; empty without a value.
    pub(super) fn dependencies(&self, number: u32) -> &[Node] {
        self.values[number as usize].as_ref().map_or(&[], |made| &made.dependencies.nodes)
    }

    /// The second since 1970 from which the value with this number has to be made again; [`i64::MAX`] for
    /// never, and without a value.
    pub(super) fn until_of(&self, number: u32) -> i64 {
        self.values[number as usize].as_ref().map_or(i64::MAX, |made| made.dependencies.until())
    }

    /// The first second since 1970 at which a value has to be made again; [`i64::MAX`] for never.
    pub(super) fn until(&self) -> i64 {
        self.values.iter().flatten().map(|made| made.dependencies.until()).min().unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test world: texts as inputs, a memo of their lengths, and a memo of the sums of two lengths.
    #[derive(Default)]
    struct World {
        revisions: Revisions,
        inputs: Numbers<&'static str>,
        lengths: Memo<&'static str, usize>,
        sums: Memo<[&'static str; 2], usize>,
    }

    impl World {
        fn revision(&self, changed: &[&'static str], now: i64) {
            self.revisions.begin(now);
            for input in changed.iter().filter_map(|input| self.inputs.find(input)) {
                self.revisions.note_change(self.inputs.node(input));
            }
        }

        /// Updates a sum. Returns which lengths were made again, and whether the sum was.
        fn sum(&mut self, of: [&'static str; 2]) -> (Vec<&'static str>, bool) {
            let Self { revisions, inputs, lengths, sums } = self;
            let mut made = Vec::new();
            let mut measure = |input: &&'static str, _: Option<usize>| {
                let number = inputs.number(*input, revisions);
                revisions.read(inputs.node(number));
                made.push(*input);
                input.len()
            };
            for number in (0..lengths.end() as u32).filter(|&number| lengths.has(number)).collect::<Vec<_>>()
            {
                lengths.refresh(number, revisions, |_| true, &mut measure);
            }
            let number = sums.number(of, revisions);
            let is_new = sums.get(
                number,
                revisions,
                |_| true,
                |of, _| {
                    let numbers = of.map(|input| lengths.number(input, revisions));
                    numbers
                        .map(|number| {
                            lengths.get(number, revisions, |_| true, &mut measure);
                            *lengths.value(number)
                        })
                        .iter()
                        .sum()
                },
            );
            (made, is_new)
        }

        fn sweep(&mut self) -> Vec<&'static str> {
            let mut gone = Vec::new();
            self.sums.sweep(&self.revisions, |_| {});
            self.lengths.sweep(&self.revisions, |_| {});
            self.inputs.sweep(&self.revisions, |_, key| gone.push(key));
            gone
        }
    }

    #[test]
    fn what_depends_on_a_change_is_made_anew_and_nothing_else() {
        let mut world = World::default();
        world.revision(&[], 0);
        assert_eq!(world.sum(["a", "bb"]), (vec!["a", "bb"], true));
        assert_eq!(world.sweep(), [""; 0]);
        world.revision(&["c"], 0);
        assert_eq!(world.sum(["a", "bb"]), (vec![], false));
        world.revision(&["bb"], 0);
        assert_eq!(world.sum(["a", "bb"]), (vec!["bb"], true));
        world.revision(&[], 0);
        world.revisions.invalidate();
        assert_eq!(world.sum(["a", "bb"]), (vec!["a", "bb"], true));
    }

    #[test]
    fn what_is_not_asked_for_any_more_goes_with_what_only_it_depended_on() {
        let mut world = World::default();
        world.revision(&[], 0);
        world.sum(["a", "bb"]);
        world.sum(["a", "ccc"]);
        world.sweep();
        world.revision(&[], 0);
        assert_eq!(world.sum(["a", "ccc"]), (vec![], false));
        assert_eq!(world.sweep(), ["bb"]);
        assert_eq!((world.inputs.find(&"bb"), world.lengths.end()), (None, 3));
        world.revision(&[], 0);
        world.sum(["a", "ccc"]);
        assert_eq!(world.sum(["a", "dd"]), (vec!["dd"], true));
        assert_eq!(world.lengths.end(), 3, "the number of what has gone is given again");
        assert_eq!(world.sweep(), [""; 0]);
    }

    #[test]
    fn a_value_lasts_until_its_turn_and_until_what_else_it_was_made_of_differs() {
        let (revisions, mut memo) = (Revisions::default(), Memo::<(), i64>::default());
        let mut at = |now: i64, fits: bool| {
            revisions.begin(now);
            let number = memo.number((), &revisions);
            let is_new = memo.get(
                number,
                &revisions,
                |_| fits,
                |(), _| {
                    revisions.note_turn(10);
                    now
                },
            );
            (is_new, memo.until())
        };
        assert_eq!(at(1, true), (true, 10));
        assert_eq!(at(9, true), (false, 10));
        assert_eq!(at(9, false), (true, 10));
        assert_eq!(at(10, true), (true, i64::MAX), "a turn that has been taken is none");
    }
}
