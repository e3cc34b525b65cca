//! Accounts and certificates in a folder of this machine.
//!
//! `KIND/NAME/FILE` below the folder, readable by the owner alone. A file is replaced as a whole. One process
//! at a time writes: it holds the lock of the file `lock`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::entry::{Files, Kind, Stored};

/// Longest stored file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The folder of `--acme-dir`.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder, and tries to become the process that writes. None if another process is it.
    pub(super) fn lock(&self) -> Result<Option<File>, String> {
        let path = self.0.join("lock");
        let open = || {
            make_folder(&self.0)?;
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)
        };
        let file = open().map_err(|error| format!("{}: {error}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Reads everything. What cannot be read is logged and left out.
    pub(super) fn load(&self) -> Stored {
        let mut stored = Stored::new();
        for kind in Kind::ALL {
            let folder = self.0.join(kind.as_str());
            let names = match fs::read_dir(&folder) {
                Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    tracing::error!(path = %folder.display(), %error, "cannot read what is kept for ACME");
                    continue;
                }
            };
            for name in names.filter(|name| !name.starts_with('.')) {
                match read(&folder.join(&name)) {
                    Ok(files) => drop(stored.insert((kind, name), files)),
                    Err(error) => {
                        let path = folder.join(&name);
                        tracing::error!(path = %path.display(), %error, "cannot read what is kept for ACME");
                    }
                }
            }
        }
        stored
    }

    /// Stores the files of an entry, in the reverse order of their names: the key of a certificate, its
    /// chain, and the state last.
    pub(super) fn save(&self, kind: Kind, name: &str, files: &Files) -> Result<(), String> {
        let folder = self.0.join(kind.as_str()).join(name);
        make_folder(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (name, content) in files.iter().rev() {
            let path = folder.join(name);
            if fs::read(&path).is_ok_and(|before| before == *content) {
                continue;
            }
            replace(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Removes an entry.
    pub(super) fn remove(&self, kind: Kind, name: &str) -> Result<(), String> {
        let folder = self.0.join(kind.as_str()).join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", folder.display()))
            }
            _ => Ok(()),
        }
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn read(folder: &Path) -> io::Result<Files> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_of_use = !name.starts_with('.') && entry.metadata()?.len() <= FILE_BYTES_MAX;
        if is_of_use && entry.file_type()?.is_file() {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// Writes beside the old file and renames, so that a crash leaves one of the two.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn entries_are_stored_replaced_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path().join("acme"));
        assert!(folder.load().is_empty());
        let files = |state: &str| Files::from([("state.json".to_owned(), state.as_bytes().to_vec())]);
        folder.save(Kind::Certificate, "a.test", &files("1")).unwrap();
        folder.save(Kind::Certificate, "a.test", &files("2")).unwrap();
        folder.save(Kind::Account, "a", &files("3")).unwrap();
        let key = |kind, name: &str| (kind, name.to_owned());
        let expected = Stored::from([
            (key(Kind::Account, "a"), files("3")),
            (key(Kind::Certificate, "a.test"), files("2")),
        ]);
        assert_eq!(folder.load(), expected);
        let path = root.path().join("acme/certificates/a.test/state.json");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        folder.remove(Kind::Certificate, "a.test").unwrap();
        folder.remove(Kind::Certificate, "a.test").unwrap();
        assert_eq!(folder.load().len(), 1);
    }

    #[test]
    fn one_process_at_a_time_writes() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path().join("acme"));
        let first = folder.lock().unwrap();
        assert!(first.is_some() && folder.lock().unwrap().is_none());
        drop(first);
        assert!(folder.lock().unwrap().is_some());
        let beside = Folder::new(root.path().join("acme/lock/x"));
        assert!(beside.lock().unwrap_err().contains("acme/lock/x"));
    }
}
