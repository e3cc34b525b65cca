//! Requirements on a text, without which an operator cannot match: one of some literals, bytes of some sets.
//!
//! A requirement is necessary and never sufficient. Never in here: texts of a transaction.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::bytes::ByteSet;

/// Literals that one operator adds to the automaton.
const LITERALS_MAX: usize = 400;
/// Strings that a part of an expression may stand for while they are listed.
const STRINGS_MAX: usize = 512;
/// Bytes of one literal; a longer one is cut.
const LITERAL_BYTES_MAX: usize = 5;
/// Members of a class that are listed one by one.
const CLASS_MAX: usize = 16;
/// The share of ordinary positions at which literals may begin; beyond, they would exclude little.
const LITERALS_SHARE_MAX: f64 = 0.02;
/// The same in texts without rare bytes: most of them are so short that no literal is in them.
const PLAIN_SHARE_MAX: f64 = 0.1;
/// The share of ordinary bytes that a set may have; beyond, it would exclude little.
const BYTES_SHARE_MAX: f64 = 0.2;
/// Sets of bytes that one operator has.
pub(super) const SETS: usize = 2;

/// The requirement on a text for a match.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Requirement {
    /// One of these has to be in the text, in either case; all are in lower case. `None` if nothing is known.
    pub(crate) literals: Option<Vec<Vec<u8>>>,
    /// True if a text with one of the bytes of `RARE` needs none of the literals.
    pub(crate) only_without_rare: bool,
    /// Of each set, one byte has to be in the text.
    pub(crate) sets: Vec<ByteSet>,
}

impl Requirement {
    /// The requirement of an expression.
    pub(crate) fn of_expression(hir: &Hir) -> Requirement {
        let whole = part(hir, &ByteSet::default());
        let at_most = |share: f64| move |literals: &Vec<Vec<u8>>| share_of_literals(literals) <= share;
        let literals = whole.best().filter(at_most(LITERALS_SHARE_MAX));
        let sets = useful(whole.sets);
        if literals.is_some() {
            return Requirement { literals, sets, ..Requirement::default() };
        }
        // Words that may have quotes and variables between their letters are plain words without those.
        let plain = part(hir, &ByteSet::RARE);
        let literals = if plain.is_impossible() {
            Some(Vec::new())
        } else {
            plain.best().filter(at_most(PLAIN_SHARE_MAX))
        };
        Requirement { only_without_rare: literals.is_some(), literals, sets }
    }

    /// The requirement of an operator that looks for one of some words.
    pub(crate) fn of_words<'a>(words: impl Iterator<Item = &'a [u8]>) -> Requirement {
        let literals: Vec<Vec<u8>> = words.map(<[u8]>::to_ascii_lowercase).collect();
        if literals.iter().any(Vec::is_empty) {
            return Requirement::default();
        }
        let literals = Some(shortened(&literals, LITERAL_BYTES_MAX));
        Requirement { literals, ..Requirement::default() }
    }

    /// The requirement that one of some bytes is in the text.
    pub(crate) fn of_bytes(bytes: ByteSet) -> Requirement {
        let sets = if bytes.meets(&ByteSet::PLAIN) { Vec::new() } else { vec![bytes] };
        Requirement { sets, ..Requirement::default() }
    }
}

/// The facts about a part of an expression.
#[derive(Clone, Debug, Default)]
struct Part {
    /// All strings that the part can match, if they are few.
    strings: Option<Vec<Vec<u8>>>,
    /// One of these is in each match of the part.
    literals: Option<Vec<Vec<u8>>>,
    /// Of each set, one byte is in each match of the part.
    sets: Vec<ByteSet>,
}

impl Part {
    fn of_strings(strings: Vec<Vec<u8>>, sets: Vec<ByteSet>) -> Part {
        Part { strings: Some(strings), literals: None, sets }
    }

    /// A part that matches nothing: it needs bytes that are left out.
    fn impossible() -> Part {
        Part::of_strings(Vec::new(), Vec::new())
    }

    fn is_impossible(&self) -> bool {
        self.strings.as_ref().is_some_and(Vec::is_empty)
    }

    fn best(&self) -> Option<Vec<Vec<u8>>> {
        better(self.strings.as_ref().and_then(|strings| usable(strings)), self.literals.clone())
    }
}

/// Literals that can be looked for, made from all strings of a part.
fn usable(strings: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    if strings.is_empty() || strings.iter().any(|string| string.len() < 2) {
        return None;
    }
    let mut longest = LITERAL_BYTES_MAX;
    while longest >= 3 {
        let literals = shortened(strings, longest);
        if literals.len() <= LITERALS_MAX {
            return Some(literals);
        }
        longest -= 1;
    }
    None
}

/// The strings, cut; a literal that begins with another one is left out.
fn shortened(strings: &[Vec<u8>], longest: usize) -> Vec<Vec<u8>> {
    let mut literals: Vec<Vec<u8>> =
        strings.iter().map(|string| string[..string.len().min(longest)].to_vec()).collect();
    literals.sort_unstable();
    literals.dedup_by(|next, before| next.starts_with(before));
    literals
}

