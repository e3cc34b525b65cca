//! Look-up of the route of a host for a path, in a radix tree over bytes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use model::{PathKind, PathMatch, Precedence};

/// The result of [`PathIndex::find`]. Numbers are indexes into the routes that the index was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This route matches the path.
    Route(usize),
    /// This route matches paths below this one: the path lacks its final slash.
    AddSlash(usize),
    /// An expression took too many steps to decide whether its route matches the path.
    Undecided,
}

/// The paths of a host's routes.
///
/// Kubernetes: "precedence will be given first to the longest matching path". The walk goes to the longest
/// configured path that is a prefix of the request's. If none of its candidates matches, the next shorter one
/// is tried.
///
/// Most hosts have one path. Such a host has no tree, which would take five allocations.
#[derive(Debug)]
pub(crate) enum PathIndex {
    Single(Single),
    Tree(Box<Tree>),
}

/// The only path of a host.
#[derive(Debug)]
pub(crate) struct Single {
    text: Box<[u8]>,
    candidate: Candidate,
}

/// Two or more paths, or none.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The root first; the children of a node are neighbours.
    nodes: Box<[Node]>,
    /// First byte of the text of each node, so that selecting a child is a search in one short run of bytes.
    first_bytes: Box<[u8]>,
    text: Box<[u8]>,
    leaves: Box<[Leaf]>,
    candidates: Box<[Candidate]>,
}

/// A piece of text that all paths below it share.
#[derive(Debug)]
struct Node {
    text: Span,
    children: Span,
    leaf: Option<LeafId>,
}

/// A configured path.
#[derive(Debug)]
struct Leaf {
    path_bytes: u32,
    /// In the order in which they are tried.
    candidates: Span,
    /// The longest configured path that is a proper prefix of this one.
    shorter: Option<LeafId>,
}

/// A route that is configured for the path of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    kind: Kind,
    route: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Exact,
    Prefix,
    /// A redirect at `/foo` to a route at `/foo/`, if nothing is configured for `/foo` itself. Like any other
    /// candidate, it is tried before shorter paths (nginx, `auto_redirect`).
    AddSlash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeafId(u32);

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

// === impl PathIndex ===

impl PathIndex {
    pub(crate) fn new<'a>(routes: impl Iterator<Item = (&'a PathMatch, Precedence)> + Clone) -> Self {
        let mut all = (0..)
            .zip(routes.clone())
            .filter_map(|(route, (path, _))| Some((path, Candidate { kind: Kind::of(path.kind())?, route })));
        match (all.next(), all.next()) {
            (Some((path, candidate)), None) => {
                Self::Single(Single { text: path.path().as_bytes().into(), candidate })
            }
            _ => Self::Tree(Box::new(Builder::new(candidates_by_path(routes)).build())),
        }
    }

    /// The route for a normalised path. `complies` reports whether the request meets the conditions of a
    /// route.
    #[inline]
    pub(crate) fn find(&self, path: &[u8], complies: impl Fn(usize) -> bool) -> Option<Found> {
        match self {
            Self::Single(single) => single.find(path).filter(|found| found.route().is_some_and(complies)),
            Self::Tree(tree) => tree.find(path, complies),
        }
    }
}

impl Single {
    #[inline]
    fn find(&self, path: &[u8]) -> Option<Found> {
        let Self { text, candidate } = self;
        let Some(below) = path.strip_prefix(&**text) else {
            let lacks_slash = candidate.kind == Kind::Prefix && text.strip_suffix(b"/") == Some(path);
            return (lacks_slash && !path.is_empty()).then_some(Found::AddSlash(candidate.route as usize));
        };
        candidate.kind.takes(below, text.ends_with(b"/")).then(|| candidate.found())
    }
}

impl Found {
    /// The same for an index of routes that begin at a place among those of their host.
    pub(crate) fn moved_by(self, start: usize) -> Self {
        match self {
            Self::Route(route) => Self::Route(start + route),
            Self::AddSlash(route) => Self::AddSlash(start + route),
            Self::Undecided => Self::Undecided,
        }
    }

