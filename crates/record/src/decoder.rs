//! Bytes to frames, with the memory that [`crate::coder`] describes. The bytes may be anything.

use std::collections::BTreeMap;

use crate::bytes::{Broken, Cursor};
use crate::coder::{ORIGIN, Pieces, bases, change};
use crate::frame::{Absent, Frame};
use crate::limits::{FRAME_BYTES, FRAME_PIECES, PATHS_READ};
use crate::shape::{join, numbers_in};

/// Decodes the frames of one block.
#[derive(Default)]
pub(crate) struct Decoder {
    at: u64,
    finer: bool,
    shapes: Vec<Shape>,
    paths: Vec<String>,
    /// By path, since numbers are in this order.
    files: BTreeMap<String, Content>,
    /// Pieces and numbers in all of them.
    held: usize,
}

struct Shape {
    bytes: Vec<u8>,
    numbers: usize,
}

enum Content {
    Absent(Absent),
    Pieces(Pieces),
}

impl Decoder {
    /// Takes the bytes of the next frame into the memory.
    ///
    /// # Errors
    ///
    /// When they are not those of a frame. The decoder is of no use then.
    pub(crate) fn apply(&mut self, mut bytes: Cursor<'_>) -> Result<(), Broken> {
        self.at = bytes.number()?;
        self.finer = bytes.byte()? != 0;
        for _ in 0..bytes.number()? {
            self.change(&mut bytes)?;
        }
        self.add(bytes)
    }

    fn change(&mut self, bytes: &mut Cursor<'_>) -> Result<(), Broken> {
        let id = bytes.count(FRAME_PIECES)?;
        if id == self.paths.len() && id < PATHS_READ {
            self.paths.push(text(bytes.text()?));
        }
        let path = self.paths.get(id).ok_or(Broken)?.clone();
        let before = match self.files.remove(&path) {
            Some(Content::Pieces(pieces)) => pieces,
            _ => Pieces::default(),
        };
        self.held -= before.shapes.len() + before.numbers.len();
        let content = match bytes.number()? {
            change::GONE => return Ok(()),
            change::MISSING => Content::Absent(Absent::Missing),
            change::UNREADABLE => Content::Absent(Absent::Unreadable(text(bytes.text()?))),
            change::PIECES => {
                let pieces = self.pieces(&before, bytes)?;
                self.held += pieces.shapes.len() + pieces.numbers.len();
                Content::Pieces(pieces)
            }
            _ => return Err(Broken),
        };
        self.files.insert(path, content);
        Ok(())
    }

    fn pieces(&mut self, before: &Pieces, bytes: &mut Cursor<'_>) -> Result<Pieces, Broken> {
        for _ in 0..bytes.count(FRAME_PIECES - self.shapes.len())? {
            let shape = bytes.text()?.to_vec();
            self.shapes.push(Shape { numbers: numbers_in(&shape), bytes: shape });
        }
        let prefix = bytes.count(FRAME_PIECES)?;
        let suffix = bytes.count(FRAME_PIECES)?;
        let middle = bytes.count(FRAME_PIECES)?;
        if prefix + suffix > before.shapes.len() || prefix + suffix + middle > FRAME_PIECES - self.held {
            return Err(Broken);
        }
        let mut shapes = before.shapes[..prefix].to_vec();
        let mut last = 0_i64;
        let mut numbers = 0;
        for _ in 0..middle {
            last = last.checked_add(bytes.signed()?).ok_or(Broken)?;
            let id = u32::try_from(last).map_err(|_| Broken)?;
            numbers += self.shapes.get(id as usize).ok_or(Broken)?.numbers;
            if numbers > FRAME_PIECES - self.held {
                return Err(Broken);
            }
            shapes.push(id);
        }
        shapes.extend_from_slice(&before.shapes[before.shapes.len() - suffix..]);
        let numbers = bases(before, &shapes, |id| self.shapes[id as usize].numbers);
        if self.held + shapes.len() + numbers.len() > FRAME_PIECES {
            return Err(Broken);
        }
        Ok(Pieces { shapes, numbers })
    }

    /// Adds the differences to the numbers of all files.
    fn add(&mut self, mut bytes: Cursor<'_>) -> Result<(), Broken> {
        let mut zeros = next_zeros(&mut bytes)?;
        for content in self.files.values_mut() {
            let Content::Pieces(pieces) = content else { continue };
            let mut at = 0;
            while let Some(skipped) = zeros {
                let left = (pieces.numbers.len() - at) as u64;
                if skipped >= left {
                    zeros = Some(skipped - left);
                    break;
                }
                at += skipped as usize;
                pieces.numbers[at] = pieces.numbers[at].wrapping_add(bytes.signed()?);
                at += 1;
                zeros = next_zeros(&mut bytes)?;
            }
        }
        if zeros.is_none() { Ok(()) } else { Err(Broken) }
    }

