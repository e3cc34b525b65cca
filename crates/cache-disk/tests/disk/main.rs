//! The disk tier as a whole, in folders of its own.

mod damage;
mod death;
mod folders;
mod full;
mod model;
mod room;
mod standby;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cache_disk::{Disk, Record, Size, StoredRecord};

/// Small segments, so that there are many.
const SIZE: Size = Size { bytes: 1 << 20, segment_bytes: 32 << 10 };

/// Longest wait in a test; nothing takes so long.
const LONG: Duration = Duration::from_secs(60);

fn open(path: &Path, size: Size) -> Disk {
    let disk = Disk::open(path, size).unwrap();
    while disk.figures().loading {
        std::thread::yield_now();
    }
    disk
}

fn get(disk: &Disk, key: &str) -> Option<StoredRecord> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(disk.get(key.as_bytes()))
}

/// A record whose body is unique: the key and a number, over and over.
fn record(key: &str, number: u64, len: usize) -> Record {
    let body = body(key, number, len);
    let (one, other) = body.split_at(len / 3);
    Record {
        labels: vec![format!("key:{key}").into_bytes(), b"all".to_vec()],
        meta: Bytes::from(number.to_le_bytes().to_vec()),
        body: vec![Bytes::from(one.to_vec()), Bytes::from(other.to_vec())],
    }
}

fn body(key: &str, number: u64, len: usize) -> Vec<u8> {
    format!("{key}={number};").into_bytes().into_iter().cycle().take(len).collect()
}

fn insert(disk: &Disk, key: &str, number: u64, len: usize) {
    disk.insert(Bytes::from(key.to_owned()), record(key, number, len));
}

/// The number of a record that was found, which must have been written so.
fn number(key: &str, found: &StoredRecord) -> u64 {
    let number = u64::from_le_bytes(found.meta[..].try_into().unwrap());
    assert_eq!(found.body, body(key, number, found.body.len()), "{key}");
    number
}

fn numbers(disk: &Disk, keys: impl IntoIterator<Item = String>) -> Vec<Option<u64>> {
    keys.into_iter().map(|key| get(disk, &key).map(|found| number(&key, &found))).collect()
}

#[test]
fn what_is_written_is_found_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), SIZE);
    for (place, len) in [0, 1, 100, 20_000].into_iter().enumerate() {
        insert(&disk, &format!("k{place}"), 7, len);
    }
    insert(&disk, "k1", 8, 5);
    disk.flush(LONG);
    let keys = || (0..5).map(|place| format!("k{place}"));
    let expected = [Some(7), Some(8), Some(7), Some(7), None];
    assert_eq!(numbers(&disk, keys()), expected);
    let figures = disk.figures();
    assert_eq!((figures.records, figures.written, figures.hits, figures.dropped), (4, 5, 4, 0));
    drop(disk);
    let disk = open(folder.path(), SIZE);
    assert_eq!(numbers(&disk, keys()), expected);
}
