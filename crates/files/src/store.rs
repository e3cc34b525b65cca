//! A cache of lookups, for as long as they are valid: files in memory, open files, and missing names.
//!
//! Workers share it. Reading the cache is quick; [`Store::look`] queries the file system and blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::file::{File, Kept};
use crate::limits::{LOOK_INTERVAL, MEMORY_ENTRY_BYTES, OPEN_FILES_MAX};
use crate::root::{ListedEntry, Miss, Node, Root, list};

/// A root with a cache of lookups.
#[derive(Debug)]
pub struct Store {
    root: Root,
    /// The results by name. Where there is no room, those are evicted that are used least.
    entries: Cache<Box<[u8]>, Arc<Entry>, Weight>,
}

/// Each shard of the table, with a lock of its own, has at least this many bytes.
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARDS_MAX: u64 = 16;

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum Found {
    /// A regular file.
    Page(Arc<Page>),
    /// A folder, which is not kept open.
    Folder,
    /// No object that can be served.
    Miss(Miss),
}

/// A file, with the compressed forms that stand beside it.
#[derive(Debug)]
pub struct Page {
    /// The file itself.
    pub plain: Arc<File>,
    /// The forms beside it.
    pub coded: Vec<(Coding, Arc<File>)>,
}

/// The compressed forms that are looked for beside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// The suffix `.br`.
    Brotli,
    /// The suffix `.zst`.
    Zstandard,
    /// The suffix `.gz`.
    Gzip,
}

#[derive(Debug)]
struct Entry {
    found: Found,
    /// When it was looked at, in nanoseconds.
    looked: AtomicU64,
}

/// The weight of entries, in bytes.
#[derive(Clone, Debug)]
struct Weight {
    /// Weight of an open file: all that may be open at a time weigh as much as the table holds.
    open: u64,
}

impl Coding {
    /// All, the one first that makes files shortest as a rule.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    fn suffix(self) -> &'static [u8] {
        match self {
            Self::Brotli => b".br",
            Self::Zstandard => b".zst",
            Self::Gzip => b".gz",
        }
    }
}

impl Store {
    /// Caches files below a root in up to `memory_max` bytes.
    #[expect(clippy::missing_panics_doc, reason = "the table has all options that it needs")]
    pub fn new(root: Root, memory_max: usize) -> Self {
        let memory_max = memory_max as u64;
        let options = OptionsBuilder::new()
            .shards((memory_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX) as usize)
            .estimated_items_capacity(OPEN_FILES_MAX)
            .weight_capacity(memory_max)
            .build()
            .expect("all options are there");
        let weight = Weight { open: memory_max.div_ceil(OPEN_FILES_MAX as u64) };
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { root, entries: Cache::with_options(options, weight, hasher, lifecycle) }
    }

    /// The cached result for a name, if it is still valid. `now` is any clock that all callers share. When a
    /// result expires, one caller gets none and looks again; the others get the old one meanwhile.
    pub fn recall(&self, name: &[u8], now: Duration) -> Option<Found> {
        let entry = self.entries.get(name)?;
        let (looked, now) = (entry.looked.load(Ordering::Relaxed), now.as_nanos() as u64);
        let has_expired = now.saturating_sub(looked) >= LOOK_INTERVAL.as_nanos() as u64;
        let set = |now| entry.looked.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed);
        (!has_expired || set(now).is_err()).then(|| entry.found.clone())
    }

    /// Looks a name up in the file system and caches the result. It blocks.
    pub fn look(&self, name: &[u8], now: Duration) -> Found {
        let known = self.entries.get(name);
        let known = match known.as_deref() {
            Some(Entry { found: Found::Page(page), .. }) => Some(&**page),
            _ => None,
        };
        let found = self.find(name, known);
        // Transient errors are not cached.
        if matches!(found, Found::Miss(Miss::NoRoot | Miss::NoDescriptor | Miss::Unreadable)) {
            self.entries.remove(name);
        } else {
            let looked = AtomicU64::new(now.as_nanos() as u64);
            self.entries.insert(name.into(), Arc::new(Entry { found: found.clone(), looked }));
        }
        found
    }

    /// The entries of a folder that may be served. It blocks.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn list(&self, name: &[u8], is_top: bool) -> Result<Vec<ListedEntry>, Miss> {
        match self.root.find(name)? {
            Node::Folder(folder) => list(&folder, is_top),
            Node::File(_) => Err(Miss::NotFound),
        }
    }

    fn find(&self, name: &[u8], known: Option<&Page>) -> Found {
        let plain = match self.file(name, known.map(|page| &page.plain)) {
            Ok(Some(file)) => file,
            Ok(None) => return Found::Folder,
            Err(miss) => return Found::Miss(miss),
        };
        let mut coded = Vec::new();
        let mut other = name.to_vec();
        for coding in Coding::ALL {
            other.truncate(name.len());
            other.extend_from_slice(coding.suffix());
            let known = known.and_then(|page| page.coded.iter().find(|(known, _)| *known == coding));
            if let Ok(Some(file)) = self.file(&other, known.map(|(_, file)| file)) {
                coded.push((coding, file));
            }
        }
        Found::Page(Arc::new(Page { plain, coded }))
    }

    /// The file under a name, which may be the cached one; none for a folder.
    fn file(&self, name: &[u8], known: Option<&Arc<File>>) -> Result<Option<Arc<File>>, Miss> {
        let opened = match self.root.find(name)? {
            Node::File(opened) => opened,
            Node::Folder(_) => return Ok(None),
        };
        match known.filter(|known| *known.identity() == opened.identity) {
            Some(known) => Ok(Some(Arc::clone(known))),
            None => File::take(opened).map(|file| Some(Arc::new(file))).map_err(|_| Miss::Unreadable),
        }
    }
}

