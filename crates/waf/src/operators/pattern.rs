//! Regular expressions over bytes, in linear time but for those with look-around, atomic groups or references
//! to groups.
//!
//! Never in here: variables.

use std::ops::Range;

use memchr::memmem::Finder;
use regex_automata::hybrid::{dfa, regex};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{Compiler, NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, HalfMatch, Input, Match, MatchKind, PatternID};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use smallvec::SmallVec;

use super::backtrack::{self, Exhausted, GROUPS, Groups, Program};
use super::pcre;
use super::starts::{Found, Starts};
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_CACHE_BYTES_MAX, WORK_BASE, WORK_MAX};
use crate::prefilter::Requirement;

/// Times that an automaton may drop its states before their use is compared with their cost.
const CACHE_CLEARS_MIN: usize = 1;
/// Bytes of the text for each state that was made; below, the rest is searched without states.
const BYTES_PER_STATE_MIN: usize = 5;
/// Work for each byte of states that were made: a state costs much more than a step from one to another.
const WORK_PER_STATE_BYTE: usize = 8;
/// Work for each byte of a text that is searched without states.
const WORK_PER_BYTE_WITHOUT_STATES: usize = 200;
/// Work beyond which a text is not searched without states: it uses the transaction's work up instead.
const WORK_WITHOUT_STATES_MAX: usize = WORK_BASE as usize / 4;
/// Work for each step of a search that may go back.
const WORK_PER_STEP: usize = 8;
/// Bytes of a text in which a word is compared at each place: names of cookies and arguments.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a text after which the states that it needs can be told.
const STATES_TELL_BYTES: usize = 4 << 10;

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
    /// The text that the expression stands for, if it is one.
    literal: Option<Finder<'static>>,
    /// The same in lower case, for an expression that matches it in either case.
    folded: Option<Box<[u8]>>,
    /// For a search that tries one beginning after the other.
    starts: Option<Starts>,
    caches: Pool<Option<Caches>, fn() -> Option<Caches>>,
    /// The whole expression, if it needs steps back: automata and machine are then of `backtrack::relaxed`.
    program: Option<Box<Program>>,
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
    /// Look-around, atomic groups and references to groups may be in it: the search has to be bounded.
    pub(crate) steps_back: bool,
}

impl Pattern {
    /// Compiles an expression with `DOTALL`, and `MULTILINE` unless it is for the whole text, as
    /// ModSecurity 3 does.
    pub(crate) fn new(text: &str, reading: Reading) -> Result<Pattern, pcre::Fault> {
        Pattern::with_requirement(text, reading).map(|compiled| compiled.pattern)
    }

    /// Compiles an expression, and says what a text has to have for a match.
    pub(crate) fn with_requirement(text: &str, reading: Reading) -> Result<Compiled, pcre::Fault> {
        let translation = pcre::translate(text)?;
        let fault = |offset: usize, message: String| pcre::Fault { offset, message };
        let mut hir = parse(&translation.text, reading)?;
        let mut program = None;
        if let Some(offset) = translation.steps_back {
            if !reading.steps_back {
                let message = "look-around, atomic groups and references to groups are not available here";
                return Err(fault(offset, message.to_owned()));
            }
            program = Some(Box::new(Program::new(&hir).map_err(|message| fault(offset, message))?));
            hir = backtrack::relaxed(&hir);
        }
        let requirement = Requirement::of_expression(&hir);
        let pattern = Pattern::build(&hir, reading.groups && program.is_none());
        let pattern = pattern.map_err(|message| fault(0, message))?;
        Ok(Compiled { pattern: Pattern { program, ..pattern }, requirement })
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
        let starts = Starts::of(automata.forward());
        let literal = match hir.kind() {
            HirKind::Literal(literal) => Some(Finder::new(&literal.0).into_owned()),
            _ => None,
        };
        let folded = folded(hir);
        let caches = Pool::new((|| None) as fn() -> _);
        Ok(Pattern { automata, machine, literal, folded, starts, caches, program: None })
    }

    fn new_caches(&self) -> Caches {
        Caches { automata: self.automata.create_cache(), machine: self.machine.create_cache() }
    }

    /// Bytes that the expression takes, without the states of searches.
    pub(crate) fn memory(&self) -> usize {
        let automata = [self.automata.forward(), self.automata.reverse()];
        let automata: usize = automata.iter().map(|automaton| automaton.get_nfa().memory_usage()).sum();
        automata + self.program.as_ref().map_or(0, |program| program.memory())
    }

