//! A host with many regular expressions, and rewriting.

use super::{Case, Directives, Feature, Manifests};

const EXPRESSIONS: usize = 50;
const TARGET: &str = "/$2";

/// All of them are asked for in turn. The backend knows only the rewritten path.
pub(crate) fn regex_50() -> Case {
    let expressions: Vec<_> = numbers().map(|number| format!("/app-{number}/v([0-9]+)/(.*)")).collect();
    let feature = Feature {
        directives: Directives {
            expressions: expressions.iter().map(|one| (one.clone(), TARGET)).collect(),
            ..Directives::default()
        },
        manifests: Manifests {
            annotations: vec![("use-regex", "true".into()), ("rewrite-target", TARGET.into())],
            expressions,
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case { feature, path: "/app-{}/v3/1k", variants: |_| Ok(numbers().collect()), ..Case::default() }
}

/// As long as each other, so that nobody sorts them by length.
fn numbers() -> impl Iterator<Item = String> {
    (0..EXPRESSIONS).map(|number| format!("{number:02}"))
}
