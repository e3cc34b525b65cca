//! Exclusions: rules, or values that rules look at, which are left out everywhere or on some paths.
//!
//! Their parts are typed: no text of an exclusion is ever read as a directive.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::operators::{Pattern, Reading};
use crate::rule::{Choice, Name, RemovedTargets};
use crate::variables;

/// The paths of an exclusion, which are compared with normalised paths.
#[derive(Clone, Copy, Debug)]
pub enum ExcludedPath<'t> {
    /// This path alone.
    Exact(&'t str),
    /// This path and those below it, element by element: `/a` has `/a/b`, and not `/ab`.
    Prefix(&'t str),
    /// Paths that an expression matches from their beginning to their end.
    Expression(&'t str),
}

/// Rules that are left out, or that do not look at some values.
///
/// Without ids and tags it is about all rules; without targets the rules are left out as a whole; without a
/// path it holds everywhere.
#[derive(Clone, Default)]
pub struct Exclusion {
    rules: Vec<Choice>,
    targets: Vec<variables::Exclusion>,
    path: Option<Paths>,
}

#[derive(Clone)]
enum Paths {
    Exact(Arc<str>),
    /// Without a slash at its end.
    Prefix(Arc<str>),
    Expression(Arc<Pattern>),
}

/// An exclusion that holds on some paths, as a transaction needs it.
pub(crate) struct PathExclusion {
    paths: Paths,
    /// Rules that are left out as a whole.
    pub(crate) rules: Vec<Arc<Choice>>,
    pub(crate) targets: Vec<Arc<RemovedTargets>>,
}

impl Exclusion {
    /// Adds the rules with these ids.
    pub fn add_ids(&mut self, ids: RangeInclusive<u64>) {
        self.rules.push(Choice::Ids(vec![ids]));
    }

    /// Adds the rules with a tag.
    pub fn add_tag(&mut self, tag: &str) {
        self.rules.push(Choice::Tag(Name { text: tag.into(), pattern: None }));
    }

    pub(crate) fn push_target(&mut self, target: variables::Exclusion) {
        self.targets.push(target);
    }

    /// Limits the exclusion to some paths.
    ///
    /// # Errors
    ///
    /// A sentence that says why the expression cannot be had.
    pub fn set_path(&mut self, path: ExcludedPath) -> Result<(), String> {
        self.path = Some(match path {
            ExcludedPath::Exact(path) => Paths::Exact(path.into()),
            ExcludedPath::Prefix(path) => Paths::Prefix(path.trim_end_matches('/').into()),
            ExcludedPath::Expression(text) => {
                let reading = Reading { whole: true, ..Reading::default() };
                let compiled = |text: &str| Pattern::new(text, reading).map_err(|fault| fault.message);
                // Compiled alone first: `a)|(b` is an expression only between the added brackets.
                compiled(text)?;
                Paths::Expression(Arc::new(compiled(&format!("^(?:{text})$"))?))
            }
        });
        Ok(())
    }

    /// The rules that it is about.
    pub(crate) fn rules(&self) -> Vec<Choice> {
        let all = || vec![Choice::Ids(vec![0..=u64::MAX])];
        if self.rules.is_empty() { all() } else { self.rules.clone() }
    }

    pub(crate) fn targets(&self) -> &[variables::Exclusion] {
        &self.targets
    }

    /// The exclusion for transactions; none if it holds on every path.
    pub(crate) fn on_paths(&self) -> Option<PathExclusion> {
        let paths = self.path.clone()?;
        let rules = self.rules();
        let of_rule = |rules: &Choice| {
            let removed = |exclusion: &variables::Exclusion| {
                Arc::new(RemovedTargets { rules: rules.clone(), exclusion: exclusion.clone() })
            };
            self.targets.iter().map(removed).collect::<Vec<_>>()
        };
        let targets = rules.iter().flat_map(of_rule).collect();
        let whole = if self.targets.is_empty() { rules } else { Vec::new() };
        Some(PathExclusion { paths, rules: whole.into_iter().map(Arc::new).collect(), targets })
    }
}

impl PathExclusion {
    /// Whether it holds on a normalised path.
    pub(crate) fn holds_on(&self, path: &[u8]) -> bool {
        match &self.paths {
            Paths::Exact(own) => own.as_bytes() == path,
            Paths::Prefix(own) => {
                let rest = path.strip_prefix(own.as_bytes());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
            }
            Paths::Expression(pattern) => pattern.is_match(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(path: ExcludedPath) -> PathExclusion {
        let mut exclusion = Exclusion::default();
        exclusion.set_path(path).expect("a path");
        exclusion.on_paths().expect("it has a path")
    }

    #[test]
    fn paths_are_compared_as_a_whole() {
        let cases: [(ExcludedPath, &[&str], &[&str]); 4] = [
            (ExcludedPath::Exact("/a"), &["/a"], &["/a/", "/a/b", "/b/a"]),
            (ExcludedPath::Prefix("/a/"), &["/a", "/a/", "/a/b"], &["/ab", "/b/a", "/"]),
            (ExcludedPath::Prefix("/"), &["/", "/a"], &[]),
            (ExcludedPath::Expression("/a[0-9]+|/b"), &["/a12", "/b"], &["/a1/c", "/c/a1", "/bb", "/b\n"]),
        ];
        for (path, inside, outside) in cases {
            let exclusion = on(path);
            assert!(inside.iter().all(|one| exclusion.holds_on(one.as_bytes())), "{path:?}");
            assert!(!outside.iter().any(|one| exclusion.holds_on(one.as_bytes())), "{path:?}");
        }
    }

    #[test]
    fn parts_that_cannot_be_had_are_refused() {
        let mut exclusion = Exclusion::default();
        for text in ["ARGZ", "ARGS|FILES", "REQUEST_URI:a", "ARGS:/(/", "", "!ARGS:a", "&ARGS"] {
            assert!(exclusion.add_target(text).is_err(), "{text}");
        }
        for text in ["(", "a)|(b", "a(?=b)"] {
            assert!(exclusion.set_path(ExcludedPath::Expression(text)).is_err(), "{text}");
        }
    }
}
