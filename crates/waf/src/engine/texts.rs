//! The texts of a transaction: values, names, and what transformations made of them. Each is made once.
//!
//! Never in here: variables, rules' decisions.

use std::borrow::Cow;
use std::hash::BuildHasher as _;

use hashbrown::HashTable;

use crate::limits::{TEXT_BYTES_MAX, WORK_BASE, WORK_PER_BYTE};
use crate::prefilter::ByteSet;
use crate::rules::Rules;
use crate::tables::FastMap;
use crate::transform::{self, Transformation, UnicodeMap};
use crate::triggers::Changes;

/// The number of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TextId(u32);

impl TextId {
    /// The empty text.
    pub(super) const EMPTY: TextId = TextId(0);
}

#[derive(Clone, Copy)]
struct Text {
    start: u32,
    len: u32,
    /// The place of its facts, from 1; 0 before they are known.
    facts: u32,
    /// The place of its bits among `scans`, from 1; 0 before it was scanned.
    scan: u32,
    /// The text that has the same letters in another case, and so the same bits; its own number if there is
    /// none.
    folded_from: TextId,
}

/// The facts about the bytes of a text.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) bytes: ByteSet,
    /// The transformations that may change the text.
    pub(super) changes: Changes,
}

/// All texts of a transaction.
pub(super) struct Texts {
    arena: Vec<u8>,
    entries: Vec<Text>,
    facts: Vec<Facts>,
    scans: Vec<u64>,
    /// The results of transformations, by text and transformation in one number.
    made: FastMap<u64, TextId>,
    /// The results of transformations, by their bytes.
    results: HashTable<TextId>,
    /// True if a text found no room, or the work took too long; what is decided then is not certain.
    pub(super) exhausted: bool,
    /// The work of prefilter, transformations and operators.
    pub(super) work: u64,
    /// Bytes that rules look at.
    seen: u64,
}

impl Texts {
    pub(super) fn new(seed: u64) -> Texts {
        let mut texts = Texts {
            arena: Vec::with_capacity(4 << 10),
            entries: Vec::with_capacity(128),
            facts: Vec::with_capacity(64),
            scans: Vec::with_capacity(512),
            made: FastMap::with_hasher(foldhash::fast::FixedState::with_seed(seed)),
            results: HashTable::new(),
            exhausted: false,
            work: 0,
            seen: 0,
        };
        texts.add(b"");
        texts
    }

    /// Counts bytes that rules look at: many of them allow more work.
    pub(super) fn see(&mut self, bytes: usize) {
        self.seen += bytes as u64;
    }

    /// Counts work, up to the bound of an exchange.
    pub(super) fn spend(&mut self, work: usize) {
        self.work += work as u64;
        self.exhausted |= self.work > WORK_BASE.max(self.seen * WORK_PER_BYTE);
    }

    /// Adds a text.
    pub(super) fn add(&mut self, bytes: &[u8]) -> TextId {
        let start = self.arena.len();
        if start + bytes.len() > TEXT_BYTES_MAX {
            self.exhausted = true;
            return TextId::EMPTY;
        }
        self.arena.extend_from_slice(bytes);
        self.push(start, bytes.len())
    }

    fn push(&mut self, start: usize, len: usize) -> TextId {
        let id = TextId(self.entries.len() as u32);
        let (start, len) = (start as u32, len as u32);
        self.entries.push(Text { start, len, facts: 0, scan: 0, folded_from: id });
        id
    }

    /// Adds a part of a text without a copy.
    pub(super) fn part(&mut self, id: TextId, range: std::ops::Range<usize>) -> TextId {
        let text = self.entries[id.0 as usize];
        let start = range.start.min(text.len as usize);
        let end = range.end.clamp(start, text.len as usize);
        self.push(text.start as usize + start, end - start)
    }

    /// The bytes of a text.
    pub(super) fn get(&self, id: TextId) -> &[u8] {
        let text = self.entries[id.0 as usize];
        &self.arena[text.start as usize..(text.start + text.len) as usize]
    }

