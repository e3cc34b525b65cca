//! A disk without room: a file system in memory, smaller than the cache may become, in a namespace of its
//! own.

use std::process::Command;

use super::*;

/// Names the folder on the small file system to the process inside.
const FOLDER: &str = "CACHE_DISK_TEST_FULL";

/// Only where the test below asks for it.
#[test]
fn fills_a_small_file_system() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder).join("cache");
    let disk = open(&folder, SIZE);
    for count in 0..200 {
        insert(&disk, &format!("k{count}"), count, 3000);
    }
    disk.flush(LONG);
    let figures = disk.figures();
    assert!(figures.dropped > 0 && figures.evicted > 0 && figures.refused > 0, "{figures:?}");
    assert!(figures.full || figures.written > 0, "{figures:?}");
    let keys = || (0..200).map(|count| format!("k{count}"));
    let left = numbers(&disk, keys());
    assert!(left.iter().flatten().count() > 50, "what is there can be read");
    // To forget something must not need room.
    let known = left.iter().position(Option::is_some).unwrap();
    std::fs::write(folder.join("of somebody else"), vec![0; 1 << 20]).unwrap_err();
    disk.remove(format!("k{known}").as_bytes());
    disk.flush(LONG);
    drop(disk);
    let disk = open(&folder, SIZE);
    assert_eq!(numbers(&disk, keys())[known], None);
    println!("it was full");
}

#[test]
fn a_full_disk() {
    if !testkit::needs("unshare") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=512k tmpfs \"$1\" || exit 77; exec \"$2\" --exact full::fills_a_small_file_system --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("it was full"));
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        other => {
            testkit::left_out(&testkit::this_test(), &format!("no mount namespace can be made: {other:?}"));
        }
    }
}
