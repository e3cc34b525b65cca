//! Watches folders with inotify to learn that files may have changed.
//!
//! The kernel's events are not reliable enough to identify a change, so an event only makes the source
//! compare the files. But events do reveal that a file is open for writing, and such a file stays unread
//! until it is closed.
//!
//! Never in here: the content of files.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::files::Extent;

/// Watches folders, each for changes of its direct entries.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    noted: Arc<Shared>,
    /// The watched folders, each with its identity when the watch began: a watch follows the folder, not the
    /// name.
    folders: BTreeMap<PathBuf, FolderId>,
}

type FolderId = (u64, u64);

/// The state that the watcher's thread shares. Events are not stored, because a folder may contain foreign
/// files that are written all the time.
#[derive(Default)]
struct Shared {
    noted: Mutex<Noted>,
    changed: Notify,
}

#[derive(Default)]
struct Noted {
    extent: Extent,
    being_written: HashSet<PathBuf>,
}

impl Watch {
    pub(crate) fn new() -> notify::Result<Self> {
        let noted = Arc::<Shared>::default();
        let shared = Arc::clone(&noted);
        let watcher = notify::recommended_watcher(move |event| shared.note(event))?;
        Ok(Self { watcher, noted, folders: BTreeMap::new() })
    }

    /// Watches exactly the folders of this extent. Returns whether a folder is newly watched: it may contain
    /// changes from before its watch.
    pub(crate) fn follow(&mut self, extent: &Extent) -> Result<bool, (PathBuf, notify::Error)> {
        self.noted.lock().extent = extent.clone();
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
            // The watch may be gone already, because it ends with the folder.
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
            // The folder has just been removed. Its parent folder reports this.
            Err(_) => Ok(false),
        }
    }

    /// Waits for an event after which the files should be compared.
    pub(crate) async fn changed(&mut self) {
        self.noted.changed.notified().await;
    }

    /// Files that another process has written to and not yet closed.
    pub(crate) fn being_written(&self) -> HashSet<PathBuf> {
        self.noted.lock().being_written.clone()
    }

    /// Ends the wait for open files. A writer that is still alive holds its file open on purpose.
    pub(crate) fn give_up_on_writers(&mut self) {
        self.noted.lock().being_written.clear();
    }
}

impl Shared {
    fn note(&self, event: notify::Result<Event>) {
        let is_change = event.map_or_else(
            |error| {
                tracing::warn!(%error, "watching files");
                true
            },
            |event| self.lock().note(&event),
        );
        if is_change {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
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
            // Reading files causes these events too: handling them would never end.
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
