//! Random sequences of orders, compared with a map that gets the same orders.

use std::collections::HashMap;

use cache_disk::{Purge, Size};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, usize),
    Get(u8),
    Remove(u8),
    PurgeLabel(u8),
    PurgePrefix,
    Clear,
    Flush,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0_u8..12;
    prop_oneof![
        10 => (key(), 0_usize..3000).prop_map(|(key, len)| Step::Insert(key, len)),
        10 => key().prop_map(Step::Get),
        3 => key().prop_map(Step::Remove),
        1 => key().prop_map(Step::PurgeLabel),
        1 => Just(Step::PurgePrefix),
        1 => Just(Step::Clear),
        5 => Just(Step::Flush),
        2 => Just(Step::Restart),
    ]
}

/// Executes steps. `is_roomy`: no record has to be removed for want of room, so that all must be found.
fn follow(steps: &[Step], size: Size, is_roomy: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = open(folder.path(), size);
    let mut model: HashMap<String, u64> = HashMap::new();
    let mut is_flushed = true;
    for (count, step) in steps.iter().enumerate() {
        match step {
            Step::Insert(key, len) => {
                let key = format!("k{key}");
                insert(&disk, &key, count as u64, *len);
                model.insert(key, count as u64);
                is_flushed = false;
            }
            Step::Get(key) => {
                let key = format!("k{key}");
                let found = get(&disk, &key).map(|found| number(&key, &found));
                if is_flushed {
                    let expected = model.get(&key).copied();
                    assert!(
                        found == expected || found.is_none() && !is_roomy,
                        "{key}: {found:?}, not {expected:?}"
                    );
                } else if !model.contains_key(&key) {
                    assert_eq!(found, None, "{key} was removed");
                }
            }
            Step::Remove(key) => {
                let key = format!("k{key}");
                disk.remove(key.as_bytes());
                model.remove(&key);
            }
            Step::PurgeLabel(key) => {
                disk.purge(Purge::Label(format!("key:k{key}").into_bytes()));
                model.remove(&format!("k{key}"));
            }
            Step::PurgePrefix => {
                disk.purge(Purge::LabelPrefix(b"key:k1".to_vec()));
                model.retain(|key, _| !key.starts_with("k1"));
            }
            Step::Clear => {
                disk.clear();
                model.clear();
            }
            Step::Flush => {
                disk.flush(LONG);
                is_flushed = true;
            }
            Step::Restart => {
                drop(disk);
                disk = open(folder.path(), size);
                is_flushed = true;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_room_for_all(steps in prop::collection::vec(step(), 1..80)) {
        follow(&steps, SIZE, true);
    }

    /// Some segments, each for some records.
    #[test]
    fn where_little_has_room(steps in prop::collection::vec(step(), 1..150)) {
        follow(&steps, Size { bytes: 16 << 10, segment_bytes: 4 << 10 }, false);
    }
}