    /// The number of the route; none where it is not decided.
    fn route(self) -> Option<usize> {
        match self {
            Self::Route(route) | Self::AddSlash(route) => Some(route),
            Self::Undecided => None,
        }
    }
}

impl Tree {
    fn find(&self, path: &[u8], complies: impl Fn(usize) -> bool) -> Option<Found> {
        let mut next = self.longest(path);
        while let Some(id) = next {
            let leaf = &self.leaves[id.0 as usize];
            let below = &path[leaf.path_bytes as usize..];
            let candidates = &self.candidates[leaf.candidates.range()];
            let ends_in_slash = path[..leaf.path_bytes as usize].ends_with(b"/");
            if let Some(taken) = candidates
                .iter()
                .find(|one| one.kind.takes(below, ends_in_slash) && complies(one.route as usize))
            {
                return Some(taken.found());
            }
            next = leaf.shorter;
        }
        None
    }

    /// The longest configured path that is a prefix of `path`.
    fn longest(&self, path: &[u8]) -> Option<LeafId> {
        let mut longest = None;
        let mut rest = path;
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let Some(after) = rest.strip_prefix(&self.text[node.text.range()]) else { break };
            longest = node.leaf.or(longest);
            let Some(&byte) = after.first() else { break };
            let first_bytes = &self.first_bytes[node.children.range()];
            // Many hosts have one path, whose node has no children: skip the call.
            if first_bytes.is_empty() {
                break;
            }
            let Some(child) = memchr::memchr(byte, first_bytes) else { break };
            at = node.children.start as usize + child;
            rest = after;
        }
        longest
    }
}

impl Kind {
    /// The kind of a configured path; none for a regular expression.
    fn of(kind: PathKind) -> Option<Self> {
        match kind {
            PathKind::Exact => Some(Self::Exact),
            PathKind::Prefix => Some(Self::Prefix),
            PathKind::Regex => None,
        }
    }

    /// Whether the candidate matches a path that continues with `below` after the configured one.
    fn takes(self, below: &[u8], ends_in_slash: bool) -> bool {
        match self {
            Self::Exact | Self::AddSlash => below.is_empty(),
            Self::Prefix => ends_in_slash || below.is_empty() || below[0] == b'/',
        }
    }
}

impl Candidate {
    fn found(self) -> Found {
        match self.kind {
            Kind::AddSlash => Found::AddSlash(self.route as usize),
            _ => Found::Route(self.route as usize),
        }
    }
}

impl Span {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

// === building ===

type CandidatesByPath<'a> = BTreeMap<&'a [u8], Vec<Candidate>>;

fn candidates_by_path<'a>(routes: impl Iterator<Item = (&'a PathMatch, Precedence)>) -> CandidatesByPath<'a> {
    let mut by_path = CandidatesByPath::new();
    let mut precedences = Vec::new();
    for (route, (path, precedence)) in (0..).zip(routes) {
        precedences.push(precedence);
        let text = path.path().as_bytes();
        let Some(kind) = Kind::of(path.kind()) else { continue };
        by_path.entry(text).or_default().push(Candidate { kind, route });
    }
    for candidates in by_path.values_mut() {
        candidates.sort_unstable_by_key(|one| order(*one, precedences[one.route as usize]));
    }
    let has_conditions = |one: Candidate| precedences[one.route as usize] > Precedence::default();
    let lacking_slash: Vec<_> = by_path
        .iter()
        .filter_map(|(path, candidates)| without_slash(path, candidates, has_conditions))
        .collect();
    for (bare, redirects) in lacking_slash {
        by_path.entry(bare).or_insert(redirects);
    }
    by_path
}

