//! `/console/traffic`: rates and times of each route, cluster, endpoint and service, of the last few seconds.
//!
//! Samples are kept only while clients request them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use geo::Country;
use model::{LabelTexts, Labels};
use observe::{EndpointTotals, Registry, SeriesChange, StreamName, StreamTotals, latency_bounds};
use serde::Serialize;

use super::causes;
use super::counts::Counts;
use super::quantile::latency;
use super::state::{Cause, Latency};

/// Measurements that are added up: with one a second, rates of few requests do not jump between 0 and 1.
const MEASUREMENTS: usize = 5;

/// Time after the last question from which nothing more is kept.
const ASKED_WITHIN: Duration = Duration::from_secs(15);

/// The answer of `/console/traffic`. Routes and clusters without requests in this time are left out, and so
/// are endpoints that no worker knows.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Traffic {
    /// Time that rates are about; null where there are none yet: they come a second after the first question.
    pub(crate) window_seconds: Option<f64>,
    pub(crate) routes: Vec<RouteTraffic>,
    pub(crate) clusters: Vec<ClusterTraffic>,
    pub(crate) endpoints: Vec<EndpointTraffic>,
    pub(crate) services: Vec<ServiceTraffic>,
    /// Countries of clients, the most requests first; empty without `forebay-client-country-metrics`.
    pub(crate) countries: Vec<CountryTraffic>,
}

/// The requests of clients of a country.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CountryTraffic {
    /// Code by ISO 3166-1, `unknown` or `other`.
    pub(crate) code: &'static str,
    /// Name in English; null where the code is that of no country.
    pub(crate) name: Option<&'static str>,
    /// Since the start.
    pub(crate) requests: u64,
}

/// The requests of a route, which is known by what its metrics are labelled with. Routes with the same labels
/// are one here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RouteTraffic {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) namespace: String,
    /// The object that declares the route.
    pub(crate) object: String,
    pub(crate) rule: String,
    pub(crate) service: String,
    pub(crate) service_port: String,
    pub(crate) requests_per_second: f64,
    /// Answers with 4xx.
    pub(crate) client_errors_per_second: f64,
    /// Answers with 5xx.
    pub(crate) server_errors_per_second: f64,
    /// Why answers with 5xx were made, the most frequent reasons first, at most three.
    pub(crate) causes: Vec<Cause>,
    pub(crate) latency: Latency,
}

/// The requests of a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterTraffic {
    /// As `/console/objects` has it.
    pub(crate) name: String,
    pub(crate) requests_per_second: f64,
    pub(crate) server_errors_per_second: f64,
    /// Time that endpoints took.
    pub(crate) latency: Latency,
    /// Requests that wait for a place.
    pub(crate) queued: u64,
    /// Loads of its endpoints; empty where no route has limits (`forebay.io/overload`).
    pub(crate) loads: Vec<Load>,
}

/// The load of an endpoint of a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// Most requests at a time; null where nothing is known.
    pub(crate) limit: Option<u64>,
    pub(crate) in_flight: u64,
}

/// The connections and requests of an endpoint.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointTraffic {
    pub(crate) address: SocketAddr,
    pub(crate) requests_per_second: f64,
    pub(crate) failures_per_second: f64,
    /// Responses with a status from 500.
    pub(crate) server_errors_per_second: f64,
    /// Idle connections closed too early.
    pub(crate) regretted_per_second: f64,
    /// All requests fail, or nearly all: at most one in a hundred has got a response with a status below 500.
    pub(crate) is_failing: bool,
    /// Connections opened per second.
    pub(crate) opened_per_second: f64,
    /// Share of requests that reused a connection; null without requests.
    pub(crate) reuse_ratio: Option<f64>,
    /// Connections that are open, in use or idle.
    pub(crate) open: u64,
    pub(crate) idle: u64,
    /// Workers and clusters that leave it out at present.
    pub(crate) ejected: u64,
    /// Since the start: active health checks.
    pub(crate) checks: u64,
    /// Since the start: health checks that failed.
    pub(crate) checks_failed: u64,
    /// Clusters in which it fails its health check.
    pub(crate) failing_checks: u64,
    /// More than half of the endpoints of one of them fail, so that it is used all the same.
    pub(crate) is_used_in_panic: bool,
    /// Why its last health check failed; null where it passed, or where it is not checked.
    pub(crate) check_fault: Option<String>,
    /// Since the start: connections opened.
    pub(crate) opened: u64,
    /// Since the start: requests that took an open connection.
    pub(crate) reused: u64,
    /// Since the start: idle connections that the endpoint had closed when one was needed.
    pub(crate) stale: u64,
    /// Since the start: idle connections closed because of the cap.
    pub(crate) evicted: u64,
    /// Since the start: evictions that a new connection soon followed.
    pub(crate) regretted: u64,
    /// Since the start: requests that failed.
    pub(crate) failures: u64,
    /// Since the start: times that it was left out.
    pub(crate) ejections: u64,
}

