//! Invariants for any input. The fuzz targets and the smoke test call the same functions.

use std::ops::RangeInclusive;

use record::{Item, Record};

const ALL: RangeInclusive<u64> = 0..=u64::MAX;

/// Items that are compared: a few bytes may be thousands of frames.
const ITEMS_MAX: usize = 64;

/// A file that came from another machine. The first byte says whether the rest is a file, or the entries of a
/// block, which a file would protect by a checksum. What can be read of it can be written, and is the same
/// then.
pub(crate) fn record(input: &[u8]) {
    let Some((&form, bytes)) = input.split_first() else { return };
    let record = match form & 1 {
        0 => match Record::from_bytes(bytes) {
            Ok(record) => record,
            Err(_) => return,
        },
        _ => Record::from_entries(bytes),
    };
    let items: Vec<Item> = record.items(ALL).take(ITEMS_MAX).collect();
    let last = record.span().map_or(0, |(_, last)| last);
    assert!(items.iter().all(|item| item.at() <= last));
    if items.len() == ITEMS_MAX {
        return;
    }
    let mut written = Vec::new();
    record.write_range(ALL, &mut written).expect("memory takes it");
    let again = Record::from_bytes(&written).expect("it was written just now");
    assert!(again.items(ALL).eq(items));
}
