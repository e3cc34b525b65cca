//! Archives with a database, as they are downloaded.

use std::fmt::Write as _;
use std::io::Read;

use aws_lc_rs::digest::{SHA256, digest};
use flate2::read::GzDecoder;
use geo::Edition;

/// Longest database in bytes.
pub(super) const DATABASE_BYTES_MAX: u64 = 1 << 30;

/// Longest contents of an archive in bytes: a database, and texts beside it.
const CONTENTS_BYTES_MAX: u64 = DATABASE_BYTES_MAX + (16 << 20);

/// The database in an archive `.tar.gz`: the file with the name of the edition, in any folder.
pub(super) fn unpack(edition: Edition, archive: &[u8]) -> Result<Vec<u8>, String> {
    let mut tar = tar::Archive::new(GzDecoder::new(archive).take(CONTENTS_BYTES_MAX));
    let wrong = |error: std::io::Error| format!("the archive cannot be unpacked: {error}");
    let name = edition.file_name();
    for entry in tar.entries().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let is_it = entry.path().is_ok_and(|path| path.file_name().is_some_and(|file| *file == *name));
        if !is_it || !entry.header().entry_type().is_file() {
            continue;
        }
        if entry.size() > DATABASE_BYTES_MAX {
            return Err(format!("{name} in the archive is longer than {DATABASE_BYTES_MAX} bytes"));
        }
        let mut database = Vec::new();
        entry.take(DATABASE_BYTES_MAX).read_to_end(&mut database).map_err(wrong)?;
        return Ok(database);
    }
    Err(format!("the archive has no {name}"))
}

/// Compares an archive with the text of its `.sha256`: the digest in hexadecimal digits, and a file's name.
pub(super) fn check(archive: &[u8], text: &str) -> Result<(), String> {
    let expected = text.split_ascii_whitespace().next().unwrap_or_default();
    if hex(digest(&SHA256, archive).as_ref()).eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err("the archive has another SHA-256 than its .sha256 says".to_owned())
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