    /// True if the expression matches anywhere.
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.is_match_with_work(text, &mut 0)
    }

    /// True if the expression matches anywhere. Work that is beyond one step for each byte is added.
    pub(crate) fn is_match_with_work(&self, text: &[u8], work: &mut usize) -> bool {
        let found = self.automata_match(text, work);
        match &self.program {
            Some(program) if found => self.search(program, text, 0, work).is_some(),
            _ => found,
        }
    }

    fn automata_match(&self, text: &[u8], work: &mut usize) -> bool {
        if let Some(literal) = &self.literal {
            return literal.find(text).is_some();
        }
        if let Some(folded) = self.folded.as_deref().filter(|_| text.len() <= NAME_BYTES_MAX) {
            return text.windows(folded.len()).any(|part| part.eq_ignore_ascii_case(folded));
        }
        let mut caches = self.caches.get();
        let Caches { automata, machine } = caches.get_or_insert_with(|| self.new_caches());
        let cache = automata.as_parts_mut().0;
        let from = match self.try_starts(cache, text, true, work) {
            Found::Match(_) => return true,
            Found::Nothing => return false,
            Found::Unknown(from) => from,
        };
        let input = Input::new(text).range(from..).earliest(true);
        let before = cache.memory_usage();
        let found = self.automata.forward().try_search_fwd(cache, &input);
        let after = cache.memory_usage();
        let end = found.as_ref().ok().and_then(Option::as_ref).map_or(text.len(), HalfMatch::offset);
        *work += work_of_states(before, after, cache.search_total_len(), end.saturating_sub(from));
        if let Ok(found) = found {
            return found.is_some();
        }
        // Without this, the next text would find the cache full, and be searched without states as well.
        cache.reset(self.automata.forward());
        *work += EXPRESSION_CACHE_BYTES_MAX * CACHE_CLEARS_MIN * WORK_PER_STATE_BYTE;
        let alone = (text.len() - from) * WORK_PER_BYTE_WITHOUT_STATES;
        if alone > WORK_WITHOUT_STATES_MAX {
            *work = WORK_MAX;
            return false;
        }
        *work += alone;
        self.machine.is_match(machine, input)
    }

    /// The range of the first match; without an answer the place from which a search without states goes on.
    fn first(
        &self,
        automata: &mut regex::Cache,
        text: &[u8],
        work: &mut usize,
    ) -> Result<Option<Range<usize>>, usize> {
        let from = match self.try_starts(automata.as_parts_mut().0, text, false, work) {
            Found::Match(range) => return Ok(Some(range)),
            Found::Nothing => return Ok(None),
            Found::Unknown(from) => from,
        };
        let memory = |cache: &regex::Cache| {
            let (forward, reverse) = cache.as_parts();
            forward.memory_usage() + reverse.memory_usage()
        };
        let before = memory(automata);
        let found = self.automata.try_search(automata, &Input::new(text).range(from..));
        let end = found.as_ref().ok().and_then(Option::as_ref).map_or(text.len(), Match::end);
        let read = end.saturating_sub(from);
        let seen = automata.as_parts().0.search_total_len();
        *work += 2 * read + work_of_states(before, memory(automata), seen, read);
        found.map(|found| found.map(|found| found.range())).map_err(|_| {
            automata.reset(&self.automata);
            from
        })
    }

    /// Tries one beginning after the other, if that is the better way for the expression, or the range of a
    /// match is wanted.
    fn try_starts(&self, cache: &mut dfa::Cache, text: &[u8], earliest: bool, work: &mut usize) -> Found {
        let starts = self.starts.as_ref().filter(|starts| starts.is_better || !earliest);
        let Some(starts) = starts else { return Found::Unknown(0) };
        let (before, mut steps) = (cache.memory_usage(), 0);
        let found = starts.search(self.automata.forward(), cache, text, earliest, &mut steps);
        let made = cache.memory_usage().saturating_sub(before);
        *work += steps + made * WORK_PER_STATE_BYTE;
        found
    }

    /// The groups of the first match. Work is added.
    pub(crate) fn groups(&self, text: &[u8], work: &mut usize) -> Option<Groups> {
        if let Some(program) = &self.program {
            return if self.automata_match(text, work) { self.search(program, text, 0, work) } else { None };
        }
        let mut caches = self.caches.get();
        let Caches { automata, machine } = caches.get_or_insert_with(|| self.new_caches());
        let input = match self.first(automata, text, work) {
            Ok(found) => {
                let found = found?;
                if self.machine.get_nfa().group_info().group_len(PatternID::ZERO) < 2 {
                    return Some(smallvec::smallvec![Some(found)]);
                }
                Input::new(text).span(found).anchored(Anchored::Yes)
            }
            Err(from) => Input::new(text).range(from..),
        };
        let alone = input.get_span().len() * WORK_PER_BYTE_WITHOUT_STATES;
        if alone > WORK_WITHOUT_STATES_MAX {
            *work = WORK_MAX;
            return None;
        }
        *work += alone;
        let mut slots: SmallVec<[Option<NonMaxUsize>; 2 * GROUPS]> = SmallVec::new();
        slots.resize(self.machine.get_nfa().group_info().slot_len().min(2 * GROUPS), None);
        self.machine.search_slots(machine, &input, &mut slots)?;
        let range = |pair: &[Option<NonMaxUsize>]| match pair {
            [Some(start), Some(end)] => Some(start.get()..end.get()),
            _ => None,
        };
        Some(slots.chunks(2).map(range).collect())
    }

    /// The ranges of all matches, one behind the other. Work of steps back is added.
    pub(crate) fn matches<'a>(
        &'a self,
        text: &'a [u8],
        work: &'a mut usize,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at > text.len() {
                return None;
            }
            let range = match &self.program {
                Some(program) => self.search(program, text, at, work)?.first()?.clone()?,
                None => self.next_match(text, at)?,
            };
            at = if range.is_empty() { range.end + 1 } else { range.end };
            Some(range)
        })
    }

    fn next_match(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let mut caches = self.caches.get();
        let Caches { automata, machine } = caches.get_or_insert_with(|| self.new_caches());
        let input = Input::new(text).span(at..text.len());
        let found = if let Ok(found) = self.automata.try_search(automata, &input) {
            found
        } else {
            automata.reset(&self.automata);
            self.machine.find_iter(machine, input).next()
        };
        found.map(|found| found.range())
    }

    /// The groups of the first match of the whole expression at or behind a position. Without a result, there
    /// is no work left.
    fn search(&self, program: &Program, text: &[u8], at: usize, work: &mut usize) -> Option<Groups> {
        // No match begins before the first one of the automata.
        let start = self.next_match(text, at)?.start;
        let mut steps = 0;
        let found = program.search(text, start, &mut steps);
        *work += 2 * (text.len() - at) + steps * WORK_PER_STEP;
        found.unwrap_or_else(|Exhausted| {
            *work += WORK_MAX;
            None
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

/// The text in lower case that an expression matches in either case, and nothing else.
fn folded(hir: &Hir) -> Option<Box<[u8]>> {
    let HirKind::Concat(parts) = hir.kind() else { return None };
    let mut text = Vec::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(literal) if !literal.0.iter().any(u8::is_ascii_alphabetic) => {
                text.extend_from_slice(&literal.0);
            }
            HirKind::Class(Class::Bytes(class)) => match class.ranges() {
                [upper, lower]
                    if upper.len() == 1
                        && lower.len() == 1
                        && upper.start() != lower.start()
                        && upper.start().to_ascii_lowercase() == lower.start() =>
                {
                    text.push(lower.start());
                }
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(text.into())
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
    ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .multi_line(!reading.whole)
        .dot_matches_new_line(true)
        .case_insensitive(reading.any_case)
        .build()
        .parse(text)
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
    fn a_word_in_either_case_is_found_in_names_and_in_long_texts() {
        let reading = Reading { any_case: true, ..Reading::default() };
        let pattern = Pattern::new("__utm_1", reading).expect("an expression");
        assert_eq!(pattern.folded.as_deref(), Some(&b"__utm_1"[..]));
        for (text, expected) in [("a__UTm_1b", true), ("__utm_2", false), ("__ut", false), ("", false)] {
            assert_eq!(pattern.is_match(text.as_bytes()), expected, "{text}");
            let long = "x".repeat(NAME_BYTES_MAX) + text;
            assert_eq!(pattern.is_match(long.as_bytes()), expected, "{long}");
        }
        for text in ["a", "ab?", "[a-z]b", "[aB]c"] {
            assert_eq!(Pattern::new(text, Reading::default()).expect(text).folded, None, "{text}");
        }
    }

    #[test]
    fn matches_follow_one_another() {
        let pattern = Pattern::new("a*", Reading::default()).expect("an expression");
        assert_eq!(pattern.matches(b"aab", &mut 0).collect::<Vec<_>>(), [0..2, 2..2, 3..3]);
        let pattern = Pattern::new("[0-9]+", Reading::default()).expect("an expression");
        assert_eq!(pattern.matches(b"1 22", &mut 0).collect::<Vec<_>>(), [0..1, 2..4]);
    }

    /// An expression, a text, and the ranges of the groups.
    type Case = (&'static str, &'static str, &'static [Option<Range<usize>>]);

    #[test]
    fn steps_back_match_as_in_pcre() {
        let reading = Reading { groups: true, steps_back: true, ..Reading::default() };
        let cases: &[Case] = &[
            (r"<\?(?!xml)", "<?xml?><?php", &[Some(7..9)]),
            (r"<\?(?!xml)", "<?xml?>", &[]),
            (r"a(?=(b+))", "aabb", &[Some(1..2), Some(2..4)]),
            (r"(?<=a|bc)d", "cd bcd", &[Some(5..6)]),
            (r"(?<![0-9])[0-9]{2}(?![0-9])", "123 45", &[Some(4..6)]),
            (r"(?>a*)ab", "aaab", &[]),
            (r"a*+b", "aab", &[Some(0..3)]),
            (r"a?+ab", "ab", &[]),
            (r"^(?:a|ab)++c", "abc", &[]),
            (r"(['\x22])(.*?)\1", "x='a\"b'", &[Some(2..7), Some(2..3), Some(3..6)]),
            (r"(?i)(a)\1", "aA", &[Some(0..2), Some(0..1)]),
            (r"(a)\1", "aA", &[]),
            (r"(?<q>x|y)-\k<q>", "x-y y-y", &[Some(4..7), Some(4..5)]),
            (r"(?:(?=a))*b", "b", &[Some(0..1)]),
            (r"(a|b)*?(?!c)d", "abd", &[Some(0..3), Some(1..2)]),
            (r"(?:(a)|b){2,3}(?=c)", "abbc", &[Some(0..3), Some(0..1)]),
            (r"(?!(a)b)a", "ac", &[Some(0..1), None]),
            (r"(?m)^(?=.*x)(?=.*y).+$", "axy", &[Some(0..3)]),
            (r"\bfoo\b(?<!\.foo)", ".foo foo", &[Some(5..8)]),
        ];
        for (expression, text, expected) in cases {
            let pattern = Pattern::new(expression, reading).expect(expression);
            assert_eq!(
                pattern.groups(text.as_bytes(), &mut 0).unwrap_or_default()[..],
                **expected,
                "{expression}"
            );
            assert_eq!(pattern.is_match(text.as_bytes()), !expected.is_empty(), "{expression}");
        }
        for (expression, offset) in [(r"(?<=a*)b", 0), (r"(a)\2", 3), (r"\k<x>", 0)] {
            let fault = Pattern::new(expression, reading).err().map(|fault| fault.offset);
            assert_eq!(fault, Some(offset), "{expression}");
        }
        assert!(Pattern::new("(?=a)", Reading::default()).is_err());
    }

    #[test]
    fn steps_back_without_a_result_leave_no_work() {
        let reading = Reading { steps_back: true, ..Reading::default() };
        let pattern = Pattern::new("^(?:a|aa)+(?=b)c$", reading).expect("an expression");
        let mut work = 0;
        assert!(!pattern.is_match_with_work(&[&[b'a'; 60][..], b"c"].concat(), &mut work));
        assert!(work >= WORK_MAX, "{work}");
        let mut work = 0;
        assert!(!pattern.is_match_with_work(&[b'a'; 60], &mut work));
        assert!(work < WORK_MAX, "the automaton says that there is no match: {work}");
        let pattern = Pattern::new("(?:a(?=.))*x(?!y)", reading).expect("an expression");
        let mut work = 0;
        assert!(!pattern.is_match_with_work(&[&b"a".repeat(1 << 21)[..], b"xy"].concat(), &mut work));
        assert!(work >= WORK_MAX, "frames are bounded, too: {work}");
    }

    proptest::proptest! {
        /// No repeated group matches the empty text: PCRE keeps what its last repetition matched, automata
        /// what the last one with a character did.
        #[test]
        fn an_expression_without_steps_back_matches_the_same_with_them(
            expression in "[ab^$.]{0,2}(\\([ab]([ab][*+?]?)?\\)[*+?]?|a\\|b|[ab]\\{1,2\\}|[ab][*+]\\?){1,3}",
            text in "[ab\n]{0,8}",
        ) {
            let reading = Reading { groups: true, steps_back: true, ..Reading::default() };
            if let Ok(linear) = Pattern::new(&expression, reading) {
                let stepping = Pattern::new(&format!("(?=)(?:{expression})"), reading).expect("an expression");
                let groups = |pattern: &Pattern| pattern.groups(text.as_bytes(), &mut 0);
                proptest::prop_assert_eq!(groups(&linear), groups(&stepping), "{}", expression);
            }
        }
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
