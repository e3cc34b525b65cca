//! The page of metrics for the flight recorder: what the doctor's checks and whoever looks at the past need.
//! Its length hardly depends on how many routes and endpoints there are: the busiest have lines of their own,
//! and the others are added up.
//!
//! The series that `/metrics` has too have the same names, with fewer labels. Those that begin with
//! `forebay_record_` are in records only: their buckets are not cumulative, so that few numbers change.
//!
//! Never in here: paths of routes, and whatever a request said.

mod endpoints;
mod upstream_times;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::Labels;

use super::super::fine;
use super::super::names;
use super::super::registry::{Process, Registry};
use super::super::series::Series;
use super::super::worker_cells::{CLASSES, WorkerCells};
use super::super::{Counter, lock};
use super::{GoFloat, Page, labels, push_label, sum};
use crate::Reason;
pub use endpoints::EndpointSums;
use endpoints::{BusyEndpoints, weight};
use upstream_times::UpstreamTimes;

/// Routes that have lines of their own, and those among them whose times have too.
const ROUTES: usize = 50;
const ROUTES_WITH_TIMES: usize = 10;

/// TCP and UDP services that are written.
const STREAMS: usize = 32;

/// Pages after which the busiest are chosen anew, and new series are noticed.
const CHOSEN_FOR: u32 = 6;

/// Writes pages one after the other, and remembers what is busy.
#[derive(Debug, Default)]
pub struct BriefReader {
    /// Pages until the busiest are chosen anew.
    left: u32,
    times: UpstreamTimes,
    hasher: RandomState,
    /// Requests of each route at the last choice, by a hash of its name.
    before: HashMap<u64, u64, RandomState>,
    routes: Vec<Route>,
    /// The series of the busiest routes, each with the place of its route among them.
    of_routes: Vec<(usize, Arc<Series>)>,
    endpoints: BusyEndpoints,
}

/// A namespace, an Ingress and a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Route([String; 3]);

/// A route that may be among the busiest.
struct Candidate {
    requests: u64,
    /// The labels of one of its series.
    labels: Arc<Labels>,
}

/// The counts of a route.
#[derive(Clone, Copy)]
struct Counts {
    classes: [u64; CLASSES],
    times: [u64; fine::BUCKETS],
    nanoseconds: u64,
}

impl Registry {
    /// Appends the page of the flight recorder. Returns what it says of all endpoints together.
    pub fn encode_brief(
        &self,
        reader: &mut BriefReader,
        process: &Process,
        out: &mut String,
    ) -> EndpointSums {
        let workers = lock(&self.workers).clone();
        if reader.left == 0 {
            reader.left = CHOSEN_FOR;
            reader.times.begin(&self.layout, &workers);
            reader.choose();
            lock(&self.upstreams).sweep();
            reader.endpoints.choose(self);
        } else {
            reader.times.look(&self.layout);
        }
        reader.left -= 1;
        let mut page = Page { out, controller: self.controller_labels(), is_brief: true };
        super::encode_process(&workers, process, &mut page);
        self.encode_state(&workers, &mut page);
        self.encode_totals(reader, &mut page);
        self.encode_routes(reader, &mut page);
        let endpoints = self.encode_endpoints(&reader.endpoints, &mut page);
        self.encode_streams(&mut page, STREAMS);
        endpoints
    }

    fn encode_state(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        for (severity, reason, number) in &*lock(&self.problems) {
            page.own(&names::PROBLEMS, &[("severity", severity), ("reason", reason)], number);
        }
        self.encode_endings(page);
        for reason in Reason::ALL {
            let labels = labels(&[("side", reason.side().name()), ("reason", reason.name())]);
            page.sample(names::FAULTS.name, &labels, sum(workers, |worker| worker.reason(*reason)));
        }
        super::encode_handshakes(workers, page);
        let count = |counter: Counter| sum(workers, |worker| worker.counter(counter));
        for (metric, counter) in [
            (&names::SERIES_DROPPED, Counter::SeriesDropped),
            (&names::MIRRORS_DROPPED, Counter::MirrorsDropped),
            (&names::FALLBACKS, Counter::Fallbacks),
        ] {
            page.sample(metric.name, "", count(counter));
        }
        super::cache::encode_replicas(workers, page);
        self.encode_cache_size(page);
        self.encode_abuse(page, count);
        self.encode_guard(workers, page);
    }