fn better(one: Option<Vec<Vec<u8>>>, two: Option<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    match (one, two) {
        (Some(one), Some(two)) if share_of_literals(&two) < share_of_literals(&one) => Some(two),
        (Some(one), _) => Some(one),
        (None, two) => two,
    }
}

/// A rough share of a byte in ordinary requests.
fn share(byte: u8) -> f64 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 0.06,
        b'a'..=b'z' | b'/' | b'.' | b'-' | b' ' | b'=' => 0.02,
        b'A'..=b'Z' => 0.004,
        b'0'..=b'9' => 0.015,
        b'_' | b'%' | b'&' | b'+' | b',' | b';' | b':' => 0.008,
        _ if byte >= 0x80 => 0.001,
        _ => 0.002,
    }
}

fn share_of_literals(literals: &[Vec<u8>]) -> f64 {
    literals.iter().map(|literal| literal.iter().map(|&byte| share(byte)).product::<f64>()).sum()
}

fn share_of_set(set: &ByteSet) -> f64 {
    set.iter().map(share).sum()
}

/// The sets that exclude most, the best first.
fn useful(mut sets: Vec<ByteSet>) -> Vec<ByteSet> {
    sets.retain(|set| share_of_set(set) <= BYTES_SHARE_MAX && !set.meets(&ByteSet::PLAIN));
    sets.sort_by(|one, two| share_of_set(one).total_cmp(&share_of_set(two)));
    sets.dedup();
    sets.truncate(SETS);
    sets
}

/// The facts about an expression in texts that have none of some bytes.
fn part(hir: &Hir, without: &ByteSet) -> Part {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Part::of_strings(vec![Vec::new()], Vec::new()),
        HirKind::Literal(literal) if literal.0.iter().any(|&byte| without.contains(byte)) => {
            Part::impossible()
        }
        HirKind::Literal(literal) => of_literal(&literal.0),
        HirKind::Class(class) => of_class(class, without),
        HirKind::Capture(capture) => part(&capture.sub, without),
        HirKind::Repetition(repetition) => {
            of_repetition(part(&repetition.sub, without), repetition.min, repetition.max)
        }
        HirKind::Concat(parts) => {
            let parts: Vec<_> = parts.iter().map(|hir| part(hir, without)).collect();
            if parts.iter().any(Part::is_impossible) { Part::impossible() } else { of_concatenation(parts) }
        }
        HirKind::Alternation(parts) => {
            let parts = parts.iter().map(|hir| part(hir, without)).filter(|part| !part.is_impossible());
            of_alternation(&parts.collect::<Vec<_>>())
        }
    }
}

fn both_cases(byte: u8) -> ByteSet {
    [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()].into_iter().collect()
}

fn of_literal(bytes: &[u8]) -> Part {
    let sets = useful_in_part(bytes.iter().map(|&byte| both_cases(byte)).collect());
    Part::of_strings(vec![bytes.to_ascii_lowercase()], sets)
}

/// As `useful`, but common bytes stay: an alternation may still need them.
fn useful_in_part(mut sets: Vec<ByteSet>) -> Vec<ByteSet> {
    sets.sort_by(|one, two| share_of_set(one).total_cmp(&share_of_set(two)));
    sets.dedup();
    sets.truncate(SETS);
    sets
}

fn of_class(class: &Class, without: &ByteSet) -> Part {
    let mut set = ByteSet::default();
    match class {
        Class::Bytes(class) => {
            for range in class.ranges() {
                set.insert_range(range.start()..=range.end());
            }
        }
        Class::Unicode(class) => {
            // Parsing without Unicode gives such a class for ASCII only; anything else says nothing.
            if !class.is_ascii() {
                return Part::default();
            }
            for range in class.ranges() {
                set.insert_range(range.start() as u8..=range.end() as u8);
            }
        }
    }
    let set = set.without(without);
    let mut strings: Vec<Vec<u8>> = set.iter().map(|byte| vec![byte.to_ascii_lowercase()]).collect();
    strings.sort_unstable();
    strings.dedup();
    if strings.is_empty() {
        return Part::impossible();
    }
    let strings = (strings.len() <= CLASS_MAX).then_some(strings);
    Part { strings, literals: None, sets: vec![set] }
}

fn of_repetition(part: Part, min: u32, max: Option<u32>) -> Part {
    if min == 0 {
        let once = max == Some(1) || part.is_impossible();
        let strings = part.strings.filter(|_| once).map(|mut strings| {
            strings.push(Vec::new());
            strings
        });
        return Part { strings, ..Part::default() };
    }
    if part.is_impossible() {
        return part;
    }
    let once = min == 1 && max == Some(1);
    let literals = part.best();
    let strings = part.strings.clone().filter(|_| once);
    if once || min > 4 || part.strings.is_none() {
        return Part { strings, literals, sets: part.sets };
    }
    // The part stands at least `min` times in a row: longer literals than from one of them.
    let mut row = vec![Vec::new()];
    for _ in 0..min {
        let Some(next) = part.strings.as_ref().and_then(|strings| product(&row, strings)) else {
            return Part { strings: None, literals, sets: part.sets };
        };
        row = next;
    }
    let strings = (max == Some(min)).then(|| row.clone());
    Part { strings, literals: better(usable(&row), literals), sets: part.sets }
}

