//! Regular expressions over bytes, in linear time.
//!
//! Never in here: variables, a search that steps back.

use std::ops::Range;

use regex_automata::hybrid::{dfa, regex};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{Compiler, NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, HalfMatch, Input, Match, MatchKind};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use smallvec::SmallVec;

use super::pcre;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_CACHE_BYTES_MAX};
use crate::prefilter::Requirement;

/// Groups that `capture` keeps: `TX:0` to `TX:9`.
pub(crate) const GROUPS: usize = 10;

/// Times that an automaton may drop its states before their use is compared with their cost.
const CACHE_CLEARS_MIN: usize = 3;
/// Bytes of the text for each state that was made; below, the rest is searched without states.
const BYTES_PER_STATE_MIN: usize = 5;
/// Work for each byte of states that were made: a state costs much more than a step from one to another.
const WORK_PER_STATE_BYTE: usize = 2;
/// Work for each byte of a text that is searched without states.
const WORK_PER_BYTE_WITHOUT_STATES: usize = 100;
/// Bytes of a text after which the states that it needs can be told.
const STATES_TELL_BYTES: usize = 4 << 10;

/// The ranges of a match's groups; a group that took no part is `None`.
pub(crate) type Groups = SmallVec<[Option<Range<usize>>; 2]>;

/// The states that a search leaves for the next one.
struct Caches {
    automata: regex::Cache,
    machine: pikevm::Cache,
}

/// A compiled expression: automata whose states are made when a text needs them, and a machine without
/// states for groups, and for texts that would need too many states.
pub(crate) struct Pattern {
    automata: regex::Regex,
    machine: PikeVM,
    caches: Pool<Option<Caches>, fn() -> Option<Caches>>,
}

/// The way in which an expression is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Letters match in either case.
    pub(crate) any_case: bool,
    /// The groups of a match are needed.
    pub(crate) groups: bool,
    /// `^` and `$` are the ends of the text, and not of each line, as in ModSecurity 2. Rules that list
    /// what is allowed, with `!@rx ^...$`, would let a text pass of which one line alone is allowed.
    pub(crate) whole: bool,
}

impl Pattern {
    /// Compiles an expression with `DOTALL`, and `MULTILINE` unless it is for the whole text, as
    /// ModSecurity 3 does.
    pub(crate) fn new(text: &str, reading: Reading) -> Result<Pattern, pcre::Fault> {
        Pattern::with_requirement(text, reading).map(|compiled| compiled.pattern)
    }

    /// Compiles an expression, and says what a text has to have for a match.
    pub(crate) fn with_requirement(text: &str, reading: Reading) -> Result<Compiled, pcre::Fault> {
        let hir = parse(text, reading)?;
        let requirement = Requirement::of_expression(&hir);
        let pattern =
            Pattern::build(&hir, reading.groups).map_err(|message| pcre::Fault { offset: 0, message })?;
        Ok(Compiled { pattern, requirement })
    }

    fn build(hir: &Hir, groups: bool) -> Result<Pattern, String> {
        let captures = if groups { WhichCaptures::All } else { WhichCaptures::Implicit };
        let forward = machine(hir, false, captures)?;
        let reverse = machine(hir, true, WhichCaptures::None)?;
        let automaton = |machine: NFA, kind: MatchKind| {
            let config = dfa::Config::new()
                .match_kind(kind)
                .cache_capacity(EXPRESSION_CACHE_BYTES_MAX)
                .skip_cache_capacity_check(true)
                .minimum_cache_clear_count(Some(CACHE_CLEARS_MIN))
                .minimum_bytes_per_state(Some(BYTES_PER_STATE_MIN));
            let built = dfa::Builder::new().configure(config).build_from_nfa(machine);
            built.map_err(|error| error.to_string())
        };
        let machine = PikeVM::new_from_nfa(forward.clone()).map_err(|error| error.to_string())?;
        let automata = regex::Builder::new().build_from_dfas(
            automaton(forward, MatchKind::LeftmostFirst)?,
            automaton(reverse, MatchKind::All)?,
        );
        Ok(Pattern { automata, machine, caches: Pool::new(|| None) })
    }

    fn new_caches(&self) -> Caches {
        Caches { automata: self.automata.create_cache(), machine: self.machine.create_cache() }
    }