    /// The facts about a text's bytes.
    pub(super) fn facts(&mut self, id: TextId) -> Facts {
        let place = self.entries[id.0 as usize].facts;
        if place > 0 {
            return self.facts[place as usize - 1];
        }
        let text = self.get(id);
        let facts = Facts { bytes: ByteSet::of(text), changes: Changes::in_text(text) };
        self.facts.push(facts);
        self.entries[id.0 as usize].facts = self.facts.len() as u32;
        facts
    }

    /// The text after one transformation.
    pub(super) fn transformed(
        &mut self,
        id: TextId,
        transformation: Transformation,
        map: Option<&UnicodeMap>,
    ) -> TextId {
        if !self.facts(id).changes.meets(Changes::of(&[transformation])) {
            return id;
        }
        let key = u64::from(id.0) << 8 | transformation as u64;
        if let Some(&made) = self.made.get(&key) {
            return made;
        }
        let next = self.entries.len() as u32;
        let made = self.make(id, transformation, map);
        self.made.insert(key, made);
        let folds = matches!(transformation, Transformation::Lowercase | Transformation::Uppercase);
        if folds && made.0 >= next {
            self.entries[made.0 as usize].folded_from = id;
        }
        made
    }

    fn make(&mut self, id: TextId, transformation: Transformation, map: Option<&UnicodeMap>) -> TextId {
        let text = self.entries[id.0 as usize];
        self.spend(text.len as usize);
        let bytes = &self.arena[text.start as usize..(text.start + text.len) as usize];
        match transform::apply(transformation, Cow::Borrowed(bytes), map) {
            Cow::Borrowed(part) if part.len() == bytes.len() => id,
            Cow::Borrowed(part) => {
                let offset = (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
                let range = offset..offset + part.len();
                self.part(id, range)
            }
            Cow::Owned(owned) if owned == bytes => id,
            Cow::Owned(owned) => self.intern(&owned),
        }
    }

    /// The text with these bytes, if a transformation has made it before, or a new one.
    pub(super) fn intern(&mut self, bytes: &[u8]) -> TextId {
        let hash = self.made.hasher().hash_one(bytes);
        let same = |&id: &TextId| self.get(id) == bytes;
        if let Some(&id) = self.results.find(hash, same) {
            return id;
        }
        let id = self.add(bytes);
        let Texts { results, entries, arena, made, .. } = self;
        results.insert_unique(hash, id, |&id| {
            let text = entries[id.0 as usize];
            made.hasher().hash_one(&arena[text.start as usize..(text.start + text.len) as usize])
        });
        id
    }

    /// The bits of the operators that could match a text.
    pub(super) fn scan(&mut self, id: TextId, rules: &Rules) -> &[u64] {
        let words = rules.words();
        let text = self.entries[id.0 as usize];
        if text.scan > 0 {
            let start = text.scan as usize - 1;
            return &self.scans[start..start + words];
        }
        if text.folded_from != id {
            self.scan(text.folded_from, rules);
            let scan = self.entries[text.folded_from.0 as usize].scan;
            self.entries[id.0 as usize].scan = scan;
            return &self.scans[scan as usize - 1..scan as usize - 1 + words];
        }
        let bytes_of_text = self.facts(id).bytes;
        let start = self.scans.len();
        self.scans.resize(start + words, 0);
        self.spend(2 * text.len as usize);
        let bytes = &self.arena[text.start as usize..(text.start + text.len) as usize];
        let mut at = start;
        for layer in rules.layers() {
            let end = at + layer.prefilter.words();
            layer.prefilter.scan(bytes, &bytes_of_text, &mut self.scans[at..end]);
            at = end;
        }
        self.entries[id.0 as usize].scan = start as u32 + 1;
        &self.scans[start..start + words]
    }

    /// True if an operator could match a text that was scanned.
    pub(super) fn could_match(&self, id: TextId, operator: u32) -> bool {
        let scan = self.entries[id.0 as usize].scan;
        scan == 0 || {
            let word = self.scans.get(scan as usize - 1 + operator as usize / 64);
            word.is_none_or(|word| word & (1 << (operator % 64)) != 0)
        }
    }
}
