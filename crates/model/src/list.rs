//! A list in parts. A changed copy shares all parts but the changed ones with the original, so that a change
//! of one item out of 100,000 costs a part and not the list.
//!
//! Must not be in here: the meaning of items.

use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Items of a part of a new list.
const PART: usize = 256;

/// A list in parts, which copies share.
#[derive(Debug)]
pub struct List<T> {
    /// No part is empty.
    parts: Vec<Arc<Vec<T>>>,
    len: usize,
}

/// The items of a [`List`] in order.
#[derive(Debug)]
pub struct Items<'l, T> {
    parts: slice::Iter<'l, Arc<Vec<T>>>,
    of_part: slice::Iter<'l, T>,
    left: usize,
}

impl<T> List<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list has no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The items in order.
    pub fn iter(&self) -> Items<'_, T> {
        Items { parts: self.parts.iter(), of_part: [].iter(), left: self.len }
    }

    /// The item at a place.
    pub fn get(&self, at: usize) -> Option<&T> {
        let (part, place) = self.place(at);
        self.parts.get(part)?.get(place)
    }

    /// The items of the parts that another list does not have as the same allocation: the changed ones, and
    /// their neighbours.
    pub fn unlike<'l>(&'l self, other: &Self) -> impl Iterator<Item = &'l T> + use<'l, T> {
        let Middle { begin, own, others } = Middle::of(&self.parts, &other.parts);
        let shared: HashSet<_> = other.parts[begin..others].iter().map(Arc::as_ptr).collect();
        let own = self.parts[begin..own].iter().filter(move |part| !shared.contains(&Arc::as_ptr(part)));
        own.flat_map(|part| part.iter())
    }

    /// A value for the items of each part. Parts that `before` has too keep the values in `known`, which this
    /// function has made of `before`.
    pub fn of_parts<V: Clone>(&self, before: &Self, known: &[V], mut make: impl FnMut(&[T]) -> V) -> Vec<V> {
        let Middle { begin, own, others } = Middle::of(&self.parts, &before.parts);
        let of_middle: HashMap<_, _> =
            before.parts[begin..others].iter().map(Arc::as_ptr).zip(&known[begin..others]).collect();
        let value = |part: &Arc<Vec<T>>| {
            of_middle.get(&Arc::as_ptr(part)).map_or_else(|| make(part), |&value| value.clone())
        };
        let mut values = Vec::with_capacity(self.parts.len());
        values.extend_from_slice(&known[..begin]);
        values.extend(self.parts[begin..own].iter().map(value));
        values.extend_from_slice(&known[others..]);
        values
    }

    /// The list of a value for each item. Parts that `before` has too keep the values in `known`, which this
    /// function has made of `before`.
    pub fn mapped<V>(&self, before: &Self, known: &List<V>, mut make: impl FnMut(&T) -> V) -> List<V> {
        let parts =
            self.of_parts(before, &known.parts, |part| Arc::new(part.iter().map(&mut make).collect()));
        List { parts, len: self.len }
    }

    /// The part and the place in it of an item; the place after the last part for one beyond the end.
    fn place(&self, at: usize) -> (usize, usize) {
        let mut rest = at;
        for (number, part) in self.parts.iter().enumerate() {
            if rest < part.len() {
                return (number, rest);
            }
            rest -= part.len();
        }
        (self.parts.len(), rest)
    }
}

/// The parts of two lists between those that both have in the same place, counted from the beginning or from
/// the end. After a change these are few.
struct Middle {
    /// The number of parts that both have at the beginning.
    begin: usize,
    /// The end in the one list.
    own: usize,
    /// The end in the other one.
    others: usize,
}

impl Middle {
    fn of<T>(own: &[Arc<T>], others: &[Arc<T>]) -> Self {
        let is_same = |pair: &(&Arc<T>, &Arc<T>)| Arc::ptr_eq(pair.0, pair.1);
        let begin = own.iter().zip(others).take_while(is_same).count();
        let rests = own[begin..].iter().rev().zip(others[begin..].iter().rev());
        let end = rests.take_while(is_same).count();
        Self { begin, own: own.len() - end, others: others.len() - end }
    }
}

