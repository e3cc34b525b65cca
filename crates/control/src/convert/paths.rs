//! The paths of Ingresses as matches of the Gateway API, with the replacement paths for the backend.
//!
//! ingress-nginx: where one Ingress of a host requests regular expressions or rewrites paths, all paths of
//! the host are expressions, which match the beginning of a path in any letter case. Many of these
//! expressions are prefixes in fact. They become prefixes if all expressions of the host do, because other
//! precedence rules hold between different kinds of matches.
//!
//! Never in here: hosts and backends.

use super::annotations::Annotations;
use crate::objects::gateway_api::{PathMatch, PathMatchType, PathModifier, PathModifierType};

/// A path of an Ingress.
#[derive(Clone, Debug)]
pub(super) struct Declared<'i> {
    pub(super) path: &'i str,
    pub(super) is_exact: bool,
    /// The path for the backend, as the Ingress declares it.
    pub(super) target: Option<&'i str>,
}

/// The converted match of a path.
#[derive(Debug, PartialEq)]
pub(super) struct Converted {
    pub(super) path: PathMatch,
    /// The replacement path for the backend.
    pub(super) change: Option<PathModifier>,
    /// The reason why the Gateway API cannot express the rewrite.
    pub(super) lacks: Option<String>,
    /// The path to redirect to, with a slash at its end, for requests that lack the slash.
    pub(super) adds_slash_to: Option<String>,
    /// The difference from the comparison in ingress-nginx.
    pub(super) remark: Option<&'static str>,
}

/// The comparison of a host's paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// The paths are compared as `pathType` says.
    #[default]
    Plain,
    /// The paths are expressions, all of which are prefixes in fact.
    Prefixes,
    /// The paths are regular expressions.
    Expressions,
}

/// A path expression that consists of a prefix and one of the [`TAILS`].
struct Shape<'p> {
    prefix: &'p str,
    /// The capture that holds the rest of the path.
    rest: Option<Capture>,
}

/// A capture: its number, and whether its text begins with a slash.
#[derive(Clone, Copy)]
struct Capture(u8, bool);

/// Expressions that users write after a prefix, each with the capture of the rest of the path.
const TAILS: &[(&str, Option<Capture>)] = &[
    ("(/|$)(.*)", Some(Capture(2, false))),
    ("/(.*)", Some(Capture(1, false))),
    ("/?(.*)", Some(Capture(1, false))),
    ("(/.*)?", Some(Capture(1, true))),
    ("(/.*)", Some(Capture(1, true))),
    ("/.*", None),
];

/// The remark about an expression that becomes a prefix.
const AS_PREFIX: &str = "A prefix of whole path elements, in these letters. In ingress-nginx it is a regular expression, which matches the \
                         beginning of a path in any letter case.";

impl Converted {
    /// A match without a replacement path or remarks.
    pub(super) fn of(path: PathMatch) -> Self {
        Self { path, change: None, lacks: None, adds_slash_to: None, remark: None }
    }
}

impl Mode {
    /// The mode of a host whose paths are expressions.
    pub(super) fn of_expressions<'i>(paths: impl IntoIterator<Item = &'i Declared<'i>>) -> Self {
        let all_are_prefixes = paths.into_iter().all(|declared| shape(declared.path).is_some());
        if all_are_prefixes { Self::Prefixes } else { Self::Expressions }
    }
}

/// The path for the backend that an Ingress declares. ingress-nginx ignores a text with other characters.
pub(super) fn target<'i>(annotations: &Annotations<'i>) -> Option<&'i str> {
    let is_known = |char: char| char.is_ascii_alphanumeric() || "-._~/:$".contains(char);
    annotations.text("rewrite-target").filter(|text| text.chars().all(is_known))
}

