//! Frames to bytes, each as its difference to the frame before.
//!
//! A coder starts with an empty memory, so that its first frame is complete. Both sides keep the same memory:
//! the shapes so far, and for each path the shapes of its pieces and their numbers. The bytes of a frame are
//! the files whose pieces have other shapes than before, and then the differences of all numbers, in which
//! zeros are counted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::bytes::{put, put_signed, put_text};
use crate::frame::{Absent, Frame};
use crate::shape::{pieces, split};

/// Changes of a file, which are told before its numbers.
pub(crate) mod change {
    pub(crate) const GONE: u64 = 0;
    pub(crate) const MISSING: u64 = 1;
    pub(crate) const UNREADABLE: u64 = 2;
    pub(crate) const PIECES: u64 = 3;
}

/// The path under which a frame's origin is coded: no file has it.
pub(crate) const ORIGIN: &str = "";

/// Encodes the frames of one block.
#[derive(Default)]
pub(crate) struct Coder {
    shapes: HashMap<Arc<[u8]>, u32>,
    by_id: Vec<Arc<[u8]>>,
    files: BTreeMap<String, State>,
    paths: u64,
    /// Room that is used again.
    piece: Vec<u8>,
}

/// The memory about one file.
struct State {
    id: u64,
    content: Content,
}

enum Content {
    Gone,
    Absent(Absent),
    Pieces(Pieces),
}

/// The pieces of a text by the numbers of their shapes, and the numbers in all of them.
#[derive(Default)]
pub(crate) struct Pieces {
    pub(crate) shapes: Vec<u32>,
    pub(crate) numbers: Vec<i64>,
}

impl Coder {
    /// Appends the bytes of a frame.
    pub(crate) fn encode(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let mut changes = Vec::new();
        let mut count = 0;
        let mut deltas = Deltas::default();
        let origin = Ok(frame.origin.clone());
        let files = frame.files.iter().map(|(path, content)| (path.as_str(), content));
        // The origin's path sorts before all others.
        for (path, content) in std::iter::once((ORIGIN, &origin)).chain(files) {
            count += u64::from(self.file(path, content, &mut changes, &mut deltas));
        }
        for (path, state) in &mut self.files {
            let is_gone = !path.is_empty() && !frame.files.contains_key(path);
            if is_gone && !matches!(state.content, Content::Gone) {
                state.content = Content::Gone;
                put(&mut changes, state.id);
                put(&mut changes, change::GONE);
                count += 1;
            }
        }
        put(out, frame.at);
        out.push(u8::from(frame.finer));
        put(out, count);
        out.append(&mut changes);
        deltas.finish(out);
    }

    /// Writes the change of a file, if its pieces have other shapes than before, and the differences of its
    /// numbers. Returns whether there was such a change.
    fn file(
        &mut self,
        path: &str,
        content: &Result<String, Absent>,
        changes: &mut Vec<u8>,
        deltas: &mut Deltas,
    ) -> bool {
        let (mut state, is_new) = match self.files.remove(path) {
            Some(state) => (state, false),
            None => (State { id: self.paths, content: Content::Gone }, true),
        };
        if is_new {
            self.paths += 1;
        }
        let mut head = Vec::new();
        put(&mut head, state.id);
        if is_new {
            put_text(&mut head, path.as_bytes());
        }
        let is_changed = match content {
            Ok(text) => {
                let before = match &mut state.content {
                    Content::Pieces(pieces) => Some(std::mem::take(pieces)),
                    _ => None,
                };
                let (pieces, change) = self.pieces(text, before, deltas);
                state.content = Content::Pieces(pieces);
                if let Some(change) = &change {
                    changes.append(&mut head);
                    put(changes, change::PIECES);
                    changes.extend_from_slice(change);
                }
                change.is_some()
            }
            Err(absent) => {
                let is_same = matches!(&state.content, Content::Absent(before) if before == absent);
                if !is_same {
                    changes.append(&mut head);
                    match absent {
                        Absent::Missing => put(changes, change::MISSING),
                        Absent::Unreadable(why) => {
                            put(changes, change::UNREADABLE);
                            put_text(changes, why.as_bytes());
                        }
                    }
                    state.content = Content::Absent(absent.clone());
                }
                !is_same
            }
        };
        self.files.insert(path.to_owned(), state);
        is_changed
    }

