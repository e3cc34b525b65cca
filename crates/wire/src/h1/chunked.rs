//! The transfer coding `chunked` (RFC 9112 section 7.1).
//!
//! ```text
//!            size CRLF            all data              CRLF
//! Size ────────────────▶ Data ───────────────▶ DataEnd ──────▶ Size
//!   │ "0" CRLF
//!   └──────────▶ Trailers ──── empty line ───▶ Done
//! ```

use super::decoded::{Decoded, InvalidBody};
use super::malformed::Malformed;
use super::scan::{Scanner, Stop};

/// Length in bytes of a line with a chunk's size and extensions. Extensions are ignored, so a low bound
/// suffices.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// Length in bytes of the trailer section.
const TRAILER_BYTES_MAX: usize = 8 << 10;
const TRAILER_FIELDS_MAX: usize = 64;

/// Decoder of a chunked body: tracks which part of the coding the input is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunked {
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Data {
        remaining: u64,
    },
    DataEnd,
    Trailers,
    Done,
}

impl Chunked {
    /// Whether the last chunk and its trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Classifies the front of `input`; see [`Decoded`]. An incomplete line is left for the next call.
    pub(super) fn decode(&mut self, input: &[u8]) -> Result<Decoded, InvalidBody> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.state {
                State::Size => {
                    let Some(len) = line_len(rest, SIZE_LINE_BYTES_MAX)? else {
                        return Ok(Decoded::More { skip: at });
                    };
                    let remaining = parse_size_line(&rest[..len - 2])?;
                    at += len;
                    self.state = if remaining == 0 { State::Trailers } else { State::Data { remaining } };
                }
                State::Data { .. } if rest.is_empty() => return Ok(Decoded::More { skip: at }),
                State::Data { remaining } => return Ok(self.take(at, remaining, rest.len())),
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok(Decoded::More { skip: at }),
                    _ => return Err(InvalidBody::Chunk),
                },
                State::Trailers => return self.trailers(at, rest),
                State::Done => return Ok(Decoded::End { skip: at, trailers: at }),
            }
        }
    }

    fn take(&mut self, skip: usize, remaining: u64, available: usize) -> Decoded {
        let len = remaining.min(available as u64);
        let left = remaining - len;
        self.state = if left == 0 { State::DataEnd } else { State::Data { remaining: left } };
        Decoded::Data { skip, len: len as usize }
    }

    fn trailers(&mut self, at: usize, rest: &[u8]) -> Result<Decoded, InvalidBody> {
        let Some(len) = trailers_len(rest)? else { return Ok(Decoded::More { skip: at }) };
        self.state = State::Done;
        Ok(Decoded::End { skip: at + len, trailers: at })
    }
}

/// Length of the trailer section with its empty line; none if it is incomplete.
fn trailers_len(bytes: &[u8]) -> Result<Option<usize>, InvalidBody> {
    let mut scanner = Scanner::new(bytes);
    let mut count = 0;
    let scanned = scanner.fields(|_| {
        count += 1;
        if count > TRAILER_FIELDS_MAX { Err(Malformed::TooManyFields) } else { Ok(()) }
    });
    let is_complete = match scanned {
        Ok(()) => true,
        Err(Stop::Incomplete) => false,
        Err(Stop::Malformed(_)) => return Err(InvalidBody::Trailers),
    };
    let len = if is_complete { scanner.position() } else { bytes.len() };
    if len > TRAILER_BYTES_MAX { Err(InvalidBody::Trailers) } else { Ok(is_complete.then_some(len)) }
}

/// Length of the first line with its CRLF; none if it is incomplete.
fn line_len(input: &[u8], max: usize) -> Result<Option<usize>, InvalidBody> {
    match memchr::memchr(b'\n', &input[..input.len().min(max)]) {
        Some(at) if at > 0 && input[at - 1] == b'\r' => Ok(Some(at + 1)),
        Some(_) => Err(InvalidBody::Chunk),
        None if input.len() >= max => Err(InvalidBody::Chunk),
        None => Ok(None),
    }
}

