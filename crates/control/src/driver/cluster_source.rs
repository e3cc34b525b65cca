//! The objects of a cluster as the driver follows them, with the copy of them on disk.

use std::time::{Duration, Instant};

use crate::index::Index;
use crate::objects::Object;
use crate::options::Options;
use crate::problem::Problem;
use crate::source::Skipped;
use crate::source::cluster::{Cluster, Condition, DiskCache};

/// Delay before a change is processed that does not affect what is served, such as a new status.
const TOUCH_DELAY: Duration = Duration::from_secs(2);

/// Least time between two copies of the objects on disk.
const KEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Time that the API server has to answer before the copy of the objects on disk is served instead.
const PATIENCE: Duration = Duration::from_secs(3);

/// The objects of a cluster, and the copy of them on disk.
pub(super) struct ClusterSource {
    pub(super) cluster: Cluster,
    kept: Option<DiskCache>,
    /// The objects of the copy on disk, served until the cluster's objects have been listed.
    from_disk: Option<Index>,
    /// The time at which the wait for the cluster ends and the copy on disk is served.
    patience_ends: Option<Instant>,
    /// The time at which changes are processed that do not affect what is served, such as a new status.
    glance: Option<Instant>,
    /// The time at which the next copy is written to disk.
    keep: Option<Instant>,
    keeping: Option<tokio::task::JoinHandle<()>>,
}

impl ClusterSource {
    pub(super) fn new(cluster: Cluster, kept: Option<DiskCache>) -> Self {
        let patience_ends = kept.is_some().then(|| Instant::now() + PATIENCE);
        Self { cluster, kept, from_disk: None, patience_ends, glance: None, keep: None, keeping: None }
    }

    /// Waits for an event of the cluster. The future is cancel-safe.
    pub(super) async fn changed(&mut self, options: &Options) {
        self.cluster.changed(options).await;
    }

    /// The time of the next task.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.patience_ends, self.glance, self.keep].into_iter().flatten().min()
    }

    /// The objects and the problems of reading them; none while the objects are not complete.
    pub(super) fn objects(&self) -> Option<(&Index, Vec<Problem>, Skipped)> {
        Some((self.index()?, self.cluster.problems().collect(), Skipped::new()))
    }

    pub(super) fn lacks_classes(&self) -> bool {
        self.cluster.lacks_classes()
    }

    pub(super) fn condition(&self) -> Condition {
        Condition {
            from_disk: self.cluster.index().is_none() && self.from_disk.is_some(),
            ..self.cluster.condition()
        }
    }

    /// Has a copy written to disk soon, since a new translation was published.
    pub(super) fn note_published(&mut self) {
        if self.kept.is_some() && self.cluster.index().is_some() {
            self.keep.get_or_insert_with(|| Instant::now() + KEEP_INTERVAL);
        }
    }

    fn index(&self) -> Option<&Index> {
        self.cluster.index().or(self.from_disk.as_ref())
    }

    pub(super) fn note_change(&mut self, now: Instant) -> bool {
        if self.patience_ends.is_some() && self.cluster.index().is_some() {
            self.patience_ends = None;
        }
        let changed = self.cluster.take_changed();
        if self.cluster.take_touched() {
            self.glance.get_or_insert(now + TOUCH_DELAY);
        }
        if changed && self.from_disk.is_some() && self.cluster.index().is_some() {
            self.from_disk = None;
            tracing::info!("the API server has told of everything: what was kept on disk is served no more");
        }
        changed
    }

    pub(super) fn act(&mut self, now: Instant) -> bool {
        if self.keep.take_if(|keep| *keep <= now).is_some() {
            self.keep_copy(now);
        }
        if self.glance.take_if(|glance| *glance <= now).is_some() {
            return true;
        }
        let is_over = self.patience_ends.take_if(|end| *end <= now).is_some();
        is_over && self.cluster.index().is_none() && self.load()
    }

    /// Loads the copy on disk. Returns whether a copy exists.
    fn load(&mut self) -> bool {
        let Some(kept) = &self.kept else { return false };
        let path = kept.path().display();
        match kept.load() {
            Ok(Some(index)) => {
                tracing::warn!(%path, "the API server does not tell of everything: serving what was kept on disk");
                self.from_disk = Some(index);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::error!(%path, %error, "cannot read what was kept on disk");
                false
            }
        }
    }

    /// Writes a copy to disk on another thread, because a slow disk must not delay a change.
    fn keep_copy(&mut self, now: Instant) {
        let (Some(kept), Some(index)) = (&self.kept, self.cluster.index()) else { return };
        if self.keeping.as_ref().is_some_and(|writing| !writing.is_finished()) {
            self.keep = Some(now + KEEP_INTERVAL);
            return;
        }
        let (kept, objects): (_, Vec<Object>) = (kept.clone(), index.objects().collect());
        self.keeping = Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = kept.save(&objects) {
                tracing::warn!(path = %kept.path().display(), %error, "cannot keep a copy of the objects on disk");
            }
        }));
    }
}