    /// The frame as it is now.
    ///
    /// # Errors
    ///
    /// When it has more text than a frame may have, or its numbers do not fit its shapes.
    pub(crate) fn frame(&self) -> Result<Frame, Broken> {
        let mut frame = Frame { at: self.at, finer: self.finer, ..Frame::default() };
        let mut total = 0;
        for (path, content) in &self.files {
            let content = match content {
                Content::Absent(absent) => Err(absent.clone()),
                Content::Pieces(pieces) => {
                    let bytes = self.text(pieces, FRAME_BYTES - total)?;
                    total += bytes.len();
                    Ok(String::from_utf8(bytes).map_err(|_| Broken)?)
                }
            };
            match content {
                Ok(origin) if path == ORIGIN => frame.origin = origin,
                content => drop(frame.files.insert(path.clone(), content)),
            }
        }
        Ok(frame)
    }

    fn text(&self, pieces: &Pieces, max: usize) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::new();
        let mut at = 0;
        for id in &pieces.shapes {
            let shape = &self.shapes[*id as usize];
            let numbers = pieces.numbers.get(at..at + shape.numbers).ok_or(Broken)?;
            join(&shape.bytes, numbers, &mut bytes)?;
            at += shape.numbers;
            if bytes.len() > max {
                return Err(Broken);
            }
        }
        Ok(bytes)
    }
}

/// How many zeros are before the next difference; none after the last one.
fn next_zeros(bytes: &mut Cursor<'_>) -> Result<Option<u64>, Broken> {
    if bytes.is_empty() { Ok(None) } else { bytes.number().map(Some) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::coder::Coder;

    fn both_ways(frames: &[Frame]) -> (Vec<Frame>, Vec<usize>) {
        let mut coder = Coder::default();
        let mut decoder = Decoder::default();
        let mut read = Vec::new();
        let mut sizes = Vec::new();
        for frame in frames {
            let mut bytes = Vec::new();
            coder.encode(frame, &mut bytes);
            sizes.push(bytes.len());
            decoder.apply(Cursor(&bytes)).expect("it was written just now");
            read.push(decoder.frame().expect("it has a text"));
        }
        (read, sizes)
    }

    fn frame(at: u64, files: &[(&str, &str)]) -> Frame {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Ok((*text).to_owned())));
        Frame { at, files: files.collect(), ..Frame::default() }
    }

    #[test]
    fn a_frame_costs_its_changes() {
        let page = |requests: u64| format!("a{{host=\"x\"}} 1\nrequests{{host=\"y\"}} {requests}\nb 0.5\n");
        let frames = [5, 7, 7].map(|requests| frame(requests, &[("page", &page(requests)), ("b", "0")]));
        let (read, sizes) = both_ways(&frames);
        assert_eq!(read, frames);
        assert!(sizes[0] > 30 && sizes[1] == 5 && sizes[2] == 3, "{sizes:?}");
    }

    #[test]
    fn a_line_more_costs_its_line() {
        let line = |name: &str, value: u64| format!("count{{name=\"{name}\",le=\"0.5\"}} {value}\n");
        let names = ["a", "c", "d", "e", "f", "g", "h"];
        let few: String = names.iter().map(|name| line(name, 1_234_567)).collect();
        let many = few.replacen('\n', &format!("\n{}", line("b", 3)), 1);
        let (read, sizes) = both_ways(&[frame(1, &[("page", &few)]), frame(2, &[("page", &many)])]);
        assert_eq!(read[1].files["page"], Ok(many));
        assert!(sizes[1] < 50, "{sizes:?}");
    }

    fn any_text() -> impl Strategy<Value = String> {
        let line = prop_oneof!["[a-c]{0,2}[0-9.]{0,4}", "[0-9a-f]{8}", "\\{\"x\":[0-9]\\},"];
        prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        let content = prop_oneof![
            4 => any_text().prop_map(Ok),
            1 => Just(Err(Absent::Missing)),
            1 => "[a-z]{0,3}".prop_map(|why| Err(Absent::Unreadable(why))),
        ];
        let files = prop::collection::btree_map("[a-d]", content, 0..4);
        let rest = (any::<u32>(), any::<bool>(), any_text());
        (files, rest).prop_map(|(files, (at, finer, origin)): (BTreeMap<_, _>, _)| Frame {
            at: u64::from(at),
            finer,
            origin,
            files,
        })
    }

    proptest! {
        #[test]
        fn any_frames_come_back(frames in prop::collection::vec(any_frame(), 0..8)) {
            prop_assert_eq!(both_ways(&frames).0, frames);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            if decoder.apply(Cursor(&bytes)).is_ok() {
                let _ = decoder.frame();
            }
        }
    }
}