impl<T: Clone> List<T> {
    /// Replaces the item at a place, which has to exist.
    pub fn replace(&mut self, at: usize, item: T) {
        let (part, place) = self.place(at);
        Arc::make_mut(&mut self.parts[part])[place] = item;
    }

    /// Inserts an item before the one at a place, or at the end.
    pub fn insert(&mut self, at: usize, item: T) {
        let (number, place) = match self.place(at) {
            (number, place) if number < self.parts.len() => (number, place),
            _ if self.parts.is_empty() => {
                self.parts.push(Arc::default());
                (0, 0)
            }
            _ => (self.parts.len() - 1, self.parts[self.parts.len() - 1].len()),
        };
        let part = Arc::make_mut(&mut self.parts[number]);
        part.insert(place, item);
        if part.len() >= 2 * PART {
            let rest = part.split_off(PART);
            self.parts.insert(number + 1, Arc::new(rest));
        }
        self.len += 1;
    }

    /// Removes the item at a place, which has to exist.
    pub fn remove(&mut self, at: usize) {
        let (number, place) = self.place(at);
        let part = Arc::make_mut(&mut self.parts[number]);
        part.remove(place);
        if part.is_empty() {
            self.parts.remove(number);
        }
        self.len -= 1;
    }

    /// The list of these items, which shares the parts with `before` whose items are the same ones in the
    /// same order. `is_same` compares identities.
    pub fn sharing(items: &[T], before: &Self, is_same: impl Fn(&T, &T) -> bool) -> Self {
        let (mut parts, mut rest) = (Vec::new(), items);
        let mut old = before.parts.iter().peekable();
        while !rest.is_empty() {
            let Some(part) = old.next() else {
                parts.extend(rest.chunks(PART).map(|part| Arc::new(part.to_vec())));
                break;
            };
            let begin = &rest[..part.len().min(rest.len())];
            if begin.len() == part.len() && begin.iter().zip(&**part).all(|(a, b)| is_same(a, b)) {
                parts.push(Arc::clone(part));
                rest = &rest[part.len()..];
                continue;
            }
            // The part ends where the next one begins, if that is near.
            let next = old.peek().and_then(|next| next.first());
            let near = &rest[..rest.len().min(4 * PART)];
            let end = next.and_then(|next| near.iter().position(|item| is_same(item, next)));
            let (own, others) = rest.split_at(end.unwrap_or(begin.len()));
            if !own.is_empty() {
                parts.push(Arc::new(own.to_vec()));
            }
            rest = others;
        }
        Self { parts, len: items.len() }
    }
}

impl<T> List<Arc<T>> {
    /// The items that another list does not have as the same allocation.
    pub fn new_items<'l>(&'l self, other: &Self) -> impl Iterator<Item = &'l Arc<T>> + use<'l, T> {
        let mut known: Vec<_> = other.unlike(self).map(Arc::as_ptr).collect();
        known.sort_unstable();
        self.unlike(other).filter(move |item| known.binary_search(&Arc::as_ptr(item)).is_err())
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), len: self.len }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { parts: Vec::new(), len: 0 }
    }
}

/// Parts that are the same allocation are equal without a comparison.
impl<T: Eq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.parts.iter().zip(&other.parts);
        let is_aligned = self.parts.len() == other.parts.len() && pairs().all(|(a, b)| a.len() == b.len());
        let is_equal = |a: &Arc<Vec<T>>, b: &Arc<Vec<T>>| Arc::ptr_eq(a, b) || a == b;
        self.len == other.len
            && if is_aligned { pairs().all(|(a, b)| is_equal(a, b)) } else { self.iter().eq(other.iter()) }
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let mut parts = Vec::new();
        let mut len = 0;
        loop {
            let part: Vec<T> = items.by_ref().take(PART).collect();
            if part.is_empty() {
                return Self { parts, len };
            }
            len += part.len();
            parts.push(Arc::new(part));
        }
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'l, T> IntoIterator for &'l List<T> {
    type Item = &'l T;
    type IntoIter = Items<'l, T>;

    fn into_iter(self) -> Items<'l, T> {
        self.iter()
    }
}

