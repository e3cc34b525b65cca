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
use crate::shape::{begins_with_piece, first_piece, numbers_in, split};

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
    shapes: Shapes,
    files: BTreeMap<String, State>,
    /// The number of the frame.
    frame: u64,
}

/// The shapes so far, by their numbers.
#[derive(Default)]
struct Shapes {
    ids: HashMap<Arc<[u8]>, u32>,
    by_id: Vec<Shape>,
    /// Room that is used again.
    piece: Vec<u8>,
}

struct Shape {
    bytes: Arc<[u8]>,
    /// The number of numbers in a piece of this shape.
    numbers: usize,
}

/// The memory about one file.
struct State {
    id: u64,
    content: Content,
    /// The last frame that had the file, be it that it could not be read.
    frame: u64,
}

enum Content {
    Gone,
    Absent(Absent),
    Text(Text),
}

/// A text and its pieces. It is kept since most pieces are the same in the next frame: these are not taken
/// apart again.
#[derive(Default)]
struct Text {
    whole: String,
    pieces: Pieces,
    /// Where each piece ends in the text.
    ends: Vec<u32>,
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
        self.frame += 1;
        let mut changes = Vec::new();
        let mut count = 0;
        let mut deltas = Deltas::default();
        let origin = Ok(frame.origin.clone());
        let files = frame.files.iter().map(|(path, content)| (path.as_str(), content));
        // The origin's path sorts before all others.
        for (path, content) in std::iter::once((ORIGIN, &origin)).chain(files) {
            count += u64::from(self.file(path, content, &mut changes, &mut deltas));
        }
        for state in self.files.values_mut() {
            if state.frame != self.frame && !matches!(state.content, Content::Gone) {
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
        if let Some(state) = self.files.get_mut(path) {
            state.frame = self.frame;
            let Some(change) = state.content.next(content, &mut self.shapes, deltas) else { return false };
            put(changes, state.id);
            changes.extend_from_slice(&change);
            return true;
        }
        let mut state = State { id: self.files.len() as u64, content: Content::Gone, frame: self.frame };
        put(changes, state.id);
        put_text(changes, path.as_bytes());
        // A file that is there for the first time is a change, also if it is empty.
        changes.extend(state.content.next(content, &mut self.shapes, deltas).unwrap_or_default());
        self.files.insert(path.to_owned(), state);
        true
    }
}

impl Content {
    /// Replaces this by the next content of the file. Returns the bytes of the change, if there is more of it
    /// than other numbers.
    fn next(
        &mut self,
        content: &Result<String, Absent>,
        shapes: &mut Shapes,
        deltas: &mut Deltas,
    ) -> Option<Vec<u8>> {
        let (next, change) = match (content, &*self) {
            (Ok(text), Content::Text(before)) if before.whole == *text => {
                deltas.zeros += before.pieces.numbers.len() as u64;
                return None;
            }
            (Ok(text), Content::Text(before)) => {
                let (text, change) = before.next(text, shapes, deltas);
                (Content::Text(text), change)
            }
            (Ok(text), _) => {
                let (text, change) = Text::default().next(text, shapes, deltas);
                let no_piece = || shape_change(&Pieces::default(), &Pieces::default(), &[], shapes);
                (Content::Text(text), Some(change.unwrap_or_else(no_piece)))
            }
            (Err(absent), Content::Absent(before)) if absent == before => return None,
            (Err(absent), _) => (Content::Absent(absent.clone()), Some(absence_change(absent))),
        };
        *self = next;
        change
    }
}

impl Text {
    /// The next text after this one, and the bytes that tell of the shapes of its pieces if these are others.
    fn next(&self, text: &str, shapes: &mut Shapes, deltas: &mut Deltas) -> (Text, Option<Vec<u8>>) {
        let mut new_shapes = Vec::new();
        let next = self.taken_apart(text, shapes, &mut new_shapes);
        let (before, now) = (&self.pieces, &next.pieces);
        if before.shapes == now.shapes {
            deltas.push_all(&now.numbers, &before.numbers);
            return (next, None);
        }
        deltas.push_all(&now.numbers, &bases(before, &now.shapes, |id| shapes.by_id[id as usize].numbers));
        let change = shape_change(before, now, &new_shapes, shapes);
        (next, Some(change))
    }