/// The connections of a TCP service, or sessions of a UDP service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceTraffic {
    /// `TCP` or `UDP`; `HTTP` or `HTTPS` for a port that could not be listened at.
    pub(crate) protocol: &'static str,
    pub(crate) port: u16,
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) active: u64,
    pub(crate) opened_per_second: f64,
    pub(crate) received_bytes_per_second: f64,
    pub(crate) sent_bytes_per_second: f64,
    /// Time from a client's message to the first byte of the answer.
    pub(crate) latency: Latency,
    /// Since the start: sessions that were ended to make room.
    pub(crate) evicted: u64,
    /// Since the start: times that the port could not be listened at.
    pub(crate) listen_failures: u64,
}

/// Collects what [`Traffic`] is made from.
#[derive(Default)]
pub(super) struct Collected {
    /// Time of the last request.
    asked: Option<Instant>,
    /// The time between two measurements, and what was counted in it.
    measured: VecDeque<(f64, ByRoute)>,
    /// Totals at the beginning and end of that time.
    totals: VecDeque<(Instant, Totals)>,
}

/// By the address of labels, which are held: no other labels get it.
pub(super) type ByRoute = HashMap<usize, (Arc<Labels>, ByCanary)>;

/// Counters by the value of the labels, whichever allocation holds them.
type ByLabels = HashMap<Arc<Labels>, ByCanary>;

/// By the cluster of the canary that was chosen, or none for the Service of the route.
type ByCanary = BTreeMap<Option<Arc<str>>, Counts>;

struct Totals {
    endpoints: Vec<(SocketAddr, EndpointTotals)>,
    streams: Vec<(StreamName, StreamTotals)>,
}

impl Collected {
    pub(super) fn ask(&mut self) {
        self.asked = Some(Instant::now());
    }

    /// Whether there was a request lately; if not, the samples are dropped.
    pub(super) fn is_asked_for(&mut self) -> bool {
        let is_asked = self.asked.is_some_and(|asked| asked.elapsed() < ASKED_WITHIN);
        if !is_asked {
            *self = Self::default();
        }
        is_asked
    }

    pub(super) fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    /// Takes another measurement: what has changed in a time, which is none for the first one of a reader.
    pub(super) fn add(&mut self, seconds: Option<f64>, changes: ByRoute, registry: &Registry) {
        let totals = Totals { endpoints: registry.endpoints(), streams: registry.streams() };
        self.totals.push_back((Instant::now(), totals));
        if self.totals.len() > MEASUREMENTS + 1 {
            self.totals.pop_front();
        }
        // Without totals before it, a measurement would be about less than those of endpoints.
        if let Some(seconds) = seconds
            && self.totals.len() > 1
        {
            self.measured.push_back((seconds, changes));
        }
        if self.measured.len() > MEASUREMENTS {
            self.measured.pop_front();
        }
    }

    pub(super) fn tell(&self, registry: &Registry) -> Traffic {
        let seconds: f64 = self.measured.iter().map(|(seconds, _)| seconds).sum();
        if seconds <= 0.0 {
            return Traffic::default();
        }
        let merged = self.merged();
        Traffic {
            window_seconds: Some(seconds),
            routes: merged.iter().map(|(labels, all)| route(labels, all, seconds)).collect(),
            clusters: clusters(&merged, seconds, registry),
            endpoints: self.endpoints(registry),
            services: self.services(registry),
            countries: countries(registry),
        }
    }

    fn merged(&self) -> ByLabels {
        let mut merged = ByLabels::new();
        for (labels, counts) in self.measured.iter().flat_map(|(_, changes)| changes.values()) {
            let sums = merged.entry(Arc::clone(labels)).or_default();
            for (canary, counts) in counts {
                sums.entry(canary.clone()).or_default().merge(counts);
            }
        }
        merged
    }

    /// The totals at the beginning and the end, and the time between them.
    fn ends(&self) -> Option<(&Totals, &Totals, f64)> {
        let ((begun, before), (ended, now)) = (self.totals.front()?, self.totals.back()?);
        Some((before, now, (*ended - *begun).as_secs_f64())).filter(|(_, _, seconds)| *seconds > 0.0)
    }

    fn endpoints(&self, registry: &Registry) -> Vec<EndpointTraffic> {
        let Some((before, now, seconds)) = self.ends() else { return Vec::new() };
        let known: HashMap<_, _> = before.endpoints.iter().copied().collect();
        let mut open: HashMap<SocketAddr, u64> = HashMap::new();
        for ports in registry.ports_in_use() {
            *open.entry(ports.endpoint).or_default() += ports.in_use;
        }
        let one = |(address, now): &(SocketAddr, EndpointTotals)| {
            let before = known.get(address).copied().unwrap_or_default();
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let (opened, reused) = (rate(now.opened, before.opened), rate(now.reused, before.reused));
            EndpointTraffic {
                address: *address,
                requests_per_second: rate(now.requests, before.requests),
                failures_per_second: rate(now.failures, before.failures),
                server_errors_per_second: rate(now.server_errors, before.server_errors),
                is_failing: is_failing(now, &before),
                regretted_per_second: rate(now.regretted, before.regretted),
                opened_per_second: opened,
                reuse_ratio: (opened + reused > 0.0).then(|| reused / (opened + reused)),
                open: open.get(address).copied().unwrap_or_default(),
                idle: now.idle,
                ejected: now.ejected,
                checks: now.checks,
                checks_failed: now.checks_failed,
                failing_checks: now.check_failing,
                is_used_in_panic: now.check_panic > 0,
                check_fault: now.check_fault.map(|fault| fault.to_string()),
                opened: now.opened,
                reused: now.reused,
                stale: now.stale,
                evicted: now.evicted,
                regretted: now.regretted,
                failures: now.failures,
                ejections: now.ejections,
            }
        };
        now.endpoints.iter().map(one).collect()
    }

