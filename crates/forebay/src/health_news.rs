//! Events about endpoints that begin or cease to fail their health checks: at most one for each port of a
//! Service in ten seconds, about all changes since the last one.
//!
//! Must not be in here: the verdict on an endpoint, and how an Event is published.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::NsName;
use control::status::{About, Notice};
use proxy::{HealthChange, HealthNews};
use tokio::sync::mpsc;

/// Time between two looks for changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Least time between two Events about one port of a Service.
const SPACING: Duration = Duration::from_secs(10);

/// Endpoints that an Event names.
const NAMED_MAX: usize = 5;

/// The changes of one port of a Service.
#[derive(Debug, Default)]
struct Upstream {
    /// When the last Event was made.
    last: Option<Instant>,
    /// The last change of each endpoint since then.
    changes: BTreeMap<SocketAddr, HealthChange>,
    /// The change that came last, which has the present numbers.
    newest: Option<HealthChange>,
}

/// The changes that no Event has told yet.
#[derive(Debug, Default)]
struct Digest(BTreeMap<Arc<str>, Upstream>);

/// Hands notices of changes to the leader. Runs for ever.
pub(crate) async fn follow(news: &HealthNews, notices: mpsc::Sender<Notice>) {
    let mut digest = Digest::default();
    loop {
        digest.add(news.take());
        for notice in digest.take(Instant::now()) {
            // Only a leader publishes: at others the queue is full, and nobody waits for it.
            let _ = notices.try_send(notice);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

impl Digest {
    fn add(&mut self, changes: Vec<HealthChange>) {
        for change in changes {
            let upstream = self.0.entry(Arc::clone(&change.upstream)).or_default();
            upstream.newest = Some(change.clone());
            upstream.changes.insert(change.endpoint, change);
        }
    }

    /// The notices that are due. Upstreams that have been quiet for long are forgotten.
    fn take(&mut self, now: Instant) -> Vec<Notice> {
        let is_due = |last: Option<Instant>| last.is_none_or(|last| now.duration_since(last) >= SPACING);
        let mut notices = Vec::new();
        for (name, upstream) in &mut self.0 {
            if is_due(upstream.last) && !upstream.changes.is_empty() {
                notices.extend(upstream.take(name));
                upstream.last = Some(now);
            }
        }
        self.0.retain(|_, upstream| !upstream.changes.is_empty() || !is_due(upstream.last));
        notices
    }
}

impl Upstream {
    fn take(&mut self, name: &str) -> Option<Notice> {
        let (service, port) = name.rsplit_once(':')?;
        let (namespace, service) = service.split_once('/')?;
        let HealthChange { failing, of, all_are_used, .. } = self.newest.take()?;
        let changes = std::mem::take(&mut self.changes);
        let (failed, passed): (Vec<_>, Vec<_>) =
            changes.into_values().partition(|change| change.fault.is_some());
        let mut sentences = Vec::new();
        if !failed.is_empty() {
            sentences.push(format!("out of use by health checks: {}", list(&failed)));
        }
        if !passed.is_empty() {
            sentences.push(format!("in use again: {}", list(&passed)));
        }
        let end = if all_are_used { ", which is more than half: all of them get requests" } else { "" };
        let note = format!("port {port}: {}; {failing} of {of} endpoints fail{end}", sentences.join("; "));
        let (reason, is_warning) =
            if failed.is_empty() { ("EndpointHealthy", false) } else { ("EndpointUnhealthy", true) };
        Some(Notice { about: About::Service(NsName::new(namespace, service)), reason, note, is_warning })
    }
}

/// The endpoints of changes, with the reasons of those that fail.
fn list(changes: &[HealthChange]) -> String {
    let one = |change: &HealthChange| match change.fault {
        Some(fault) => format!("{} ({fault})", change.endpoint),
        None => change.endpoint.to_string(),
    };
    let mut text = changes.iter().take(NAMED_MAX).map(one).collect::<Vec<_>>().join(", ");
    if let Some(more) = changes.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use observe::CheckFault;

    use super::*;

    fn change(last: u8, fault: Option<CheckFault>, failing: usize, of: usize) -> HealthChange {
        HealthChange {
            upstream: "shop/web:80".into(),
            endpoint: SocketAddr::from(([10, 0, 0, last], 8080)),
            fault,
            failing,
            of,
            all_are_used: 2 * failing > of,
        }
    }

    fn notes(notices: &[Notice]) -> Vec<(&str, &str)> {
        notices.iter().map(|notice| (notice.reason, notice.note.as_str())).collect()
    }

    #[test]
    fn an_event_tells_all_changes_since_the_last_one() {
        let (mut digest, begin) = (Digest::default(), Instant::now());
        let fault = Some(CheckFault::Status(500));
        digest.add(vec![change(1, fault, 1, 4)]);
        let first = digest.take(begin);
        assert_eq!(first[0].about, About::Service(NsName::new("shop", "web")));
        assert_eq!(
            notes(&first),
            [(
                "EndpointUnhealthy",
                "port 80: out of use by health checks: 10.0.0.1:8080 (status 500); 1 of 4 endpoints fail"
            )]
        );
        digest.add(vec![change(2, fault, 2, 4), change(1, None, 1, 4), change(3, fault, 2, 4)]);
        assert!(digest.take(begin + SPACING / 2).is_empty(), "it is too early");
        digest.add(vec![change(2, None, 1, 4)]);
        assert_eq!(
            notes(&digest.take(begin + SPACING)),
            [(
                "EndpointUnhealthy",
                "port 80: out of use by health checks: 10.0.0.3:8080 (status 500); \
                 in use again: 10.0.0.1:8080, 10.0.0.2:8080; 1 of 4 endpoints fail"
            )]
        );
        digest.add(vec![change(3, None, 0, 4)]);
        assert_eq!(
            notes(&digest.take(begin + 2 * SPACING)),
            [("EndpointHealthy", "port 80: in use again: 10.0.0.3:8080; 0 of 4 endpoints fail")]
        );
        assert!(digest.take(begin + 3 * SPACING).is_empty() && digest.0.is_empty());
    }

    #[test]
    fn an_event_names_some_endpoints_and_says_when_all_are_used() {
        let mut digest = Digest::default();
        digest.add((1..=7).map(|last| change(last, Some(CheckFault::Timeout), last.into(), 9)).collect());
        let notices = digest.take(Instant::now());
        let note = &notices[0].note;
        assert!(note.contains("10.0.0.5:8080 (") && !note.contains("10.0.0.6"), "{note}");
        let end = "and 2 more; 7 of 9 endpoints fail, which is more than half: all of them get requests";
        assert!(note.ends_with(end), "{note}");
    }
}
