//! Ownership of a folder.

use std::fs;
use std::os::unix::fs::symlink;

use cache_disk::OpenError;

use super::*;

#[test]
fn a_folder_of_others_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("segment-0000000001"), "theirs").unwrap();
    assert!(matches!(Disk::open(folder.path(), SIZE), Err(OpenError::Foreign(_))));
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["segment-0000000001"]);
    assert_eq!(fs::read(folder.path().join("segment-0000000001")).unwrap(), b"theirs");
}

#[test]
fn another_form_is_left_alone() {
    for marker in ["forebay cache 2\n0123", "something else", "forebay cache 1\nxyz\n"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("forebay-cache"), marker).unwrap();
        assert!(matches!(Disk::open(folder.path(), SIZE), Err(OpenError::Version(_))), "{marker}");
        assert_eq!(fs::read_to_string(folder.path().join("forebay-cache")).unwrap(), marker);
    }
}

#[test]
fn a_folder_has_one_user() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), SIZE);
    assert!(matches!(Disk::open(folder.path(), SIZE), Err(OpenError::InUse(_))));
    drop(disk);
    open(folder.path(), SIZE);
}

#[test]
fn an_empty_file_system_and_a_missing_folder_will_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    open(folder.path(), SIZE);
    open(&folder.path().join("lost+found/a/b"), SIZE);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(Disk::open(&file, SIZE), Err(OpenError::Io(..))));
}

#[test]
fn what_is_no_segment_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), SIZE));
    let outside = folder.path().join("outside");
    fs::write(&outside, "not ours").unwrap();
    symlink(&outside, folder.path().join("segment-0000000001")).unwrap();
    fs::create_dir(folder.path().join("segment-0000000002")).unwrap();
    fs::write(folder.path().join("segment-7"), "not ours").unwrap();
    let disk = open(folder.path(), SIZE);
    disk.clear();
    disk.flush(LONG);
    drop(disk);
    assert_eq!(fs::read(&outside).unwrap(), b"not ours");
    assert_eq!(fs::read(folder.path().join("segment-7")).unwrap(), b"not ours");
}

/// Open files can still be read and written; once a new file is needed, only the cache is lost.
#[test]
fn a_folder_that_vanishes() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cache");
    let disk = open(&folder, SIZE);
    insert(&disk, "before", 1, 100);
    disk.flush(LONG);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(numbers(&disk, ["before".to_owned()]), [Some(1)]);
    for count in 0..20 {
        insert(&disk, &format!("k{count}"), count, 10_000);
    }
    disk.flush(LONG);
    assert!(disk.figures().dropped > 0);
    drop(disk);
    let disk = open(&folder, SIZE);
    insert(&disk, "after", 1, 100);
    disk.flush(LONG);
    assert_eq!(numbers(&disk, ["before".to_owned(), "after".to_owned()]), [None, Some(1)]);
}
