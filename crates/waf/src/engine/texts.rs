//! The texts of a transaction: values, names, and what transformations made of them. Each is made once.
//!
//! Never in here: variables, rules' decisions.

use std::borrow::Cow;
use std::hash::BuildHasher as _;

use hashbrown::HashTable;

use crate::limits::{TEXT_BYTES_MAX, WORK_BYTES_BASE};
use crate::prefilter::ByteSet;
use crate::rules::Rules;
use crate::tables::FastMap;
use crate::transform::{self, Transformation, UnicodeMap};
use crate::triggers;

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
}

/// All texts of a transaction.
pub(super) struct Texts {
    arena: Vec<u8>,
    entries: Vec<Text>,
    sets: Vec<ByteSet>,
    scans: Vec<u64>,
    made: FastMap<(TextId, Transformation), TextId>,
    /// The results of transformations, by their bytes.
    results: HashTable<TextId>,
    /// True if a text found no room, or the work took too long; what is decided then is not certain.
    pub(super) exhausted: bool,
    /// Bytes that prefilter, transformations and operators have read.
    pub(super) work: u64,
    work_max: u64,
}

impl Texts {
    pub(super) fn new(seed: u64) -> Texts {
        let mut texts = Texts {
            arena: Vec::with_capacity(4 << 10),
            entries: Vec::with_capacity(128),
            sets: Vec::with_capacity(64),
            scans: Vec::with_capacity(512),
            made: FastMap::with_hasher(foldhash::fast::FixedState::with_seed(seed)),
            results: HashTable::new(),
            exhausted: false,
            work: 0,
            work_max: WORK_BYTES_BASE,
        };
        texts.add(b"");
        texts
    }

    /// Allows more work.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.work_max += bytes;
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.work += bytes as u64;
        self.exhausted |= self.work > self.work_max;
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
        self.entries.push(Text { start: start as u32, len: len as u32, facts: 0, scan: 0 });
        TextId(self.entries.len() as u32 - 1)
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

    /// The set of a text's bytes.
    pub(super) fn set(&mut self, id: TextId) -> ByteSet {
        let facts = self.entries[id.0 as usize].facts;
        if facts > 0 {
            return self.sets[facts as usize - 1];
        }
        let set = ByteSet::of(self.get(id));
        self.sets.push(set);
        self.entries[id.0 as usize].facts = self.sets.len() as u32;
        set
    }

    /// The text after one transformation.
    pub(super) fn transformed(
        &mut self,
        id: TextId,
        transformation: Transformation,
        map: Option<&UnicodeMap>,
    ) -> TextId {
        if let Some(set) = triggers::of(transformation)
            && !set.meets(&self.set(id))
        {
            return id;
        }
        if let Some(&made) = self.made.get(&(id, transformation)) {
            return made;
        }
        let made = self.make(id, transformation, map);
        self.made.insert((id, transformation), made);
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
        let set = self.set(id);
        let start = self.scans.len();
        self.scans.resize(start + words, 0);
        self.spend(text.len as usize);
        let bytes = &self.arena[text.start as usize..(text.start + text.len) as usize];
        let mut at = start;
        for layer in rules.layers() {
            let end = at + layer.prefilter.words();
            layer.prefilter.scan(bytes, &set, &mut self.scans[at..end]);
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
