//! Records in both directions (section 3.3).
//!
//! ```text
//!         8 bytes               all content            all padding
//! Header ────────▶ Content ──────────────────▶ Padding ────────────▶ Header
//!   │ END_REQUEST, whole
//!   └────────────────────▶ Done
//! ```

/// Bytes before the content of each record.
pub const HEADER_BYTES: usize = 8;
/// The most bytes of content in a written record: the largest size that keeps the next record aligned without
/// padding.
pub const RECORD_CONTENT_BYTES_MAX: usize = 65_528;
/// The record that ends the body of a request.
pub const STDIN_END: [u8; HEADER_BYTES] = header(STDIN, 0);

const VERSION: u8 = 1;
/// The id of the request: any number but 0, which stands for the connection itself.
const REQUEST_ID: u16 = 1;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// The role of a responder, and no flags: the application closes the connection after the response.
const BEGIN_RESPONDER: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
/// Bytes in the content of a record that ends a request (section 5.5).
const END_BYTES: usize = 8;
/// `protocolStatus` of a request that was answered.
const REQUEST_COMPLETE: u8 = 0;
/// `protocolStatus` of a request that the application was too busy for.
const OVERLOADED: u8 = 2;

/// Bytes that no application may send here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed FastCGI record")]
pub struct InvalidRecord;

/// The meaning of the front of some input from an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// `skip` bytes of framing, then `len` bytes of the response.
    Stdout {
        /// The length of framing to be skipped.
        skip: usize,
        /// Bytes of the response, at least one.
        len: usize,
    },
    /// `skip` bytes of framing, then `len` bytes of the application's error output.
    Stderr {
        /// The length of framing to be skipped.
        skip: usize,
        /// Bytes of text, at least one.
        len: usize,
    },
    /// `skip` bytes of framing, and then more input is needed.
    More {
        /// The length of framing to be skipped.
        skip: usize,
    },
    /// The response ends with `skip` bytes of framing.
    End {
        /// The length of framing to be skipped.
        skip: usize,
        /// The application was too busy for the request, and has not read it.
        is_overloaded: bool,
    },
}

/// Follows the records of an application's response through their input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Content {
        is_stderr: bool,
        remaining: u16,
        padding: u8,
    },
    Padding {
        remaining: u8,
    },
    Done {
        is_overloaded: bool,
    },
}

// === impl Records ===

impl Records {
    /// Whether the response has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done { .. })
    }

    /// Classifies the front of `input`. Content is counted at once; the caller must consume all of it. An
    /// incomplete header is left for the next call.
    ///
    /// # Errors
    /// The framing is malformed; no later byte can be trusted.
    pub fn decode(&mut self, input: &[u8]) -> Result<Piece, InvalidRecord> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.state {
                State::Header => match self.begin(rest)? {
                    Some(len) => at += len,
                    None => return Ok(Piece::More { skip: at }),
                },
                State::Content { remaining: 0, padding, .. } => {
                    self.state = State::Padding { remaining: padding };
                }
                State::Content { .. } if rest.is_empty() => return Ok(Piece::More { skip: at }),
                State::Content { is_stderr, remaining, padding } => {
                    let len = rest.len().min(remaining.into());
                    self.state = State::Content { is_stderr, remaining: remaining - len as u16, padding };
                    return Ok(if is_stderr {
                        Piece::Stderr { skip: at, len }
                    } else {
                        Piece::Stdout { skip: at, len }
                    });
                }
                State::Padding { remaining: 0 } => self.state = State::Header,
                State::Padding { .. } if rest.is_empty() => return Ok(Piece::More { skip: at }),
                State::Padding { remaining } => {
                    let len = rest.len().min(remaining.into());
                    at += len;
                    self.state = State::Padding { remaining: remaining - len as u8 };
                }
                State::Done { is_overloaded } => return Ok(Piece::End { skip: at, is_overloaded }),
            }
        }
    }

    /// Reads the header at the front, or the whole record that ends the request. Returns the number of read
    /// bytes; none if they are incomplete.
    fn begin(&mut self, input: &[u8]) -> Result<Option<usize>, InvalidRecord> {
        let Some((&[version, kind, id_high, id_low, high, low, padding, _], rest)) =
            input.split_first_chunk::<HEADER_BYTES>()
        else {
            return Ok(None);
        };
        if version != VERSION || u16::from_be_bytes([id_high, id_low]) != REQUEST_ID {
            return Err(InvalidRecord);
        }
        let len = u16::from_be_bytes([high, low]);
        match kind {
            STDOUT | STDERR => {
                self.state = State::Content { is_stderr: kind == STDERR, remaining: len, padding };
                Ok(Some(HEADER_BYTES))
            }
            END_REQUEST if usize::from(len) == END_BYTES => {
                let Some(end) = rest.first_chunk::<END_BYTES>() else { return Ok(None) };
                // The status of the application is ignored; the status of the protocol follows it.
                let is_overloaded = match end[4] {
                    REQUEST_COMPLETE => false,
                    OVERLOADED => true,
                    _ => return Err(InvalidRecord),
                };
                self.state = State::Done { is_overloaded };
                Ok(Some(HEADER_BYTES + END_BYTES))
            }
            _ => Err(InvalidRecord),
        }
    }
}

