//! Watches folders with inotify to learn that files may have changed.
//!
//! The kernel's events are not reliable enough to tell what changed, so that an event only makes the source look again. But they
//! tell when a file is open for writing, and such a file is left alone until it is closed.
//!
//! Never in here: the content of files.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::files::Extent;

/// Watches folders, each for changes of its direct entries.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    events: UnboundedReceiver<notify::Result<Event>>,
    /// The folders that are watched, each with its identity when the watch began: a watch follows the folder, not the name.
    folders: BTreeMap<PathBuf, FolderId>,
    extent: Extent,
    being_written: HashSet<PathBuf>,
}

type FolderId = (u64, u64);

impl Watch {
    pub(crate) fn new() -> notify::Result<Self> {
        let (sender, events) = unbounded_channel();
        let watcher = notify::recommended_watcher(move |event| {
            // The receiver may be gone while both are being dropped. The event does not matter then.
            let _ = sender.send(event);
        })?;
        let (folders, extent, being_written) = Default::default();
        Ok(Self { watcher, events, folders, extent, being_written })
    }

    /// Watches exactly the folders of this extent. Returns whether a folder is watched that was not before: it may hold changes
    /// that came before its watch.
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
            // The watch of a folder ends when the folder is removed, so that this may fail.
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
            // The folder has just been removed, which its parent folder reports.
            Err(_) => Ok(false),
        }
    }

    /// Waits for an event after which the files should be looked at.
    pub(crate) async fn changed(&mut self) {
        loop {
            match self.events.recv().await {
                Some(Ok(event)) if self.note(&event) => return,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "watching files");
                    return;
                }
                // The watcher holds the sender and lives as long as this value, so that this does not happen.
                None => std::future::pending().await,
            }
        }
    }

    /// Files that have been written to and not closed since.
    pub(crate) fn being_written(&self) -> &HashSet<PathBuf> {
        &self.being_written
    }

    /// Stops waiting for files to be closed. A writer that is still alive keeps its file open on purpose.
    pub(crate) fn give_up_on_writers(&mut self) {
        self.being_written.clear();
    }

    /// Handles an event. Returns whether it reports a change.
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
            // Reading files makes these events too: to act on them would never end.
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
