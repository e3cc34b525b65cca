//! Removal of segments if there is no room.

use super::*;

fn bytes_on_disk(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn the_folder_does_not_grow_beyond_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size { bytes: 256 << 10, segment_bytes: 16 << 10 };
    let disk = open(folder.path(), size);
    for count in 0..500 {
        insert(&disk, &format!("k{count}"), count, 3000);
        disk.flush(LONG);
        // A table belongs to each segment; there are five records in one here.
        assert!(bytes_on_disk(folder.path()) <= size.bytes + 4096, "after {count}");
    }
    let figures = disk.figures();
    assert!(figures.records > 50 && figures.evicted > 300, "{figures:?}");
    assert_eq!(numbers(&disk, ["k0".to_owned(), "k499".to_owned()]), [None, Some(499)]);
}

#[test]
fn what_is_asked_for_stays() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), Size { bytes: 128 << 10, segment_bytes: 16 << 10 });
    insert(&disk, "hot", 1, 3000);
    for count in 0..300 {
        insert(&disk, &format!("k{count}"), count, 3000);
        disk.flush(LONG);
        assert_eq!(numbers(&disk, ["hot".to_owned()]), [Some(1)], "after {count}");
    }
    disk.remove(b"hot");
    disk.flush(LONG);
    drop(disk);
    let disk = open(folder.path(), Size { bytes: 128 << 10, segment_bytes: 16 << 10 });
    assert_eq!(numbers(&disk, ["hot".to_owned()]), [None]);
}

/// The purge is in the segment of the record that it applies to, or in one that is removed together with it.
#[test]
fn what_is_purged_is_not_written_once_more() {
    for between in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path(), Size { bytes: 128 << 10, segment_bytes: 16 << 10 });
        insert(&disk, "hot", 1, 3000);
        disk.flush(LONG);
        assert_eq!(numbers(&disk, ["hot".to_owned()]), [Some(1)]);
        (0..between).for_each(|count| insert(&disk, &format!("between{count}"), count, 3000));
        disk.purge(cache_disk::Purge::Label(b"key:hot".to_vec()));
        for count in 0..100 {
            insert(&disk, &format!("k{count}"), count, 3000);
            disk.flush(LONG);
            assert_eq!(numbers(&disk, ["hot".to_owned()]), [None], "{between} records later, after {count}");
        }
    }
}

#[test]
fn what_is_longer_than_a_segment_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), SIZE);
    insert(&disk, "long", 1, 33 << 10);
    insert(&disk, "short", 1, 31 << 10);
    disk.flush(LONG);
    assert_eq!(numbers(&disk, ["long".to_owned(), "short".to_owned()]), [None, Some(1)]);
    assert_eq!(disk.figures().dropped, 1);
}

/// More purges than are kept: purged records stay away, and only old ones of the others are lost; after a
/// restart as well.
#[test]
fn too_many_purges() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size { bytes: 16 << 20, ..SIZE };
    let disk = open(folder.path(), size);
    insert(&disk, "old", 1, 100);
    insert(&disk, "k", 1, 100);
    let purge = |label: String| disk.purge(cache_disk::Purge::Label(label.into_bytes()));
    for count in 0..19_990 {
        if count == 15_000 {
            insert(&disk, "young", 1, 100);
            purge("key:k".to_owned());
        }
        purge(format!("x{count}"));
    }
    let keys = || ["old", "k", "young"].map(str::to_owned);
    disk.flush(LONG);
    let segments = disk.figures().bytes;
    assert_eq!(numbers(&disk, keys()), [Some(1), None, Some(1)]);
    (0..20).for_each(|count| purge(format!("y{count}")));
    assert_eq!(numbers(&disk, keys()), [None, None, Some(1)], "before it is written");
    disk.flush(LONG);
    assert!(disk.figures().bytes < segments, "what has nothing else goes");
    assert_eq!(numbers(&disk, keys()), [None, None, Some(1)]);
    drop(disk);
    let disk = open(folder.path(), size);
    assert_eq!(numbers(&disk, keys()), [None, None, Some(1)]);
}

/// A thousand purges at once: all are kept, after a restart as well.
#[test]
fn many_purges() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), SIZE);
    insert(&disk, "k", 1, 100);
    for count in 0..1100 {
        disk.purge(cache_disk::Purge::Label(format!("x{count}").into_bytes()));
    }
    disk.purge(cache_disk::Purge::Label(b"key:k".to_vec()));
    assert_eq!(numbers(&disk, ["k".to_owned()]), [None]);
    disk.flush(LONG);
    insert(&disk, "later", 1, 100);
    drop(disk);
    let disk = open(folder.path(), SIZE);
    assert_eq!(numbers(&disk, ["k".to_owned(), "later".to_owned()]), [None, Some(1)]);
}
