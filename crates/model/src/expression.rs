//! Regular expressions for paths and headers, in nginx's notation. Must not be in here: the consequences of a
//! match.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use fancy_regex::BytesMode;
use regex_automata::meta::{self, BuildError};
use regex_automata::util::{primitives::NonMaxUsize, syntax};
use regex_automata::{Anchored, Input};
use serde::{Serialize, Serializer};

use crate::pattern::{InvalidPattern, PATTERN_BYTES_MAX};

/// A regular expression as in nginx's `location ~*`, `rewrite` and `map`: in PCRE's notation, over bytes.
/// Matching ignores case unless the expression was made by [`case_sensitive`](Self::case_sensitive).
///
/// Matching takes linear time unless the expression uses look-around or back-references. Those are matched by
/// backtracking with a limit on the number of steps; beyond the limit the result is unknown, and each caller
/// decides what that means.
#[derive(Clone)]
pub struct Expression(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    text: String,
    case: LetterCase,
    /// A prefix that every matching text has, in lower case.
    prefix: Box<[u8]>,
    engine: Engine,
}

/// Whether letter case makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LetterCase {
    Ignored,
    Counts,
}

/// An expression exceeded its limit of backtracking steps, so that the result is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes too many steps to find out whether the expression matches")]
pub struct TooManySteps;

/// The backtracking steps that all expressions of one request may take together. Expressions without
/// look-around and back-references do not count.
#[derive(Debug)]
pub struct StepBudget {
    left: Cell<u32>,
    is_undecided: Cell<bool>,
}

#[derive(Debug)]
enum Engine {
    /// The prefix is all there is.
    Prefix,
    Linear(meta::Regex),
    Backtracking(fancy_regex::Regex),
}

/// Where the groups of an expression have matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures([Option<(u32, u32)>; 9]);

/// Slots of a matcher for the whole match and [`Captures`], two for each.
const SLOTS: usize = 2 * (1 + 9);

/// Steps back that an expression may take in one text.
const BACKTRACKS_MAX: usize = 10_000;

/// Steps, counted as looks at a text, that all expressions of a request may take together: some milliseconds.
/// An expression that takes [`BACKTRACKS_MAX`] steps back looks two to five times as often.
const REQUEST_STEPS_MAX: u32 = 100_000;

/// Instructions that an expression may have that can step back.
const INSTRUCTIONS_MAX: usize = 10_000;

// === impl Expression ===

impl Expression {
    /// An expression that has to match at the beginning of a text, without regard to case.
    ///
    /// # Errors
    ///
    /// The expression is malformed or exceeds the limit on memory.
    pub fn at_start(text: &str) -> Result<Self, InvalidPattern> {
        let prefix = literal_prefix(text);
        let case = LetterCase::Ignored;
        let engine = if prefix.len() == text.len() {
            Engine::Prefix
        } else {
            Engine::parse(&format!("^{text}"), case)?
        };
        Ok(Self::new(format!("^{text}"), case, prefix, engine))
    }

    /// An expression that matches anywhere in a text, without regard to case.
    ///
    /// # Errors
    ///
    /// The expression is malformed or exceeds the limit on memory.
    pub fn anywhere(text: &str) -> Result<Self, InvalidPattern> {
        Self::within(text, LetterCase::Ignored)
    }

    /// An expression that matches anywhere in a text, with regard to case.
    ///
    /// # Errors
    ///
    /// The expression is malformed or exceeds the limit on memory.
    pub fn case_sensitive(text: &str) -> Result<Self, InvalidPattern> {
        Self::within(text, LetterCase::Counts)
    }

    fn within(text: &str, case: LetterCase) -> Result<Self, InvalidPattern> {
        Ok(Self::new(text.to_owned(), case, Box::default(), Engine::parse(text, case)?))
    }

    fn new(text: String, case: LetterCase, prefix: Box<[u8]>, engine: Engine) -> Self {
        Self(Arc::new(Compiled { text, case, prefix, engine }))
    }

    /// The expression in PCRE's notation.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// A prefix that every matching text has, in lower case; empty where none is known.
    pub fn prefix(&self) -> &[u8] {
        &self.0.prefix
    }

    /// Whether a text matches.
    ///
    /// # Errors
    ///
    /// The expression exceeds its own limit of steps, or what is left of the request's budget.
    pub fn try_match(&self, text: &[u8], budget: &StepBudget) -> Result<bool, TooManySteps> {
        if !self.begins(text) {
            return Ok(false);
        }
        match &self.0.engine {
            Engine::Prefix => Ok(true),
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking(regex) => budget.spend(text, |text| regex.is_match(text)),
        }
    }

