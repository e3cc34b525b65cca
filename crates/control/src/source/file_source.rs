//! Files that are followed: they are read again when an event reports a possible change.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Skipped;
use super::files::{BuiltIn, Files, LoadError};
use super::watch::Watch;
use crate::index::Index;
use crate::problem::Problem;

/// Longest time for which a file stays unread while another process has it open for writing.
const WRITER_PATIENCE: Duration = Duration::from_secs(1);

/// The manifests and the watch on their folders.
pub(crate) struct FileSource {
    files: Files,
    watch: Watch,
    index: Index,
    duplicates: Vec<Problem>,
    /// The time at which the wait for open files ends.
    writers_end: Option<Instant>,
}

impl FileSource {
    /// Starts the watch, then reads the files once more, so that no later change is missed.
    pub(crate) fn start(manifests: &[PathBuf], built_in: &[BuiltIn]) -> Result<Self, LoadError> {
        let path = || manifests.first().cloned().unwrap_or_default();
        let watch = Watch::new().map_err(|source| LoadError::Watch { path: path(), source })?;
        let mut files = Files::open(manifests)?;
        files.add(built_in);
        let (index, duplicates) = (Index::default(), Vec::new());
        let mut following = Self { files, watch, index, duplicates, writers_end: None };
        following.try_look()?;
        following.build();
        Ok(following)
    }

    /// Waits until files may have changed.
    pub(crate) async fn changed(&mut self) {
        self.watch.changed().await;
    }

    /// Records that files may have changed.
    pub(crate) fn note_change(&mut self, now: Instant) {
        self.writers_end = (!self.watch.being_written().is_empty()).then(|| now + WRITER_PATIENCE);
    }

    /// The time at which the wait for open files ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.writers_end
    }

    /// Ends the wait for open files, if it is time. Returns whether it ended.
    pub(crate) fn act(&mut self, now: Instant) -> bool {
        let is_over = self.writers_end.take_if(|end| *end <= now).is_some();
        if is_over {
            self.watch.give_up_on_writers();
        }
        is_over
    }

    /// Reads the changed files. Returns whether their objects or problems differ.
    pub(crate) fn look(&mut self) -> bool {
        let changed = self.try_look().unwrap_or_else(|error| {
            tracing::warn!(%error, "changes there go unnoticed");
            false
        });
        if changed {
            self.build();
        }
        changed
    }

    /// The objects in force, the problems of reading files, and the numbers of objects of unsupported kinds.
    pub(crate) fn objects(&self) -> (&Index, Vec<Problem>, Skipped) {
        let problems = self.files.problems().chain(&self.duplicates).cloned().collect();
        (&self.index, problems, self.files.skipped())
    }

    fn build(&mut self) {
        (self.index, self.duplicates) = Index::build(self.files.objects());
    }

    /// Reads the files until all their folders are watched: a new folder may have changed before its watch
    /// began.
    fn try_look(&mut self) -> Result<bool, LoadError> {
        let mut changed = self.files.refresh(&self.watch.being_written());
        loop {
            let followed = self.watch.follow(self.files.extent());
            let is_new = followed.map_err(|(path, source)| LoadError::Watch { path, source })?;
            if !is_new {
                return Ok(changed);
            }
            changed |= self.files.refresh(&self.watch.being_written());
        }
    }
}