/// The order in which the candidates of one path are tried.
///
/// Kubernetes: "If two paths are still equally matched, precedence will be given to paths with an exact path
/// type over prefix path type." If types are equal, the conditions decide; if these are equal too, the order
/// of the model.
fn order(candidate: Candidate, precedence: Precedence) -> (Kind, Reverse<Precedence>, u32) {
    (candidate.kind, Reverse(precedence), candidate.route)
}

/// The redirects at `/foo` for the candidates at `/foo/`, up to the first that matches every request.
fn without_slash<'a>(
    path: &'a [u8],
    candidates: &[Candidate],
    has_conditions: impl Fn(Candidate) -> bool,
) -> Option<(&'a [u8], Vec<Candidate>)> {
    let bare = path.strip_suffix(b"/").filter(|bare| !bare.is_empty())?;
    let mut redirects = Vec::new();
    for below in candidates.iter().filter(|one| one.kind != Kind::Exact) {
        redirects.push(Candidate { kind: Kind::AddSlash, route: below.route });
        if !has_conditions(*below) {
            break;
        }
    }
    (!redirects.is_empty()).then_some((bare, redirects))
}

/// Lays the nodes out breadth first, which makes siblings neighbours and needs no recursion.
#[derive(Default)]
struct Builder<'a> {
    paths: Vec<(&'a [u8], Vec<Candidate>)>,
    nodes: Vec<Node>,
    first_bytes: Vec<u8>,
    text: Vec<u8>,
    leaves: Vec<Leaf>,
    candidates: Vec<Candidate>,
    queue: VecDeque<Pending>,
}

/// A node that is not built yet, of the paths in `paths`, which share their first `depth` bytes.
struct Pending {
    paths: Range<usize>,
    depth: usize,
    shorter: Option<LeafId>,
}

impl<'a> Builder<'a> {
    fn new(by_path: CandidatesByPath<'a>) -> Self {
        Self { paths: by_path.into_iter().collect(), ..Self::default() }
    }

    fn build(mut self) -> Tree {
        if !self.paths.is_empty() {
            self.queue.push_back(Pending { paths: 0..self.paths.len(), depth: 0, shorter: None });
        }
        let mut enqueued = self.queue.len();
        while let Some(pending) = self.queue.pop_front() {
            let first = self.paths[pending.paths.start].0;
            let end = pending.depth + self.shared_bytes(&pending);
            let (leaf, below) = self.take_leaf(&pending, end);
            let before = enqueued;
            enqueued += self.enqueue_children(below, end, leaf.or(pending.shorter));
            self.first_bytes.push(first.get(pending.depth).copied().unwrap_or_default());
            let text = append(&mut self.text, &first[pending.depth..end]);
            self.nodes.push(Node { text, children: span(before, enqueued), leaf });
        }
        Tree {
            nodes: self.nodes.into(),
            first_bytes: self.first_bytes.into(),
            text: self.text.into(),
            leaves: self.leaves.into(),
            candidates: self.candidates.into(),
        }
    }

    /// Number of bytes from `depth` on that all the paths share. They are sorted, so the first and the last
    /// decide.
    fn shared_bytes(&self, pending: &Pending) -> usize {
        let first = &self.paths[pending.paths.start].0[pending.depth..];
        let last = &self.paths[pending.paths.end - 1].0[pending.depth..];
        first.iter().zip(last).take_while(|(a, b)| a == b).count()
    }

    /// Makes a leaf of the path that ends at `end`, if there is one: it sorts first. Returns the longer
    /// paths too.
    fn take_leaf(&mut self, pending: &Pending, end: usize) -> (Option<LeafId>, Range<usize>) {
        let (path, candidates) = &self.paths[pending.paths.start];
        if path.len() > end {
            return (None, pending.paths.clone());
        }
        let id = LeafId(self.leaves.len() as u32);
        let candidates = append(&mut self.candidates, candidates);
        self.leaves.push(Leaf { path_bytes: end as u32, candidates, shorter: pending.shorter });
        (Some(id), pending.paths.start + 1..pending.paths.end)
    }

