//! The body of a response in the records of an application.

use super::record::{InvalidRecord, Piece, Records};
use super::stderr::Stderr;

/// Follows the body of a response through the application's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    records: Records,
    /// Bytes of the announced length that are still missing; none if no length was announced.
    missing: Option<u64>,
    /// Bytes of content at the front of the input, which the records have already counted.
    begun: usize,
    /// Bytes at the front of the input that exceed the length.
    surplus: usize,
    /// The application's error output so far.
    pub stderr: Stderr,
}

/// The meaning of the front of some input for the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentPiece {
    /// `skip` bytes of framing, then `len` bytes of content.
    Data { skip: usize, len: usize },
    /// `skip` bytes of framing, and then more input is needed.
    More { skip: usize },
    /// The body ends after `skip` bytes of framing.
    End { skip: usize },
}

impl Content {
    /// Creates the decoder of a body that begins at the present position of the records, in which the last
    /// piece contained `begun` more bytes. Content beyond `length` is skipped, as by nginx.
    pub fn new(records: Records, begun: usize, length: Option<u64>, stderr: Stderr) -> Self {
        Self { records, missing: length, begun, surplus: 0, stderr }
    }

    /// Whether the body has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.missing == Some(0) || (self.begun == 0 && self.records.is_done() && self.missing.is_none())
    }

    /// Classifies the front of `input`; the caller must consume all of it.
    pub(crate) fn decode(&mut self, input: &[u8]) -> Result<ContentPiece, InvalidRecord> {
        let mut at = std::mem::take(&mut self.surplus).min(input.len());
        loop {
            if self.missing == Some(0) {
                return Ok(ContentPiece::End { skip: at });
            }
            if self.begun > 0 {
                let len = std::mem::take(&mut self.begun);
                return Ok(ContentPiece::Data { skip: at, len: self.take(len) });
            }
            match self.records.decode(&input[at..])? {
                Piece::Stdout { skip, len } => {
                    return Ok(ContentPiece::Data { skip: at + skip, len: self.take(len) });
                }
                Piece::Stderr { skip, len } => {
                    at += skip;
                    self.stderr.push(&input[at..at + len]);
                    at += len;
                }
                Piece::More { skip } => return Ok(ContentPiece::More { skip: at + skip }),
                // If a body that ends before its length is cut off here, the client can distinguish it from a
                // complete one.
                Piece::End { .. } if self.missing.is_some() => return Err(InvalidRecord),
                Piece::End { skip, .. } => return Ok(ContentPiece::End { skip: at + skip }),
            }
        }
    }

    /// Counts content as far as it belongs to the body. Returns the counted length.
    fn take(&mut self, len: usize) -> usize {
        let taken = self.missing.map_or(len, |missing| missing.min(len as u64) as usize);
        self.missing = self.missing.map(|missing| missing - taken as u64);
        self.surplus = len - taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdout(content: &[u8]) -> Vec<u8> {
        [&[1, 6, 0, 1, 0, content.len() as u8, 0, 0][..], content].concat()
    }

    const STDERR: &[u8] = b"\x01\x07\0\x01\0\x03\0\0oh\n";
    const END: &[u8] = b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0";

    /// The body, the text of the error output, and whether the body reached its end.
    fn read(input: &[u8], length: Option<u64>) -> Result<(Vec<u8>, Option<String>, bool), InvalidRecord> {
        let mut content = Content::new(Records::default(), 0, length, Stderr::default());
        let (mut body, mut at) = (Vec::new(), 0);
        loop {
            match content.decode(&input[at..])? {
                ContentPiece::Data { skip, len } => {
                    body.extend_from_slice(&input[at + skip..at + skip + len]);
                    at += skip + len;
                }
                ContentPiece::More { .. } => return Ok((body, content.stderr.take(), false)),
                ContentPiece::End { .. } => {
                    assert!(content.is_done());
                    return Ok((body, content.stderr.take(), true));
                }
            }
        }
    }

    #[test]
    fn the_body_is_what_came_by_stdout() {
        let input = [&stdout(b"abc")[..], STDERR, &stdout(b"de"), END].concat();
        let said = Some("oh".to_owned());
        assert_eq!(read(&input, None), Ok((b"abcde".to_vec(), said.clone(), true)));
        assert_eq!(read(&input, Some(5)), Ok((b"abcde".to_vec(), said.clone(), true)));
        assert_eq!(read(&input[..input.len() - 1], None), Ok((b"abcde".to_vec(), said, false)));
    }

    #[test]
    fn what_came_with_the_head_comes_first() {
        let mut records = Records::default();
        let input = [&stdout(b"\n\nabc")[..], END].concat();
        assert_eq!(records.decode(&input), Ok(Piece::Stdout { skip: 8, len: 5 }));
        let mut content = Content::new(records, 3, None, Stderr::default());
        assert_eq!(content.decode(&input[10..]), Ok(ContentPiece::Data { skip: 0, len: 3 }));
        assert_eq!(content.decode(&input[13..]), Ok(ContentPiece::End { skip: 16 }));
    }

    #[test]
    fn a_length_bounds_the_body() {
        let input = [&stdout(b"abc")[..], &stdout(b"de"), END].concat();
        assert_eq!(read(&input, Some(2)), Ok((b"ab".to_vec(), None, true)));
        assert_eq!(read(&input, Some(4)), Ok((b"abcd".to_vec(), None, true)));
        assert_eq!(read(&input, Some(0)), Ok((vec![], None, true)));
        assert_eq!(read(&input, Some(6)), Err(InvalidRecord));
    }
}