    /// The positions of the groups in a text, if it matches.
    ///
    /// # Errors
    ///
    /// The expression exceeds its own limit of steps, or what is left of the request's budget.
    pub fn captures(&self, text: &[u8], budget: &StepBudget) -> Result<Option<Captures>, TooManySteps> {
        match &self.0.engine {
            Engine::Prefix => Ok(self.begins(text).then(|| Captures::of(|_| None))),
            Engine::Linear(regex) => {
                let mut slots = [None; SLOTS];
                // A match at the start is the first one, and is found with less work where the matcher knows
                // that it must begin there.
                let at_start = Input::new(text).anchored(Anchored::Yes);
                let found = regex
                    .search_slots(&at_start, &mut slots)
                    .or_else(|| regex.search_slots(&Input::new(text), &mut slots));
                let slot = |at: usize| slots[at].map(NonMaxUsize::get);
                Ok(found.map(|_| Captures::of(|group| Some(slot(2 * group)?..slot(2 * group + 1)?))))
            }
            Engine::Backtracking(regex) => budget.spend(text, |text| {
                let found = regex.captures(text)?;
                Ok(found.map(|found| Captures::of(|group| found.get(group))))
            }),
        }
    }

    fn begins(&self, text: &[u8]) -> bool {
        text.get(..self.0.prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(&self.0.prefix))
    }
}

// === impl StepBudget ===

impl StepBudget {
    /// Records that a template was expanded although an expression in it exceeded its steps: the text must
    /// not decide anything.
    pub fn note_undecided(&self) {
        self.is_undecided.set(true);
    }

    /// Whether such a text was made.
    pub fn is_undecided(&self) -> bool {
        self.is_undecided.get()
    }

    /// Runs a search and deducts its steps from the budget.
    fn spend<T>(
        &self,
        text: &[u8],
        search: impl FnOnce(&Counted<'_>) -> fancy_regex::Result<T>,
    ) -> Result<T, TooManySteps> {
        if self.left.get() == 0 {
            return Err(TooManySteps);
        }
        let counted = Counted { text, looks: Cell::new(0) };
        let found = search(&counted);
        self.left.set(self.left.get().saturating_sub(counted.looks.get()));
        found.map_err(|_| TooManySteps)
    }
}

impl Default for StepBudget {
    fn default() -> Self {
        Self { left: Cell::new(REQUEST_STEPS_MAX), is_undecided: Cell::new(false) }
    }
}

/// A text that counts how often the matcher looks at it: the matcher itself does not say how many steps it
/// took.
struct Counted<'t> {
    text: &'t [u8],
    looks: Cell<u32>,
}

impl fancy_regex::Input for Counted<'_> {
    type Match<'m>
        = Range<usize>
    where
        Self: 'm;

    fn len(&self) -> usize {
        self.text.len()
    }

    fn as_bytes(&self) -> &[u8] {
        self.looks.set(self.looks.get().saturating_add(1));
        self.text
    }

    fn is_char_boundary(&self, ix: usize) -> bool {
        fancy_regex::Input::is_char_boundary(self.text, ix)
    }

    fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    fn prev_codepoint_ix(&self, i: usize) -> usize {
        fancy_regex::Input::prev_codepoint_ix(self.text, i)
    }

    fn make_match(&self, start: usize, end: usize) -> Range<usize> {
        start..end
    }

    fn advance_position(&self, i: usize) -> usize {
        i + 1
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.case {
            LetterCase::Ignored => self.0.text.fmt(f),
            LetterCase::Counts => f.debug_tuple("CaseSensitive").field(&self.0.text).finish(),
        }
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Compiled { text, case, .. } = &*self.0;
        match case {
            LetterCase::Ignored => serializer.serialize_str(text),
            LetterCase::Counts => {
                serializer.serialize_newtype_variant("Expression", 1, "CaseSensitive", text)
            }
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text && self.0.case == other.0.case
    }
}

impl Eq for Expression {}

impl Hash for Expression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.text, self.0.case == LetterCase::Ignored).hash(state);
    }
}

impl Engine {
    fn parse(text: &str, case: LetterCase) -> Result<Self, InvalidPattern> {
        let text = in_our_notation(text);
        match linear(&text, case) {
            Ok(regex) => Ok(Self::Linear(regex)),
            Err(error) if error.size_limit().is_some() => Err(InvalidPattern::of(&error.to_string())),
            Err(error) => Self::backtracking(&text, case).map_err(|_| {
                let syntax = error.syntax_error().map(ToString::to_string);
                InvalidPattern::of(&syntax.unwrap_or_else(|| error.to_string()))
            }),
        }
    }

