//! What was found under names, for as long as it holds: files in memory, open files, and that there is nothing.
//!
//! Workers share it. A look into it is short; what has to be asked of the file system is asked by [`Store::look`], which blocks.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use parking_lot::Mutex;

use crate::file::{File, Kept};
use crate::limits::{LOOK_INTERVAL, MEMORY_ENTRY_BYTES, OPEN_FILES_MAX};
use crate::root::{ListedEntry, Miss, Node, Root, list};

/// A root with what is remembered of it.
#[derive(Debug)]
pub struct Store {
    root: Root,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    memory_max: usize,
    /// Bytes in all shards.
    memory: AtomicUsize,
    /// Open files in all shards.
    open: AtomicUsize,
}

/// A power of two. A lock is held for a look at a table.
const SHARDS: usize = 16;

/// Entries of which the one that was used longest ago makes room.
const SAMPLE: usize = 8;

/// What stands under a name.
#[derive(Clone, Debug)]
pub enum Found {
    /// A file.
    Page(Arc<Page>),
    /// A folder.
    Folder,
    /// Nothing that is served.
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
    /// `.br`.
    Brotli,
    /// `.zst`.
    Zstandard,
    /// `.gz`.
    Gzip,
}

#[derive(Debug, Default)]
struct Shard {
    entries: IndexMap<Box<[u8]>, Entry, RandomState>,
    /// For samples.
    random: u64,
}

#[derive(Debug)]
struct Entry {
    found: Found,
    /// When it was looked at.
    looked: Duration,
    /// When it was used.
    used: Duration,
    bytes: usize,
    open: usize,
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
    /// Remembers what is below a root in so many bytes.
    pub fn new(root: Root, memory_max: usize) -> Self {
        Self {
            root,
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            memory_max,
            memory: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        }
    }

    /// What is remembered of a name, if that still holds. `now` is any clock that all callers share. Of several callers one is told to look
    /// again; the others are given what there is.
    pub fn recall(&self, name: &[u8], now: Duration) -> Option<Found> {
        let mut shard = self.shard(name).lock();
        let entry = shard.entries.get_mut(name)?;
        entry.used = now;
        if now.saturating_sub(entry.looked) >= LOOK_INTERVAL {
            entry.looked = now;
            return None;
        }
        Some(entry.found.clone())
    }

    /// Looks a name up in the file system, and remembers what is there. It blocks.
    pub fn look(&self, name: &[u8], now: Duration) -> Found {
        let known = self.shard(name).lock().entries.get(name).map(|entry| entry.found.clone());
        let known = match &known {
            Some(Found::Page(page)) => Some(&**page),
            _ => None,
        };
        let found = self.find(name, known);
        // What has to do with this moment alone is no use at another.
        if matches!(found, Found::Miss(Miss::NoRoot | Miss::NoDescriptor | Miss::Unreadable)) {
            self.forget(name);
        } else {
            self.remember(name, found.clone(), now);
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

    /// The file under a name, which may be the one that is known; none for a folder.
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

    fn remember(&self, name: &[u8], found: Found, now: Duration) {
        let (content, open) = weight(&found);
        let bytes = MEMORY_ENTRY_BYTES + name.len() + content;
        let mut shard = self.shard(name).lock();
        self.remove(&mut shard, |entries| entries.swap_remove(name));
        if bytes > self.memory_max {
            return;
        }
        let is_over = || {
            self.memory.load(Ordering::Relaxed) + bytes > self.memory_max
                || (open > 0 && self.open.load(Ordering::Relaxed) + open > OPEN_FILES_MAX)
        };
        while is_over() {
            // Others hold what there is room for, in their shards.
            let Some(at) = shard.oldest() else { return };
            self.remove(&mut shard, |entries| entries.swap_remove_index(at).map(|(_, entry)| entry));
        }
        self.memory.fetch_add(bytes, Ordering::Relaxed);
        self.open.fetch_add(open, Ordering::Relaxed);
        shard.entries.insert(name.into(), Entry { found, looked: now, used: now, bytes, open });
    }

    fn forget(&self, name: &[u8]) {
        self.remove(&mut self.shard(name).lock(), |entries| entries.swap_remove(name));
    }

    fn remove(
        &self,
        shard: &mut Shard,
        remove: impl FnOnce(&mut IndexMap<Box<[u8]>, Entry, RandomState>) -> Option<Entry>,
    ) {
        if let Some(entry) = remove(&mut shard.entries) {
            self.memory.fetch_sub(entry.bytes, Ordering::Relaxed);
            self.open.fetch_sub(entry.open, Ordering::Relaxed);
        }
    }

    fn shard(&self, name: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(name) as usize % SHARDS]
    }
}

impl Shard {
    /// Of a few entries the one that was used longest ago.
    fn oldest(&mut self) -> Option<usize> {
        let len = self.entries.len();
        let sample = (0..SAMPLE).map(|_| {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) as usize
        });
        let places: Vec<_> = sample.filter_map(|number| number.checked_rem(len)).collect();
        places.into_iter().min_by_key(|&place| self.entries[place].used)
    }
}

/// Bytes in memory, and open files.
fn weight(found: &Found) -> (usize, usize) {
    let Found::Page(page) = found else { return (0, 0) };
    let files = page.coded.iter().map(|(_, file)| file).chain([&page.plain]);
    files.fold((0, 0), |(bytes, open), file| match file.kept() {
        Kept::Memory(content) => (bytes + content.len() + MEMORY_ENTRY_BYTES, open),
        Kept::Open(_) => (bytes + MEMORY_ENTRY_BYTES, open + 1),
    })
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
        let open = of_long.open.load(Ordering::Relaxed);
        assert!(open > 0 && open <= OPEN_FILES_MAX, "{open}");
        for name in &names {
            fs::write(folder.path().join(name), [b'x'; 1000]).unwrap();
        }
        let memory_max = 100_000;
        let of_short = store(folder.path(), memory_max);
        for name in &names {
            of_short.look(name.as_bytes(), NOW);
        }
        let memory = of_short.memory.load(Ordering::Relaxed);
        assert!(memory > memory_max / 2 && memory <= memory_max, "{memory}");
        for name in &names {
            of_short.forget(name.as_bytes());
        }
        assert_eq!(of_short.memory.load(Ordering::Relaxed), 0);
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