    /// Requests by class and time, and heads and responses of endpoints in the buckets of `/metrics`.
    fn encode_totals(&self, reader: &BriefReader, page: &mut Page<'_>) {
        let served = self.served();
        for (class, count) in served.classes.iter().enumerate() {
            page.sample(CLASS, &labels(&[("class", &class_name(class))]), count);
        }
        for (name, times) in [(TIMES, &served.requests), (RESPONSE_TIMES, &served.responses)] {
            for (bound, count) in bounds().zip(times) {
                page.sample(name, &labels(&[("below", &bound)]), count);
            }
        }
        for histogram in upstream_times::histograms(&self.layout) {
            let name = histogram.metric.name;
            let mut below = 0;
            let bounds = histogram.bounds.iter().map(|bound| GoFloat(*bound).to_string());
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(reader.times.buckets(histogram)) {
                below += count;
                page.sample(&format!("{name}_bucket"), &labels(&[("le", &bound)]), below);
            }
            page.sample(&format!("{name}_count"), "", below);
        }
    }

    fn encode_routes(&self, reader: &BriefReader, page: &mut Page<'_>) {
        let none = Counts { classes: [0; CLASSES], times: [0; fine::BUCKETS], nanoseconds: 0 };
        let mut counts = vec![none; reader.routes.len()];
        for (route, series) in &reader.of_routes {
            counts[*route].add(series, self.layout.request_duration.sum_cell());
        }
        for (at, (route, counts)) in reader.routes.iter().zip(&counts).enumerate() {
            let [namespace, ingress, service] = &route.0;
            let of = labels(&[("namespace", namespace), ("ingress", ingress), ("service", service)]);
            for (class, count) in counts.classes.iter().enumerate() {
                let mut labels = of.clone();
                push_label(&mut labels, "class", &class_name(class));
                page.sample(ROUTE_CLASS, &labels, count);
            }
            page.sample(ROUTE_MILLISECONDS, &of, counts.nanoseconds / 1_000_000);
            let times = if at < ROUTES_WITH_TIMES { &counts.times[..] } else { &[] };
            for (bound, count) in bounds().zip(times) {
                let mut labels = of.clone();
                push_label(&mut labels, "below", &bound);
                page.sample(ROUTE_TIMES, &labels, count);
            }
        }
    }
}

/// Requests by the first digit of their status.
const CLASS: &str = "forebay_record_requests";
/// Requests, and responses of endpoints, by the time that they took: that of a bucket, not of all below it.
const TIMES: &str = "forebay_record_request_times";
const RESPONSE_TIMES: &str = "forebay_record_response_times";
/// The same of the busiest routes.
const ROUTE_CLASS: &str = "forebay_record_route_requests";
const ROUTE_TIMES: &str = "forebay_record_route_request_times";
/// The time of all requests of a route together.
const ROUTE_MILLISECONDS: &str = "forebay_record_route_milliseconds";

fn class_name(class: usize) -> String {
    if class == 0 { "other".to_owned() } else { format!("{class}xx") }
}

/// The upper bounds of the fine buckets, as text.
fn bounds() -> impl Iterator<Item = String> {
    let bounds = fine::bounds().into_iter().map(|bound| GoFloat(bound).to_string());
    bounds.chain(["+Inf".to_owned()])
}

impl Counts {
    fn add(&mut self, series: &Series, sum_cell: usize) {
        let times = series.requests.get();
        let count = times.iter().map(|count| u64::from(*count)).sum::<u64>();
        let class = series.status().map_or(0, |status| if status < 100 { status } else { status / 100 });
        self.classes[usize::from(class).min(CLASSES - 1)] += count;
        self.times.iter_mut().zip(times).for_each(|(total, count)| *total += u64::from(count));
        self.nanoseconds += series.cells[sum_cell].get();
    }
}

impl BriefReader {
    /// Chooses the busiest routes since the last choice. Those that were chosen before stay if they are half
    /// as busy as any other: a line that comes or goes costs more than one that changes.
    fn choose(&mut self) {
        let mut routes: HashMap<u64, Candidate, RandomState> = HashMap::default();
        // The route of each series, as a hash: there are thousands of routes, of which few have to be named.
        let mut of_series = Vec::new();
        for series in self.times.series() {
            let labels = series.identity().map(|identity| identity.labels);
            let route = labels.as_ref().map(|labels| self.hasher.hash_one(names_of(labels)));
            of_series.push(route);
            let Some((route, labels)) = route.zip(labels) else { continue };
            let candidate = routes.entry(route).or_insert(Candidate { requests: 0, labels });
            candidate.requests += series.requests.get().iter().map(|count| u64::from(*count)).sum::<u64>();
        }
        let former: Vec<u64> = self.routes.iter().map(|route| self.hasher.hash_one(route.names())).collect();
        let mut grown: Vec<(u64, bool, u64)> = Vec::with_capacity(routes.len());
        for (route, candidate) in &routes {
            let before = self.before.get(route).copied().unwrap_or(0);
            let is_chosen = former.contains(route);
            grown.push((weight(candidate.requests.saturating_sub(before), is_chosen), is_chosen, *route));
        }
        if grown.len() > ROUTES {
            grown.select_nth_unstable_by(ROUTES, |one, other| other.cmp(one));
            grown.truncate(ROUTES);
        }
        let mut chosen: Vec<(u64, Route)> = grown
            .iter()
            .filter_map(|(.., route)| Some((*route, Route::of(&routes.get(route)?.labels))))
            .collect();
        // The order of the former choice, so that few lines move.
        let place = |route: u64| former.iter().position(|one| *one == route).unwrap_or(usize::MAX);
        chosen.sort_by_cached_key(|(hash, route)| (place(*hash), route.clone()));
        let place = |route: &u64| chosen.iter().position(|(hash, _)| hash == route);
        let places = of_series.iter().map(|route| route.as_ref().and_then(place));
        let of_routes = places.zip(self.times.series());
        self.of_routes = of_routes.filter_map(|(place, series)| Some((place?, Arc::clone(series)))).collect();
        self.before = routes.iter().map(|(route, candidate)| (*route, candidate.requests)).collect();
        self.routes = chosen.into_iter().map(|(_, route)| route).collect();
    }
}