    /// Enqueues one child for each distinct next byte. Returns their number.
    fn enqueue_children(&mut self, mut paths: Range<usize>, depth: usize, shorter: Option<LeafId>) -> usize {
        let before = self.queue.len();
        while !paths.is_empty() {
            let byte = self.paths[paths.start].0[depth];
            let same = self.paths[paths.clone()].partition_point(|(path, _)| path[depth] == byte);
            let child = paths.start..paths.start + same;
            paths.start = child.end;
            self.queue.push_back(Pending { paths: child, depth, shorter });
        }
        self.queue.len() - before
    }
}

fn append<T: Copy>(all: &mut Vec<T>, more: &[T]) -> Span {
    let start = all.len();
    all.extend_from_slice(more);
    span(start, all.len())
}

fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}

#[cfg(test)]
mod tests {
    use model::{Condition, Conditions, ValueMatch};
    use proptest::prelude::*;

    use super::*;

    /// `=/a` is [`PathKind::Exact`], and `/a` a prefix.
    fn parse(text: &str) -> PathMatch {
        match text.strip_prefix('=') {
            Some(exact) => PathMatch::exact(exact).unwrap(),
            None => PathMatch::prefix(text).unwrap(),
        }
    }

    fn find(paths: &[&str], path: &str) -> Option<Found> {
        let paths: Vec<_> = paths.iter().map(|text| parse(text)).collect();
        let routes = paths.iter().map(|path| (path, Precedence::default()));
        PathIndex::new(routes).find(path.as_bytes(), |_| true)
    }

    /// The precedence of a route with this number of conditions.
    fn precedence(conditions: usize) -> Precedence {
        let value = ValueMatch::Exact(String::new());
        let headers = vec![Condition { name: String::new(), value }; conditions];
        Conditions { headers, ..Conditions::default() }.precedence()
    }

    #[test]
    fn exact_takes_only_itself() {
        assert_eq!(find(&["=/foo"], "/foo"), Some(Found::Route(0)));
        for path in ["/foo/", "/foobar", "/fo", "/", "", "/Foo"] {
            assert_eq!(find(&["=/foo"], path), None, "{path}");
        }
    }

    #[test]
    fn prefix_goes_by_path_element() {
        for path in ["/foo", "/foo/", "/foo/bar"] {
            assert_eq!(find(&["/foo"], path), Some(Found::Route(0)), "{path}");
        }
        for path in ["/foobar", "/fo", "/", "/FOO"] {
            assert_eq!(find(&["/foo"], path), None, "{path}");
        }
        assert_eq!(find(&["/"], "/anything"), Some(Found::Route(0)));
        assert_eq!(find(&["/", "/foo"], "/foobar"), Some(Found::Route(0)), "asks the shorter one");
    }

    #[test]
    fn the_longest_wins_and_exact_before_prefix() {
        let paths = ["/", "/foo", "=/foo", "/foo/bar", "/foo"];
        for (path, route) in
            [("/x", 0), ("/foo", 2), ("/foo/x", 1), ("/foobar", 0), ("/foo/bar/x", 3), ("/foo/barx", 1)]
        {
            assert_eq!(find(&paths, path), Some(Found::Route(route)), "{path}");
        }
    }

    #[test]
    fn a_missing_slash_is_asked_for_unless_the_bare_path_is_configured() {
        let paths = &["/foo/", "/"];
        assert_eq!(find(paths, "/foo"), Some(Found::AddSlash(0)));
        assert_eq!(find(paths, "/foo/"), Some(Found::Route(0)));
        assert_eq!(find(paths, "/foo/x"), Some(Found::Route(0)));
        assert_eq!(find(paths, "/foobar"), Some(Found::Route(1)));
        for bare in ["=/foo", "/foo"] {
            assert_eq!(find(&["/foo/", bare], "/foo"), Some(Found::Route(1)), "{bare}");
        }
        assert_eq!(find(&["=/foo/"], "/foo"), None);
        assert_eq!(find(&["/"], ""), None);
    }

