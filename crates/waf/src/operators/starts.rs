//! A search that tries one beginning of a match after the other, with states that know of one beginning only.
//!
//! An automaton that follows all beginnings at once needs a new state for nearly each byte of a hostile text,
//! if its expression is long: those of the core rules for commands with quotes and variables between their
//! letters. From one beginning, nearly all searches end after two bytes, and few states are needed. The range
//! of a match is known without a search backward. The time may be quadratic, so that steps are bounded. Never
//! in here: the search that goes on after that.

use std::ops::Range;

use regex_automata::Anchored;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::start;

use crate::prefilter::ByteSet;

/// States of an expression's machine below which all beginnings are followed at once, without a trial.
const MACHINE_STATES_MIN: usize = 200;
/// Bytes of the text of the trial.
const TRIAL_BYTES: usize = 512;
/// Bytes of states for each byte of the trial beyond which beginnings are tried one after the other.
const STATE_BYTES_PER_BYTE: usize = 40;
/// Steps for each byte of a text, after which the search ends without a result.
const STEPS_PER_BYTE_MAX: usize = 12;

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Match(Range<usize>),
    Nothing,
    /// No match begins before this place; the rest would take too many steps.
    Unknown(usize),
}

/// The beginnings of an expression's matches.
pub(super) struct Starts {
    /// The bytes with which matches may begin.
    first: ByteSet,
    /// True if the automaton that follows all beginnings at once needs many states.
    pub(super) is_better: bool,
}

impl Starts {
    /// The beginnings of an expression; `None` if its automaton cannot be used.
    pub(super) fn of(automaton: &DFA) -> Option<Starts> {
        let is_better = automaton.get_nfa().states().len() >= MACHINE_STATES_MIN && is_hard(automaton);
        let mut cache = automaton.create_cache();
        let mut first = ByteSet::default();
        for before in [None, Some(b'\n'), Some(b'\r'), Some(b'a'), Some(b' ')] {
            for byte in 0..=255 {
                let begin = begin(automaton, &mut cache, before)?;
                if !automaton.next_state(&mut cache, begin, byte).ok()?.is_dead() {
                    first.insert(byte);
                }
            }
        }
        Some(Starts { first, is_better })
    }

    /// The first match of a text, or with `earliest` the first end of one that begins first. Steps are added.
    pub(super) fn search(
        &self,
        automaton: &DFA,
        cache: &mut Cache,
        text: &[u8],
        earliest: bool,
        steps: &mut usize,
    ) -> Found {
        let steps_max = *steps + (text.len() + 16) * STEPS_PER_BYTE_MAX;
        cache.search_start(0);
        let mut found = Found::Nothing;
        for place in 0..=text.len() {
            if text.get(place).is_some_and(|&byte| !self.first.contains(byte)) {
                continue;
            }
            if *steps > steps_max {
                found = Found::Unknown(place);
                break;
            }
            cache.search_update(place);
            match from(automaton, cache, text, place, earliest, steps) {
                Ok(Some(end)) => {
                    found = Found::Match(place..end);
                    break;
                }
                Ok(None) => {}
                Err(Unusable) => {
                    found = Found::Unknown(place);
                    break;
                }
            }
        }
        cache.search_finish(text.len());
        found
    }
}

fn begin(
    automaton: &DFA,
    cache: &mut Cache,
    before: Option<u8>,
) -> Option<regex_automata::hybrid::LazyStateID> {
    let config = start::Config::new().look_behind(before).anchored(Anchored::Yes);
    automaton.start_state(cache, &config).ok()
}

/// The cache of states is full, or has no state for a beginning.
struct Unusable;

/// The end of the match that begins at a place.
fn from(
    automaton: &DFA,
    cache: &mut Cache,
    text: &[u8],
    place: usize,
    earliest: bool,
    steps: &mut usize,
) -> Result<Option<usize>, Unusable> {
    let before = place.checked_sub(1).and_then(|before| text.get(before));
    let mut state = begin(automaton, cache, before.copied()).ok_or(Unusable)?;
    let mut end = None;
    for (read, &byte) in text.iter().enumerate().skip(place) {
        *steps += 1;
        state = automaton.next_state(cache, state, byte).map_err(|_| Unusable)?;
        if !state.is_tagged() {
            continue;
        }
        // A match is known one byte after its end.
        if state.is_match() {
            end = Some(read);
            if earliest {
                return Ok(end);
            }
        } else if state.is_dead() {
            return Ok(end);
        } else if state.is_quit() {
            return Err(Unusable);
        }
    }
    *steps += 1;
    let last = automaton.next_eoi_state(cache, state).map_err(|_| Unusable)?;
    Ok(if last.is_match() { Some(text.len()) } else { end })
}

