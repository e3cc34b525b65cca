//! From a path to the first of a host's routes whose regular expression it matches.
//!
//! Most are told apart by what they begin with: that is looked at side by side in one piece of memory before a matcher runs.

use std::ops::Range;

use model::{Expression, PathMatch, StepBudget, TooManySteps};
use smallvec::SmallVec;

use crate::path::Found;

/// Bytes at the start of a path that are compared with what expressions begin with, without being allocated.
const START_BYTES: usize = 64;

/// The routes of a host that take paths by regular expressions, in the order of the model.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    entries: Box<[Entry]>,
    /// What the entries begin with, one after the other.
    prefixes: Box<[u8]>,
    prefix_len_max: usize,
}

#[derive(Debug)]
struct Entry {
    /// In the prefixes.
    prefix: Range<u32>,
    route: u32,
    expression: Expression,
}

impl Expressions {
    pub(crate) fn new<'a>(routes: impl Iterator<Item = &'a PathMatch>) -> Self {
        let (mut entries, mut prefixes, mut prefix_len_max) = (Vec::new(), Vec::new(), 0);
        for (route, path) in (0..).zip(routes) {
            let Some(expression) = path.expression().cloned() else { continue };
            let start = prefixes.len() as u32;
            prefixes.extend_from_slice(expression.prefix());
            prefix_len_max = prefix_len_max.max(expression.prefix().len());
            entries.push(Entry { prefix: start..prefixes.len() as u32, route, expression });
        }
        Self { entries: entries.into(), prefixes: prefixes.into(), prefix_len_max }
    }

    /// The first route that takes a normalised path. `complies` says whether the request complies with the conditions of a route. An
    /// expression that takes too many steps ends the search: a later route may be open where this one is guarded.
    pub(crate) fn find(
        &self,
        path: &[u8],
        budget: &StepBudget,
        complies: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        if self.entries.is_empty() {
            return None;
        }
        let mut start =
            SmallVec::<[u8; START_BYTES]>::from_slice(&path[..path.len().min(self.prefix_len_max)]);
        start.make_ascii_lowercase();
        self.entries.iter().find_map(|entry| {
            let prefix = &self.prefixes[entry.prefix.start as usize..entry.prefix.end as usize];
            if !start.starts_with(prefix) {
                return None;
            }
            let route = entry.route as usize;
            match entry.expression.try_match(path, budget) {
                Ok(matches) => (matches && complies(route)).then_some(Found::Route(route)),
                Err(TooManySteps) => complies(route).then_some(Found::Undecided),
            }
        })
    }
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
    fn too_many_steps_lead_to_no_later_route() {
        let paths = ["/(?:(?=a)a|a)*c", "/"].map(|text| PathMatch::regex(text).unwrap());
        let table = Expressions::new(paths.iter());
        let find = |path: &[u8]| table.find(path, &StepBudget::default(), |_| true);
        assert_eq!(find(b"/aac"), Some(Found::Route(0)));
        assert_eq!(find(b"/aab"), Some(Found::Route(1)));
        assert_eq!(find(&[&b"/"[..], &[b'a'; 4000]].concat()), Some(Found::Undecided));
    }
}
