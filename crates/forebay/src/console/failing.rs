//! The routes that fail at the moment: those with most responses with 5xx, each with its reasons.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::{LabelTexts, Labels};
use observe::{Reason, SeriesChange};

use super::causes;
use super::state::Failing;

/// Measurements that are added up, about half a minute: a route that fails now and then stays in sight.
const MEASUREMENTS: usize = 30;

/// Most routes that are listed.
const ROUTES_MAX: usize = 10;

/// Failures found in one measurement.
#[derive(Default)]
pub(super) struct Failures {
    /// All requests by the address of labels.
    requests: HashMap<usize, u64>,
    /// By address too. Labels are held, so that no others get their address.
    routes: HashMap<usize, OfRoute>,
}

/// The failures of a route.
struct OfRoute {
    labels: Arc<Labels>,
    /// The cluster of the canary that failed last, if one did.
    canary: Option<Arc<str>>,
    requests: u64,
    errors: u64,
    causes: Vec<(Reason, u64)>,
}

/// The failures of the last measurements.
#[derive(Default)]
pub(super) struct Recent {
    measured: VecDeque<(f64, Failures)>,
}

impl Failures {
    pub(super) fn note(&mut self, change: &SeriesChange<'_>) {
        let address = Arc::as_ptr(change.labels).addr();
        let requests: u64 = change.requests.iter().sum();
        *self.requests.entry(address).or_default() += requests;
        if change.class != 5 {
            return;
        }
        let route = self.routes.entry(address).or_insert_with(|| OfRoute::new(change.labels));
        route.canary = change.canary.cloned().or(route.canary.take());
        route.errors += requests;
        causes::add(&mut route.causes, change.causes);
    }
}

impl OfRoute {
    fn new(labels: &Arc<Labels>) -> Self {
        Self { labels: Arc::clone(labels), canary: None, requests: 0, errors: 0, causes: Vec::new() }
    }

    fn told(self, seconds: f64) -> Failing {
        let LabelTexts { namespace, object, service, service_port, path, host, rule } = self.labels.texts();
        let cluster = match self.canary {
            Some(canary) => canary.to_string(),
            None => format!("{namespace}-{service}-{service_port}"),
        };
        Failing {
            host,
            path,
            namespace,
            object,
            rule,
            service,
            service_port,
            cluster,
            server_errors_per_second: self.errors as f64 / seconds,
            error_ratio: self.errors as f64 / self.requests.max(self.errors) as f64,
            causes: causes::told(&self.causes, self.errors, seconds),
        }
    }
}

impl Recent {
    /// Takes a measurement. The first one of a reader is about an unknown period, and is left out.
    pub(super) fn add(&mut self, seconds: Option<f64>, failures: Failures) {
        let Some(seconds) = seconds else { return };
        self.measured.push_back((seconds, failures));
        if self.measured.len() > MEASUREMENTS {
            self.measured.pop_front();
        }
    }

    /// The routes with most errors, the first at the beginning.
    pub(super) fn told(&self) -> Vec<Failing> {
        let seconds: f64 = self.measured.iter().map(|(seconds, _)| seconds).sum();
        let mut routes: HashMap<usize, OfRoute> = HashMap::new();
        for (address, found) in self.measured.iter().flat_map(|(_, failures)| &failures.routes) {
            let sums = routes.entry(*address).or_insert_with(|| OfRoute::new(&found.labels));
            sums.errors += found.errors;
            sums.canary = found.canary.clone().or(sums.canary.take());
            causes::add(&mut sums.causes, &found.causes);
        }
        for (_, failures) in &self.measured {
            for (address, sums) in &mut routes {
                sums.requests += failures.requests.get(address).copied().unwrap_or_default();
            }
        }
        let mut routes: Vec<_> = routes.into_values().collect();
        routes.sort_by(|one, other| other.errors.cmp(&one.errors).then_with(|| key(one).cmp(&key(other))));
        routes.into_iter().take(ROUTES_MAX).map(|route| route.told(seconds)).collect()
    }
}

/// The order of routes with equally many errors, so that they do not change places.
fn key(route: &OfRoute) -> (&str, &str) {
    (route.labels.host(), route.labels.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Route, class of the status, requests, and the reasons of faults.
    type Change<'a> = (&'a Arc<Labels>, u8, u64, &'a [(Reason, u64)]);

    fn measured(recent: &mut Recent, changes: &[Change<'_>]) {
        let mut failures = Failures::default();
        for (labels, class, requests, causes) in changes {
            let requests = &[*requests];
            let (class, responses) = (*class, &[][..]);
            failures.note(&SeriesChange { labels, canary: None, class, requests, responses, causes });
        }
        recent.add(Some(1.0), failures);
    }

    fn labels(host: &str) -> Arc<Labels> {
        Arc::new(Labels::from(LabelTexts {
            host: host.to_owned(),
            service: "web".to_owned(),
            ..LabelTexts::default()
        }))
    }

    #[test]
    fn routes_are_listed_by_their_errors_with_the_reasons() {
        let mut recent = Recent::default();
        let fine = labels("fine.test");
        let some = labels("some.test");
        let most = labels("most.test");
        measured(&mut recent, &[(&fine, 2, 100, &[]), (&some, 5, 1, &[]), (&most, 2, 10, &[])]);
        let causes = [(Reason::ConnectRefused, 6), (Reason::QueueFull, 1)];
        measured(&mut recent, &[(&most, 5, 10, &causes), (&some, 2, 9, &[])]);
        let told = recent.told();
        let hosts: Vec<_> = told.iter().map(|one| (one.host.as_str(), one.error_ratio)).collect();
        assert_eq!(hosts, [("most.test", 0.5), ("some.test", 0.1)]);
        let reasons: Vec<_> = told[0].causes.iter().map(|cause| (cause.reason, cause.per_second)).collect();
        assert_eq!(reasons, [(Some("connect_refused"), 3.0), (None, 1.5), (Some("queue_full"), 0.5)]);
        assert_eq!(told[0].cluster, "-web-");
    }

    #[test]
    fn failures_are_forgotten_after_a_while() {
        let (mut recent, route) = (Recent::default(), labels("a.test"));
        measured(&mut recent, &[(&route, 5, 1, &[])]);
        (0..MEASUREMENTS).for_each(|_| measured(&mut recent, &[(&route, 2, 1, &[])]));
        assert!(recent.told().is_empty());
        recent.add(None, Failures::default());
        assert_eq!(recent.measured.len(), MEASUREMENTS);
    }
}
