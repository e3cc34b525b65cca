//! The purges that records are compared with, for as long as records that they apply to may exist.
//!
//! Their number is bounded. Beyond the bound the older half is dropped together with all records written
//! before the last of it: purged records never come back, and only old ones are lost.

use std::collections::HashMap;

use crate::limits::{PURGED_LABELS_MAX, PURGED_PREFIXES_MAX};
use crate::purge::Purge;

#[derive(Debug, Default)]
pub(crate) struct Purges {
    labels: HashMap<Vec<u8>, Known>,
    prefixes: Vec<(Vec<u8>, Known)>,
    /// All that has a lower sequence is forgotten.
    floor: u64,
}

/// The latest occurrence of a purge.
#[derive(Clone, Copy, Debug)]
struct Known {
    sequence: u64,
    /// The segment that has the purge; the records that it applies to are in that one and in older ones.
    segment: Option<u64>,
}

impl Purges {
    /// Adds a purge, in place of an earlier equal one. Returns the new floor if there were too many.
    pub(crate) fn add(&mut self, sequence: u64, purge: Purge, segment: Option<u64>) -> Option<u64> {
        if sequence <= self.floor {
            return None;
        }
        let known = Known { sequence, segment };
        match purge {
            Purge::All => self.raise_floor(sequence),
            Purge::Label(label) => {
                let latest = self.labels.entry(label).or_insert(known);
                if latest.sequence < sequence {
                    *latest = known;
                }
            }
            Purge::LabelPrefix(prefix) => {
                match self.prefixes.iter_mut().find(|(other, _)| *other == prefix) {
                    Some((_, latest)) if latest.sequence < sequence => *latest = known,
                    Some(_) => {}
                    None => self.prefixes.push((prefix, known)),
                }
            }
        }
        if self.labels.len() <= PURGED_LABELS_MAX && self.prefixes.len() <= PURGED_PREFIXES_MAX {
            return None;
        }
        let mut sequences: Vec<u64> = if self.labels.len() > PURGED_LABELS_MAX {
            self.labels.values().map(|known| known.sequence).collect()
        } else {
            self.prefixes.iter().map(|(_, known)| known.sequence).collect()
        };
        let half = sequences.len() / 2;
        let floor = *sequences.select_nth_unstable(half).1;
        self.raise_floor(floor);
        Some(floor)
    }

    /// Whether a record with this sequence and these labels was purged after it was written.
    pub(crate) fn have_met<'l>(&self, sequence: u64, mut labels: impl Iterator<Item = &'l [u8]>) -> bool {
        let is_later = |known: &Known| known.sequence > sequence;
        let has_met = |label: &[u8]| {
            self.labels.get(label).is_some_and(is_later)
                || self.prefixes.iter().any(|(prefix, known)| is_later(known) && label.starts_with(prefix))
        };
        sequence < self.floor || labels.any(has_met)
    }

    /// The purge with this sequence is in a segment.
    pub(crate) fn note_written(&mut self, sequence: u64, purge: &Purge, segment: u64) {
        let known = match purge {
            Purge::All => None,
            Purge::Label(label) => self.labels.get_mut(label),
            Purge::LabelPrefix(prefix) => {
                self.prefixes.iter_mut().find(|(other, _)| other == prefix).map(|(_, known)| known)
            }
        };
        if let Some(known) = known.filter(|known| known.sequence == sequence) {
            known.segment = Some(segment);
        }
    }

    /// Segments up to this one were removed; their records were written again or dropped.
    pub(crate) fn end_with_segment(&mut self, id: u64) {
        self.retain(|known| known.segment.is_none_or(|segment| segment > id));
    }

    /// All that was written before this sequence is forgotten.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        self.retain(|known| known.sequence > floor);
    }

    fn retain(&mut self, holds: impl Fn(&Known) -> bool) {
        self.labels.retain(|_, known| holds(known));
        self.prefixes.retain(|(_, known)| holds(known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(number: usize) -> Purge {
        Purge::Label(format!("l{number}").into_bytes())
    }

    fn met(purges: &Purges, sequence: u64, label: &str) -> bool {
        purges.have_met(sequence, [label.as_bytes()].into_iter())
    }

    #[test]
    fn what_was_written_before_is_met() {
        let mut purges = Purges::default();
        purges.add(5, label(1), None);
        purges.add(7, Purge::LabelPrefix(b"p/".to_vec()), None);
        // While older segments are read, older purges come later.
        purges.add(3, label(1), Some(1));
        assert!(met(&purges, 4, "l1") && !met(&purges, 6, "l1") && !met(&purges, 4, "l11"));
        assert!(met(&purges, 6, "p/x") && !met(&purges, 8, "p/x") && !met(&purges, 6, "p"));
        purges.note_written(5, &label(1), 2);
        purges.end_with_segment(1);
        assert!(met(&purges, 4, "l1"));
        purges.end_with_segment(2);
        assert!(!met(&purges, 4, "l1") && met(&purges, 6, "p/x"), "it is not written yet");
        purges.add(9, Purge::All, None);
        assert!(met(&purges, 8, "other") && !met(&purges, 10, "p/x"));
    }

    #[test]
    fn one_too_many_forgets_what_is_older_than_half_of_them() {
        let mut purges = Purges::default();
        for number in 0..PURGED_LABELS_MAX {
            assert_eq!(purges.add(number as u64 + 1, label(number), None), None);
        }
        let half = PURGED_LABELS_MAX / 2;
        let floor = purges.add(PURGED_LABELS_MAX as u64 + 1, label(PURGED_LABELS_MAX), None).unwrap();
        assert_eq!(floor, half as u64 + 1);
        assert_eq!(purges.labels.len(), half);
        assert!(met(&purges, floor - 1, "other") && !met(&purges, floor + 1, "other"));
        assert!(met(&purges, floor + 1, &format!("l{}", PURGED_LABELS_MAX - 1)), "the later half is known");
        for number in 0..=PURGED_PREFIXES_MAX as u64 {
            let prefix = Purge::LabelPrefix(number.to_le_bytes().to_vec());
            let floor = purges.add(1_000_000 + number, prefix, None);
            assert_eq!(floor.is_some(), number == PURGED_PREFIXES_MAX as u64, "{number}");
        }
    }
}
