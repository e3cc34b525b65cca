//! Files of databases: read, verified and stored.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use geo::{Database, Databases, Edition};

use super::archive::DATABASE_BYTES_MAX;
use super::sources::Sources;
use super::{Loaded, Wanted};
use crate::objects::{Secret, Sourced};

/// Reads databases, and stores those that are read.
pub(super) struct Reader {
    sources: Sources,
    known: BTreeMap<Edition, Known>,
    last: Option<Databases>,
    /// The number of the last databases that any reader of this process has made.
    serial: Arc<AtomicU64>,
}

struct Known {
    stamp: Stamp,
    database: Arc<Database>,
}

/// The version of a database's bytes.
#[derive(Clone, PartialEq)]
enum Stamp {
    File {
        device: u64,
        inode: u64,
        size: u64,
        modified: Option<SystemTime>,
    },
    /// Bytes of a Secret.
    Secret(Vec<u8>),
    /// A download that could not be stored.
    Memory,
}

impl Reader {
    pub(super) fn new(sources: Sources, serial: Arc<AtomicU64>) -> Self {
        Self { sources, known: BTreeMap::new(), last: None, serial }
    }

    pub(super) fn shared(sources: &Sources, serial: &Arc<AtomicU64>) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self::new(sources.clone(), Arc::clone(serial))))
    }

    /// Reads all databases that have changed. One that cannot be read stays as it was before.
    pub(super) fn read(&mut self, secret: Option<&Sourced<Secret>>) -> Loaded {
        let mut faults = Vec::new();
        let of_secret = secret.map(|secret| editions_of(secret, &mut faults)).unwrap_or_default();
        let mut editions = match (&self.sources.editions, of_secret.is_empty()) {
            (None, false) => Vec::new(),
            _ => self.sources.editions(),
        };
        editions.extend(
            of_secret.iter().copied().filter(|edition| !editions.contains(edition)).collect::<Vec<_>>(),
        );
        let mut all: Vec<Arc<Database>> = Vec::new();
        for edition in editions {
            let from = secret.filter(|_| of_secret.contains(&edition));
            if let Err(why) = self.renew(edition, from) {
                let stays =
                    if self.known.contains_key(&edition) { "; the one of before stays in use" } else { "" };
                faults.push(format!("database {edition}: {why}{stays}"));
            }
            all.extend(self.known.get(&edition).map(|known| Arc::clone(&known.database)));
        }
        let is_same = |last: &Databases| {
            last.iter().count() == all.len() && last.iter().zip(&all).all(|(old, new)| Arc::ptr_eq(old, new))
        };
        if !self.last.as_ref().is_some_and(is_same) {
            let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
            self.last = Some(Databases::new(all, serial));
        }
        let databases = self.last.clone().filter(|databases| databases.iter().next().is_some());
        let is_complete = faults.is_empty();
        Loaded { databases, faults, is_complete }
    }

    fn renew(&mut self, edition: Edition, secret: Option<&Sourced<Secret>>) -> Result<(), String> {
        let path = self.sources.folder.join(edition.file_name());
        let is_known = |stamp: &Stamp| self.known.get(&edition).is_some_and(|known| known.stamp == *stamp);
        let (stamp, bytes) = if let Some(secret) = secret {
            let bytes = secret.content(&edition.file_name())?;
            (Stamp::Secret(bytes.clone()), bytes)
        } else {
            let mut file = match File::open(&path) {
                Ok(file) => file,
                // A download that could not be stored is all there is.
                Err(_) if is_known(&Stamp::Memory) => return Ok(()),
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            let stamp = Stamp::of(&file).map_err(|error| format!("{}: {error}", path.display()))?;
            if is_known(&stamp) {
                return Ok(());
            }
            (stamp, read_all(&mut file).map_err(|error| format!("{}: {error}", path.display()))?)
        };
        if is_known(&stamp) {
            return Ok(());
        }
        let place = if secret.is_some() { "the Secret".to_owned() } else { path.display().to_string() };
        let database = Database::read(edition, bytes).map_err(|error| format!("{place}: {error}"))?;
        self.known.insert(edition, Known { stamp, database: Arc::new(database) });
        Ok(())
    }

    /// Takes a downloaded database into use, and stores it in the folder for the next start if that can be
    /// written.
    ///
    /// # Errors
    ///
    /// The bytes are not a database of the edition.
    pub(super) fn accept(&mut self, edition: Edition, bytes: Vec<u8>) -> Result<(), String> {
        let file = Part::write(&self.sources.folder, edition, &bytes);
        let database = Database::read(edition, bytes).map_err(|error| error.to_string())?;
        let stamp = file.and_then(Part::publish).unwrap_or_else(|error| {
            let folder = self.sources.folder.display();
            tracing::info!(%edition, %folder, %error, "the downloaded database is kept in memory alone");
            Stamp::Memory
        });
        self.known.insert(edition, Known { stamp, database: Arc::new(database) });
        Ok(())
    }
}

impl Stamp {
    fn of(file: &File) -> std::io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self::File {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: metadata.modified().ok(),
        })
    }
}

fn read_all(file: &mut File) -> std::io::Result<Vec<u8>> {
    let size = file.metadata()?.size();
    if size > DATABASE_BYTES_MAX {
        return Err(std::io::Error::other(format!("longer than {DATABASE_BYTES_MAX} bytes")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(DATABASE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file beside the place of a database, from which it is moved there: a reader never finds half of it.
/// It is removed if it is not published.
struct Part {
    beside: PathBuf,
    place: PathBuf,
    file: File,
}

impl Part {
    fn write(folder: &Path, edition: Edition, bytes: &[u8]) -> std::io::Result<Self> {
        let name = edition.file_name();
        let beside = folder.join(format!(".{name}.part"));
        let mut part = Self { file: File::create(&beside)?, place: folder.join(name), beside };
        part.file.write_all(bytes)?;
        part.file.sync_all()?;
        Ok(part)
    }

    fn publish(self) -> std::io::Result<Stamp> {
        fs::rename(&self.beside, &self.place)?;
        Stamp::of(&self.file)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Nothing is there any more once it has been published.
        let _ = fs::remove_file(&self.beside);
    }
}

/// The editions among a Secret's keys.
fn editions_of(secret: &Sourced<Secret>, faults: &mut Vec<String>) -> Vec<Edition> {
    let mut editions = Vec::new();
    for key in secret.keys() {
        let name = key.strip_suffix(".mmdb").unwrap_or(key);
        match name.parse() {
            Ok(edition) if name != key => editions.push(edition),
            _ => faults.push(format!(
                "Secret {}: key {key} is not the file of an edition, such as GeoLite2-Country.mmdb",
                secret.key()
            )),
        }
    }
    editions
}

impl Wanted {
    /// Time until the files are looked at again, if they are.
    pub(super) fn reload(&self) -> Option<std::time::Duration> {
        self.reload.filter(|reload| !reload.is_zero())
    }
}
