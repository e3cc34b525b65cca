//! Files of `/proc` and `/sys` as a sample holds them: with their content, or why there is none.
//!
//! Must not be in here: which files.

use std::io::Read;
use std::{fs, io};

use crate::sample::{Absence, PERMISSION_DENIED, Sample};

/// Bytes that are read of a file at once.
const READ_BYTES: usize = 16 << 10;

/// The path at which a file is read: `/proc/net` is that of the main thread, so that this thread's own folder
/// is used.
pub(super) fn at(path: &str) -> String {
    match path.strip_prefix("proc/net/") {
        Some(rest) => format!("/proc/thread-self/net/{rest}"),
        None => format!("/{path}"),
    }
}

pub(super) fn read_all(sample: &mut Sample, folder: &str, names: &[&str]) {
    for name in names {
        put(sample, &format!("{folder}/{name}"), &format!("/{folder}/{name}"));
    }
}

pub(super) fn put(sample: &mut Sample, path: &str, file: &str) {
    sample.put(path, read(file));
}

/// Reads a file in large steps: the kernel does not know how long it is, and hundreds are read.
pub(super) fn read(file: &str) -> Result<String, Absence> {
    let whole = || -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(file)?;
        let mut step = vec![0; READ_BYTES];
        let mut bytes = Vec::new();
        loop {
            match file.read(&mut step) {
                Ok(0) => return Ok(bytes),
                Ok(count) => bytes.extend_from_slice(&step[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    };
    let bytes = whole().map_err(|error| absence(&error))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn absence(error: &io::Error) -> Absence {
    match error.kind() {
        io::ErrorKind::NotFound => Absence::Missing,
        io::ErrorKind::PermissionDenied => Absence::Unreadable(PERMISSION_DENIED.into()),
        _ => Absence::Unreadable(error.to_string()),
    }
}

/// The names of the entries of a folder; empty if it cannot be read.
pub(super) fn names(folder: &str) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}
