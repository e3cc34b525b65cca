//! Makes the overview from the growth of the registry's counters.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doctor::Verdict;
use doctor::collect::UsageReader;
use observe::{Counter, EndpointTotals, Gauge, Handshake, Reason, SeriesReader};

use super::counts::Counts;
use super::failing::{Failures, Recent};
use super::seen::Seen;
use super::state::{
    Certificates, Configuration, Connections, Fault, Findings, Problems, Process, Requests, Shortage, State,
    Tls, Upstream, WorstFinding,
};
use super::traffic::{self, ByRoute, Collected};
use crate::explain::Objects;
use crate::{canaries, machine, version};

/// A certificate that ends within this time ends soon; managers of certificates renew long before.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Takes samples one after the other.
pub(super) struct Sampler {
    name: String,
    cpu_quota: Option<f64>,
    cpus: usize,
    ports_available: Option<u64>,
    series: SeriesReader,
    before: Option<Sample>,
    failures: Recent,
    /// Counts of the configuration's objects, with its revision.
    counted: Option<(u64, Counted)>,
}

/// Counters that grow with time.
struct Sample {
    at: Instant,
    requests: u64,
    accepted: u64,
    handshakes: [u64; Handshake::ALL.len()],
    faults: Vec<u64>,
    upstream: EndpointTotals,
    cpu_seconds: f64,
}

/// Counts of a configuration's objects.
#[derive(Clone, Default)]
struct Counted {
    configuration: Configuration,
    problems: Problems,
    /// Ends of certificates.
    ends: Vec<i64>,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            name: std::env::var("POD_NAME").unwrap_or_else(|_| machine::hostname()),
            cpu_quota: machine::cpu_quota(),
            cpus: machine::cpus(),
            ports_available: UsageReader::default().read(&[]).port_range,
            series: SeriesReader::default(),
            before: None,
            failures: Recent::default(),
            counted: None,
        }
    }

    /// The overview at this moment. Changes of routes go to `collected`, if they are requested.
    pub(super) fn look(&mut self, seen: &Seen, collected: &mut Collected) -> State {
        let registry = &seen.registry;
        let is_asked_for = collected.is_asked_for();
        let (mut counts, mut by_route) = (Counts::default(), ByRoute::new());
        let mut failures = Failures::default();
        self.series.read(registry, |change| {
            counts.add(change);
            failures.note(change);
            if is_asked_for {
                traffic::note(&mut by_route, change);
            }
        });
        let process = machine::process();
        let endpoints = registry.endpoints();
        let sample = Sample::take(seen, process.cpu_seconds, &endpoints);
        let before = self.before.replace(sample);
        let now = self.before.as_ref().expect("it was put there just now");
        let since = before.as_ref().map(|before| Since { now, before });
        let seconds = since.as_ref().map(Since::seconds);
        self.failures.add(seconds, failures);
        if is_asked_for {
            collected.add(seconds, by_route, registry);
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let counted = match self.counted.take() {
            Some((revision, counted)) if revision == seen.revision() => counted,
            _ => Counted::of(seen.served().as_ref()),
        };
        let state = State {
            version: version::RELEASE,
            name: self.name.clone(),
            at_seconds: at.as_secs_f64(),
            uptime_seconds: (at.as_secs_f64() - process.start_time_seconds).max(0.0),
            window_seconds: seconds,
            revision: seen.revision(),
            configuration: configuration(&counted.configuration, seen),
            requests: requests(now, since.as_ref(), &counts),
            connections: connections(seen, since.as_ref()),
            upstream: self.upstream(seen, now, since.as_ref(), &endpoints),
            tls: tls(since.as_ref()),
            process: Process {
                workers: seen.observer.get().map(proxy::Observer::workers),
                cpu_used: since.as_ref().map(|since| since.rate_of(|sample| sample.cpu_seconds)),
                cpu_quota: self.cpu_quota,
                cpus: self.cpus,
                resident_bytes: process.resident_bytes,
            },
            shortages: shortages(seen),
            findings: findings(seen),
            problems: counted.problems.clone(),
            certificates: certificates(&counted.ends, at),
            canaries: seen.observer.get().map(|one| canaries::status(one.rollouts())).unwrap_or_default(),
            failing: self.failures.told(),
        };
        self.counted = Some((state.revision, counted));
        state
    }

    fn upstream(
        &self,
        seen: &Seen,
        now: &Sample,
        since: Option<&Since<'_>>,
        endpoints: &[(std::net::SocketAddr, EndpointTotals)],
    ) -> Upstream {
        let ports = seen.registry.ports_in_use();
        let rate = |of: fn(&EndpointTotals) -> u64| since.map(|since| since.rate(|one| of(&one.upstream)));
        Upstream {
            open: ports.iter().map(|one| one.in_use).sum(),
            idle: now.upstream.idle,
            requests_per_second: rate(|all| all.requests),
            failures_per_second: rate(|all| all.failures),
            opened_per_second: rate(|all| all.opened),
            reuse_ratio: since.and_then(|since| {
                let grown = |of: fn(&EndpointTotals) -> u64| since.grown(|one| of(&one.upstream));
                ratio(grown(|all| all.reused), grown(|all| all.opened))
            }),
            evicted_per_second: rate(|all| all.evicted),
            regretted_per_second: rate(|all| all.regretted),
            ejected: endpoints.iter().filter(|(_, totals)| totals.ejected > 0).count() as u64,
            failing_checks: endpoints.iter().filter(|(_, totals)| totals.check_failing > 0).count() as u64,
            ports_in_use_max: ports.iter().map(|one| one.in_use).max().unwrap_or(0),
            ports_available: self.ports_available,
            ports_exhausted: ports.iter().map(|one| one.exhausted).sum(),
            queued: seen.registry.overloads().values().map(|one| one.queued).sum(),
        }
    }
}

