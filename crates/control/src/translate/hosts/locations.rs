//! The paths of a host's routes in the form that requests are compared with, once the claims of all objects
//! are known.
//!
//! ingress-nginx: if any location of a host requests regular expressions, or has another rewrite target than
//! its path, all paths of the host are regular expressions.

use std::collections::HashSet;

use model::{Expression, PathKind, PathMatch, RequestFilter, Rewrite, StepBudget};

use super::Declared;
use crate::translate::claim::DraftRoute;

/// A path of a route in the form that requests are compared with.
pub(super) struct Location {
    pub(super) path: PathMatch,
    /// The rewrite of the matching paths.
    pub(super) rewrite: Option<RequestFilter>,
}

/// Ends of expressions that match every path below the text before them, in groups for a rewrite.
const TAKES_THE_REST: [&str; 4] = ["(/|$)(.*)", "/?(.*)", "(.*)", ".*"];

/// Whether the paths of these routes are regular expressions. Paths of guests never are, and do not make the
/// owner's paths expressions.
pub(super) fn are_expressions<'d>(drafts: impl IntoIterator<Item = &'d Declared>) -> bool {
    let is_expression =
        |draft: &DraftRoute| draft.uses_regex || texts(draft, false).any(|text| is_rewritten(draft, &text));
    let mut owners = drafts.into_iter().filter(|declared| declared.of_guest.is_none());
    owners.any(|declared| is_expression(&declared.draft))
}

/// The path of a guest's route: its own path, or the beginning of its expression, if the expression matches
/// exactly the paths below it. None for any other expression.
pub(super) fn of_guest(draft: &DraftRoute) -> Option<PathMatch> {
    let path = draft.path.path();
    if draft.path.kind() != PathKind::Regex && !draft.uses_regex && !is_rewritten(draft, path) {
        return Some(draft.path.clone());
    }
    let begin = TAKES_THE_REST.iter().find_map(|end| path.strip_suffix(end));
    let literal = begin.unwrap_or(path);
    let kind = if begin.is_some() { PathKind::Prefix } else { draft.path.kind() };
    if kind == PathKind::Regex || !literal.bytes().all(is_plain) {
        return None;
    }
    PathMatch::new(kind, if literal.is_empty() { "/" } else { literal }).ok()
}

/// Whether an expression of these routes matches a path, or a path below it. An expression for `/` matches
/// only the remaining paths.
pub(super) fn are_taken<'d>(owners: impl Iterator<Item = &'d Declared> + Clone, path: &str) -> bool {
    if !are_expressions(owners.clone()) {
        return false;
    }
    let texts = owners.flat_map(|declared| texts(&declared.draft, false)).filter(|text| text != "/");
    let below = format!("{}/", path.trim_end_matches('/'));
    texts.filter_map(|text| PathMatch::regex(&text).ok()).any(|taken| {
        // A path that takes too many steps belongs to the owner.
        let is_taken = |it: &Expression, path: &str| {
            it.try_match(path.as_bytes(), &StepBudget::default()).unwrap_or(true)
        };
        let takes = |path: &str| taken.expression().is_some_and(|it| is_taken(it, path));
        takes(path) || takes(&below)
    })
}

/// The location of a guest's route.
pub(super) fn plain(draft: &DraftRoute, path: &PathMatch) -> Result<Location, String> {
    let text = draft.path.path();
    let rewrite = if is_rewritten(draft, text) { rewrite(draft, text)? } else { None };
    Ok(Location { path: path.clone(), rewrite })
}

/// The location for all other paths, beside guests: a guest's path is no expression, and plain paths are
/// compared first.
pub(super) fn beside_guests(location: Location) -> Location {
    let path = if location.path.path() == "/" { PathMatch::root() } else { location.path };
    Location { path, ..location }
}

/// Sorts drafts in the order of comparison: "by path length descending, then lexicographic descending".
pub(super) fn sort(drafts: &mut [Declared]) {
    drafts.sort_by(|a, b| {
        let (a, b) = (a.draft.path.path(), b.draft.path.path());
        b.len().cmp(&a.len()).then_with(|| b.cmp(a))
    });
}

/// The paths of type Exact. A prefix of the same text then matches only the paths below it.
pub(super) fn exact_paths(drafts: &[Declared]) -> HashSet<String> {
    let paths = drafts.iter().map(|declared| &declared.draft.path);
    paths.filter(|path| path.kind() == PathKind::Exact).map(|path| path.path().to_owned()).collect()
}

/// The expressions of a route of a host with expressions, or the reason why they cannot be made.
pub(super) fn expressions(draft: &DraftRoute, exact: &HashSet<String>) -> Result<Vec<Location>, String> {
    let is_exact_too = draft.path.kind() == PathKind::Prefix && exact.contains(draft.path.path());
    let location = |text: String| {
        let path = PathMatch::regex(&text).map_err(|error| error.to_string())?;
        let rewrite = if is_rewritten(draft, &text) { rewrite(draft, &text)? } else { None };
        Ok(Location { path, rewrite })
    };
    texts(draft, is_exact_too).map(location).collect()
}

/// The texts of a route's expressions. A route with a rewrite or a requested expression keeps its path.
/// Another prefix becomes two locations in ingress-nginx: the paths below it, and the path itself unless
/// another route has it.
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

/// Whether the character means itself in an expression too, or any single character.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-_.~%@:!&',;=".contains(&byte)
}