fn product(one: &[Vec<u8>], two: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    if one.len() * two.len() > STRINGS_MAX {
        return None;
    }
    let mut all = Vec::with_capacity(one.len() * two.len());
    for start in one {
        for end in two {
            all.push([start.as_slice(), end.as_slice()].concat());
        }
    }
    Some(all)
}

fn of_concatenation(parts: Vec<Part>) -> Part {
    let mut literals: Option<Vec<Vec<u8>>> = None;
    let mut sets = Vec::new();
    let mut run: Vec<Vec<u8>> = vec![Vec::new()];
    let mut whole = true;
    for part in parts {
        sets.extend(part.sets.iter().copied());
        let joined = part.strings.as_ref().and_then(|strings| product(&run, strings));
        if let Some(joined) = joined {
            run = joined;
            continue;
        }
        whole = false;
        literals = better(usable(&run), literals);
        literals = better(part.literals.clone(), literals);
        run = part.strings.unwrap_or_else(|| vec![Vec::new()]);
    }
    let sets = useful_in_part(sets);
    if whole {
        return Part { strings: Some(run), literals, sets };
    }
    Part { strings: None, literals: better(usable(&run), literals), sets }
}

fn of_alternation(parts: &[Part]) -> Part {
    let mut strings = Some(Vec::new());
    let mut literals = Some(Vec::new());
    let mut sets: Vec<ByteSet> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let best = part.best();
        literals = literals.zip(best).map(|(all, own)| [all, own].concat());
        strings = strings
            .zip(part.strings.clone())
            .map(|(all, own)| [all, own].concat())
            .filter(|all: &Vec<Vec<u8>>| all.len() <= STRINGS_MAX);
        let own = useful_in_part(part.sets.clone());
        if index == 0 {
            sets = own;
        } else {
            sets = sets.iter().zip(&own).map(|(one, two)| one.union(two)).collect();
        }
    }
    let literals = literals.and_then(|literals| usable(&literals));
    Part { strings, literals, sets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{Pattern, Reading};

    fn requirement(text: &str) -> Requirement {
        Pattern::with_requirement(text, Reading::default()).expect(text).requirement
    }

    #[test]
    fn literals_are_those_of_the_most_selective_part() {
        let cases: [(&str, &[&str]); 7] = [
            (r"(?i)union\s+select", &["selec"]),
            (r"<script[^>]*>", &["<scri"]),
            (r"(?:foo|bar)[0-9]+\(", &["bar", "foo"]),
            (r"(?i)a(?:b|c)d", &["abd", "acd"]),
            (r"x{3}", &["xxx"]),
            (r"javascript:alert\(", &["javas"]),
            (r"(?:ab)+cd", &["ab"]),
        ];
        for (text, expected) in cases {
            let literals = requirement(text).literals.map(|mut literals| {
                literals.sort();
                literals
            });
            let expected: Vec<Vec<u8>> = expected.iter().map(|text| text.as_bytes().to_vec()).collect();
            assert!(literals == Some(expected) || text.contains(")+cd"), "{text}: {literals:?}");
        }
    }

    #[test]
    fn sets_are_rare_bytes_that_every_match_has() {
        let sets = requirement(r"(?i)\b(?:exec|system)\s*\(").sets;
        assert!(sets.iter().any(|set| set.iter().eq([b'('])), "{sets:?}");
        let sets = requirement(r"^[a-z]+$").sets;
        assert_eq!(sets, []);
        assert_eq!(requirement(r"(?:<a|)").sets, []);
        assert_eq!(requirement(r"a*").literals, None);
    }

    #[test]
    fn a_text_without_rare_bytes_needs_the_words_between_which_they_may_stand() {
        let cases: [(&str, Option<&[&str]>); 4] = [
            (r#"(?i)b["'\x5c]*(?:[$][a-z]*)?a["'\x5c]*(?:[$][a-z]*)?s["']*h"#, Some(&["bash"])),
            (r#"["'][a-z]+"#, Some(&[])),
            (r#"["'][a-z]+|x?yz\x5c?[0-9]"#, Some(&["xyz", "yz"])),
            (r#"["'][a-z]+|[a-z]+"#, None),
        ];
        for (text, expected) in cases {
            let requirement = requirement(text);
            let expected = expected
                .map(|literals| literals.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>());
            assert_eq!(requirement.only_without_rare, expected.is_some(), "{text}");
            let found = requirement.literals;
            assert!(
                found.is_some() == expected.is_some()
                    && found.iter().flatten().all(|own| expected
                        .iter()
                        .flatten()
                        .any(|one| one.starts_with(own) || own.starts_with(one))),
                "{text}: {found:?}"
            );
        }
    }
}
