//! A process that is killed while it writes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// Names the folder to the process that is to die.
const FOLDER: &str = "CACHE_DISK_TEST_FOLDER";

/// Writes records and prints their numbers until it is killed. Runs only where the test below starts it.
#[test]
fn writes_until_it_dies() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let disk = open(Path::new(&folder), SIZE);
    for count in 0.. {
        insert(&disk, &format!("k{}", count % 50), count, (count as usize * 7919) % 9000);
        if count % 10 == 9 {
            disk.remove(format!("k{}", count % 7).as_bytes());
            disk.flush(LONG);
            println!("written {count}");
        }
    }
}

#[test]
fn nothing_torn_is_found_after_a_death() {
    let folder = tempfile::tempdir().unwrap();
    let mut found = 0;
    for round in 0_u64..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "death::writes_until_it_dies", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // At another moment in each round; whatever it does then.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let written = lines.map_while(Result::ok).filter(|line| line.contains("written"));
        assert_eq!(written.take(1 + round as usize * 3).count(), 1 + round as usize * 3);
        child.kill().unwrap();
        child.wait().unwrap();
        let disk = open(folder.path(), SIZE);
        let numbers = numbers(&disk, (0..50).map(|place| format!("k{place}")));
        found += numbers.iter().flatten().count();
        for (place, number) in numbers.iter().enumerate() {
            assert!(number.is_none_or(|number| number % 50 == place as u64));
        }
        assert_eq!(disk.figures().corrupt, 0, "what is not whole is not in the index");
    }
    assert!(found > 100, "only {found} were left");
}