// === what is sent ===

const fn header(kind: u8, len: u16) -> [u8; HEADER_BYTES] {
    let ([id_high, id_low], [high, low]) = (REQUEST_ID.to_be_bytes(), len.to_be_bytes());
    [VERSION, kind, id_high, id_low, high, low, 0, 0]
}

/// The header of a record with `len` bytes of a request's body, which must be at least one and at most
/// [`RECORD_CONTENT_BYTES_MAX`].
pub fn stdin_header(len: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(0 < len && len <= RECORD_CONTENT_BYTES_MAX, "a record without content ends the body");
    header(STDIN, len as u16)
}

/// Appends the beginning of a request and its parameters. `pairs` are the parameters as
/// [`write_pair`](super::write_pair) writes them.
pub fn write_begin(pairs: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&header(BEGIN_REQUEST, BEGIN_RESPONDER.len() as u16));
    out.extend_from_slice(&BEGIN_RESPONDER);
    write_stream(PARAMS, pairs, out);
    out.extend_from_slice(&header(PARAMS, 0));
}

/// Appends a piece of a request's body, and with `is_last` its end.
pub fn write_stdin(content: &[u8], is_last: bool, out: &mut Vec<u8>) {
    write_stream(STDIN, content, out);
    if is_last {
        out.extend_from_slice(&STDIN_END);
    }
}