    /// The pieces of a text, and the bytes that tell of their shapes if these are not the same as before.
    fn pieces(
        &mut self,
        text: &str,
        before: Option<Pieces>,
        deltas: &mut Deltas,
    ) -> (Pieces, Option<Vec<u8>>) {
        let was_there = before.is_some();
        let before = before.unwrap_or_default();
        let mut now = Pieces::default();
        let mut new_shapes = Vec::new();
        let mut piece = std::mem::take(&mut self.piece);
        for (index, text) in pieces(text).enumerate() {
            piece.clear();
            split(text, &mut piece, &mut now.numbers);
            let expected = before.shapes.get(index).copied();
            let id = match expected.filter(|id| *self.by_id[*id as usize] == *piece) {
                Some(id) => id,
                None => self.shape(&piece, &mut new_shapes),
            };
            now.shapes.push(id);
        }
        self.piece = piece;
        let bases = bases(&before, &now.shapes, |id| numbers_of(&self.by_id, id));
        for (number, base) in now.numbers.iter().zip(bases) {
            deltas.push(number.wrapping_sub(base));
        }
        if was_there && before.shapes == now.shapes {
            return (now, None);
        }
        let (prefix, suffix) = common(&before.shapes, &now.shapes);
        let middle = &now.shapes[prefix..now.shapes.len() - suffix];
        let mut change = Vec::new();
        put(&mut change, new_shapes.len() as u64);
        for id in new_shapes {
            put_text(&mut change, &self.by_id[id as usize]);
        }
        for part in [prefix, suffix, middle.len()] {
            put(&mut change, part as u64);
        }
        let mut last = 0;
        for id in middle {
            put_signed(&mut change, i64::from(*id) - last);
            last = i64::from(*id);
        }
        (now, Some(change))
    }

    fn shape(&mut self, piece: &[u8], new: &mut Vec<u32>) -> u32 {
        if let Some(id) = self.shapes.get(piece) {
            return *id;
        }
        let id = self.by_id.len() as u32;
        let shape: Arc<[u8]> = piece.into();
        self.by_id.push(Arc::clone(&shape));
        self.shapes.insert(shape, id);
        new.push(id);
        id
    }
}

fn numbers_of(shapes: &[Arc<[u8]>], id: u32) -> usize {
    crate::shape::numbers_in(&shapes[id as usize])
}

/// How many shapes are the same at the begin, and how many of the rest at the end.
pub(crate) fn common(before: &[u32], now: &[u32]) -> (usize, usize) {
    let prefix = before.iter().zip(now).take_while(|(before, now)| before == now).count();
    let rest = before[prefix..].iter().rev().zip(now[prefix..].iter().rev());
    (prefix, rest.take_while(|(before, now)| before == now).count())
}

/// The numbers that each number of a text is compared with: those of the same piece before, where the pieces
/// at the begin and at the end are the same ones, and those between are matched by their shapes, in order.
pub(crate) fn bases(before: &Pieces, now: &[u32], numbers: impl Fn(u32) -> usize) -> Vec<i64> {
    if before.shapes == now {
        return before.numbers.clone();
    }
    let (prefix, suffix) = common(&before.shapes, now);
    let count = |shapes: &[u32]| shapes.iter().map(|id| numbers(*id)).sum::<usize>();
    let begin = count(&before.shapes[..prefix]);
    let end = before.numbers.len() - count(&before.shapes[before.shapes.len() - suffix..]);
    let mut found = HashMap::<u32, VecDeque<usize>>::new();
    let mut at = begin;
    for id in &before.shapes[prefix..before.shapes.len() - suffix] {
        found.entry(*id).or_default().push_back(at);
        at += numbers(*id);
    }
    let mut bases = before.numbers[..begin].to_vec();
    for id in &now[prefix..now.len() - suffix] {
        let len = numbers(*id);
        match found.get_mut(id).and_then(VecDeque::pop_front) {
            Some(at) => bases.extend_from_slice(&before.numbers[at..at + len]),
            None => bases.resize(bases.len() + len, 0),
        }
    }
    bases.extend_from_slice(&before.numbers[end..]);
    bases
}

/// Differences, of which most are zero: how many zeros, a difference, how many zeros, and so on.
#[derive(Default)]
struct Deltas {
    zeros: u64,
    bytes: Vec<u8>,
}

impl Deltas {
    fn push(&mut self, delta: i64) {
        if delta == 0 {
            self.zeros += 1;
        } else {
            put(&mut self.bytes, self.zeros);
            put_signed(&mut self.bytes, delta);
            self.zeros = 0;
        }
    }

    /// Zeros at the end are left out.
    fn finish(mut self, out: &mut Vec<u8>) {
        out.append(&mut self.bytes);
    }
}