/// Whether a short text of all kinds of printable bytes needs many states.
fn is_hard(automaton: &DFA) -> bool {
    let mut state = 1u64;
    let text: Vec<u8> = (0..TRIAL_BYTES)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b' ' + ((state >> 33) % 95) as u8
        })
        .collect();
    let mut cache = automaton.create_cache();
    let before = cache.memory_usage();
    let mut at = 0;
    while let Ok(Some(found)) =
        automaton.try_search_fwd(&mut cache, &regex_automata::Input::new(&text).span(at..text.len()))
    {
        at = found.offset().max(at + 1);
        if at >= text.len() {
            break;
        }
    }
    cache.memory_usage() - before > TRIAL_BYTES * STATE_BYTES_PER_BYTE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_automata::Input;
    use regex_automata::hybrid::dfa;

    use super::*;

    const EXPRESSIONS: [&str; 8] = [
        r"(?i)\bl[\x22']*s\b|c[\x22']*a[\x22']*t[\s<]",
        r"(?m)^(?:a|ab)(?:c|bcd)?$",
        r"x*",
        r"a+?b|\Bc",
        r"(?:^|[;|&])\s*w(?:ho)?",
        r"(?-u:[^a-z])z",
        r"[a-c]{2,4}d?",
        r"$",
    ];

    fn automaton(expression: &str) -> DFA {
        let syntax = regex_automata::util::syntax::Config::new().utf8(false).unicode(false);
        let thompson = regex_automata::nfa::thompson::Config::new().utf8(false);
        dfa::Builder::new().syntax(syntax).thompson(thompson).build(expression).expect(expression)
    }

    proptest! {
        #[test]
        fn the_first_match_is_that_of_all_beginnings_at_once(text in "[abcdlstwxz'\" ;|\\n]{0,24}") {
            let all: ByteSet = (0..=255).collect();
            for expression in EXPRESSIONS {
                let automaton = automaton(expression);
                let mut cache = automaton.create_cache();
                let input = Input::new(&text);
                let end = automaton.try_search_fwd(&mut cache, &input).expect("a result");
                let (starts, mut steps) = (Starts { first: all, is_better: true }, 0);
                let found = starts.search(&automaton, &mut cache, text.as_bytes(), false, &mut steps);
                let own = match found {
                    Found::Match(range) => Some(range.end),
                    _ => None,
                };
                prop_assert_eq!(own, end.map(|end| end.offset()), "{} in {:?}", expression, text);
                let found = starts.search(&automaton, &mut cache, text.as_bytes(), true, &mut steps);
                prop_assert_eq!(matches!(found, Found::Match(_)), end.is_some(), "{} in {:?}", expression, text);
            }
        }
    }

    #[test]
    fn steps_are_bounded() {
        let automaton = automaton("a*b");
        let starts = Starts { first: [b'a'].into_iter().collect(), is_better: true };
        let text = vec![b'a'; 10_000];
        let mut steps = 0;
        let found = starts.search(&automaton, &mut automaton.create_cache(), &text, true, &mut steps);
        assert!(matches!(found, Found::Unknown(place) if place < 100), "{found:?}");
        assert!(steps < 300_000, "{steps}");
    }

    #[test]
    fn beginnings_are_tried_if_many_states_are_needed() {
        let gap = r#"["'\)\[\x5c]*(?:(?:\|\|\s*)?\$[!#\(\*\-0-9\?@_a-\{]*)?\x5c?"#;
        let words = ('a'..='z').flat_map(|first| "aeio".chars().map(move |next| [first, next, 't']));
        let words: Vec<_> = words.map(|word| word.map(String::from).join(gap)).collect();
        let words = words.join("|");
        let hard = automaton(&format!("(?i)(?:{words}){gap}[\\s<>]"));
        let starts = Starts::of(&hard).expect("an automaton");
        assert!(starts.is_better, "{} states", hard.get_nfa().states().len());
        assert!(starts.first.contains(b'W') && !starts.first.contains(b'%'));
        let easy = Starts::of(&automaton("(?i)union[^a]+select")).expect("an automaton");
        assert!(!easy.is_better && easy.first.iter().eq([b'U', b'u']));
    }
}