    fn backtracking(text: &str, case: LetterCase) -> Result<Self, fancy_regex::Error> {
        let built = fancy_regex::RegexBuilder::new(text)
            .case_insensitive(case == LetterCase::Ignored)
            .bytes_mode(BytesMode::Ascii)
            .delegate_size_limit(PATTERN_BYTES_MAX)
            .max_prog_size(INSTRUCTIONS_MAX)
            .backtrack_limit(BACKTRACKS_MAX)
            .build();
        built.map(Self::Backtracking)
    }
}

fn linear(text: &str, case: LetterCase) -> Result<meta::Regex, Box<BuildError>> {
    let is_insensitive = case == LetterCase::Ignored;
    let syntax = syntax::Config::new().case_insensitive(is_insensitive).unicode(false).utf8(false);
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(PATTERN_BYTES_MAX));
    meta::Builder::new().configure(config).syntax(syntax).build(text).map_err(Box::new)
}

impl Captures {
    fn of(group: impl Fn(usize) -> Option<Range<usize>>) -> Self {
        Self(std::array::from_fn(|at| group(at + 1).map(|range| (range.start as u32, range.end as u32))))
    }

    /// Where a group has matched, counted from 1; none where it has not, and where there is no such group.
    pub fn get(&self, group: u8) -> Option<Range<usize>> {
        let (start, end) = (*self.0.get(usize::from(group).checked_sub(1)?)?)?;
        Some(start as usize..end as usize)
    }
}

/// The literal prefix of all texts that match at their start, in lower case.
fn literal_prefix(text: &str) -> Box<[u8]> {
    const SPECIAL: &[u8] = br".*+?()[]{}|^$\";
    let mut end = text.bytes().position(|byte| SPECIAL.contains(&byte)).unwrap_or(text.len());
    if text.contains('|') {
        end = 0;
    } else if matches!(text.as_bytes().get(end), Some(b'*' | b'?' | b'{')) {
        // The character before a quantifier may be missing from a match.
        end -= usize::from(end > 0);
    }
    text.as_bytes()[..end].to_ascii_lowercase().into()
}

/// Escapes characters that PCRE takes literally and our engines do not: a `{` that begins no repetition, and
/// set operators within brackets.
fn in_our_notation(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_class) = (text, false);
    while let Some(first) = rest.chars().next() {
        let len = token_len(rest);
        let is_literal = match (first, in_class) {
            ('{', false) => !is_repetition(rest),
            ('[', true) => !rest.starts_with("[:"),
            ('&' | '~', true) => true,
            _ => false,
        };
        if is_literal {
            out.push('\\');
        }
        out.push_str(&rest[..len]);
        rest = &rest[len..];
        in_class = if in_class { first != ']' } else { first == '[' };
    }
    out
}

/// Length of the next unit of an expression: an escape with its argument, an opening bracket with the literal
/// characters right behind it, or a named class.
fn token_len(rest: &str) -> usize {
    let up_to = |end: &str| rest.find(end).map_or(1, |at| at + end.len());
    match rest.as_bytes() {
        [b'\\', b'p' | b'P' | b'x' | b'k' | b'g' | b'o' | b'N', b'{', ..] => up_to("}"),
        [b'[', b':', ..] => up_to(":]"),
        [b'[', b'^', b']', ..] => 3,
        [b'[', b'^' | b']', ..] => 2,
        [b'\\', ..] => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        _ => rest.chars().next().map_or(0, char::len_utf8),
    }
}

