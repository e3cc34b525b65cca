//! The coders of a worker: active ones, whose memory is bounded, and idle ones for the next content.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use observe::{CodingCells, Recoding};
use wire::coding::Coding;

use super::decoder::Decoder;
use super::encoder::{Encoder, Step};
use super::{Broken, Ease, Load, Progress, Task};
use crate::limits::{
    BROTLI_STATE_BYTES, BROTLI_STATE_BYTES_HIGH, CODER_BYTES_MAX, CODERS_KEPT_MAX, DECODER_STATE_BYTES,
    GZIP_STATE_BYTES, OUTPUT_STEP_BYTES, ZSTD_STATE_BYTES, ZSTD_STATE_BYTES_HIGH,
};

/// The coders of a worker.
pub struct Coders {
    /// Encoders of gzip and of zstd, the one used last first: it is in the CPU's cache.
    idle: RefCell<[Vec<Encoder>; Coding::ALL.len()]>,
    /// Upper bound of the memory of active coders, in bytes.
    bytes: Cell<usize>,
    /// How far levels are below those that routes configure.
    ease: Cell<Ease>,
    cells: Arc<CodingCells>,
    are_used: Cell<bool>,
}

/// A coder at work on one content.
pub struct Lease {
    coders: Rc<Coders>,
    task: Task,
    /// The machine; taken on drop.
    machine: Option<Machine>,
    bytes: usize,
    read: u64,
    written: u64,
}

enum Machine {
    Encoder(Encoder),
    Decoder(Decoder),
}

// === impl Coders ===

impl Coders {
    /// The coders of a worker, none of which is active.
    pub fn new(cells: Arc<CodingCells>) -> Rc<Self> {
        let (idle, bytes) = (RefCell::default(), Cell::new(0));
        Rc::new(Self { idle, bytes, ease: Cell::default(), cells, are_used: Cell::new(false) })
    }

    /// A coder for a content of `len` bytes, where that is known. None where the active ones use all of the
    /// memory for coders.
    pub fn lease(self: &Rc<Self>, task: Task, len: Option<u64>) -> Option<Lease> {
        self.are_used.set(true);
        let bytes = state_bytes(task);
        if self.bytes.get() + bytes > CODER_BYTES_MAX {
            self.cells.note_refused();
            return None;
        }
        let machine = match task {
            Task::Encode(coding, level) => Machine::Encoder(self.encoder(coding, level, len).ok()?),
            Task::Decode(coding) => Machine::Decoder(Decoder::new(coding).ok()?),
        };
        self.bytes.set(self.bytes.get() + bytes);
        Some(Lease { coders: Rc::clone(self), task, machine: Some(machine), bytes, read: 0, written: 0 })
    }

    fn encoder(&self, coding: Coding, level: u8, len: Option<u64>) -> Result<Encoder, Broken> {
        let kept = self.idle.borrow_mut()[coding as usize].pop();
        match kept {
            Some(mut encoder) => encoder.begin_anew(level, len).map(|()| encoder),
            None => Encoder::new(coding, level, len),
        }
    }

    /// Whether a coder has ever been used.
    pub fn are_used(&self) -> bool {
        self.are_used.get()
    }

    /// A task with a lower level than the route configures while the worker is short of CPU.
    pub fn eased(&self, task: Task) -> Task {
        match task {
            Task::Encode(coding, level) => Task::Encode(coding, self.ease.get().level(level)),
            Task::Decode(_) => task,
        }
    }

    /// Notes the load of the worker since the last call. Returns the state if it has changed.
    pub fn note_load(&self, load: Load) -> Option<Ease> {
        let (before, now) = (self.ease.get(), self.ease.get().after(load));
        self.ease.set(now);
        self.cells.set_eased(now.steps());
        (before.steps() != now.steps()).then_some(now)
    }

    /// Returns to the levels that routes configure.
    pub fn forget_load(&self) {
        self.ease.set(Ease::default());
        self.cells.set_eased(0);
    }
}

/// Upper bound of a coder's memory, in bytes.
fn state_bytes(task: Task) -> usize {
    match task {
        Task::Decode(_) => DECODER_STATE_BYTES,
        Task::Encode(Coding::Gzip, _) => GZIP_STATE_BYTES,
        Task::Encode(Coding::Brotli, ..10) => BROTLI_STATE_BYTES,
        Task::Encode(Coding::Brotli, _) => BROTLI_STATE_BYTES_HIGH,
        Task::Encode(Coding::Zstd, ..10) => ZSTD_STATE_BYTES,
        Task::Encode(Coding::Zstd, _) => ZSTD_STATE_BYTES_HIGH,
    }
}

