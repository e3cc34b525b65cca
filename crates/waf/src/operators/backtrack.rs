//! Expressions with look-around, atomic groups and references to groups: a search with steps back, within a
//! budget of steps.
//!
//! `pcre` writes these parts as groups with names of [`Part`], so that `regex-syntax` can parse the whole.
//! Never in here: texts that an automaton without these parts has refused.

use std::ops::Range;

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use smallvec::SmallVec;

use crate::limits::{
    BACKTRACK_FRAMES_MAX, BACKTRACK_STEPS_BASE, BACKTRACK_STEPS_PER_BYTE, PROGRAM_STEPS_MAX,
};
use crate::prefilter::ByteSet;

/// Groups that `capture` keeps: `TX:0` to `TX:9`.
pub(crate) const GROUPS: usize = 10;

/// The ranges of a match's groups; a group that took no part is `None`.
pub(crate) type Groups = SmallVec<[Option<Range<usize>>; 2]>;

/// A part of an expression that needs steps back. In the name of a group, a number follows that makes it
/// unique; a dot in it keeps it apart from the names that rules can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ahead,
    NotAhead,
    Behind,
    NotBehind,
    Atomic,
    /// A reference to a group by its number, which follows. The content is `a`, or a class where letters
    /// match in either case.
    Same,
    /// A reference to a group by its name, which follows.
    SameNamed,
}

impl Part {
    const NAMES: [(Part, &'static str); 7] = [
        (Part::Ahead, "ahead"),
        (Part::NotAhead, "not_ahead"),
        (Part::Behind, "behind"),
        (Part::NotBehind, "not_behind"),
        (Part::Atomic, "atomic"),
        (Part::Same, "same"),
        (Part::SameNamed, "same_named"),
    ];

    /// The beginning of a group's name.
    pub(super) fn name(self) -> &'static str {
        Part::NAMES.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }

    /// The part with a group's name, and what follows its number.
    fn of(name: Option<&str>) -> Option<(Part, &str)> {
        let (kind, rest) = name?.split_once('.')?;
        let part = Part::NAMES.iter().find(|entry| entry.1 == kind)?.0;
        Some((part, rest.split_once('.').map_or("", |parts| parts.1)))
    }
}

/// The expression without what needs steps back: it matches wherever the whole one does, and elsewhere.
pub(super) fn relaxed(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Capture(capture) => match Part::of(capture.name.as_deref()) {
            Some((Part::Ahead | Part::NotAhead | Part::Behind | Part::NotBehind, _)) => Hir::empty(),
            Some((Part::Same | Part::SameNamed, _)) => Hir::repetition(Repetition {
                min: 0,
                max: None,
                greedy: true,
                sub: Box::new(Hir::dot(regex_syntax::hir::Dot::AnyByte)),
            }),
            Some((Part::Atomic, _)) | None => relaxed(&capture.sub),
        },
        HirKind::Repetition(repetition) => Hir::repetition(repetition.with(relaxed(&repetition.sub))),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(relaxed).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(relaxed).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

/// One step of a search.
#[derive(Debug)]
enum Step {
    /// A byte of a set, by its place.
    Set(u32),
    Byte(u8),
    /// Goes on at the first place, and at the second one if that fails.
    Split(u32, u32),
    Jump(u32),
    /// Notes the position: two slots for each group, then one for each loop that may be empty.
    Save(u32),
    /// Leaves a loop, whose jump back follows, if it has not moved since its slot was saved.
    Moved(u32),
    Look(Look),
    /// Searches the steps behind it, up to their `End`, and goes on at a place.
    Inner {
        part: Part,
        behind: Behind,
        next: u32,
    },
    /// The text of a group again.
    Same {
        group: u32,
        any_case: bool,
    },
    End,
}

/// The bytes before the position that a look-behind reads.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    min: usize,
    max: usize,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    sets: Vec<ByteSet>,
    /// Groups that rules know, with the whole match.
    groups: usize,
    slots: usize,
    /// The bytes with which a match can begin; `None` if a match may be empty.
    first: Option<ByteSet>,
}

/// The budget of a search was used up: it is not known whether the text matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

// === impl Program ===

impl Program {
    /// Compiles an expression.
    pub(super) fn new(hir: &Hir) -> Result<Program, String> {
        let mut groups = vec![None];
        groups_of(hir, &mut groups);
        let count = groups.len();
        let program =
            Program { steps: Vec::new(), sets: Vec::new(), groups: count, slots: count * 2, first: None };
        let mut compiler = Compiler { program, groups, group: 0 };
        compiler.add(hir)?;
        compiler.push(Step::End)?;
        let mut program = compiler.program;
        program.first = program.first();
        Ok(program)
    }