/// The names of a route, as [`Route`] has them.
fn names_of(labels: &Labels) -> impl Hash {
    [labels.namespace(), labels.object(), labels.service()]
}

impl Route {
    fn of(labels: &Labels) -> Route {
        Route([labels.namespace(), labels.object(), labels.service()].map(str::to_owned))
    }

    fn names(&self) -> impl Hash {
        self.0.each_ref().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Labels;

    use model::LabelTexts;

    use super::*;
    use crate::{Method, MetricsOptions, Recorder, Sample, UpstreamSample};

    fn labels_of(ingress: &str) -> Arc<Labels> {
        Arc::new(Labels::from(LabelTexts {
            path: "/secret-path".to_owned(),
            host: "a.test".to_owned(),
            namespace: "shop".to_owned(),
            object: ingress.to_owned(),
            service: "web".to_owned(),
            ..LabelTexts::default()
        }))
    }

    fn record(recorder: &mut Recorder, labels: &Arc<Labels>, status: u16) {
        let time = Duration::from_millis(20);
        recorder.request(
            labels,
            &Sample {
                method: Method::Get,
                status,
                request_bytes: 1,
                response_bytes: 1,
                request_time: time,
                upstream: Some(UpstreamSample { connect: None, header: Some(time), response: Some(time) }),
                canary: None,
                reason: None,
                cache: None,
            },
        );
    }

    fn page(registry: &Registry, reader: &mut BriefReader) -> String {
        let mut text = String::new();
        registry.encode_brief(reader, &Process::default(), &mut text);
        text
    }

    #[test]
    fn totals_and_the_busiest_routes_are_told_without_paths() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let labels = labels_of("web");
        record(&mut recorder, &labels, 200);
        record(&mut recorder, &labels, 503);
        let text = page(&registry, &mut BriefReader::default());
        for line in [
            "forebay_record_requests{class=\"5xx\"} 1\n",
            "nginx_ingress_controller_response_duration_seconds_bucket{le=\"1\"} 2\n",
            "nginx_ingress_controller_response_duration_seconds_count 2\n",
            "nginx_ingress_controller_header_duration_seconds_bucket{le=\"1\"} 2\n",
            "forebay_record_route_requests{namespace=\"shop\",ingress=\"web\",service=\"web\",class=\"2xx\"} 1\n",
            "forebay_record_route_milliseconds{namespace=\"shop\",ingress=\"web\",service=\"web\"} 40\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("secret-path") && !text.contains("# HELP"), "{text}");
    }

    #[test]
    fn a_thousand_routes_are_a_page_of_the_same_length() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let mut reader = BriefReader::default();
        let all: Vec<_> = (0..1000).map(|at| labels_of(&format!("ingress-{at:04}"))).collect();
        for labels in &all {
            recorder.make_room();
            record(&mut recorder, labels, 200);
        }
        let first = page(&registry, &mut reader);
        for _ in 0..3 {
            record(&mut recorder, &all[777], 200);
        }
        let later = (0..CHOSEN_FOR).map(|_| page(&registry, &mut reader)).last().unwrap_or_default();
        let of = |text: &str| text.lines().filter(|line| line.starts_with(ROUTE_MILLISECONDS)).count();
        assert_eq!((of(&first), of(&later)), (ROUTES, ROUTES));
        assert!(later.contains("ingress=\"ingress-0777\""), "the busiest one is chosen");
        assert!(later.len() < 150_000, "{}", later.len());
        assert!(later.contains("forebay_record_requests{class=\"2xx\"} 1003\n"));
    }
}
