//! Files that are followed: looked at again when something tells that they may have changed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Skipped;
use super::files::{Files, LoadError};
use super::watch::Watch;
use crate::index::Index;
use crate::problem::Problem;

/// Time for which a file that was written to and not closed is waited for.
const WRITER_PATIENCE: Duration = Duration::from_secs(1);

/// Manifests and the watch over them.
pub(crate) struct FileSource {
    files: Files,
    watch: Watch,
    index: Index,
    duplicates: Vec<Problem>,
    /// When to stop waiting for files to be closed.
    writers_end: Option<Instant>,
}

impl FileSource {
    /// Nothing that happens after this is missed: files are read once more when their folders are watched.
    pub(crate) fn start(manifests: &[PathBuf]) -> Result<Self, LoadError> {
        let path = || manifests.first().cloned().unwrap_or_default();
        let watch = Watch::new().map_err(|source| LoadError::Watch { path: path(), source })?;
        let files = Files::open(manifests)?;
        let (index, duplicates) = (Index::default(), Vec::new());
        let mut following = Self { files, watch, index, duplicates, writers_end: None };
        following.try_look()?;
        following.build();
        Ok(following)
    }

    /// Waits until something tells that files may have changed.
    pub(crate) async fn changed(&mut self) {
        self.watch.changed().await;
    }

    /// Takes note of that.
    pub(crate) fn note_change(&mut self, now: Instant) {
        self.writers_end = (!self.watch.being_written().is_empty()).then(|| now + WRITER_PATIENCE);
    }

    /// When to stop waiting for files to be closed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.writers_end
    }

    /// Stops waiting, if it is time. Tells whether it did.
    pub(crate) fn act(&mut self, now: Instant) -> bool {
        let is_over = self.writers_end.take_if(|end| *end <= now).is_some();
        if is_over {
            self.watch.give_up_on_writers();
        }
        is_over
    }

    /// Looks at the files. Tells whether anything changed.
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

    /// The objects in force, what is wrong with how they are written, and what is of no kind that is understood.
    pub(crate) fn objects(&self) -> (&Index, Vec<Problem>, Skipped) {
        let problems = self.files.problems().chain(&self.duplicates).cloned().collect();
        (&self.index, problems, self.files.skipped())
    }

    fn build(&mut self) {
        (self.index, self.duplicates) = Index::build(self.files.objects());
    }

    /// Looks at the files, until all their folders are watched that there are.
    fn try_look(&mut self) -> Result<bool, LoadError> {
        let mut changed = self.files.refresh(self.watch.being_written());
        loop {
            let followed = self.watch.follow(self.files.extent());
            let is_new = followed.map_err(|(path, source)| LoadError::Watch { path, source })?;
            if !is_new {
                return Ok(changed);
            }
            changed |= self.files.refresh(self.watch.being_written());
        }
    }
}
