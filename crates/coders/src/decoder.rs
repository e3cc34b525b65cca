//! Decoders: a compressed content of an endpoint becomes the original.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use wire::coding::Coding;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

use super::{Broken, Progress};
use crate::limits::{
    DECODED_BYTES_FREE, DECODED_BYTES_MAX, DECODED_RATIO_MAX, GZIP_WINDOW_BITS, ZSTD_DECODED_WINDOW_BITS,
};

/// A decoder at work on one content, with the bytes so far.
pub(super) struct Decoder {
    state: State,
    is_ended: bool,
    read: u64,
    written: u64,
}

enum State {
    Gzip(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(ZstdDecoder<'static>),
}

impl Decoder {
    pub(super) fn new(coding: Coding) -> Result<Self, Broken> {
        let state = match coding {
            Coding::Gzip => State::Gzip(Decompress::new_gzip(GZIP_WINDOW_BITS)),
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                // Windows beyond 16 MiB are no part of RFC 7932.
                State::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
            }
            Coding::Zstd => {
                let mut state = ZstdDecoder::new().map_err(|_| Broken)?;
                state
                    .set_parameter(DParameter::WindowLogMax(ZSTD_DECODED_WINDOW_BITS))
                    .map_err(|_| Broken)?;
                State::Zstd(state)
            }
        };
        Ok(Self { state, is_ended: false, read: 0, written: 0 })
    }

    /// Takes some of the input, and gives some output. Done once all input is taken and nothing is held
    /// back.
    pub(super) fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Broken> {
        if self.is_ended {
            if input.is_empty() {
                // After the end of its content, a decoder would begin another frame.
                return Ok(Progress { read: 0, written: 0, is_done: true });
            }
            self.go_on_after_end()?;
        }
        let progress = match &mut self.state {
            State::Gzip(state) => {
                let (before_in, before_out) = (state.total_in(), state.total_out());
                let status = state.decompress(input, out, FlushDecompress::None).map_err(|_| Broken)?;
                self.is_ended = status == Status::StreamEnd;
                let read = (state.total_in() - before_in) as usize;
                let written = (state.total_out() - before_out) as usize;
                Progress { read, written, is_done: read == input.len() && written < out.len() }
            }
            State::Brotli(state) => {
                let (mut input_left, mut room) = (input.len(), out.len());
                let (mut read, mut written) = (0, 0);
                let result = BrotliDecompressStream(
                    &mut input_left,
                    &mut read,
                    input,
                    &mut room,
                    &mut written,
                    out,
                    &mut 0,
                    state,
                );
                self.is_ended = matches!(result, BrotliResult::ResultSuccess);
                let is_done = match result {
                    BrotliResult::ResultFailure => return Err(Broken),
                    BrotliResult::NeedsMoreOutput => false,
                    BrotliResult::NeedsMoreInput | BrotliResult::ResultSuccess => input_left == 0,
                };
                Progress { read, written, is_done }
            }
            State::Zstd(state) => {
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(out));
                self.is_ended = state.run(&mut from, &mut to).map_err(|_| Broken)? == 0;
                let (read, written) = (from.pos(), to.pos());
                let is_done = read == input.len() && (self.is_ended || written < out.len());
                Progress { read, written, is_done }
            }
        };
        self.read += progress.read as u64;
        self.written += progress.written as u64;
        if is_bomb(self.read, self.written) { Err(Broken) } else { Ok(progress) }
    }

    /// Members and frames may follow each other (RFC 1952 section 2.2, RFC 8878 section 3.1); bytes after a
    /// stream of brotli are an error.
    fn go_on_after_end(&mut self) -> Result<(), Broken> {
        match &mut self.state {
            State::Gzip(state) => {
                *state = Decompress::new_gzip(GZIP_WINDOW_BITS);
                Ok(())
            }
            State::Brotli(_) => Err(Broken),
            State::Zstd(_) => Ok(()),
        }
    }

    /// Whether the content may end here. A body without a byte is no coded content, and is accepted as an
    /// empty one all the same.
    pub(super) fn finish(&self) -> Result<(), Broken> {
        if self.is_ended || self.read == 0 { Ok(()) } else { Err(Broken) }
    }
}

/// Whether the content expands so much that it is an attack.
fn is_bomb(read: u64, written: u64) -> bool {
    let allowed = read.saturating_mul(DECODED_RATIO_MAX).saturating_add(DECODED_BYTES_FREE);
    written > allowed.min(DECODED_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_beyond_measure_is_a_bomb() {
        assert!(!is_bomb(10, DECODED_BYTES_FREE));
        assert!(is_bomb(10, DECODED_BYTES_FREE + 10 * DECODED_RATIO_MAX + 1));
        assert!(is_bomb(u64::MAX, DECODED_BYTES_MAX + 1));
    }
}
