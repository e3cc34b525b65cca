//! The flight recorder of `serve`: a thread that takes a frame every few seconds, judges the last ones by the
//! doctor's checks, and records what happens in between.
//!
//! It has a low priority and takes no lock that a request waits for; requests know nothing of it. Must not be
//! in here: the form of a record, which is the crate `record`; reading one.

mod configuration;
mod finer;
mod frame;
mod happenings;
mod note;
mod panic;
mod thread;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use observe::Registry;
use record::{Recorder, kind};

use crate::cli::RecordArgs;
use crate::doctor::serving::Findings;
use crate::version;
pub(crate) use frame::of as frame_of;
use note::now_ms;
pub(crate) use note::{Note, Notes};

/// Bytes of a record in memory. The process may use 10 MB for its recorder.
const MEMORY_BYTES: u64 = 5 << 20;

/// The longest time that an end waits for the last events to be written.
const STOP_MAX: Duration = Duration::from_secs(1);

/// The recorder of this process.
pub(crate) struct Recording {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) notes: Notes,
}

impl Recording {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When files cannot be made in the folder, or no thread can be started.
    pub(crate) fn start(
        options: &RecordArgs,
        registry: Arc<Registry>,
        findings: Arc<Findings>,
    ) -> anyhow::Result<Self> {
        let recorder = Arc::new(match &options.record {
            Some(folder) => open(folder, options.record_size)?,
            None => Recorder::in_memory(MEMORY_BYTES),
        });
        let (notes, told) = Notes::channel();
        panic::hook(&recorder, &registry);
        let thread =
            thread::Sampling::new(Arc::clone(&recorder), registry, findings, options.record_interval);
        // A sampler that cannot look records events all the same.
        std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || thread.run(&told))
            .context("cannot start a thread")?;
        let recording = Self { recorder, notes };
        recording.begin();
        Ok(recording)
    }

    fn begin(&self) {
        let commit = version::COMMIT.map(|commit| format!(" ({commit})")).unwrap_or_default();
        let process = std::process::id();
        let text = format!("forebay {}{commit} started as process {process}", version::RELEASE);
        self.notes.tell(kind::START, "", text);
        if let Some(last) = self.recorder.unfinished() {
            let ago = now_ms().saturating_sub(last) / 1000;
            let text = format!(
                "the process before ended without a stop; its last entry is {ago} s older: it was killed or failed, \
                 or the machine stopped"
            );
            self.notes.tell(kind::KILLED, "", text);
        }
    }

    /// Records that the process stops, and ends the record. Waits until that is done, but not for long.
    pub(crate) fn stop(&self, why: &'static str) {
        let (done, is_done) = mpsc::channel();
        self.notes.send(Note::Stop(why, done));
        // Without a thread the channel is closed, and nothing is waited for. Where the CPUs are busy, the
        // thread may not get its turn in time.
        if is_done.recv_timeout(STOP_MAX).is_err() {
            let _ = self.recorder.finish(&note::event(kind::STOP, "", why.to_owned()));
        }
    }
}

fn open(folder: &Path, size: u64) -> anyhow::Result<Recorder> {
    Recorder::open(folder, size).map_err(|error: io::Error| anyhow::anyhow!("--record {error}"))
}