/// Parses `1*HEXDIG [ BWS chunk-ext ]`. Extensions are ignored, but their bytes must be text.
fn parse_size_line(line: &[u8]) -> Result<u64, InvalidBody> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let extensions = line[digits..].trim_ascii_start();
    let is_extension = extensions.first().is_none_or(|&b| b == b';');
    let is_text = extensions.iter().all(|&b| b == b'\t' || (b >= b' ' && b != 0x7f));
    // White space is allowed before an extension only. Fifteen digits cannot overflow.
    let has_stray_space = extensions.is_empty() && digits < line.len();
    if digits == 0 || digits > 15 || !is_extension || !is_text || has_stray_space {
        return Err(InvalidBody::Chunk);
    }
    Ok(line[..digits]
        .iter()
        .fold(0, |size, &digit| size << 4 | u64::from(char::from(digit).to_digit(16).unwrap_or(0))))
}

/// Writes the line before a chunk of `len` bytes. `len` must not be zero, because a chunk of no bytes ends
/// the body.
pub fn write_chunk_head(len: usize, out: &mut Vec<u8>) {
    let (bytes, start) = chunk_head(len);
    out.extend_from_slice(&bytes[start..]);
}

/// The line before a chunk of `len` bytes: right-aligned in an array, with where it begins.
pub fn chunk_head(len: usize) -> ([u8; 18], usize) {
    debug_assert!(len > 0, "a chunk of no bytes ends the body");
    let mut bytes = [0; 18];
    bytes[16..].copy_from_slice(b"\r\n");
    let (mut at, mut rest) = (16, len);
    while rest > 0 {
        at -= 1;
        bytes[at] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
    }
    (bytes, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `input` in pieces that end at `cuts`. Returns the content and the offset at which the body ends.
    fn decode(input: &[u8], cuts: &[usize]) -> Result<Option<(Vec<u8>, usize)>, InvalidBody> {
        let mut chunked = Chunked::default();
        let mut content = Vec::new();
        let mut at = 0;
        for &cut in cuts.iter().chain([&input.len()]) {
            loop {
                match chunked.decode(&input[at..cut.max(at)])? {
                    Decoded::Data { skip, len } => {
                        content.extend_from_slice(&input[at + skip..at + skip + len]);
                        at += skip + len;
                    }
                    Decoded::More { skip } => {
                        at += skip;
                        break;
                    }
                    Decoded::End { skip, .. } => return Ok(Some((content, at + skip))),
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn content_extensions_and_trailers() {
        let input = b"3;a=b\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\nnext";
        let (content, end) = decode(input, &[]).unwrap().unwrap();
        assert_eq!(content, b"abc0123456789");
        assert_eq!(&input[end..], b"next");
    }

    #[test]
    fn trailers_are_pointed_at() {
        let input = b"0\r\nX: y\r\n\r\n";
        let decoded = Chunked::default().decode(input).unwrap();
        assert_eq!(decoded, Decoded::End { skip: input.len(), trailers: 3 });
    }

    #[test]
    fn what_two_readers_could_see_differently_is_refused() {
        for input in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\n",
            "1;\x01\r\n",
            "1\r\nab",
            "1\r\na\nb",
            "1000000000000000\r\n",
            "1 x\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\nX: y\n\r\n",
            "0\r\n\n",
        ] {
            assert!(decode(input.as_bytes(), &[]).is_err(), "{input:?}");
        }
        assert!(decode(&[b'1'; SIZE_LINE_BYTES_MAX], &[]).is_err());
    }

    #[test]
    fn chunk_heads_are_hexadecimal() {
        let mut out = Vec::new();
        write_chunk_head(0x1a2b, &mut out);
        assert_eq!(out, b"1a2b\r\n");
        write_chunk_head(usize::MAX, &mut out);
        assert_eq!(&out[6..], b"ffffffffffffffff\r\n");
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_content(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in prop::collection::vec(0_usize..300, 0..8),
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                write_chunk_head(chunk.len(), &mut input);
                input.extend_from_slice(chunk);
                input.extend_from_slice(b"\r\n");
            }
            input.extend_from_slice(b"0\r\n\r\n");
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.sort_unstable();
            let (content, end) = decode(&input, &cuts).unwrap().unwrap();
            prop_assert_eq!(content, chunks.concat());
            prop_assert_eq!(end, input.len());
        }

        #[test]
        fn no_input_panics(input in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&input, &[]);
        }
    }
}