    /// Bytes that the program takes.
    pub(super) fn memory(&self) -> usize {
        self.steps.len() * size_of::<Step>() + self.sets.len() * size_of::<ByteSet>()
    }

    /// The groups of the first match at or behind a position. Steps are added.
    pub(super) fn search(
        &self,
        text: &[u8],
        from: usize,
        steps: &mut usize,
    ) -> Result<Option<Groups>, Exhausted> {
        let mut search = Search {
            program: self,
            text,
            slots: vec![usize::MAX; self.slots],
            frames: Vec::new(),
            steps: 0,
            steps_max: BACKTRACK_STEPS_BASE + text.len().saturating_mul(BACKTRACK_STEPS_PER_BYTE),
        };
        let found = search.first_match(from);
        *steps += search.steps;
        found
    }

    /// The bytes with which a match can begin; `None` if that is not known, or a match may be empty.
    fn first(&self) -> Option<ByteSet> {
        let mut set = ByteSet::default();
        let mut seen = vec![false; self.steps.len()];
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match &self.steps[at] {
                Step::Set(index) => set = set.union(&self.sets[*index as usize]),
                Step::Byte(byte) => set.insert(*byte),
                Step::Split(one, two) => open.extend([*one as usize, *two as usize]),
                Step::Save(_) | Step::Look(_) | Step::Inner { part: Part::Atomic, .. } => open.push(at + 1),
                Step::Moved(_) => open.extend([at + 1, at + 2]),
                Step::Jump(next) | Step::Inner { next, .. } => open.push(*next as usize),
                Step::Same { .. } | Step::End => return None,
            }
        }
        Some(set)
    }
}

// === impl Compiler ===

struct Compiler {
    program: Program,
    /// The names of the groups that rules know, by number.
    groups: Vec<Option<Box<str>>>,
    /// The last group that was begun.
    group: usize,
}

impl Compiler {
    fn push(&mut self, step: Step) -> Result<usize, String> {
        if self.program.steps.len() >= PROGRAM_STEPS_MAX {
            return Err("the expression is too long".to_owned());
        }
        self.program.steps.push(step);
        Ok(self.program.steps.len() - 1)
    }

    fn here(&self) -> u32 {
        self.program.steps.len() as u32
    }

    fn add(&mut self, hir: &Hir) -> Result<(), String> {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => {
                for &byte in &literal.0 {
                    self.push(Step::Byte(byte))?;
                }
            }
            HirKind::Class(class) => self.class(class)?,
            HirKind::Look(look) => {
                self.push(Step::Look(*look))?;
            }
            HirKind::Repetition(repetition) => self.repetition(repetition)?,
            HirKind::Capture(capture) => {
                if let Some((part, rest)) = Part::of(capture.name.as_deref()) {
                    return self.part(part, rest, &capture.sub);
                }
                self.group += 1;
                let slot = self.group as u32 * 2;
                self.push(Step::Save(slot))?;
                self.add(&capture.sub)?;
                self.push(Step::Save(slot + 1))?;
            }
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            HirKind::Alternation(parts) => self.alternation(parts)?,
        }
        Ok(())
    }

    fn class(&mut self, class: &Class) -> Result<(), String> {
        let mut set = ByteSet::default();
        match class {
            Class::Bytes(class) => {
                class.iter().for_each(|range| set.insert_range(range.start()..=range.end()));
            }
            // Only ASCII has this form, since expressions are read without Unicode.
            Class::Unicode(class) => class.iter().for_each(|range| {
                set.insert_range(range.start() as u8..=range.end() as u8);
            }),
        }
        let known = self.program.sets.iter().position(|known| *known == set);
        let index = known.unwrap_or(self.program.sets.len());
        if known.is_none() {
            self.program.sets.push(set);
        }
        self.push(Step::Set(index as u32)).map(|_| ())
    }

    fn alternation(&mut self, parts: &[Hir]) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            if index + 1 == parts.len() {
                self.add(part)?;
                break;
            }
            let split = self.push(Step::Split(self.here() + 1, 0))?;
            self.add(part)?;
            jumps.push(self.push(Step::Jump(0))?);
            self.program.steps[split] = Step::Split(split as u32 + 1, self.here());
        }
        for jump in jumps {
            self.program.steps[jump] = Step::Jump(self.here());
        }
        Ok(())
    }

    /// Copies of the part: those that are needed, then those that may be, or a loop.
    fn repetition(&mut self, repetition: &Repetition) -> Result<(), String> {
        let group = self.group;
        let copy = |compiler: &mut Compiler| {
            compiler.group = group;
            compiler.add(&repetition.sub)
        };
        for _ in 0..repetition.min {
            copy(self)?;
        }
        let split = |body: u32, exit: u32| {
            if repetition.greedy { Step::Split(body, exit) } else { Step::Split(exit, body) }
        };
        let Some(max) = repetition.max else {
            let slot = self.program.slots as u32;
            self.program.slots += 1;
            let start = self.push(Step::Jump(0))?;
            self.push(Step::Save(slot))?;
            copy(self)?;
            // A loop that took nothing would go on for ever.
            if relaxed(&repetition.sub).properties().minimum_len() == Some(0) {
                self.push(Step::Moved(slot))?;
            }
            self.push(Step::Jump(start as u32))?;
            self.program.steps[start] = split(start as u32 + 1, self.here());
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in repetition.min..max {
            splits.push(self.push(Step::Jump(0))?);
            copy(self)?;
        }
        for place in splits {
            self.program.steps[place] = split(place as u32 + 1, self.here());
        }
        // Without a copy, the groups of the part are there all the same.
        self.group = group;
        self.group += count_of_groups(&repetition.sub);
        Ok(())
    }

    fn part(&mut self, part: Part, rest: &str, sub: &Hir) -> Result<(), String> {
        let any_case = matches!(sub.kind(), HirKind::Class(_));
        let group = match part {
            Part::Same => rest.parse().ok(),
            Part::SameNamed => self.groups.iter().position(|name| name.as_deref() == Some(rest)),
            _ => return self.inner(part, sub),
        };
        let Some(group) = group.filter(|&group| group > 0 && group < self.groups.len()) else {
            return Err(format!("there is no group {rest} that the reference could mean"));
        };
        self.push(Step::Same { group: group as u32, any_case }).map(|_| ())
    }

    fn inner(&mut self, part: Part, sub: &Hir) -> Result<(), String> {
        let read = relaxed(sub);
        let lengths = (read.properties().minimum_len(), read.properties().maximum_len());
        let behind = match (part, lengths) {
            (Part::Behind | Part::NotBehind, (Some(min), Some(max))) => Behind { min, max },
            (Part::Behind | Part::NotBehind, _) => {
                return Err("look-behind needs a part of bounded length".to_owned());
            }
            _ => Behind::default(),
        };
        let place = self.push(Step::Jump(0))?;
        self.add(sub)?;
        self.push(Step::End)?;
        self.program.steps[place] = Step::Inner { part, behind, next: self.here() };
        Ok(())
    }
}