    /// Bytes that the expression takes, without the states of searches.
    pub(crate) fn memory(&self) -> usize {
        let automata = [self.automata.forward(), self.automata.reverse()];
        automata.iter().map(|automaton| automaton.get_nfa().memory_usage()).sum()
    }

    /// True if the expression matches anywhere.
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.is_match_with_work(text, &mut 0)
    }

    /// True if the expression matches anywhere. Work that is beyond one step for each byte is added.
    pub(crate) fn is_match_with_work(&self, text: &[u8], work: &mut usize) -> bool {
        let input = Input::new(text).earliest(true);
        let mut caches = self.caches.get();
        let Caches { automata, machine } = caches.get_or_insert_with(|| self.new_caches());
        let cache = automata.as_parts_mut().0;
        let before = cache.memory_usage();
        let found = self.automata.forward().try_search_fwd(cache, &input);
        let after = cache.memory_usage();
        let read = found.as_ref().ok().and_then(Option::as_ref).map_or(text.len(), HalfMatch::offset);
        *work += work_of_states(before, after, cache.search_total_len(), read);
        if let Ok(found) = found {
            return found.is_some();
        }
        // Without this, the next text would find the cache full, and be searched without states as well.
        cache.reset(self.automata.forward());
        *work += EXPRESSION_CACHE_BYTES_MAX * CACHE_CLEARS_MIN * WORK_PER_STATE_BYTE;
        *work += text.len() * WORK_PER_BYTE_WITHOUT_STATES;
        self.machine.is_match(machine, input)
    }

    /// The groups of the first match. Work is added.
    pub(crate) fn groups(&self, text: &[u8], work: &mut usize) -> Option<Groups> {
        let mut caches = self.caches.get();
        let Caches { automata, machine } = caches.get_or_insert_with(|| self.new_caches());
        let input = Input::new(text);
        let memory = |cache: &regex::Cache| {
            let (forward, reverse) = cache.as_parts();
            forward.memory_usage() + reverse.memory_usage()
        };
        let before = memory(automata);
        let found = self.automata.try_search(automata, &input);
        let read = found.as_ref().ok().and_then(Option::as_ref).map_or(text.len(), Match::end);
        let seen = automata.as_parts().0.search_total_len();
        *work += 2 * read + work_of_states(before, memory(automata), seen, read);
        let input = match found {
            Ok(None) => return None,
            Ok(Some(found)) if self.machine.get_nfa().group_info().group_len(found.pattern()) < 2 => {
                return Some(smallvec::smallvec![Some(found.range())]);
            }
            Ok(Some(found)) => {
                *work += found.len() * WORK_PER_BYTE_WITHOUT_STATES;
                input.span(found.span()).anchored(Anchored::Yes)
            }
            Err(_) => {
                automata.reset(&self.automata);
                *work += text.len() * WORK_PER_BYTE_WITHOUT_STATES;
                input
            }
        };
        let mut slots: SmallVec<[Option<NonMaxUsize>; 2 * GROUPS]> = SmallVec::new();
        slots.resize(self.machine.get_nfa().group_info().slot_len().min(2 * GROUPS), None);
        self.machine.search_slots(machine, &input, &mut slots)?;
        let range = |pair: &[Option<NonMaxUsize>]| match pair {
            [Some(start), Some(end)] => Some(start.get()..end.get()),
            _ => None,
        };
        Some(slots.chunks(2).map(range).collect())
    }

    /// The ranges of all matches, one behind the other.
    pub(crate) fn matches<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at > text.len() {
                return None;
            }
            let mut caches = self.caches.get();
            let Caches { automata, machine } = caches.get_or_insert_with(|| self.new_caches());
            let input = Input::new(text).span(at..text.len());
            let found = if let Ok(found) = self.automata.try_search(automata, &input) {
                found
            } else {
                automata.reset(&self.automata);
                self.machine.find_iter(machine, input).next()
            };
            let range = found?.range();
            at = if range.is_empty() { range.end + 1 } else { range.end };
            Some(range)
        })
    }
}