    /// A text with its pieces: those that are the same as in this one, and at the same place, are taken over.
    fn taken_apart(&self, text: &str, shapes: &mut Shapes, new_shapes: &mut Vec<u32>) -> Text {
        let mut next = Text { whole: text.to_owned(), ..Text::default() };
        next.ends.reserve(self.ends.len());
        next.pieces.shapes.reserve(self.pieces.shapes.len());
        next.pieces.numbers.reserve(self.pieces.numbers.len());
        let mut piece = std::mem::take(&mut shapes.piece);
        let mut known = self.pieces.shapes.iter().zip(&self.ends);
        let mut begin = 0;
        let mut number = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let before = known.next();
            let before = before.map(|(id, end)| (*id, *end as usize, shapes.by_id[*id as usize].numbers));
            let same = before.filter(|(_, end, _)| begins_with_piece(rest, &self.whole[begin..*end]));
            let len = if let Some((id, end, numbers)) = same {
                next.pieces.shapes.push(id);
                next.pieces.numbers.extend_from_slice(&self.pieces.numbers[number..number + numbers]);
                end - begin
            } else {
                let first = first_piece(rest);
                piece.clear();
                split(first, &mut piece, &mut next.pieces.numbers);
                next.pieces.shapes.push(shapes.id(&piece, before.map(|(id, ..)| id), new_shapes));
                first.len()
            };
            if let Some((_, end, numbers)) = before {
                begin = end;
                number += numbers;
            }
            rest = &rest[len..];
            next.ends.push((text.len() - rest.len()) as u32);
        }
        shapes.piece = piece;
        next
    }
}

impl Shapes {
    /// The number of a shape, which is often the one that is expected. One that was not there before is added
    /// to the new ones.
    fn id(&mut self, shape: &[u8], expected: Option<u32>, new: &mut Vec<u32>) -> u32 {
        if let Some(id) = expected.filter(|id| *self.by_id[*id as usize].bytes == *shape) {
            return id;
        }
        if let Some(id) = self.ids.get(shape) {
            return *id;
        }
        let id = self.by_id.len() as u32;
        let bytes: Arc<[u8]> = shape.into();
        self.by_id.push(Shape { bytes: Arc::clone(&bytes), numbers: numbers_in(shape) });
        self.ids.insert(bytes, id);
        new.push(id);
        id
    }
}

fn absence_change(absent: &Absent) -> Vec<u8> {
    let mut change = Vec::new();
    match absent {
        Absent::Missing => put(&mut change, change::MISSING),
        Absent::Unreadable(why) => {
            put(&mut change, change::UNREADABLE);
            put_text(&mut change, why.as_bytes());
        }
    }
    change
}

/// The bytes that tell of the shapes of a text's pieces: shapes that are new, and those between the begin and
/// the end that are the same as before.
fn shape_change(before: &Pieces, now: &Pieces, new_shapes: &[u32], shapes: &Shapes) -> Vec<u8> {
    let (prefix, suffix) = common(&before.shapes, &now.shapes);
    let middle = &now.shapes[prefix..now.shapes.len() - suffix];
    let mut change = Vec::new();
    put(&mut change, change::PIECES);
    put(&mut change, new_shapes.len() as u64);
    for id in new_shapes {
        put_text(&mut change, &shapes.by_id[*id as usize].bytes);
    }
    for part in [prefix, suffix, middle.len()] {
        put(&mut change, part as u64);
    }
    let mut last = 0;
    for id in middle {
        put_signed(&mut change, i64::from(*id) - last);
        last = i64::from(*id);
    }
    change
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

    /// The differences of numbers to those that they are compared with.
    fn push_all(&mut self, numbers: &[i64], bases: &[i64]) {
        for (number, base) in numbers.iter().zip(bases) {
            self.push(number.wrapping_sub(*base));
        }
    }

    /// Zeros at the end are left out.
    fn finish(mut self, out: &mut Vec<u8>) {
        out.append(&mut self.bytes);
    }
}
