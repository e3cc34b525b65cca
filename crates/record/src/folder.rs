//! The folder of a record: its files by name, which of them a process writes, and their removal.
//!
//! A name is `RUN-NUMBER.segment` or `RUN-NUMBER.tail`, in hexadecimal digits: RUN is the time at which the
//! process began to record. So names sort by time, and two processes never write the same file. Who writes a
//! tail holds its lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::pack::{SEGMENT, TAIL, TailId};

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Segment,
    Tail,
}

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    pub(crate) id: TailId,
    pub(crate) form: Form,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl TailId {
    fn name(self, form: Form) -> String {
        let Self { run, number } = self;
        match form {
            Form::Segment => format!("{run:012x}-{number:08x}.segment"),
            Form::Tail => format!("{run:012x}-{number:08x}.tail"),
        }
    }

    fn of_name(name: &str) -> Option<(Self, Form)> {
        let (stem, ending) = name.rsplit_once('.')?;
        let form = match ending {
            "segment" => Form::Segment,
            "tail" => Form::Tail,
            _ => return None,
        };
        let (run, number) = stem.split_once('-')?;
        let number_of = |text| u64::from_str_radix(text, 16).ok();
        Some((Self { run: number_of(run)?, number: number_of(number)? }, form))
    }
}

/// The files of a record, the oldest first. Others are left out.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<Found>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some((id, form)) = entry.file_name().to_str().and_then(TailId::of_name) else { continue };
        // A file that is removed meanwhile is no error.
        let Ok(about) = entry.metadata() else { continue };
        files.push(Found { id, form, path: entry.path(), len: about.len() });
    }
    files.sort();
    Ok(files)
}

/// Creates a file of this process, with its head. A tail is locked as long as it is open.
pub(crate) fn create(folder: &Path, id: TailId, form: Form) -> io::Result<(File, PathBuf)> {
    let path = folder.join(id.name(form));
    let mut file = OpenOptions::new().append(true).create_new(true).open(&path)?;
    if form == Form::Tail {
        file.lock()?;
    }
    let head = if form == Form::Segment { SEGMENT } else { TAIL };
    if let Err(error) = file.write_all(head) {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok((file, path))
}

/// Opens a tail that no process writes, and locks it; none if one does.
pub(crate) fn adopt(path: &Path) -> io::Result<Option<(File, Vec<u8>)>> {
    let mut file = File::open(path)?;
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some((file, bytes)))
}

/// Whether a process writes the tail now. A tail that cannot be opened counts as one that is written.
pub(crate) fn is_written(path: &Path) -> bool {
    File::open(path).and_then(|file| file.try_lock().map_err(io::Error::from)).is_err()
}

/// Gives the kernel bytes at the end of a file. If not all of them are taken, the file gets its former length
/// back.
pub(crate) fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    file.write_all(bytes).inspect_err(|_| {
        // A reader leaves out what is torn; this only saves it the trouble.
        let _ = file.set_len(before);
    })
}