/// The match for a path.
pub(super) fn convert(declared: &Declared<'_>, mode: Mode) -> Converted {
    let exact_or = |kind| if declared.is_exact { PathMatchType::Exact } else { kind };
    // Expressions come before prefixes, and the root comes last in any case.
    let shape = shape(declared.path).filter(|shape| mode != Mode::Expressions || shape.prefix.is_empty());
    match (mode, shape) {
        (Mode::Plain, _) => plain(declared),
        (_, Some(shape)) => {
            let kind = exact_or(PathMatchType::PathPrefix);
            let is_prefix = kind == PathMatchType::PathPrefix;
            let (change, lacks) =
                declared.target.map_or((None, None), |target| rewrite(target, &shape, is_prefix));
            let is_root = shape.prefix.is_empty() && is_prefix;
            let path = path_match(kind, if shape.prefix.is_empty() { "/" } else { shape.prefix });
            Converted { change, lacks, remark: (!is_root).then_some(AS_PREFIX), ..Converted::of(path) }
        }
        (_, None) => {
            let change = declared.target.filter(|target| !target.contains('$') && is_path(target)).map(full);
            let lacks = declared.target.filter(|_| change.is_none()).map(no_captures);
            let rest = declared.path.strip_prefix('/').unwrap_or(declared.path);
            let path = path_match(PathMatchType::RegularExpression, &format!("/(?i:{rest}).*"));
            Converted { change, lacks, ..Converted::of(path) }
        }
    }
}

/// Converts a path that is no expression. A final slash does not count in `PathPrefix`; ingress-nginx
/// redirects clients that leave it out to the path with the slash.
fn plain(declared: &Declared<'_>) -> Converted {
    let bare = declared.path.trim_end_matches('/');
    let (kind, value) = if declared.is_exact {
        (PathMatchType::Exact, declared.path)
    } else {
        (PathMatchType::PathPrefix, if bare.is_empty() { "/" } else { bare })
    };
    let adds_slash = !declared.is_exact && !bare.is_empty() && bare.len() + 1 == declared.path.len();
    let adds_slash_to = adds_slash.then(|| bare.to_owned());
    Converted { adds_slash_to, ..Converted::of(path_match(kind, value)) }
}

fn path_match(kind: PathMatchType, value: &str) -> PathMatch {
    PathMatch { kind, value: Some(value.into()) }
}

/// The shape of an expression that is a prefix in fact; none for every other expression. Dots are read as
/// literal dots.
fn shape(path: &str) -> Option<Shape<'_>> {
    let found = TAILS.iter().find_map(|(tail, rest)| Some((path.strip_suffix(tail)?, *rest)));
    let (prefix, rest) = found.unwrap_or((path, None));
    let prefix = prefix.trim_end_matches('/');
    let is_literal = prefix.chars().all(|char| char.is_ascii_alphanumeric() || "-._~/:%".contains(char));
    is_literal.then_some(Shape { prefix, rest })
}

/// The replacement of the path, or the reason why the Gateway API cannot express it.
fn rewrite(target: &str, shape: &Shape<'_>, is_prefix: bool) -> (Option<PathModifier>, Option<String>) {
    let kept = shape.rest.and_then(|Capture(number, has_slash)| {
        let begin = target.strip_suffix(&format!("${number}"))?;
        let is_whole = if has_slash { !begin.ends_with('/') } else { begin.ends_with('/') };
        Some(begin).filter(|begin| is_whole && (begin.is_empty() || is_path(begin)))
    });
    match kept {
        Some(begin) if !begin.contains('$') && is_prefix => {
            let begin = begin.trim_end_matches('/');
            if begin == shape.prefix {
                return (None, None);
            }
            (Some(prefix(if begin.is_empty() { "/" } else { begin })), None)
        }
        _ if !target.contains('$') && is_path(target) => (Some(full(target)), None),
        _ => (None, Some(no_captures(target))),
    }
}

fn is_path(text: &str) -> bool {
    text.starts_with('/')
}

fn full(path: &str) -> PathModifier {
    let kind = PathModifierType::ReplaceFullPath;
    PathModifier { kind, replace_full_path: Some(path.into()), replace_prefix_match: None }
}

