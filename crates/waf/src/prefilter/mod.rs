//! One look at a text that says which operators could match it: literals of all operators are in one
//! automaton (Aho-Corasick), and sets of bytes in one table.
//!
//! Never in here: a decision that an operator matches.

mod bytes;
mod literals;
mod requirement;

use hashbrown::HashMap;

pub(crate) use bytes::ByteSet;
use literals::{Literals, set_bit};
pub(crate) use requirement::Requirement;
use requirement::SETS;
use smallvec::SmallVec;

/// The prefilter of some operators, which are numbered from 0.
pub(crate) struct Prefilter {
    words: usize,
    literals: Option<Literals>,
    /// Operators without literals.
    without_literals: Box<[u64]>,
    /// Operators that need no literals either in a text with a byte of `ByteSet::RARE`.
    without_literals_if_rare: Box<[u64]>,
    /// The operators that have no first set, then those that have no second one. No set has a plain byte.
    always: Box<[u64]>,
    /// For each byte a row: the operators whose first set has the byte, then those whose second set has it.
    by_byte: Box<[u64]>,
}

/// Words that are computed at once: the words of a prefilter are a multiple of this.
const LANES: usize = 4;

/// Adds the bits of a scan to others.
pub(crate) fn add_bits(sums: &mut [u64], bits: &[u64]) {
    let (sums, bits) = (sums.as_chunks_mut::<LANES>().0, bits.as_chunks::<LANES>().0);
    for (sum, word) in sums.iter_mut().zip(bits) {
        for lane in 0..LANES {
            sum[lane] |= word[lane];
        }
    }
}

impl Prefilter {
    /// Makes the prefilter of operators with these requirements.
    pub(crate) fn new(requirements: &[Requirement]) -> Result<Prefilter, String> {
        if requirements.len() > usize::from(u16::MAX) {
            return Err("the rules have too many operators".to_owned());
        }
        let words = requirements.len().div_ceil(64).next_multiple_of(LANES);
        let empty = || vec![0u64; words].into_boxed_slice();
        let mut prefilter = Prefilter {
            words,
            literals: None,
            without_literals: empty(),
            without_literals_if_rare: empty(),
            always: vec![0u64; words * SETS].into_boxed_slice(),
            by_byte: vec![0u64; words * SETS * 256].into_boxed_slice(),
        };
        let mut by_literal: HashMap<&[u8], Vec<u16>, foldhash::fast::FixedState> = HashMap::default();
        for (index, requirement) in requirements.iter().enumerate() {
            if requirement.only_without_rare || requirement.literals.is_none() {
                set_bit(&mut prefilter.without_literals_if_rare, index);
            }
            match &requirement.literals {
                Some(literals) => {
                    for literal in literals {
                        by_literal.entry(literal).or_default().push(index as u16);
                    }
                }
                None => set_bit(&mut prefilter.without_literals, index),
            }
            prefilter.add_sets(index, &requirement.sets);
        }
        if !by_literal.is_empty() {
            prefilter.literals = Some(Literals::new(&by_literal)?);
        }
        Ok(prefilter)
    }

    fn add_sets(&mut self, index: usize, sets: &[ByteSet]) {
        let row = self.words * SETS;
        for slot in 0..SETS {
            let bit = slot * self.words * 64 + index;
            let Some(set) = sets.get(slot) else {
                set_bit(&mut self.always, bit);
                continue;
            };
            for byte in set.iter() {
                let start = usize::from(byte) * row;
                set_bit(&mut self.by_byte[start..start + row], bit);
            }
        }
    }

    /// Words of 64 bits that a scan gives.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Sets the bit of each operator that could match the text; `bytes` are those of the text.
    pub(crate) fn scan(&self, text: &[u8], bytes: &ByteSet, bits: &mut [u64]) {
        let rare = bytes.meets(&ByteSet::RARE);
        bits.copy_from_slice(if rare { &self.without_literals_if_rare } else { &self.without_literals });
        if let Some(literals) = &self.literals {
            literals.scan(text, bits);
        }
        self.filter(bytes, bits);
    }

    fn filter(&self, bytes: &ByteSet, bits: &mut [u64]) {
        let row = self.words * SETS;
        let mut possible: SmallVec<[u64; 32]> = SmallVec::from_slice(&self.always);
        for byte in bytes.without(&ByteSet::PLAIN).iter() {
            let start = usize::from(byte) * row;
            add_bits(&mut possible, &self.by_byte[start..start + row]);
        }
        for slot in possible.chunks_exact(self.words) {
            for (bits, word) in bits.iter_mut().zip(slot) {
                *bits &= word;
            }
        }
    }

    /// Bytes that the prefilter takes.
    pub(crate) fn memory(&self) -> usize {
        self.literals.as_ref().map_or(0, Literals::memory) + (SETS + 2 + 256 * SETS) * self.words * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{Pattern, Reading};
    use proptest::prelude::*;

    const EXPRESSIONS: &[&str] = &[
        r"(?i)union\s+select",
        r"(?i)\b(?:exec|system)\s*\(",
        r"<script[^>]*>",
        r"^[^a-z]+$",
        r"(?:ab|c?)d?",
        r"x{2,3}y|'\s*or",
        r"(?i)(?:a[bc]{1,2}d)+e",
        r#"(?i)\b[ab]['"]*(?:\$[a-z]*)?c['"]*(?:\$[a-z]*)?[cd]['"]*e|x"#,
        r"",
    ];

    proptest! {
        #[test]
        fn an_expression_that_matches_is_never_filtered_out(
            pieces in proptest::collection::vec(
                prop_oneof!["[a-eA-E]{1,3}", "UNION  Select", "exec \\(", "<script>", "'or", "xxy", "ac'd[$]e", "[ -~]{0,4}"],
                0..6,
            )
        ) {
            let text = pieces.concat();
            let compiled: Vec<_> = EXPRESSIONS
                .iter()
                .map(|text| Pattern::with_requirement(text, Reading::default()).expect(text))
                .collect();
            let requirements: Vec<_> = compiled.iter().map(|one| one.requirement.clone()).collect();
            let prefilter = Prefilter::new(&requirements).expect("a prefilter");
            let mut bits = vec![0; prefilter.words()];
            prefilter.scan(text.as_bytes(), &ByteSet::of(text.as_bytes()), &mut bits);
            for (index, one) in compiled.iter().enumerate() {
                if one.pattern.is_match(text.as_bytes()) {
                    prop_assert!(bits[0] & (1 << index) != 0, "{} in {text:?}", EXPRESSIONS[index]);
                }
            }
        }
    }
}
