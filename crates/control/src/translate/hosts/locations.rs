//! The paths of a host's routes as requests are compared with them, once it is known what all of the host's objects ask for.
//!
//! ingress-nginx: if any location of a host asks for regular expressions, or has another rewrite target than its path, all paths of the
//! host are regular expressions.

use std::collections::HashSet;

use model::{Expression, PathKind, PathMatch, RequestFilter, Rewrite};

use super::Declared;
use crate::translate::claim::DraftRoute;

/// A path of a route, as requests are compared with it.
pub(super) struct Location {
    pub(super) path: PathMatch,
    /// What is put in place of the paths that it takes.
    pub(super) rewrite: Option<RequestFilter>,
}

/// Whether the paths of these routes are regular expressions.
pub(super) fn are_expressions(drafts: &[Declared]) -> bool {
    let is_rewritten = |draft: &DraftRoute| texts(draft, false).any(|text| is_rewritten(draft, &text));
    drafts.iter().any(|declared| declared.draft.uses_regex || is_rewritten(&declared.draft))
}

/// The order in which they are asked: "by path length descending, then lexicographic descending".
pub(super) fn sort(drafts: &mut [Declared]) {
    drafts.sort_by(|a, b| {
        let (a, b) = (a.draft.path.path(), b.draft.path.path());
        b.len().cmp(&a.len()).then_with(|| b.cmp(a))
    });
}

/// The paths that have the type Exact. A prefix of the same text takes only what lies below it.
pub(super) fn exact_paths(drafts: &[Declared]) -> HashSet<String> {
    let paths = drafts.iter().map(|declared| &declared.draft.path);
    paths.filter(|path| path.kind() == PathKind::Exact).map(|path| path.path().to_owned()).collect()
}

/// The expressions of a route of a host that has them, or why there are none.
pub(super) fn expressions(draft: &DraftRoute, exact: &HashSet<String>) -> Result<Vec<Location>, String> {
    let is_exact_too = draft.path.kind() == PathKind::Prefix && exact.contains(draft.path.path());
    let location = |text: String| {
        let path = PathMatch::regex(&text).map_err(|error| error.to_string())?;
        let rewrite = if is_rewritten(draft, &text) { rewrite(draft, &text)? } else { None };
        Ok(Location { path, rewrite })
    };
    texts(draft, is_exact_too).map(location).collect()
}

/// The texts of a route's expressions. What has a rewrite or asks for expressions keeps its path. Another prefix is two locations in
/// ingress-nginx: what lies below the path, and the path itself unless another route has it.
fn texts(draft: &DraftRoute, is_exact_too: bool) -> impl Iterator<Item = String> {
    let path = draft.path.path();
    let stays =
        draft.uses_regex || is_rewritten(draft, path) || path == "/" || draft.path.kind() != PathKind::Prefix;
    let below = (!stays && !path.ends_with('/')).then(|| format!("{path}/"));
    let itself = (below.is_none() || !is_exact_too).then(|| path.to_owned());
    below.into_iter().chain(itself)
}

fn is_rewritten(draft: &DraftRoute, text: &str) -> bool {
    draft.rewrite.as_ref().is_some_and(|rewrite| rewrite.text != text)
}

fn rewrite(draft: &DraftRoute, text: &str) -> Result<Option<RequestFilter>, String> {
    let Some(wanted) = &draft.rewrite else { return Ok(None) };
    let pattern = Expression::anywhere(text).map_err(|error| error.to_string())?;
    let rewrite = Rewrite { pattern, target: wanted.target.clone(), redirects: wanted.redirects };
    Ok(Some(RequestFilter::Rewrite(Box::new(rewrite))))
}
