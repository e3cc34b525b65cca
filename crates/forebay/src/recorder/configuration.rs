//! The changes by a configuration as events: the objects, and how many there are.
//!
//! Texts hold names and reasons, never values of annotations or settings: a record may be given to others.

use std::collections::HashMap;
use std::sync::Arc;

use control::Translation;
use record::{Event, kind};

use crate::console::{Change, Names};

/// Most events of one change: those beyond are counted.
const EVENTS_MAX: usize = 12;

/// Most hosts with other certificates that are events of their own.
const CERTIFICATES_MAX: usize = 3;

/// The events of a change, the most telling ones first.
pub(super) fn events(at: u64, before: &Translation, now: &Translation) -> Vec<Event> {
    let mut told = Told { at, events: Vec::new() };
    if before.model.hosts().next().is_none() && before.model.listeners.is_empty() {
        let (hosts, clusters) = (now.model.hosts().count(), now.model.clusters.count());
        let text = format!("the first one: {hosts} hosts, {clusters} Services");
        told.event(kind::CONFIGURATION, "", text);
        return told.events;
    }
    let change = Change::between(before, now);
    told.problems(before, now);
    told.certificates(before, now);
    if change.has_other_settings {
        told.event(kind::CONFIGURATION, "", "settings of the proxy changed".to_owned());
    }
    let endpoints = &change.endpoints;
    let (added, removed) = (endpoints.added.count, endpoints.removed.count);
    if added + removed > 0 {
        told.event(kind::CONFIGURATION, "", format!("endpoints: {added} added, {removed} removed"));
    }
    for (what, of) in [("host", &change.hosts), ("Service", &change.clusters), ("port", &change.services)] {
        told.names(what, "added", &of.added);
        told.names(what, "removed", &of.removed);
        told.names(what, "changed", &of.changed);
    }
    told.bounded()
}

struct Told {
    at: u64,
    events: Vec<Event>,
}

impl Told {
    fn event(&mut self, kind: &str, object: &str, text: String) {
        let (kind, object) = (kind.to_owned(), object.to_owned());
        self.events.push(Event { at: self.at, kind, object, text });
    }

    /// The first names have events of their own; the number of all is in each of them.
    fn names(&mut self, what: &str, happened: &str, names: &Names) {
        for name in names.names.iter().take(EVENTS_MAX) {
            let more = match names.count {
                1 => String::new(),
                count => format!(" (one of {count})"),
            };
            self.event(kind::CONFIGURATION, &format!("{what} {name}"), format!("{happened}{more}"));
        }
    }

    /// Problems by object and reason: their messages may quote values.
    fn problems(&mut self, before: &Translation, now: &Translation) {
        for problem in now.new_problems(before).take(EVENTS_MAX) {
            let (severity, reason) = (problem.severity.as_str(), problem.reason.as_str());
            let object = problem.object.as_ref().map(ToString::to_string).unwrap_or_default();
            self.event(kind::CONFIGURATION, &object, format!("has a problem ({severity}): {reason}"));
        }
    }

    fn certificates(&mut self, before: &Translation, now: &Translation) {
        if Arc::ptr_eq(&before.certificates, &now.certificates) {
            return;
        }
        let by_host = |translation: &Translation| -> HashMap<String, String> {
            let of = |one: &control::HostCertificate| (one.host.clone(), one.info.serial_number.clone());
            translation.certificates.iter().map(of).collect()
        };
        let (before, now) = (by_host(before), by_host(now));
        let mut changed: Vec<_> = now
            .iter()
            .filter(|(host, serial)| before.get(*host).is_some_and(|before| before != *serial))
            .map(|(host, _)| host)
            .collect();
        changed.sort_unstable();
        self.other_certificates(&changed);
    }

    /// A Secret may be that of all hosts: beyond a few, they are one event.
    fn other_certificates(&mut self, hosts: &[&String]) {
        if let [first, .., last] = hosts
            && hosts.len() > CERTIFICATES_MAX
        {
            let text = format!("{} hosts have other certificates: {first} to {last}, by name", hosts.len());
            return self.event(kind::CERTIFICATE, "", text);
        }
        for host in hosts {
            self.event(kind::CERTIFICATE, &format!("host {host}"), "has another certificate".to_owned());
        }
    }

    fn bounded(mut self) -> Vec<Event> {
        let count = self.events.len();
        if count > EVENTS_MAX {
            self.events.truncate(EVENTS_MAX);
            let more = count - EVENTS_MAX;
            self.event(kind::CONFIGURATION, "", format!("{more} more changes of the same configuration"));
        }
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_many_hosts_is_one_event() {
        let told = |count: usize| -> Vec<String> {
            let hosts: Vec<String> = (1..=count).map(|number| format!("{number}.test")).collect();
            let mut told = Told { at: 1, events: Vec::new() };
            told.other_certificates(&hosts.iter().collect::<Vec<_>>());
            told.events.into_iter().map(|event| format!("{}: {}", event.object, event.text)).collect()
        };
        assert!(told(0).is_empty());
        assert_eq!(told(2), [1, 2].map(|at| format!("host {at}.test: has another certificate")));
        assert_eq!(told(9), [": 9 hosts have other certificates: 1.test to 9.test, by name"]);
    }
}