fn prefix(path: &str) -> PathModifier {
    let kind = PathModifierType::ReplacePrefixMatch;
    PathModifier { kind, replace_full_path: None, replace_prefix_match: Some(path.into()) }
}

fn no_captures(target: &str) -> String {
    format!("{target:?} cannot be said in the Gateway API, which replaces a whole path or a prefix")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(path: &str, target: Option<&str>, mode: Mode) -> (String, String) {
        let one = convert(&Declared { path, is_exact: false, target }, mode);
        let change = one.change.map(|change| {
            let to = change.replace_full_path.or(change.replace_prefix_match).unwrap();
            format!("{} {to}", change.kind.as_str())
        });
        let path = format!("{} {}", one.path.kind.as_str(), one.path.value.unwrap());
        (path, change.or(one.lacks.map(|_| "lacks".to_owned())).unwrap_or_default())
    }

    #[test]
    fn expressions_that_are_prefixes_become_prefixes() {
        for (path, target, matched, change) in [
            ("/foo(/|$)(.*)", "/$2", "PathPrefix /foo", "ReplacePrefixMatch /"),
            ("/foo(/|$)(.*)", "/bar/$2", "PathPrefix /foo", "ReplacePrefixMatch /bar"),
            ("/foo/(.*)", "/$1", "PathPrefix /foo", "ReplacePrefixMatch /"),
            ("/foo/?(.*)", "/$1", "PathPrefix /foo", "ReplacePrefixMatch /"),
            ("/foo(/.*)?", "/foo$1", "PathPrefix /foo", ""),
            ("/(.*)", "/$1", "PathPrefix /", ""),
            ("/(.*)", "/api/$1", "PathPrefix /", "ReplacePrefixMatch /api"),
            ("/foo", "/", "PathPrefix /foo", "ReplaceFullPath /"),
            ("/", "/app", "PathPrefix /", "ReplaceFullPath /app"),
            ("/foo(/|$)(.*)", "/$1$2", "PathPrefix /foo", "lacks"),
            ("/foo/(.*)", "/a$1", "PathPrefix /foo", "lacks"),
            ("/foo(/.*)", "/a$1", "PathPrefix /foo", "ReplacePrefixMatch /a"),
            ("/foo(/.*)", "$1", "PathPrefix /foo", "ReplacePrefixMatch /"),
            ("/foo", "https://a.test/", "PathPrefix /foo", "lacks"),
        ] {
            let said = converted(path, Some(target), Mode::Prefixes);
            assert_eq!(said, (matched.to_owned(), change.to_owned()), "{path} {target}");
        }
    }

    #[test]
    fn other_expressions_stay_expressions() {
        let declared = |path| Declared { path, is_exact: false, target: None };
        assert_eq!(Mode::of_expressions(&[declared("/a(/|$)(.*)"), declared("/b")]), Mode::Prefixes);
        assert_eq!(Mode::of_expressions(&[declared("/a[0-9]+"), declared("/b")]), Mode::Expressions);
        let said = converted("/a[0-9]+", None, Mode::Expressions).0;
        assert_eq!(said, "RegularExpression /(?i:a[0-9]+).*");
        let (_, change) = converted("/a/([0-9]+)/(.*)", Some("/$1"), Mode::Expressions);
        assert_eq!(change, "lacks");
        assert_eq!(converted("/a|b", Some("/x"), Mode::Expressions).1, "ReplaceFullPath /x");
    }

    #[test]
    fn plain_paths_keep_their_types() {
        assert_eq!(converted("/foo", None, Mode::Plain).0, "PathPrefix /foo");
        let dir = convert(&Declared { path: "/dir/", is_exact: false, target: None }, Mode::Plain);
        assert_eq!(dir.adds_slash_to.as_deref(), Some("/dir"));
        assert_eq!(dir.path, path_match(PathMatchType::PathPrefix, "/dir"));
        let exact = convert(&Declared { path: "/dir/", is_exact: true, target: None }, Mode::Plain);
        assert_eq!((exact.path.kind, exact.adds_slash_to), (PathMatchType::Exact, None));
    }
}
