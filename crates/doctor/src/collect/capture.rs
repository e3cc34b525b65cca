//! Samples as files: written to a tar, read from a tar or a folder.
//!
//! The file `PATH` of sample N is `N/PATH`; `N/forebay/sample.json` holds the time of the sample and the
//! files that are missing. A folder without such numbers, such as a copy of a node's `proc` and `sys`, is one
//! sample.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CollectError;
use crate::sample::{Absence, Sample, SampleOrigin};
use crate::samples::Samples;

const HEAD: &str = "forebay/sample.json";

/// The folders of a capture that are read: a copy of a machine may hold more.
const FOLDERS: &[&str] = &["proc", "sys", "host", "forebay"];

/// Longest file that is read, in bytes. No file that a check reads is longer.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(flatten)]
    taken: SampleOrigin,
    #[serde(default)]
    absent: BTreeMap<String, Absence>,
}

/// Writes the samples as a tar.
///
/// # Errors
///
/// When writing to `out` fails.
pub fn write(samples: &Samples, out: impl Write) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(out);
    for (index, sample) in samples.all.iter().enumerate() {
        let absent = sample
            .files()
            .filter_map(|(path, content)| Some((path.to_owned(), content.as_ref().err()?.clone())));
        let head = Head { taken: sample.taken.clone(), absent: absent.collect() };
        let head = serde_json::to_string(&head)?;
        let present =
            sample.files().filter_map(|(path, content)| Some((path, content.as_ref().ok()?.as_str())));
        for (path, text) in present.chain([(HEAD, head.as_str())]) {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("{}/{path}", index + 1), text.as_bytes())?;
        }
    }
    archive.into_inner()?.flush()
}

/// Reads a capture: a tar written by [`write()`], the same unpacked, or a copy of a machine's `proc` and
/// `sys`.
///
/// # Errors
///
/// When the path does not exist, or does not hold a capture.
pub fn load(path: &Path) -> Result<Samples, CollectError> {
    let failed = |why: String| CollectError::Captured { path: path.display().to_string(), why };
    let metadata = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    let files = if metadata.is_dir() {
        let mut files = Vec::new();
        read_folder(path, "", &mut files).map_err(|error| failed(error.to_string()))?;
        files
    } else {
        read_tar(path).map_err(|error| failed(format!("no tar: {error}")))?
    };
    let samples = samples(files).map_err(failed)?;
    if samples.is_empty() {
        return Err(failed("there is neither proc nor sys in it".into()));
    }
    Ok(Samples { all: samples, ..Samples::default() })
}

fn read_tar(path: &Path) -> std::io::Result<Vec<(String, String)>> {
    let mut archive = tar::Archive::new(File::open(path)?);
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() && entry.size() <= FILE_BYTES_MAX {
            let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.push((path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(files)
}

/// The files below `root/folder`, with their paths below `root`. Symbolic links are not followed, since they
/// may point anywhere.
fn read_folder(root: &Path, folder: &str, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata()?;
        if metadata.is_dir() && (!folder.is_empty() || is_ours(&path)) {
            read_folder(root, &format!("{path}/"), files)?;
        } else if metadata.is_file() && !folder.is_empty() && metadata.len() <= FILE_BYTES_MAX {
            let bytes = fs::read(entry.path())?;
            files.push((path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(())
}

fn is_ours(folder: &str) -> bool {
    FOLDERS.contains(&folder) || folder.parse::<usize>().is_ok()
}

/// Sorts files into samples by the number at the beginning of their path; a path without one belongs to the
/// first sample.
fn samples(files: Vec<(String, String)>) -> Result<Vec<Sample>, String> {
    let mut samples = BTreeMap::<usize, Sample>::new();
    for (path, text) in files {
        let numbered = path.split_once('/').and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
        let (number, path) = numbered.unwrap_or((1, &path));
        let sample = samples.entry(number).or_default();
        if path == HEAD {
            let head: Head = serde_json::from_str(&text).map_err(|error| format!("{HEAD}: {error}"))?;
            sample.taken = head.taken;
            for (path, absence) in head.absent {
                sample.put(path, Err(absence));
            }
        } else if FOLDERS.contains(&path.split('/').next().unwrap_or_default()) {
            sample.put(path, Ok(text));
        }
    }
    let mut samples: Vec<_> = samples.into_values().collect();
    for sample in samples.iter_mut().filter(|sample| sample.taken.pids.is_empty()) {
        sample.taken.pids = pids(sample);
    }
    Ok(samples)
}

/// The processes whose files are in the copy.
fn pids(sample: &Sample) -> Vec<u32> {
    let mut pids: Vec<u32> = sample
        .under("proc/")
        .filter_map(|(path, _)| path.strip_prefix("proc/")?.split('/').next()?.parse().ok())
        .collect();
    pids.dedup();
    pids
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes what it reads")]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let mut first = Sample::default();
        first.put("proc/stat", Ok("cpu 1\n".into()));
        first.put("proc/net/ip_vs", Err(Absence::Missing));
        let mut last = first.clone();
        last.taken.seconds = 2.5;
        last.taken.pids = vec![7];
        last.put("proc/stat", Ok("cpu 2\n".into()));
        Samples { all: vec![first, last], ..Samples::default() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        write(&samples(), file.as_file()).expect("room");
        let read = load(file.path()).expect("a tar");
        assert_eq!(read.all.len(), 2);
        for (read, written) in read.all.iter().zip(samples().all) {
            assert_eq!(read.taken, written.taken);
            assert!(read.files().eq(written.files()));
        }
    }

    #[test]
    fn a_copy_of_a_machine_is_one_sample() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("proc/42")).expect("a folder");
        fs::create_dir_all(folder.path().join("etc")).expect("a folder");
        fs::write(folder.path().join("proc/42/comm"), "nginx\n").expect("a file");
        fs::write(folder.path().join("etc/passwd"), "root\n").expect("a file");
        let samples = load(folder.path()).expect("a sample");
        let sample = samples.last().expect("one");
        assert_eq!(sample.files().map(|(path, _)| path).collect::<Vec<_>>(), ["proc/42/comm"]);
        assert_eq!(sample.taken.pids, [42]);
    }

    #[test]
    fn what_was_never_captured_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let why = |path: &Path| load(path).expect_err("nothing to read").to_string();
        assert!(why(folder.path()).ends_with("there is neither proc nor sys in it"));
        assert!(why(&folder.path().join("x")).contains("No such file"));
        fs::write(folder.path().join("x"), "no tar").expect("a file");
        assert!(why(&folder.path().join("x")).contains("no tar"));
    }
}