impl Weighter<Box<[u8]>, Arc<Entry>> for Weight {
    fn weight(&self, name: &Box<[u8]>, entry: &Arc<Entry>) -> u64 {
        let of_file = |file: &File| match file.kept() {
            Kept::Memory(content) => content.len() as u64,
            Kept::Open(_) => self.open,
        };
        let files: u64 = match &entry.found {
            Found::Page(page) => {
                let all = page.coded.iter().map(|(_, file)| file).chain([&page.plain]);
                all.map(|file| MEMORY_ENTRY_BYTES + of_file(file)).sum()
            }
            Found::Folder | Found::Miss(_) => 0,
        };
        MEMORY_ENTRY_BYTES + name.len() as u64 + files
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::limits::MEMORY_FILE_BYTES_MAX;

    fn folder(files: &[(&str, usize)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, len) in files {
            fs::write(folder.path().join(name), vec![b'x'; *len]).unwrap();
        }
        folder
    }

    fn store(folder: &Path, memory_max: usize) -> Store {
        Store::new(Root::open(folder).unwrap(), memory_max)
    }

    const NOW: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_known_holds_for_a_while_and_one_looks_again() {
        let folder = folder(&[("a", 3)]);
        let store = store(folder.path(), 1 << 20);
        assert!(store.recall(b"a", NOW).is_none());
        let Found::Page(first) = store.look(b"a", NOW) else { panic!("it is there") };
        let later = NOW + LOOK_INTERVAL;
        assert!(matches!(store.recall(b"a", NOW), Some(Found::Page(_))));
        assert!(store.recall(b"a", later).is_none(), "one has to look again");
        assert!(store.recall(b"a", later).is_some(), "others have what is known");
        let Found::Page(again) = store.look(b"a", later) else { panic!("it is there") };
        assert!(Arc::ptr_eq(&first.plain, &again.plain), "what has not changed is not read again");
        fs::write(folder.path().join("a"), "other").unwrap();
        let Found::Page(other) = store.look(b"a", later) else { panic!("it is there") };
        assert!(matches!(other.plain.kept(), Kept::Memory(content) if **content == *b"other"));
        assert!(matches!(store.look(b"b", NOW), Found::Miss(Miss::NotFound)));
        assert!(matches!(store.recall(b"b", NOW), Some(Found::Miss(Miss::NotFound))));
    }

    #[test]
    fn memory_and_open_files_are_bounded() {
        let long = MEMORY_FILE_BYTES_MAX as usize + 1;
        let names: Vec<_> = (0..2 * OPEN_FILES_MAX).map(|number| format!("{number}")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), long)).collect();
        let folder = folder(&files);
        let of_long = store(folder.path(), 1 << 30);
        for name in &names {
            of_long.look(name.as_bytes(), NOW);
        }
        let open = of_long.entries.len();
        assert!(open > OPEN_FILES_MAX / 2 && open <= OPEN_FILES_MAX, "{open}");
        for name in &names {
            fs::write(folder.path().join(name), [b'x'; 1000]).unwrap();
        }
        let memory_max = 100_000;
        let of_short = store(folder.path(), memory_max);
        for name in &names {
            of_short.look(name.as_bytes(), NOW);
        }
        let memory = of_short.entries.weight();
        assert!(memory > memory_max as u64 / 2 && memory <= memory_max as u64, "{memory}");
        let nothing = store(folder.path(), 0);
        assert!(matches!(nothing.look(b"1", NOW), Found::Page(_)) && nothing.recall(b"1", NOW).is_none());
    }

    #[test]
    fn forms_beside_a_file_come_with_it() {
        let folder = folder(&[("a", 3), ("a.gz", 1), ("a.br", 2), ("b.gz", 1)]);
        fs::create_dir(folder.path().join("a.zst")).unwrap();
        let store = store(folder.path(), 1 << 20);
        let Found::Page(page) = store.look(b"a", NOW) else { panic!("it is there") };
        let codings: Vec<_> = page.coded.iter().map(|(coding, file)| (*coding, file.size())).collect();
        assert_eq!(codings, [(Coding::Brotli, 2), (Coding::Gzip, 1)]);
        assert!(matches!(store.look(b"b", NOW), Found::Miss(Miss::NotFound)), "a form alone is no file");
        assert!(matches!(store.look(b"", NOW), Found::Folder));
    }

    #[test]
    fn content_is_read_from_wherever_it_is() {
        let long = MEMORY_FILE_BYTES_MAX as usize + 10;
        let folder = folder(&[("short", 10), ("long", long)]);
        let store = store(folder.path(), 1 << 20);
        for (name, len) in [("short", 10), ("long", long)] {
            let Found::Page(page) = store.look(name.as_bytes(), NOW) else { panic!("it is there") };
            let mut into = [0; 100];
            assert_eq!(page.plain.read(len as u64 - 4, &mut into).unwrap(), 4);
            assert_eq!(&into[..4], b"xxxx");
            assert_eq!(page.plain.read(len as u64, &mut into).unwrap(), 0);
            page.plain.warm(0, len as u64);
            assert!(page.plain.is_at_hand(0, len as u64));
        }
    }
}
