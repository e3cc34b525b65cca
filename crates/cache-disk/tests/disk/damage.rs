//! Files that somebody, or a disk, has changed.

use std::fs;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Zero(prop::sample::Index, usize),
    Append(Vec<u8>),
    Swap,
    Remove,
}

fn damage() -> impl Strategy<Value = (prop::sample::Index, Damage)> {
    let damage = prop_oneof![
        5 => (any::<prop::sample::Index>(), 0_u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        3 => any::<prop::sample::Index>().prop_map(Damage::Truncate),
        2 => (any::<prop::sample::Index>(), 1_usize..5000).prop_map(|(at, len)| Damage::Zero(at, len)),
        1 => prop::collection::vec(any::<u8>(), 1..100).prop_map(Damage::Append),
        1 => Just(Damage::Swap),
        1 => Just(Damage::Remove),
    ];
    (any::<prop::sample::Index>(), damage)
}

impl Damage {
    fn inflict(&self, path: &Path, other: &Path) {
        let mut bytes = fs::read(path).unwrap_or_default();
        match self {
            Self::Flip(at, bit) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Self::Truncate(at) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
            Self::Zero(at, len) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                let end = (at + len).min(bytes.len());
                bytes[at..end].fill(0);
            }
            Self::Append(more) => bytes.extend(more),
            Self::Swap => bytes = fs::read(other).unwrap_or_default(),
            Self::Remove => return drop(fs::remove_file(path)),
            Self::Flip(..) | Self::Truncate(_) | Self::Zero(..) => {}
        }
        fs::write(path, bytes).unwrap();
    }
}

fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = paths.filter(|path| path.to_string_lossy().contains("segment-")).collect();
    segments.sort();
    segments
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// `number` checks that a record which is found was written so, byte for byte.
    #[test]
    fn nothing_is_found_that_was_not_written(
        lens in prop::collection::vec(0_usize..2000, 1..40),
        damages in prop::collection::vec(damage(), 1..4),
        is_open in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let size = Size { bytes: 1 << 20, segment_bytes: 8 << 10 };
        let disk = open(folder.path(), size);
        for (place, len) in lens.iter().enumerate() {
            insert(&disk, &format!("k{}", place % 20), place as u64, *len);
        }
        disk.flush(LONG);
        let inflict = || for (which, damage) in &damages {
            let segments = segments(folder.path());
            if !segments.is_empty() {
                damage.inflict(&segments[which.index(segments.len())], &segments[0]);
            }
        };
        let keys = || (0..20).map(|place| format!("k{place}"));
        if is_open {
            inflict();
            numbers(&disk, keys());
        }
        drop(disk);
        if !is_open {
            inflict();
        }
        let disk = open(folder.path(), size);
        numbers(&disk, keys());
        // The disk works on.
        insert(&disk, "new", 9, 100);
        disk.flush(LONG);
        prop_assert_eq!(numbers(&disk, ["new".to_owned()]), [Some(9)]);
    }
}

/// A removal that cannot be read may have been one of anything.
#[test]
fn what_was_removed_does_not_come_back_with_a_flipped_bit() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), SIZE);
    insert(&disk, "kept", 1, 100);
    insert(&disk, "gone", 1, 100);
    drop(disk);
    let disk = open(folder.path(), SIZE);
    insert(&disk, "other", 1, 100);
    disk.remove(b"gone");
    insert(&disk, "last", 1, 100);
    drop(disk);
    let last = segments(folder.path()).pop().unwrap();
    let whole = fs::read(&last).unwrap();
    // As if it had died before the table was written.
    let table_at = whole.len() - (4 + 3 * 20 + 16);
    for at in 0..table_at {
        let mut bytes = whole[..table_at].to_vec();
        bytes[at] ^= 1;
        fs::write(&last, bytes).unwrap();
        let disk = open(folder.path(), SIZE);
        assert_eq!(numbers(&disk, ["gone".to_owned()]), [None], "byte {at}");
    }
}
