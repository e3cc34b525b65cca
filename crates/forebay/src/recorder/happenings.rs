//! Events that are not about the configuration, from the growth of counters between two frames: ejections,
//! shed requests, findings that begin and end.
//!
//! Must not be in here: hooks in the path of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use doctor::{Finding, Verdict};
use observe::{Counter, Registry};
use record::{Event, kind};

/// Most events about endpoints of one frame: those beyond are counted.
const ENDPOINTS_MAX: usize = 8;

/// The state at the last frame.
#[derive(Default)]
pub(super) struct Happenings {
    /// Endpoints that were ejected or failed their check.
    out: BTreeSet<SocketAddr>,
    shed: Option<u64>,
    /// Findings that lasted, with their verdicts.
    found: BTreeMap<&'static str, Verdict>,
}

impl Happenings {
    /// The events since the last time, as of now. `out` are the endpoints that are not in use.
    pub(super) fn look(&mut self, registry: &Registry, out: &[SocketAddr], at: u64) -> Vec<Event> {
        let mut events = self.endpoints(out.iter().copied().collect(), at);
        let shed = registry.total(Counter::GuardShedNormal) + registry.total(Counter::GuardShedSheddable);
        let grown = self.shed.replace(shed).map_or(0, |before| shed.saturating_sub(before));
        if grown > 0 {
            let text = format!("{grown} requests were refused because the process is overloaded");
            events.push(event(at, kind::SHED, "", text));
        }
        events
    }

    fn endpoints(&mut self, out: BTreeSet<SocketAddr>, at: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let sides = [
            (out.difference(&self.out), "is out of use: it was ejected, or fails its health check"),
            (self.out.difference(&out), "is in use again"),
        ];
        for (addresses, text) in sides {
            let addresses: Vec<_> = addresses.collect();
            for address in addresses.iter().take(ENDPOINTS_MAX) {
                events.push(event(at, kind::EJECTION, &format!("endpoint {address}"), text.to_owned()));
            }
            if let Some(more) = addresses.len().checked_sub(ENDPOINTS_MAX).filter(|more| *more > 0) {
                events.push(event(at, kind::EJECTION, "", format!("and {more} more endpoints: each {text}")));
            }
        }
        self.out = out;
        events
    }

    /// The findings that began or ended with this examination.
    pub(super) fn judge(&mut self, findings: &[Finding], at: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for finding in findings {
            let is_bad = matches!(finding.verdict, Verdict::Warning | Verdict::Failure);
            let before = self.found.get(finding.id).copied();
            let text = format!("{}: {}", finding.verdict.name(), finding.message);
            match (before, is_bad) {
                (None, true) => events.push(event(at, kind::FINDING_BEGAN, finding.id, text)),
                (Some(_), false) => events.push(event(at, kind::FINDING_ENDED, finding.id, text)),
                (None, false) | (Some(_), true) => {}
            }
            if is_bad {
                self.found.insert(finding.id, finding.verdict);
            } else {
                self.found.remove(finding.id);
            }
        }
        events
    }
}

fn event(at: u64, kind: &str, object: &str, text: String) -> Event {
    Event { at, kind: kind.to_owned(), object: object.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ports: std::ops::Range<u16>) -> BTreeSet<SocketAddr> {
        ports.map(|port| SocketAddr::from(([192, 0, 2, 1], port))).collect()
    }

    fn told(events: &[Event]) -> Vec<String> {
        events.iter().map(|one| format!("{}: {}", one.object, one.text)).collect()
    }

    #[test]
    fn endpoints_are_told_when_they_go_and_come() {
        let mut happenings = Happenings::default();
        let gone = told(&happenings.endpoints(addresses(1..2), 1));
        assert_eq!(gone, ["endpoint 192.0.2.1:1: is out of use: it was ejected, or fails its health check"]);
        assert!(happenings.endpoints(addresses(1..2), 2).is_empty());
        assert_eq!(
            told(&happenings.endpoints(addresses(0..0), 3)),
            ["endpoint 192.0.2.1:1: is in use again"]
        );
        let many = happenings.endpoints(addresses(1..100), 4);
        assert_eq!(many.len(), ENDPOINTS_MAX + 1);
        assert!(many[ENDPOINTS_MAX].text.starts_with("and 91 more endpoints"), "{:?}", many[ENDPOINTS_MAX]);
    }

    #[test]
    fn shed_requests_are_counted() {
        let registry = Registry::new(observe::MetricsOptions::default());
        let recorder = registry.recorder();
        let mut happenings = Happenings::default();
        assert!(happenings.look(&registry, &[], 1).is_empty());
        recorder.count(Counter::GuardShedNormal);
        recorder.count(Counter::GuardShedSheddable);
        let events = happenings.look(&registry, &[], 2);
        assert_eq!(told(&events), [": 2 requests were refused because the process is overloaded"]);
        assert!(happenings.look(&registry, &[], 3).is_empty());
    }

    #[test]
    fn a_finding_begins_and_ends_once() {
        let samples = doctor::Samples::default();
        let unknown = doctor::examine(&samples);
        let of = |verdict| {
            let mut finding = unknown[0].clone();
            finding.verdict = verdict;
            [finding]
        };
        let mut happenings = Happenings::default();
        let mut kinds = |verdict| -> Vec<String> {
            happenings.judge(&of(verdict), 1).into_iter().map(|one| one.kind).collect()
        };
        assert!(kinds(Verdict::Ok).is_empty());
        assert_eq!(kinds(Verdict::Warning), [kind::FINDING_BEGAN]);
        assert!(kinds(Verdict::Failure).is_empty());
        assert_eq!(kinds(Verdict::Ok), [kind::FINDING_ENDED]);
        assert!(kinds(Verdict::Unknown).is_empty());
    }
}