impl Sample {
    fn take(seen: &Seen, cpu_seconds: f64, endpoints: &[(std::net::SocketAddr, EndpointTotals)]) -> Self {
        let registry = &seen.registry;
        let mut handshakes = [0; Handshake::ALL.len()];
        for (count, of) in handshakes.iter_mut().zip(Handshake::ALL) {
            *count = registry.handshakes(*of);
        }
        Self {
            at: Instant::now(),
            requests: registry.total(Counter::Requests),
            accepted: registry.total(Counter::ConnectionsAccepted),
            handshakes,
            faults: Reason::ALL.iter().map(|reason| registry.faults(*reason)).collect(),
            upstream: sum(endpoints),
            cpu_seconds,
        }
    }
}

fn sum(endpoints: &[(std::net::SocketAddr, EndpointTotals)]) -> EndpointTotals {
    let add = |all: EndpointTotals, (_, one): &(_, EndpointTotals)| EndpointTotals {
        opened: all.opened + one.opened,
        reused: all.reused + one.reused,
        evicted: all.evicted + one.evicted,
        regretted: all.regretted + one.regretted,
        stale: all.stale + one.stale,
        requests: all.requests + one.requests,
        server_errors: all.server_errors + one.server_errors,
        failures: all.failures + one.failures,
        failures_after_sending: all.failures_after_sending + one.failures_after_sending,
        idle: all.idle.wrapping_add(one.idle),
        ejected: all.ejected.wrapping_add(one.ejected),
        ejections: all.ejections + one.ejections,
        paced: all.paced + one.paced,
        checks: all.checks + one.checks,
        checks_failed: all.checks_failed + one.checks_failed,
        check_failing: all.check_failing.wrapping_add(one.check_failing),
        check_panic: all.check_panic.wrapping_add(one.check_panic),
        check_fault: None,
    };
    endpoints.iter().fold(EndpointTotals::default(), add)
}

/// Two samples, whose differences are shown.
struct Since<'a> {
    now: &'a Sample,
    before: &'a Sample,
}

impl Since<'_> {
    fn seconds(&self) -> f64 {
        (self.now.at - self.before.at).as_secs_f64().max(f64::EPSILON)
    }

    /// By how much something has grown. It may have shrunk, when an endpoint is gone, which is no growth.
    fn grown(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        of(self.now).saturating_sub(of(self.before))
    }

    fn rate(&self, of: impl Fn(&Sample) -> u64) -> f64 {
        self.grown(of) as f64 / self.seconds()
    }

    fn rate_of(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        (of(self.now) - of(self.before)).max(0.0) / self.seconds()
    }
}

impl Counted {
    fn of(served: Option<&Objects>) -> Self {
        let Some(Objects { snapshot, translation, .. }) = served else { return Self::default() };
        let model = &translation.model;
        let mut problems = Problems::default();
        for problem in &translation.problems {
            match problem.severity {
                control::Severity::Error => problems.error += 1,
                control::Severity::Warning => problems.warning += 1,
                control::Severity::Notice => problems.notice += 1,
            }
        }
        Self {
            configuration: Configuration {
                generation: snapshot.generation,
                hosts: model.hosts().count(),
                routes: model.hosts().map(|host| host.routes.len()).sum(),
                clusters: model.clusters.count(),
                endpoints: model.clusters.iter().map(|(_, cluster)| cluster.endpoints.len()).sum(),
                services: model.listeners.iter().filter_map(model::Listener::stream).count(),
                ..Configuration::default()
            },
            problems,
            // Hosts share certificates.
            ends: translation
                .certificates
                .iter()
                .map(|one| &one.info)
                .collect::<HashSet<_>>()
                .into_iter()
                .map(|one| one.not_after)
                .collect(),
        }
    }
}