impl<'l, T> Iterator for Items<'l, T> {
    type Item = &'l T;

    fn next(&mut self) -> Option<&'l T> {
        loop {
            if let Some(item) = self.of_part.next() {
                self.left -= 1;
                return Some(item);
            }
            self.of_part = self.parts.next()?.iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    fn count(self) -> usize {
        self.left
    }
}

impl<T> ExactSizeIterator for Items<'_, T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(list: &List<Arc<u32>>) -> Vec<u32> {
        list.iter().map(|item| **item).collect()
    }

    fn shared(list: &List<Arc<u32>>, other: &List<Arc<u32>>) -> usize {
        list.len() - list.unlike(other).count()
    }

    proptest! {
        #[test]
        fn a_list_has_the_items_of_a_vector(
            len in 0..1500_usize,
            steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>(), 5000..5100_u32), 1..40),
        ) {
            let mut plain: Vec<u32> = (0..len as u32).collect();
            let mut list: List<Arc<u32>> = plain.iter().copied().map(Arc::new).collect();
            let double = |item: &Arc<u32>| 2 * **item;
            let mut doubled = list.mapped(&List::default(), &List::default(), double);
            for (step, at, item) in steps {
                let before = list.clone();
                match step {
                    0 if !plain.is_empty() => {
                        let at = at.index(plain.len());
                        plain[at] = item;
                        list.replace(at, Arc::new(item));
                    }
                    1 if !plain.is_empty() => {
                        let at = at.index(plain.len());
                        plain.remove(at);
                        list.remove(at);
                    }
                    2 => {
                        let at = at.index(plain.len() + 1);
                        plain.insert(at, item);
                        list.insert(at, Arc::new(item));
                    }
                    _ => {
                        let mut all: Vec<_> = list.iter().cloned().collect();
                        let at = at.index(plain.len() + 1);
                        plain.insert(at, item);
                        all.insert(at, Arc::new(item));
                        list = List::sharing(&all, &list, Arc::ptr_eq);
                    }
                }
                prop_assert_eq!(items(&list), plain.clone());
                let (len, middle) = (plain.len(), plain.len() / 2);
                prop_assert_eq!((list.len(), list.iter().count(), list.iter().len()), (len, len, len));
                prop_assert_eq!(list.get(middle).map(|item| **item), plain.get(middle).copied());
                prop_assert!(list.len() - shared(&list, &before) <= 2 * PART, "all but two parts are shared");
                doubled = list.mapped(&before, &doubled, double);
                prop_assert!(doubled.iter().copied().eq(plain.iter().map(|item| 2 * item)));
                prop_assert_eq!(list == before, items(&list) == items(&before));
                prop_assert!(list == plain.iter().copied().map(Arc::new).collect());
            }
        }
    }

    #[test]
    fn new_items_are_those_of_other_allocations() {
        let before: List<Arc<u32>> = (0..1000).map(Arc::new).collect();
        let mut now = before.clone();
        now.replace(300, Arc::new(300));
        now.remove(7);
        now.insert(600, Arc::new(5000));
        let new = |list: &List<Arc<u32>>, other| list.new_items(other).map(|item| **item).collect::<Vec<_>>();
        assert_eq!((new(&now, &before), new(&before, &now)), (vec![300, 5000], vec![7, 300]));
        assert_eq!(new(&now, &now), [0; 0]);
    }

    #[test]
    fn equal_items_in_new_allocations_share_nothing() {
        let list = || -> List<Arc<u32>> { (0..1000).map(Arc::new).collect() };
        let (one, other) = (list(), list());
        assert!(one == other && shared(&one, &other) == 0);
        let all: Vec<_> = one.iter().cloned().collect();
        assert_eq!(shared(&List::sharing(&all, &one, Arc::ptr_eq), &one), 1000);
        assert_eq!(shared(&List::sharing(&all[3..], &one, Arc::ptr_eq), &one), 1000 - PART);
    }
}