    #[test]
    fn no_paths_take_nothing() {
        assert_eq!(find(&[], "/"), None);
    }

    #[test]
    fn where_conditions_do_not_hold_others_and_then_shorter_paths_are_asked() {
        let paths = ["/foo", "/foo", "/", "/bar/", "/bar/"].map(parse);
        let routes =
            paths.iter().zip([0, 1, 0, 1, 1]).map(|(path, conditions)| (path, precedence(conditions)));
        let index = PathIndex::new(routes);
        let find =
            |path: &str, complying: &[usize]| index.find(path.as_bytes(), |one| complying.contains(&one));
        assert_eq!(find("/foo", &[0, 1, 2]), Some(Found::Route(1)), "the most conditions come first");
        assert_eq!(find("/foo", &[0, 2]), Some(Found::Route(0)));
        assert_eq!(find("/foo", &[2]), Some(Found::Route(2)));
        assert_eq!(find("/foo", &[]), None);
        assert_eq!(find("/bar", &[2, 4]), Some(Found::AddSlash(4)));
        assert_eq!(find("/bar", &[2]), Some(Found::Route(2)));
    }

    /// Reference implementation: tries every route. A route is given by its path and its number of
    /// conditions; the request meets up to `complies` of them.
    fn find_naively(routes: &[(PathMatch, usize)], complies: usize, path: &str) -> Option<Found> {
        let below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        let takes = |one: &PathMatch| match (one.kind(), one.path()) {
            (PathKind::Exact, text) => path == text,
            (_, text) => path == text || below(text.strip_suffix('/').unwrap_or(text)),
        };
        let rank = |one: &PathMatch| match one.kind() {
            PathKind::Exact => 0,
            _ => 1,
        };
        let best = |taking: &dyn Fn(&PathMatch) -> bool| {
            let taking = routes
                .iter()
                .enumerate()
                .filter(|(_, (one, conditions))| taking(one) && *conditions <= complies);
            let key = |(one, conditions): &(PathMatch, usize)| {
                (Reverse(one.path().len()), rank(one), Reverse(*conditions))
            };
            taking.min_by_key(|(_, one)| key(one)).map(|(route, _)| route)
        };
        let slashed = format!("{path}/");
        let lacks_slash = |one: &PathMatch| one.path() == slashed && rank(one) > 0 && !path.is_empty();
        if routes.iter().all(|(one, _)| one.path() != path)
            && let Some(route) = best(&lacks_slash)
        {
            return Some(Found::AddSlash(route));
        }
        best(&takes).map(Found::Route)
    }

    fn path() -> impl Strategy<Value = String> {
        "(/[ab]{0,2}){1,4}/?"
    }

    fn path_match() -> impl Strategy<Value = PathMatch> {
        let kind = prop_oneof![Just(PathKind::Exact), Just(PathKind::Prefix)];
        (kind, path()).prop_map(|(kind, path)| PathMatch::new(kind, &path).unwrap())
    }

    proptest! {
        #[test]
        fn finds_what_a_linear_search_finds(
            routes in proptest::collection::vec((path_match(), 0_usize..3), 0..12),
            complies in 0_usize..3,
            asked in proptest::collection::vec(path(), 1..20),
        ) {
            let index = PathIndex::new(routes.iter().map(|(path, count)| (path, precedence(*count))));
            let configured = routes.iter().map(|(one, _)| one.path().to_owned());
            for path in configured.chain(asked) {
                let found = index.find(path.as_bytes(), |route| routes[route].1 <= complies);
                prop_assert_eq!(found, find_naively(&routes, complies, &path), "{}", path);
            }
        }

        #[test]
        fn no_path_panics(paths in proptest::collection::vec(path_match(), 0..6), path: Vec<u8>) {
            let routes = paths.iter().map(|path| (path, Precedence::default()));
            _ = PathIndex::new(routes).find(&path, |_| true);
        }
    }
}