/// Appends the names of the groups that rules know.
fn groups_of(hir: &Hir, groups: &mut Vec<Option<Box<str>>>) {
    match hir.kind() {
        HirKind::Capture(capture) => {
            match Part::of(capture.name.as_deref()) {
                None => groups.push(capture.name.clone()),
                Some((Part::Same | Part::SameNamed, _)) => return,
                Some(_) => {}
            }
            groups_of(&capture.sub, groups);
        }
        HirKind::Repetition(repetition) => groups_of(&repetition.sub, groups),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            for part in parts {
                groups_of(part, groups);
            }
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

fn count_of_groups(hir: &Hir) -> usize {
    let mut groups = Vec::new();
    groups_of(hir, &mut groups);
    groups.len()
}

/// An entry of the stack that a failure goes back over.
enum Frame {
    /// A way that was not taken, and the position in the text where it begins.
    Try { step: u32, at: usize },
    /// The former value of a slot.
    Restore { slot: u32, value: usize },
}

struct Search<'a> {
    program: &'a Program,
    text: &'a [u8],
    slots: Vec<usize>,
    frames: Vec<Frame>,
    steps: usize,
    steps_max: usize,
}

// === impl Search ===

impl Search<'_> {
    fn first_match(&mut self, from: usize) -> Result<Option<Groups>, Exhausted> {
        let mut start = from;
        while start <= self.text.len() {
            if let Some(first) = &self.program.first {
                let Some(ahead) = self.text[start..].iter().position(|&byte| first.contains(byte)) else {
                    return Ok(None);
                };
                start += ahead;
            }
            if let Some(end) = self.run(0, start, None)? {
                return Ok(Some(self.groups(start, end)));
            }
            start += 1;
        }
        Ok(None)
    }

    fn groups(&self, start: usize, end: usize) -> Groups {
        let count = self.program.groups.min(GROUPS);
        let of_slots = (1..count).map(|group| {
            let range = self.slots[group * 2]..self.slots[group * 2 + 1];
            (range.end != usize::MAX && range.start <= range.end).then_some(range)
        });
        std::iter::once(Some(start..end)).chain(of_slots).collect()
    }

    /// The end of the first way from a step to its `End`, which has to be at `until` if that is given. Ways
    /// that were not taken are forgotten; without an end, slots have their former values again.
    fn run(&mut self, step: u32, at: usize, until: Option<usize>) -> Result<Option<usize>, Exhausted> {
        let base = self.frames.len();
        let (mut step, mut at) = (step, at);
        loop {
            self.steps += 1;
            if self.steps > self.steps_max || self.frames.len() > BACKTRACK_FRAMES_MAX {
                return Err(Exhausted);
            }
            let next = match &self.program.steps[step as usize] {
                Step::End if until.is_none_or(|until| until == at) => {
                    // A slot that an outer failure restores keeps its frame.
                    let kept =
                        self.frames.drain(base..).filter(|frame| matches!(frame, Frame::Restore { .. }));
                    let kept: Vec<Frame> = kept.collect();
                    self.frames.extend(kept);
                    return Ok(Some(at));
                }
                Step::End => None,
                _ => self.take(step, at)?,
            };
            if let Some(position) = next.or_else(|| self.back(base)) {
                (step, at) = (position.step, position.at);
            } else {
                return Ok(None);
            }
        }
    }

    /// The position behind one step; `None` if it fails.
    fn take(&mut self, step: u32, at: usize) -> Result<Option<Position>, Exhausted> {
        let go = |at: usize| Some(Position { step: step + 1, at });
        let byte = self.text.get(at).copied();
        Ok(match self.program.steps[step as usize] {
            Step::Byte(wanted) => go(at + 1).filter(|_| byte == Some(wanted)),
            Step::Set(set) => {
                let set = &self.program.sets[set as usize];
                go(at + 1).filter(|_| byte.is_some_and(|byte| set.contains(byte)))
            }
            Step::Split(first, second) => {
                self.frames.push(Frame::Try { step: second, at });
                Some(Position { step: first, at })
            }
            Step::Jump(next) => Some(Position { step: next, at }),
            Step::Save(slot) => {
                let value = std::mem::replace(&mut self.slots[slot as usize], at);
                self.frames.push(Frame::Restore { slot, value });
                go(at)
            }
            Step::Moved(slot) => {
                let has_moved = self.slots[slot as usize] != at;
                Some(Position { step: step + if has_moved { 1 } else { 2 }, at })
            }
            Step::Look(look) => go(at).filter(|_| holds(look, self.text, at)),
            Step::Inner { part, behind, next } => {
                self.inner(step + 1, at, part, behind)?.map(|at| Position { step: next, at })
            }
            Step::Same { group, any_case } => self.same(group as usize, any_case, at).and_then(go),
            Step::End => None,
        })
    }

    /// The position behind a part with a search of its own; `None` if it fails.
    fn inner(
        &mut self,
        step: u32,
        at: usize,
        part: Part,
        behind: Behind,
    ) -> Result<Option<usize>, Exhausted> {
        let base = self.frames.len();
        let end = if matches!(part, Part::Behind | Part::NotBehind) {
            let mut end = None;
            for length in behind.min..=behind.max.min(at) {
                end = self.run(step, at - length, Some(at))?;
                if end.is_some() {
                    break;
                }
            }
            end
        } else {
            self.run(step, at, None)?
        };
        let is_refused = matches!(part, Part::NotAhead | Part::NotBehind);
        if is_refused {
            // Groups within are not those of a match.
            self.back(base);
        }
        Ok(match part {
            Part::Atomic => end,
            _ => (end.is_some() != is_refused).then_some(at),
        })
    }

    fn same(&mut self, group: usize, any_case: bool, at: usize) -> Option<usize> {
        let (start, end) = (self.slots[group * 2], self.slots[group * 2 + 1]);
        let wanted = self.text.get(start..end)?;
        let found = self.text.get(at..at + wanted.len())?;
        self.steps += wanted.len();
        let same = if any_case { wanted.eq_ignore_ascii_case(found) } else { wanted == found };
        same.then_some(at + wanted.len())
    }

    /// Goes back to the last other way, but not beyond a frame.
    fn back(&mut self, base: usize) -> Option<Position> {
        while self.frames.len() > base {
            match self.frames.pop()? {
                Frame::Try { step, at } => return Some(Position { step, at }),
                Frame::Restore { slot, value } => self.slots[slot as usize] = value,
            }
        }
        None
    }
}

/// A place in the program and one in the text.
#[derive(Clone, Copy)]
struct Position {
    step: u32,
    at: usize,
}

fn holds(look: Look, text: &[u8], at: usize) -> bool {
    let word = |at: Option<usize>| {
        at.and_then(|at| text.get(at)).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let at_border = || word(at.checked_sub(1)) != word(Some(at));
    match look {
        Look::Start => at == 0,
        Look::End => at == text.len(),
        Look::StartLF => at == 0 || text[at - 1] == b'\n',
        Look::EndLF => at == text.len() || text[at] == b'\n',
        Look::WordAscii => at_border(),
        // The only other one that `pcre` writes is `\B`.
        _ => !at_border(),
    }
}
