//! Compression by each coding behind one interface: input and output are slices, and nothing waits.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use flate2::{Compress, Compression, FlushCompress, Status};
use wire::coding::Coding;
use zstd::stream::raw::{CParameter, Encoder as ZstdEncoder, InBuffer, Operation, OutBuffer};

use super::{Broken, Progress};
use crate::limits::{BROTLI_WINDOW_BITS, BROTLI_WINDOW_BITS_MIN, GZIP_WINDOW_BITS, ZSTD_WINDOW_BITS};

/// An encoder at work on one content.
pub(super) enum Encoder {
    Gzip { state: Compress, level: u8 },
    // Brotli has no reset: its memory goes back to the allocator, which has it ready for the next.
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    Zstd(ZstdEncoder<'static>),
}

/// How far an encoder has to process its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// As far as the encoder likes.
    Take,
    /// Until its reader can decode all input so far.
    Flush,
    /// To the end of the content.
    Finish,
}

impl Encoder {
    /// An encoder for a content of `len` bytes, where that is known.
    pub(super) fn new(coding: Coding, level: u8, len: Option<u64>) -> Result<Self, Broken> {
        let mut encoder = match coding {
            Coding::Gzip => Self::Gzip { state: Compress::new_gzip(of_gzip(level), GZIP_WINDOW_BITS), level },
            Coding::Brotli => Self::Brotli(Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()))),
            Coding::Zstd => Self::Zstd(ZstdEncoder::new(i32::from(level)).map_err(|_| Broken)?),
        };
        encoder.begin(level, len)?;
        Ok(encoder)
    }

    /// Resets the encoder for another content. Only an encoder that [can be kept](Self::can_be_kept) can be
    /// reset.
    pub(super) fn begin_anew(&mut self, level: u8, len: Option<u64>) -> Result<(), Broken> {
        match self {
            Self::Gzip { state, .. } => state.reset(),
            Self::Brotli(_) => return Err(Broken),
            Self::Zstd(state) => state.reinit().map_err(|_| Broken)?,
        }
        self.begin(level, len)
    }

    fn begin(&mut self, level: u8, len: Option<u64>) -> Result<(), Broken> {
        match self {
            Self::Gzip { level: former, .. } if *former == level => Ok(()),
            Self::Gzip { state, level: former } => {
                *former = level;
                state.set_level(of_gzip(level)).map_err(|_| Broken)
            }
            Self::Brotli(state) => {
                let hint = len.map_or(0, |len| u32::try_from(len).unwrap_or(u32::MAX));
                let parameters = [
                    (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, u32::from(level)),
                    (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window_bits(len)),
                    (BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, hint),
                ];
                let are_set = parameters.into_iter().all(|(name, value)| state.set_parameter(name, value));
                if are_set { Ok(()) } else { Err(Broken) }
            }
            Self::Zstd(state) => {
                let parameters =
                    [CParameter::CompressionLevel(i32::from(level)), CParameter::WindowLog(ZSTD_WINDOW_BITS)];
                let are_set = parameters.into_iter().try_for_each(|it| state.set_parameter(it));
                are_set.and_then(|()| state.set_pledged_src_size(len)).map_err(|_| Broken)
            }
        }
    }

    pub(super) fn can_be_kept(&self) -> bool {
        !matches!(self, Self::Brotli(_))
    }

    /// Takes some of the input, and gives some output. Done once all input is taken and the step is
    /// complete.
    pub(super) fn run(&mut self, input: &[u8], step: Step, out: &mut [u8]) -> Result<Progress, Broken> {
        match self {
            Self::Gzip { state, .. } => run_gzip(state, input, step, out),
            Self::Brotli(state) => run_brotli(state, input, step, out),
            Self::Zstd(state) => run_zstd(state, input, step, out),
        }
    }
}

/// The library's level for one of zlib's. They are alike except for the first: there the library's output is
/// a fifth larger than zlib's at its level 1, which is ingress-nginx's default. At its second level the
/// output is a twentieth smaller than that, in two thirds of zlib's time.
fn of_gzip(level: u8) -> Compression {
    Compression::new(u32::from(level.max(2)))
}

/// The smallest window that holds all of a content: the tables of the encoder and of its reader are smaller
/// with it.
fn window_bits(len: Option<u64>) -> u32 {
    let needed = len.map_or(BROTLI_WINDOW_BITS, |len| len.saturating_add(16).max(1).ilog2() + 1);
    needed.clamp(BROTLI_WINDOW_BITS_MIN, BROTLI_WINDOW_BITS)
}

fn run_gzip(state: &mut Compress, input: &[u8], step: Step, out: &mut [u8]) -> Result<Progress, Broken> {
    let flush = match step {
        Step::Take => FlushCompress::None,
        Step::Flush => FlushCompress::Sync,
        Step::Finish => FlushCompress::Finish,
    };
    let (before_in, before_out) = (state.total_in(), state.total_out());
    let status = state.compress(input, out, flush).map_err(|_| Broken)?;
    let read = (state.total_in() - before_in) as usize;
    let written = (state.total_out() - before_out) as usize;
    let is_done = match step {
        Step::Take => read == input.len(),
        // Unused output room means that nothing is held back.
        Step::Flush => written < out.len(),
        Step::Finish => status == Status::StreamEnd,
    };
    Ok(Progress { read, written, is_done })
}

fn run_brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    input: &[u8],
    step: Step,
    out: &mut [u8],
) -> Result<Progress, Broken> {
    let operation = match step {
        Step::Take => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
        Step::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
        Step::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
    };
    let (mut input_left, mut room) = (input.len(), out.len());
    let (mut read, mut written) = (0, 0);
    let is_well = state.compress_stream(
        operation,
        &mut input_left,
        input,
        &mut read,
        &mut room,
        out,
        &mut written,
        &mut None,
        &mut |_, _, _, _| (),
    );
    let is_done = match step {
        Step::Take => input_left == 0,
        Step::Flush => input_left == 0 && !state.has_more_output(),
        Step::Finish => state.is_finished(),
    };
    if is_well { Ok(Progress { read, written, is_done }) } else { Err(Broken) }
}

fn run_zstd(
    state: &mut ZstdEncoder<'static>,
    input: &[u8],
    step: Step,
    out: &mut [u8],
) -> Result<Progress, Broken> {
    let mut from = InBuffer::around(input);
    let mut to = OutBuffer::around(out);
    if !input.is_empty() {
        state.run(&mut from, &mut to).map_err(|_| Broken)?;
    }
    let mut is_done = from.pos() == input.len();
    if is_done && step != Step::Take {
        let left = if step == Step::Flush { state.flush(&mut to) } else { state.finish(&mut to, false) };
        is_done = left.map_err(|_| Broken)? == 0;
    }
    Ok(Progress { read: from.pos(), written: to.pos(), is_done })
}