fn write_stream(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    for content in bytes.chunks(RECORD_CONTENT_BYTES_MAX) {
        out.extend_from_slice(&header(kind, content.len() as u16));
        out.extend_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let mut bytes = header(kind, content.len() as u16).to_vec();
        bytes[6] = padding;
        bytes.extend_from_slice(content);
        bytes.extend(std::iter::repeat_n(0xaa, padding.into()));
        bytes
    }

    fn end(protocol_status: u8) -> Vec<u8> {
        record(END_REQUEST, &[0, 0, 0, 9, protocol_status, 0, 0, 0], 0)
    }

    /// The content of both streams, and the end of the response; none if it has not ended.
    type Seen = (Vec<u8>, Vec<u8>, Option<bool>);

    /// Feeds `input` in pieces that end at `cuts`.
    fn decode(input: &[u8], cuts: &[usize]) -> Result<Seen, InvalidRecord> {
        let (mut records, mut at) = (Records::default(), 0);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for &cut in cuts.iter().chain([&input.len()]) {
            loop {
                let input = &input[at..cut.max(at)];
                match records.decode(input)? {
                    Piece::Stdout { skip, len } => {
                        stdout.extend_from_slice(&input[skip..skip + len]);
                        at += skip + len;
                    }
                    Piece::Stderr { skip, len } => {
                        stderr.extend_from_slice(&input[skip..skip + len]);
                        at += skip + len;
                    }
                    Piece::More { skip } => {
                        at += skip;
                        break;
                    }
                    Piece::End { is_overloaded, .. } => {
                        return Ok((stdout, stderr, Some(is_overloaded)));
                    }
                }
            }
        }
        Ok((stdout, stderr, None))
    }

    #[test]
    fn a_request_is_what_the_specification_shows() {
        let mut out = Vec::new();
        write_begin(b"\x01\x02Abc", &mut out);
        write_stdin(b"body", true, &mut out);
        let expected: &[&[u8]] = &[
            &[1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            &[1, 4, 0, 1, 0, 5, 0, 0],
            b"\x01\x02Abc",
            &[1, 4, 0, 1, 0, 0, 0, 0],
            &[1, 5, 0, 1, 0, 4, 0, 0],
            b"body",
            &[1, 5, 0, 1, 0, 0, 0, 0],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn what_does_not_fit_one_record_is_parted() {
        let mut out = Vec::new();
        write_stdin(&vec![b'x'; RECORD_CONTENT_BYTES_MAX + 1], false, &mut out);
        assert_eq!(out.len(), RECORD_CONTENT_BYTES_MAX + 1 + 2 * HEADER_BYTES);
        assert_eq!(out[..8], [1, 5, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(out[out.len() - 9..], [1, 5, 0, 1, 0, 1, 0, 0, b'x']);
        out.clear();
        write_stdin(b"", false, &mut out);
        assert!(out.is_empty(), "an empty record would be the end");
    }

    #[test]
    fn streams_are_told_apart_and_padding_is_passed_over() {
        let input = [
            record(STDERR, b"warning", 1),
            record(STDOUT, b"abc", 5),
            record(STDOUT, b"", 0),
            record(STDERR, b"!", 0),
            end(REQUEST_COMPLETE),
        ];
        let seen = decode(&input.concat(), &[]);
        assert_eq!(seen, Ok((b"abc".to_vec(), b"warning!".to_vec(), Some(false))));
        assert_eq!(decode(&end(OVERLOADED), &[]), Ok((vec![], vec![], Some(true))));
    }

    #[test]
    fn what_no_application_may_send_is_refused() {
        let good = record(STDOUT, b"abc", 0);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (what, bytes) in [
            ("another version", with(0, 2)),
            ("another request", with(3, 2)),
            ("the connection itself", with(3, 0)),
            ("a stream of requests", with(1, STDIN)),
            ("an unknown type", with(1, 11)),
            ("a short end", record(END_REQUEST, &[0; 7], 0)),
            ("a long end", record(END_REQUEST, &[0; 9], 0)),
            ("one that cannot multiplex, which was not asked of it", end(1)),
            ("an unknown role", end(3)),
        ] {
            assert_eq!(decode(&bytes, &[]), Err(InvalidRecord), "{what}");
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_streams(
            records in prop::collection::vec(
                (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), 0_u8..9), 0..6),
            cuts in prop::collection::vec(0_usize..400, 0..8),
            has_end in any::<bool>(),
        ) {
            let (mut input, mut stdout, mut stderr) = (Vec::new(), Vec::new(), Vec::new());
            for (is_stderr, content, padding) in &records {
                let (kind, stream) = if *is_stderr { (STDERR, &mut stderr) } else { (STDOUT, &mut stdout) };
                input.extend(record(kind, content, *padding));
                stream.extend_from_slice(content);
            }
            if has_end {
                input.extend(end(REQUEST_COMPLETE));
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(decode(&input, &cuts), Ok((stdout, stderr, has_end.then_some(false))));
        }

        #[test]
        fn no_input_panics(input in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&input, &[]);
        }

        #[test]
        fn no_record_panics(
            records in prop::collection::vec((0_u8..12, prop::collection::vec(any::<u8>(), 0..20), 0_u8..9), 0..6),
        ) {
            let input: Vec<u8> =
                records.iter().flat_map(|(kind, content, padding)| record(*kind, content, *padding)).collect();
            let _ = decode(&input, &[]);
        }
    }
}