    fn services(&self, registry: &Registry) -> Vec<ServiceTraffic> {
        let Some((before, now, seconds)) = self.ends() else { return Vec::new() };
        let (known, bounds): (HashMap<_, _>, _) = (
            before.streams.iter().map(|(name, totals)| ((name.protocol, name.port), totals)).collect(),
            registry.stream_bounds(),
        );
        let none = StreamTotals::default();
        let one = |(name, now): &(StreamName, StreamTotals)| {
            let before = known.get(&(name.protocol, name.port)).copied().unwrap_or(&none);
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let old = before.responses.iter().copied().chain(std::iter::repeat(0));
            let answers: Vec<u64> =
                now.responses.iter().zip(old).map(|(now, old)| now.saturating_sub(old)).collect();
            ServiceTraffic {
                protocol: name.protocol,
                port: name.port,
                namespace: name.namespace.clone(),
                service: name.service.clone(),
                active: now.active,
                opened_per_second: rate(now.opened, before.opened),
                received_bytes_per_second: rate(now.received, before.received),
                sent_bytes_per_second: rate(now.sent, before.sent),
                latency: latency(&bounds, &answers),
                evicted: now.evicted,
                listen_failures: now.listen_failures,
            }
        };
        now.streams.iter().map(one).collect()
    }
}

/// Whether an endpoint fails all requests, or nearly all.
fn is_failing(now: &EndpointTotals, before: &EndpointTotals) -> bool {
    let grown = |of: fn(&EndpointTotals) -> u64| of(now).saturating_sub(of(before));
    let failed_after_sending = grown(|all| all.server_errors) + grown(|all| all.failures_after_sending);
    let succeeded = grown(|all| all.requests).saturating_sub(failed_after_sending);
    let failed = grown(|all| all.server_errors) + grown(|all| all.failures);
    failed > 0 && succeeded <= failed / 100
}

/// Adds what has changed of a series to what has changed of its route.
pub(super) fn note(changes: &mut ByRoute, change: &SeriesChange<'_>) {
    let address = Arc::as_ptr(change.labels).addr();
    let (_, of_route) =
        changes.entry(address).or_insert_with(|| (Arc::clone(change.labels), BTreeMap::new()));
    of_route.entry(change.canary.cloned()).or_default().add(change);
}

fn route(labels: &Labels, counts: &ByCanary, seconds: f64) -> RouteTraffic {
    let mut all = Counts::default();
    for counts in counts.values() {
        all.merge(counts);
    }
    let LabelTexts { namespace, object, service, service_port, path, host, rule } = labels.texts();
    RouteTraffic {
        host,
        path,
        namespace,
        object,
        rule,
        service,
        service_port,
        requests_per_second: all.total() as f64 / seconds,
        client_errors_per_second: all.client_errors() as f64 / seconds,
        server_errors_per_second: all.server_errors() as f64 / seconds,
        causes: causes::told(all.causes(), all.server_errors(), seconds),
        latency: all.latency(&latency_bounds()),
    }
}

fn countries(registry: &Registry) -> Vec<CountryTraffic> {
    let name = |code: &str| Country::of_code(code).and_then(Country::name);
    let listed = |(code, requests)| CountryTraffic { code, name: name(code), requests };
    registry.countries().into_iter().map(listed).collect()
}

/// Requests are counted by route; those of a route are for the cluster of its Service, or of the canary that
/// was chosen.
fn clusters(by_route: &ByLabels, seconds: f64, registry: &Registry) -> Vec<ClusterTraffic> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for (labels, of_route) in by_route {
        for (canary, of_cluster) in of_route {
            let own = || format!("{}-{}-{}", labels.namespace(), labels.service(), labels.service_port());
            let name = canary.as_ref().map_or_else(own, ToString::to_string);
            counts.entry(name).or_default().merge(of_cluster);
        }
    }
    let mut loads = registry.overloads();
    let mut names: Vec<String> = counts.keys().chain(loads.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    let one = |name: String| {
        let counts = counts.remove(&name).unwrap_or_default();
        let load = loads.remove(&name).unwrap_or_default();
        ClusterTraffic {
            requests_per_second: counts.total() as f64 / seconds,
            server_errors_per_second: counts.server_errors() as f64 / seconds,
            latency: counts.upstream_latency(&latency_bounds()),
            queued: load.queued,
            loads: load
                .endpoints
                .iter()
                .map(|one| Load { address: one.address, limit: one.limit, in_flight: one.in_flight })
                .collect(),
            name,
        }
    };
    names.into_iter().map(one).collect()
}