/// The work of the states that a search has made. `before` and `after` are the bytes that all states take.
/// `seen` is the part of the text that the states of now have seen, and `read` the part that was read: states
/// were dropped if `seen` is less, and their number follows from those that are left.
fn work_of_states(before: usize, after: usize, seen: usize, read: usize) -> usize {
    let made = if seen < read && read > STATES_TELL_BYTES {
        read / STATES_TELL_BYTES.max(seen) * after
    } else if after < before {
        EXPRESSION_CACHE_BYTES_MAX
    } else {
        after - before
    };
    made * WORK_PER_STATE_BYTE
}

/// The machine of an expression, forward or backward.
fn machine(hir: &Hir, reverse: bool, captures: WhichCaptures) -> Result<NFA, String> {
    let config = NFA::config()
        .reverse(reverse)
        .utf8(false)
        .which_captures(captures)
        .nfa_size_limit(Some(EXPRESSION_BYTES_MAX));
    Compiler::new().configure(config).build_from_hir(hir).map_err(|error| error.to_string())
}

/// An expression with what a text has to have for a match.
pub(crate) struct Compiled {
    pub(crate) pattern: Pattern,
    /// The requirement on a text for a match.
    pub(crate) requirement: Requirement,
}

fn parse(text: &str, reading: Reading) -> Result<Hir, pcre::Fault> {
    let translated = pcre::translate(text)?;
    ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .multi_line(!reading.whole)
        .dot_matches_new_line(true)
        .case_insensitive(reading.any_case)
        .build()
        .parse(&translated)
        .map_err(|error| {
            let message = match &error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                _ => error.to_string(),
            };
            pcre::Fault { offset: 0, message }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_for_the_whole_text_has_no_lines() {
        let reading = Reading { whole: true, ..Reading::default() };
        let pattern = Pattern::new("^[a-z]*$", reading).expect("an expression");
        for (text, expected) in [(&b"ab"[..], true), (b"", true), (b"a;\n", false), (b"a;\nb", false)] {
            assert_eq!(pattern.is_match(text), expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn bytes_match_as_with_dotall_and_multiline() {
        let cases: [(&str, &[u8], bool); 8] = [
            ("^b$", b"a\nb\nc", true),
            ("a.b", b"a\nb", true),
            (r"\xff", b"\xff", true),
            ("(?i)é", "É".as_bytes(), false),
            (r"\bor\b", b"a or b", true),
            (r"[^\x00-\x7f]", b"\x80", true),
            (r"(?i:SELECT)", b"select", true),
            (r"^\s*$", b"\x0b", true),
        ];
        for (expression, text, expected) in cases {
            let pattern = Pattern::new(expression, Reading::default()).expect(expression);
            assert_eq!(pattern.is_match(text), expected, "{expression}");
        }
    }

    #[test]
    fn a_text_that_needs_many_states_is_work() {
        let pattern =
            Pattern::new("[ab]*a[ab]{12}c[ab]{12}d|x[a-z]{1,40}y", Reading::default()).expect("one");
        let mut state = 1u32;
        let text: Vec<u8> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b"abxc"[(state >> 24) as usize % 4]
            })
            .collect();
        let mut work = 0;
        assert!(!pattern.is_match_with_work(&text, &mut work));
        assert!(work > 10 * text.len(), "{work}");
        let mut again = 0;
        assert!(pattern.is_match_with_work(b"xaby", &mut again));
        assert!(again < work / 10, "{again}");
    }

    #[test]
    fn matches_follow_one_another() {
        let pattern = Pattern::new("a*", Reading::default()).expect("an expression");
        assert_eq!(pattern.matches(b"aab").collect::<Vec<_>>(), [0..2, 2..2, 3..3]);
        let pattern = Pattern::new("[0-9]+", Reading::default()).expect("an expression");
        assert_eq!(pattern.matches(b"1 22").collect::<Vec<_>>(), [0..1, 2..4]);
    }

    #[test]
    fn groups_are_those_of_the_first_match() {
        let reading = Reading { groups: true, ..Reading::default() };
        let pattern = Pattern::new("(a)|(b)(c)?", reading).expect("an expression");
        let groups = pattern.groups(b"xbc", &mut 0).expect("a match");
        assert_eq!(groups[..], [Some(1..3), None, Some(1..2), Some(2..3)]);
        assert_eq!(pattern.groups(b"x", &mut 0), None);
    }
}
