//! Changes before a moment, from the events of a record.
//!
//! Must not be in here: samples.

use record::{Event, Record, kind};
use serde::Serialize;

use super::when::{Range, rfc3339};

/// How far back a change is looked for.
const BEFORE_MS: u64 = 5 * 60_000;

/// How long after its estimated begin a finding may still have begun, so that a change in between belongs to
/// it: the time between two samples.
const AFTER_MS: u64 = 10_000;

/// Most changes that are told of one finding.
const CHANGES_MAX: usize = 50;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Happened {
    /// When, as RFC 3339.
    at: String,
    #[serde(skip)]
    pub(crate) at_ms: u64,
    /// The kind, such as `configuration`.
    pub(crate) kind: String,
    /// The object that changed; empty where it is the process.
    pub(crate) object: String,
    /// The event in words.
    pub(crate) text: String,
}

/// The events of a range that are changes, the oldest first.
pub(crate) struct Changes(Vec<Event>);

impl Changes {
    /// The changes that may have to do with a finding in a range.
    pub(crate) fn of(record: &Record, range: Range) -> Changes {
        let mut events = record.events(range.from_ms.saturating_sub(BEFORE_MS)..=range.until_ms);
        events.retain(|event| is_change(&event.kind));
        events.sort_by_key(|event| event.at);
        Changes(events)
    }

    /// The changes within some minutes before a moment, the nearest first.
    pub(crate) fn before(&self, at_ms: u64) -> Vec<Happened> {
        let first = self.0.partition_point(|event| event.at < at_ms.saturating_sub(BEFORE_MS));
        let last = self.0.partition_point(|event| event.at <= at_ms + AFTER_MS);
        let found = self.0.get(first..last).unwrap_or_default().iter().rev();
        found.take(CHANGES_MAX).map(Happened::of).collect()
    }
}

/// Whether an event is something that was done, and not what the doctor or the bands saw of it.
pub(crate) fn is_change(kind: &str) -> bool {
    ![kind::FINDING_BEGAN, kind::FINDING_ENDED, kind::BAND_LEFT].contains(&kind)
}

/// Events that no check judges, and that nobody does: panics, killed processes, and values that left their
/// bands. The oldest is the first.
pub(crate) fn noticed(record: &Record, range: Range) -> Vec<Happened> {
    let mut events = record.events(range.from_ms..=range.until_ms);
    events.retain(|event| [kind::PANIC, kind::KILLED, kind::BAND_LEFT].contains(&&*event.kind));
    events.sort_by_key(|event| event.at);
    events.iter().map(Happened::of).collect()
}

impl Happened {
    pub(crate) fn of(event: &Event) -> Happened {
        Happened {
            at: rfc3339(event.at),
            at_ms: event.at,
            kind: event.kind.clone(),
            object: event.object.clone(),
            text: event.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, kind: &str) -> Event {
        Event { at, kind: kind.to_owned(), object: format!("at {at}"), text: String::new() }
    }

    #[test]
    fn the_nearest_change_is_first() {
        let events = [100_000, 350_000, 390_000, 405_000, 420_000].map(|at| event(at, kind::CONFIGURATION));
        let changes = Changes(events.to_vec());
        let times: Vec<_> = changes.before(401_000).iter().map(|one| one.at_ms).collect();
        assert_eq!(times, [405_000, 390_000, 350_000], "what was earlier than five minutes is left out");
        assert!(changes.before(10).is_empty());
    }

    #[test]
    fn what_is_a_sign_of_a_finding_is_no_change() {
        for (kind, is) in [
            (kind::CONFIGURATION, true),
            (kind::START, true),
            (kind::EJECTION, true),
            (kind::BAND_LEFT, false),
            (kind::FINDING_BEGAN, false),
        ] {
            assert_eq!(is_change(kind), is, "{kind}");
        }
    }
}
