//! The folder of a process that another one replaces.

use cache_disk::Purge;

use super::*;

/// A successor, once it has the folder.
fn taken_over(disk: &Disk) {
    while disk.figures().loading {
        std::thread::yield_now();
    }
}

#[test]
fn a_successor_takes_the_folder_over_when_its_predecessor_ends() {
    let folder = tempfile::tempdir().unwrap();
    let predecessor = open(folder.path(), SIZE);
    insert(&predecessor, "one", 1, 100);
    predecessor.flush(LONG);
    let successor = Disk::open_after_predecessor(folder.path(), SIZE).unwrap();
    // An insertion of that time is not cached, and the predecessor still writes.
    insert(&successor, "early", 1, 100);
    successor.flush(LONG);
    assert_eq!((get(&successor, "early"), get(&successor, "one")), (None, None));
    assert_eq!((successor.figures().dropped, successor.figures().loading), (1, true));
    insert(&predecessor, "two", 2, 100);
    drop(predecessor);
    taken_over(&successor);
    assert_eq!(numbers(&successor, ["one", "two", "early"].map(str::to_owned)), [Some(1), Some(2), None]);
    insert(&successor, "three", 3, 100);
    successor.flush(LONG);
    drop(successor);
    let later = open(folder.path(), SIZE);
    assert_eq!(numbers(&later, ["one", "two", "three"].map(str::to_owned)), [Some(1), Some(2), Some(3)]);
}

/// A record that its key was removed for must not come back from what the predecessor has written.
#[test]
fn a_successor_that_was_told_of_a_change_begins_with_an_empty_folder() {
    let changes: [fn(&Disk); 3] =
        [|disk| disk.remove(b"one"), |disk| disk.purge(Purge::All), |disk| disk.clear()];
    for change in changes {
        let folder = tempfile::tempdir().unwrap();
        let predecessor = open(folder.path(), SIZE);
        insert(&predecessor, "one", 1, 100);
        predecessor.flush(LONG);
        let successor = Disk::open_after_predecessor(folder.path(), SIZE).unwrap();
        change(&successor);
        drop(predecessor);
        taken_over(&successor);
        assert_eq!(get(&successor, "one"), None);
        insert(&successor, "one", 2, 100);
        successor.flush(LONG);
        assert_eq!(get(&successor, "one").map(|found| number("one", &found)), Some(2));
        drop(successor);
        assert_eq!(numbers(&open(folder.path(), SIZE), ["one".to_owned()]), [Some(2)]);
    }
}

#[test]
fn a_successor_that_ends_first_leaves_the_folder_alone() {
    let folder = tempfile::tempdir().unwrap();
    let predecessor = open(folder.path(), SIZE);
    insert(&predecessor, "one", 1, 100);
    drop(Disk::open_after_predecessor(folder.path(), SIZE).unwrap());
    predecessor.flush(LONG);
    assert_eq!(get(&predecessor, "one").map(|found| number("one", &found)), Some(1));
    drop(predecessor);
    let successor = Disk::open_after_predecessor(folder.path(), SIZE).unwrap();
    taken_over(&successor);
    assert_eq!(get(&successor, "one").map(|found| number("one", &found)), Some(1));
}