fn configuration(counted: &Configuration, seen: &Seen) -> Configuration {
    let condition = seen.condition();
    Configuration {
        acknowledged: seen.observer.get().map_or(0, proxy::Observer::acknowledged),
        troubles: condition.troubles,
        waiting: condition.waiting,
        is_from_disk: condition.from_disk,
        ..counted.clone()
    }
}

fn requests(now: &Sample, since: Option<&Since<'_>>, counts: &Counts) -> Requests {
    let bounds = &observe::latency_bounds();
    let fault = |(at, reason): (usize, &Reason)| Fault {
        reason: reason.name(),
        side: reason.side().name(),
        meaning: reason.doc(),
        total: now.faults[at],
        per_second: since.map(|since| since.rate(|sample| sample.faults[at])),
    };
    let all = Reason::ALL.iter().enumerate().map(fault);
    let mut requests = Requests {
        total: now.requests,
        per_second: since.map(|since| since.rate(|sample| sample.requests)),
        faults: all.filter(|fault| fault.total > 0).collect(),
        ..Requests::default()
    };
    // The counters of the first sample belong to an unknown period.
    if let Some(since) = since {
        requests.by_class = Some(counts.classes(since.seconds()));
        requests.latency = counts.latency(bounds);
        requests.upstream_latency = counts.upstream_latency(bounds);
    }
    requests
}

fn connections(seen: &Seen, since: Option<&Since<'_>>) -> Connections {
    let gauge = |of| seen.registry.at_present(of);
    Connections {
        active: gauge(Gauge::ConnectionsActive),
        reading: gauge(Gauge::ConnectionsReading),
        writing: gauge(Gauge::ConnectionsWriting),
        waiting: gauge(Gauge::ConnectionsWaiting),
        accepted_per_second: since.map(|since| since.rate(|sample| sample.accepted)),
    }
}

fn tls(since: Option<&Since<'_>>) -> Tls {
    let Some(since) = since else { return Tls::default() };
    let grown = |of: Handshake| since.grown(|sample| sample.handshakes[of as usize]);
    let resumed = grown(Handshake::Resumed);
    let all: u64 = Handshake::ALL.iter().map(|of| grown(*of)).sum();
    Tls {
        handshakes_per_second: Some(all as f64 / since.seconds()),
        resumed_ratio: ratio(resumed, all - resumed),
    }
}

/// The share of the one of both; none where there is neither.
fn ratio(one: u64, other: u64) -> Option<f64> {
    (one + other > 0).then(|| one as f64 / (one + other) as f64)
}

fn shortages(seen: &Seen) -> Vec<Shortage> {
    let one = |(of, permille, level): (observe::Shortage, Option<u64>, u64)| Shortage {
        of: of.name(),
        meaning: of.doc(),
        ratio: permille.map(|permille| permille as f64 / 1000.0),
        level,
    };
    seen.registry.shortages().map(one).collect()
}

fn findings(seen: &Seen) -> Findings {
    let found = seen.findings.all();
    let count = |verdict| found.iter().filter(|finding| finding.verdict == verdict).count();
    let mut worst: Vec<_> = found.iter().filter(|finding| finding.verdict >= Verdict::Warning).collect();
    worst.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    Findings {
        ok: count(Verdict::Ok),
        unknown: count(Verdict::Unknown),
        warning: count(Verdict::Warning),
        failure: count(Verdict::Failure),
        worst: worst
            .into_iter()
            .map(|one| {
                let (message, zh) = (one.message.clone(), one.zh.clone());
                WorstFinding { id: one.id, verdict: one.verdict.name(), message, zh }
            })
            .collect(),
    }
}

fn certificates(ends: &[i64], now: Duration) -> Certificates {
    let now_seconds = now.as_secs().cast_signed();
    let soon = now_seconds.saturating_add(SOON.as_secs().cast_signed());
    Certificates {
        total: ends.len(),
        expired: ends.iter().filter(|end| **end <= now_seconds).count(),
        ending_soon: ends.iter().filter(|end| **end > now_seconds && **end <= soon).count(),
        first_end_seconds: ends.iter().min().copied(),
    }
}
