//! Look-up of the first route of a host whose regular expression matches a path.
//!
//! Most expressions differ in their literal prefixes. The ones whose prefix a path begins with are found by a
//! binary search among all prefixes; only these run.

use std::collections::BTreeMap;

use model::{Expression, PathMatch, StepBudget, TooManySteps};
use smallvec::SmallVec;

use crate::path::Found;

/// Bytes at the start of a path that are lower-cased on the stack to be compared with literal prefixes.
const START_BYTES: usize = 64;
/// Expressions that are gathered on the stack, of those whose prefix a path begins with.
const CANDIDATES: usize = 16;

/// The routes of a host that have a regular expression.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    /// The routes, in the order of the model.
    entries: Box<[Entry]>,
    /// The literal prefixes of the entries, sorted.
    prefixes: Box<[Prefix]>,
    prefix_len_max: usize,
}

#[derive(Debug)]
struct Entry {
    route: u32,
    expression: Expression,
}

/// A literal prefix, in lower case.
#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    /// The entries with this prefix, in ascending order.
    entries: Vec<u32>,
    /// The longest other prefix that this one begins with.
    shorter: Option<u32>,
}

impl Expressions {
    /// None for routes without a regular expression.
    pub(crate) fn boxed<'a>(routes: impl Iterator<Item = &'a PathMatch>) -> Option<Box<Self>> {
        let expressions = Self::new(routes);
        (!expressions.entries.is_empty()).then(|| Box::new(expressions))
    }

    fn new<'a>(routes: impl Iterator<Item = &'a PathMatch>) -> Self {
        let mut entries = Vec::new();
        let mut by_prefix: BTreeMap<Box<[u8]>, Vec<u32>> = BTreeMap::new();
        for (route, path) in (0..).zip(routes) {
            let Some(expression) = path.expression().cloned() else { continue };
            by_prefix.entry(expression.prefix().into()).or_default().push(entries.len() as u32);
            entries.push(Entry { route, expression });
        }
        let mut prefixes: Vec<Prefix> = Vec::with_capacity(by_prefix.len());
        for (text, entries) in by_prefix {
            let last = prefixes.len().checked_sub(1).map(|last| last as u32);
            let shorter = chain(&prefixes, last).find(|(_, prefix)| text.starts_with(&prefix.text));
            let shorter = shorter.map(|(at, _)| at);
            prefixes.push(Prefix { text, entries, shorter });
        }
        let prefix_len_max = prefixes.iter().map(|prefix| prefix.text.len()).max().unwrap_or(0);
        Self { entries: entries.into(), prefixes: prefixes.into(), prefix_len_max }
    }

    /// The first route that matches a normalised path. `complies` reports whether the request meets the
    /// conditions of a route. An expression that takes too many steps ends the search: a later route may be
    /// open where this one is guarded.
    pub(crate) fn find(
        &self,
        path: &[u8],
        budget: &StepBudget,
        complies: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let mut start =
            SmallVec::<[u8; START_BYTES]>::from_slice(&path[..path.len().min(self.prefix_len_max)]);
        start.make_ascii_lowercase();
        // The greatest prefix that is not greater than the start begins with all prefixes of the start.
        let not_greater = self.prefixes.partition_point(|prefix| *prefix.text <= *start);
        let greatest = not_greater.checked_sub(1).map(|last| last as u32);
        let mut known = chain(&self.prefixes, greatest).filter(|(_, prefix)| start.starts_with(&prefix.text));
        let (_, longest) = known.next()?;
        let mut candidates = SmallVec::<[u32; CANDIDATES]>::from_slice(&longest.entries);
        for (_, shorter) in known {
            candidates.extend_from_slice(&shorter.entries);
        }
        candidates.sort_unstable();
        candidates.into_iter().find_map(|candidate| {
            let Entry { route, expression } = &self.entries[candidate as usize];
            let route = *route as usize;
            match expression.try_match(path, budget) {
                Ok(matches) => (matches && complies(route)).then_some(Found::Route(route)),
                Err(TooManySteps) => complies(route).then_some(Found::Undecided),
            }
        })
    }
}

/// A prefix and the shorter ones that it begins with, with their places.
fn chain(prefixes: &[Prefix], first: Option<u32>) -> impl Iterator<Item = (u32, &Prefix)> {
    let next = |at: &u32| prefixes[*at as usize].shorter;
    std::iter::successors(first, next).map(|at| (at, &prefixes[at as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_takes_the_path_is_found() {
        let paths = ["/api/(v1|v2)", "/api", "/"].map(|text| PathMatch::regex(text).unwrap());
        let prefix = PathMatch::prefix("/plain").unwrap();
        let table = Expressions::new([&prefix].into_iter().chain(&paths));
        let budget = StepBudget::default();
        let find = |path: &str| table.find(path.as_bytes(), &budget, |_| true);
        assert_eq!(find("/API/v2/x"), Some(Found::Route(1)));
        assert_eq!(find("/apis"), Some(Found::Route(2)));
        assert_eq!(find("/plain"), Some(Found::Route(3)));
        let third = table.find(b"/api/v1", &budget, |route| route == 3);
        assert_eq!(third, Some(Found::Route(3)), "where conditions do not hold");
        assert_eq!(Expressions::default().find(b"/", &budget, |_| true), None);
    }

    #[test]
    fn of_those_whose_prefix_begins_the_path_the_first_in_the_order_is_found() {
        let texts = ["/b/[0-9]+", "/a/b/c", "/a/[a-z]/c", "/x?", "/a", "/a/b", "/", "/a/b/c/d"];
        let paths = texts.map(|text| PathMatch::regex(text).unwrap());
        let table = Expressions::new(paths.iter());
        let budget = StepBudget::default();
        for path in ["/a/b/c/d", "/a/b/c", "/A/x/c", "/a/bb", "/a", "/b/1", "/b/x", "/x", "/c", "/"] {
            let first = paths.iter().position(|one| {
                one.expression().is_some_and(|one| one.try_match(path.as_bytes(), &budget).unwrap())
            });
            let found = table.find(path.as_bytes(), &budget, |_| true);
            assert_eq!(found, first.map(Found::Route), "{path}");
        }
    }

    #[test]
    fn too_many_steps_lead_to_no_later_route() {
        let paths = ["/(?:(?=a)a|a)*c", "/"].map(|text| PathMatch::regex(text).unwrap());
        let table = Expressions::new(paths.iter());
        let find = |path: &[u8]| table.find(path, &StepBudget::default(), |_| true);
        assert_eq!(find(b"/aac"), Some(Found::Route(0)));
        assert_eq!(find(b"/aab"), Some(Found::Route(1)));
        assert_eq!(find(&[&b"/"[..], &[b'a'; 4000]].concat()), Some(Found::Undecided));
    }
}