/// `{2}`, `{2,}`, `{2,3}`.
fn is_repetition(rest: &str) -> bool {
    let Some(inside) = rest[1..].split_once('}').map(|(inside, _)| inside) else { return false };
    let (min, max) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !min.is_empty() && is_number(min) && is_number(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_start(text: &str) -> Expression {
        Expression::at_start(text).unwrap()
    }

    fn matches(expression: &Expression, text: &[u8]) -> bool {
        expression.try_match(text, &StepBudget::default()).unwrap()
    }

    fn captures(expression: &Expression, text: &[u8]) -> Option<Captures> {
        expression.captures(text, &StepBudget::default()).unwrap()
    }

    #[test]
    fn letter_case_makes_no_difference_and_the_end_is_open() {
        for text in ["/foo", "/fo+", "/(foo|bar)", "/f[o]o"] {
            let expression = at_start(text);
            assert!(matches(&expression, b"/FOObar") && !matches(&expression, b"/x/foo"), "{text}");
        }
        assert!(matches(&at_start("/foo$"), b"/foo") && !matches(&at_start("/foo$"), b"/foobar"));
        assert!(matches(&at_start("/a|/b"), b"/x/b"), "the second branch is not anchored, as in nginx");
    }

    #[test]
    fn letter_case_may_make_a_difference() {
        let exactly = |text: &str| Expression::case_sensitive(text).unwrap();
        assert!(matches(&exactly("/Foo"), b"/x/Foo") && !matches(&exactly("/Foo"), b"/foo"));
        assert!(!matches(&exactly("(?!b)A"), b"a"), "nor where it looks around");
        assert_ne!(exactly("a"), Expression::anywhere("a").unwrap());
    }

    #[test]
    fn what_may_be_missing_is_no_prefix() {
        for (text, path) in [("/ab?", "/a"), ("/ab*c", "/ac"), ("/ab{0,1}", "/a"), ("/x?", "/")] {
            assert!(matches(&at_start(text), path.as_bytes()), "{text}");
        }
        assert!(!matches(&at_start("/ab+"), b"/a"));
    }

    #[test]
    fn groups_are_found() {
        let found = captures(&at_start("/api(/|$)(.*)(x)?"), b"/api/v1").unwrap();
        assert_eq!([found.get(1), found.get(2), found.get(3)], [Some(4..5), Some(5..7), None]);
        assert_eq!((found.get(0), found.get(9), found.get(10)), (None, None, None));
        assert_eq!(captures(&Expression::anywhere("b(.)").unwrap(), b"/ab7").unwrap().get(1), Some(3..4));
        assert_eq!(captures(&at_start("/a"), b"/b"), None);
    }

    #[test]
    fn the_first_match_counts_wherever_it_is() {
        let group = |text: &str, path: &[u8]| captures(&Expression::anywhere(text).unwrap(), path)?.get(1);
        assert_eq!(group("/(a+)", b"/aa/aaa"), Some(1..3));
        assert_eq!(group("(b+)", b"/bb/b"), Some(1..3));
        assert_eq!(group("^/(x|xy)", b"/xy"), Some(1..2), "the branch that is written first");
        assert_eq!(group("^/(\\d+)$", b"/x/1"), None);
    }

    #[test]
    fn expressions_may_look_around() {
        let expression = at_start("/(?!private)([^/]+)");
        assert!(matches(&expression, b"/public") && !matches(&expression, b"/Private/x"));
        assert_eq!(captures(&expression, b"/public/x").unwrap().get(1), Some(1..7));
        assert!(matches(&expression, b"/\xff"), "bytes that are no UTF-8");
    }

    #[test]
    fn too_many_steps_back_are_no_answer() {
        let text = [&b"/"[..], &[b'a'; 4000]].concat();
        let expression = at_start("/(?:(?=a)a|a)*c");
        assert_eq!(expression.try_match(&text, &StepBudget::default()), Err(TooManySteps));
        assert_eq!(expression.captures(&text, &StepBudget::default()), Err(TooManySteps));
    }

    #[test]
    fn expressions_of_a_request_have_one_budget() {
        let (expression, text) = (at_start("/(?:(?=a)a)*c"), [&b"/"[..], &[b'a'; 1000]].concat());
        let budget = StepBudget::default();
        let tries = (0..1000).take_while(|_| expression.try_match(&text, &budget) == Ok(false)).count();
        assert!((4..100).contains(&tries), "{tries}");
        assert_eq!(expression.captures(&text, &budget), Err(TooManySteps));
        let linear = at_start("/a*c");
        assert_eq!(linear.try_match(&text, &budget), Ok(false), "it takes no step back");
        let (cheap, budget) = (at_start("/(?!private)([^/]+)"), StepBudget::default());
        assert!((0..2000).all(|_| cheap.try_match(b"/public/of/some/length", &budget) == Ok(true)));
    }

    #[test]
    fn letter_case_may_count() {
        let (as_written, either) = (Expression::case_sensitive("Bot"), Expression::anywhere("Bot"));
        assert!(
            matches(as_written.as_ref().unwrap(), b"a Bot/1")
                && !matches(as_written.as_ref().unwrap(), b"bot")
        );
        assert!(matches(either.as_ref().unwrap(), b"a bot"));
        assert_ne!(as_written, either);
        assert!(!matches(&Expression::case_sensitive("(?!a)B").unwrap(), b"b"));
    }

    #[test]
    fn pcre_takes_these_literally() {
        for (text, path) in
            [("/{id}", "/{id}"), ("/a{,3}", "/a{,3}"), ("/[a[&~]+$", "/[&~a"), ("/[]a]$", "/]")]
        {
            assert!(matches(&at_start(text), path.as_bytes()), "{text}");
        }
        assert!(matches(&at_start("/[[:alpha:]]{2}$"), b"/ab"));
        assert!(matches(&at_start(r"/\d{2}\{\x{41}"), b"/12{A"));
    }

    #[test]
    fn what_is_malformed_or_too_large_is_refused() {
        for text in ["/(", "/[a", "/(?<!a", "/(((a{100}){100}){100})", r"/\"] {
            assert!(Expression::at_start(text).is_err(), "{text}");
        }
    }
}
