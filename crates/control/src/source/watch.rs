//! Being told that files may have changed.
//!
//! The kernel's events say little for sure, so they only make the source look; but they tell when somebody is writing to
//! a file, and such a file is let alone until it is closed.
//!
//! Never in here: what the files hold.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::files::Extent;

/// Watches folders, each for its immediate entries.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    events: UnboundedReceiver<notify::Result<Event>>,
    /// Folders watched, with what they were when the watch was set: another folder under the same name is not watched.
    folders: BTreeMap<PathBuf, FolderId>,
    extent: Extent,
    being_written: HashSet<PathBuf>,
}

type FolderId = (u64, u64);

impl Watch {
    pub(crate) fn new() -> notify::Result<Self> {
        let (sender, events) = unbounded_channel();
        let watcher = notify::recommended_watcher(move |event| {
            // The receiver goes away with the watcher; an event in between is nobody's.
            let _ = sender.send(event);
        })?;
        let (folders, extent, being_written) = Default::default();
        Ok(Self { watcher, events, folders, extent, being_written })
    }

    /// Watches what there is of this extent and nothing else. Tells whether some folder was not watched before, and hence
    /// may hold what no event has told of.
    pub(crate) fn follow(&mut self, extent: &Extent) -> Result<bool, (PathBuf, notify::Error)> {
        self.extent = extent.clone();
        let identified = |folder: PathBuf| folder_id(&folder).map(|id| (folder, id));
        let wanted: BTreeMap<_, _> = extent.watched().into_iter().filter_map(identified).collect();
        self.unwatch_others(&wanted);
        let mut is_new = false;
        for (folder, id) in wanted {
            is_new |= !self.folders.contains_key(&folder) && self.watch(folder, id)?;
        }
        Ok(is_new)
    }

    fn unwatch_others(&mut self, wanted: &BTreeMap<PathBuf, FolderId>) {
        let is_stale = |(folder, id): &(&PathBuf, &FolderId)| wanted.get(*folder) != Some(*id);
        let stale: Vec<_> = self.folders.iter().filter(is_stale).map(|(folder, _)| folder.clone()).collect();
        for folder in stale {
            self.folders.remove(&folder);
            // A folder that is gone took its watch along.
            let _ = self.watcher.unwatch(&folder);
        }
    }

    fn watch(&mut self, folder: PathBuf, id: FolderId) -> Result<bool, (PathBuf, notify::Error)> {
        match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.folders.insert(folder, id);
                Ok(true)
            }
            Err(error) if folder_id(&folder) == Some(id) => Err((folder, error)),
            // It went away, which the folder above it tells.
            Err(_) => Ok(false),
        }
    }

    /// Waits for something that makes it worth looking at the files.
    pub(crate) async fn changed(&mut self) {
        loop {
            match self.events.recv().await {
                Some(Ok(event)) if self.note(&event) => return,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "watching files");
                    return;
                }
                // The watcher holds the sender, and lives as long as this.
                None => std::future::pending().await,
            }
        }
    }

    /// Files that somebody has written to and not closed since.
    pub(crate) fn being_written(&self) -> &HashSet<PathBuf> {
        &self.being_written
    }

    /// Stops waiting for files to be closed. Their writers, if they live, keep them open on purpose.
    pub(crate) fn give_up_on_writers(&mut self) {
        self.being_written.clear();
    }

    /// Takes note of an event. Tells whether it is about a change.
    fn note(&mut self, event: &Event) -> bool {
        if event.need_rescan() {
            self.being_written.clear();
            return true;
        }
        if !event.paths.iter().any(|path| self.extent.concerns(path)) {
            return false;
        }
        match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => self.being_written.extend(event.paths.iter().cloned()),
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Remove(_) => {
                for path in &event.paths {
                    self.being_written.remove(path);
                }
            }
            // Reading files makes events as well: to follow those would be to run in circles.
            EventKind::Access(_) => return false,
            _ => {}
        }
        true
    }
}

fn folder_id(folder: &Path) -> Option<FolderId> {
    let metadata = fs::metadata(folder).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}