/// The name of a task in the metrics.
fn recoding(task: Task) -> Recoding {
    match task {
        Task::Encode(Coding::Gzip, _) => Recoding::Gzip,
        Task::Encode(Coding::Brotli, _) => Recoding::Brotli,
        Task::Encode(Coding::Zstd, _) => Recoding::Zstd,
        Task::Decode(Coding::Gzip) => Recoding::Gunzip,
        Task::Decode(Coding::Brotli) => Recoding::Unbrotli,
        Task::Decode(Coding::Zstd) => Recoding::Unzstd,
    }
}

// === impl Lease ===

impl Lease {
    /// Takes some of the input, and gives some output. Returns the bytes read, the bytes written, and whether
    /// all input is taken.
    ///
    /// # Errors
    ///
    /// [`Broken`] where the input is not of the coding, or expands too much.
    pub fn take(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize, bool), Broken> {
        let progress = match self.machine() {
            Machine::Encoder(encoder) => encoder.run(input, Step::Take, out)?,
            Machine::Decoder(decoder) => decoder.run(input, out)?,
        };
        Ok(self.note(progress))
    }

    /// Flushes held-back output as far as a reader can use it. The second value is whether that is all.
    ///
    /// # Errors
    ///
    /// [`Broken`] where memory is short.
    pub fn flush(&mut self, out: &mut [u8]) -> Result<(usize, bool), Broken> {
        let Machine::Encoder(encoder) = self.machine() else { return Ok((0, true)) };
        let progress = encoder.run(&[], Step::Flush, out)?;
        let (_, written, is_done) = self.note(progress);
        Ok((written, is_done))
    }

    /// Gives held-back output to the end of the content. The second value is whether that is all.
    ///
    /// # Errors
    ///
    /// [`Broken`] where a content to decode ends too early.
    pub fn finish(&mut self, out: &mut [u8]) -> Result<(usize, bool), Broken> {
        let progress = match self.machine() {
            Machine::Encoder(encoder) => encoder.run(&[], Step::Finish, out)?,
            Machine::Decoder(decoder) => {
                decoder.finish()?;
                return Ok((0, true));
            }
        };
        let (_, written, is_done) = self.note(progress);
        Ok((written, is_done))
    }

    /// Takes all of the input, and appends the output; none where it fails.
    pub fn append(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Option<()> {
        while !input.is_empty() {
            let (read, _) = with_room(out, |free| {
                let (read, written, _) = self.take(input, free).ok()?;
                Some((read, written))
            })?;
            input = &input[read..];
        }
        Some(())
    }

    /// Appends the end of the content; none where it fails.
    pub fn append_end(&mut self, out: &mut Vec<u8>) -> Option<()> {
        loop {
            let (is_done, _) = with_room(out, |free| {
                let (written, is_done) = self.finish(free).ok()?;
                Some((is_done, written))
            })?;
            if is_done {
                return Some(());
            }
        }
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("it is taken only when the lease ends")
    }

    fn note(&mut self, progress: Progress) -> (usize, usize, bool) {
        self.read += progress.read as u64;
        self.written += progress.written as u64;
        (progress.read, progress.written, progress.is_done)
    }
}

/// Gives `write` room after the existing bytes; `write` returns how much of it has been filled.
fn with_room<T>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut [u8]) -> Option<(T, usize)>,
) -> Option<(T, usize)> {
    let len = out.len();
    out.resize(len + OUTPUT_STEP_BYTES, 0);
    let done = write(&mut out[len..])?;
    out.truncate(len + done.1);
    Some(done)
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Self { coders, task, machine, bytes, read, written } = self;
        coders.bytes.set(coders.bytes.get() - *bytes);
        coders.cells.note(recoding(*task), *read, *written);
        let (Task::Encode(coding, _), Some(Machine::Encoder(encoder))) = (*task, machine.take()) else {
            return;
        };
        let kept = &mut coders.idle.borrow_mut()[coding as usize];
        if encoder.can_be_kept() && kept.len() < CODERS_KEPT_MAX {
            kept.push(encoder);
        }
    }
}
