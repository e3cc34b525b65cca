//! The recorder of a worker, the only writer of its cells.
//!
//! Must not be in here: locks or allocations while a request is recorded.

use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, TryLockError};

use foldhash::fast::RandomState;
use model::Labels;

use super::coding::CodingCells;
use super::sample::Sample;
use super::series::{Key, Series};
use super::stream::{StreamCells, StreamName};
use super::worker_cells::WorkerCells;
use super::{Counter, Gauge, Handshake, Registry, lock};
use crate::Reason;
use crate::limits::{SERIES_AHEAD, SERIES_PER_NAMESPACE, SERIES_PER_WORKER_MAX, SERIES_SHARED_MAX};
use crate::refusals::Refusals;
use crate::tail::Tail;

/// Records the metrics of one worker. It may move to another thread but not be shared, so that each cell has
/// one writer.
#[derive(Debug)]
pub struct Recorder {
    registry: Arc<Registry>,
    pub(super) cells: Arc<WorkerCells>,
    series: HashMap<Key, Arc<Series>, RandomState>,
    /// Number of series of each namespace at the last `make_room`; empty unless there are many series.
    by_namespace: HashMap<String, usize, RandomState>,
    /// Allocated series that no request has claimed yet. `series` has capacity for all of them.
    spare: Vec<Arc<Series>>,
    not_sync: PhantomData<Cell<()>>,
}

// === impl Registry ===

impl Registry {
    /// Adds a worker, and returns its recorder.
    pub fn recorder(self: &Arc<Self>) -> Recorder {
        let cells = Arc::<WorkerCells>::default();
        lock(&self.workers).push(Arc::clone(&cells));
        Recorder::new(Arc::clone(self), cells)
    }
}

// === impl Recorder ===

impl Recorder {
    fn new(registry: Arc<Registry>, cells: Arc<WorkerCells>) -> Self {
        let mut recorder = Self {
            registry,
            cells,
            series: HashMap::default(),
            by_namespace: HashMap::default(),
            spare: Vec::with_capacity(SERIES_AHEAD),
            not_sync: PhantomData,
        };
        recorder.make_room();
        recorder
    }

    /// Records a request that matched a route.
    ///
    /// Requests for routes of host `_` are not recorded unless `--metrics-per-undefined-host` is set:
    /// ingress-nginx does not record requests for hosts without an Ingress.
    pub fn request(&mut self, labels: &Arc<Labels>, sample: &Sample<'_>) {
        let status = self.registry.status_label(sample.status);
        let key = Key::new(labels, status, sample);
        match self.series.get(&key) {
            Some(series) => self.registry.observe(&self.cells, series, sample),
            None => self.first_request(key, labels, sample),
        }
    }

    /// Claims a series for a combination of labels that has none yet, and records the request in it, unless
    /// such requests are left out.
    #[cold]
    #[inline(never)]
    fn first_request(&mut self, key: Key, labels: &Arc<Labels>, sample: &Sample<'_>) {
        if self.registry.leaves_out(labels) {
            return;
        }
        let claimed = if self.may_claim(labels.namespace()) { self.spare.pop() } else { None };
        let Some(series) = claimed else { return self.count(Counter::SeriesDropped) };
        series.claim(labels, key.status(), sample);
        self.registry.observe(&self.cells, &series, sample);
        self.series.insert(key, series);
    }

    /// Whether a namespace may claim one more series. Series claimed since the last `make_room` are not
    /// counted; they are few.
    fn may_claim(&self, namespace: &str) -> bool {
        self.series.len() < SERIES_SHARED_MAX
            || self.by_namespace.get(namespace).is_none_or(|&count| count < SERIES_PER_NAMESPACE)
    }

    fn count_by_namespace(&mut self) {
        self.by_namespace.clear();
        if self.series.len() + SERIES_AHEAD < SERIES_SHARED_MAX {
            return;
        }
        let Self { series, by_namespace, .. } = self;
        for identity in series.values().filter_map(|series| series.identity()) {
            match by_namespace.get_mut(identity.labels.namespace()) {
                Some(count) => *count += 1,
                None => _ = by_namespace.insert(identity.labels.namespace().to_owned(), 1),
            }
        }
    }

    /// The cells of a stream for this worker; see [`Registry::stream`]. It takes a lock, so do not call it
    /// for each datagram.
    pub fn stream(&self, name: StreamName) -> Arc<StreamCells> {
        self.registry.stream(name)
    }

    /// The last requests that firewalls refused.
    pub fn refusals(&self) -> &Refusals {
        self.registry.refusals()
    }

    /// The live tail of requests; none if it has no watchers.
    pub fn tail(&self) -> Option<&Tail> {
        Some(&*self.registry.tail).filter(|tail| tail.is_watched())
    }

    /// Adds one to a counter.
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `n` to a counter.
    pub fn add(&self, counter: Counter, n: u64) {
        self.cells.counters[counter as usize].add(n);
    }

    /// Sets the figures of the cache: number of URLs, their bytes, and evictions so far.
    pub fn cache(&self, (objects, bytes, evictions): (u64, u64, u64)) {
        for (cell, figure) in self.registry.cache.iter().zip([objects, bytes, evictions]) {
            cell.store(figure, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Adds one to a gauge.
    pub fn inc(&self, gauge: Gauge) {
        self.cells.gauges[gauge as usize].inc();
    }

    /// Subtracts one from a gauge.
    pub fn dec(&self, gauge: Gauge) {
        self.cells.gauges[gauge as usize].dec();
    }

    /// The cells of this worker for content codings.
    pub fn codings(&self) -> Arc<CodingCells> {
        Arc::clone(&self.cells.codings)
    }

    /// Counts a completed handshake.
    pub fn handshake(&self, handshake: Handshake) {
        self.cells.handshakes[handshake as usize].inc();
    }

    /// Counts a fault.
    pub fn reason(&self, reason: Reason) {
        self.cells.reasons[reason as usize].inc();
    }

    /// Allocates series for new combinations of labels. To be called regularly between requests: it returns
    /// at once if enough series are left, or while a scrape holds the lock.
    pub fn make_room(&mut self) {
        if self.spare.len() > SERIES_AHEAD / 2 {
            return;
        }
        let mut all = match self.cells.series.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // A scrape has removed the series of deleted routes from `all`.
        if all.len() < self.series.len() + self.spare.len() {
            self.series.retain(|_, series| !series.is_orphan());
        }
        let room = SERIES_PER_WORKER_MAX.saturating_sub(all.len()).min(SERIES_AHEAD - self.spare.len());
        self.spare.extend((0..room).map(|_| Arc::new(Series::new(self.registry.cells_per_series()))));
        all.extend(self.spare[self.spare.len() - room..].iter().cloned());
        self.series.reserve(self.spare.len());
        drop(all);
        if room > 0 {
            self.count_by_namespace();
        }
    }

    pub(crate) fn cells(&self) -> &Arc<WorkerCells> {
        &self.cells
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::LabelTexts;

    use super::*;
    use crate::metrics::Method;
    use crate::{MetricsOptions, Process};

    fn labels(path: &str) -> Arc<Labels> {
        Arc::new(Labels::from(LabelTexts {
            path: path.to_owned(),
            host: "a.test".to_owned(),
            ..LabelTexts::default()
        }))
    }

    fn sample(status: u16) -> Sample<'static> {
        Sample {
            method: Method::Get,
            status,
            request_bytes: 80,
            response_bytes: 1200,
            request_time: Duration::from_millis(7),
            upstream: None,
            canary: None,
            reason: None,
            cache: None,
        }
    }

    /// The samples of a metric whose labels contain `with`, as labels and value.
    fn samples(registry: &Registry, metric: &str, with: &str) -> Vec<String> {
        let mut page = String::new();
        registry.encode(&Process::default(), &mut page);
        let samples = page.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix(['{', ' ']));
        samples.filter(|line| line.contains(with)).map(str::to_owned).collect()
    }

    /// The sum of the values of these samples.
    fn total(registry: &Registry, metric: &str, with: &str) -> u64 {
        let values = samples(registry, metric, with);
        values.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    const REQUESTS: &str = "nginx_ingress_controller_requests";
    const DROPPED: &str = "forebay_metrics_series_dropped_total";

    #[test]
    fn equal_labels_are_one_series_whoever_holds_them() {
        let registry = Registry::new(MetricsOptions::default());
        let (mut one, mut other) = (registry.recorder(), registry.recorder());
        let (label, twin) = (labels("/"), labels("/"));
        one.request(&label, &sample(200));
        one.request(&twin, &sample(200));
        other.request(&label, &sample(200));
        one.request(&label, &sample(404));
        assert_eq!(samples(&registry, REQUESTS, "").len(), 2);
        assert_eq!(total(&registry, REQUESTS, "status=\"200\""), 3);
        assert_eq!(total(&registry, REQUESTS, "status=\"404\""), 1);
    }

    /// `count` routes, `each` of them in every namespace.
    fn routes(count: usize, each: usize) -> Vec<Arc<Labels>> {
        let route = |number: usize| {
            Labels::from(LabelTexts {
                namespace: format!("namespace-{}", number / each),
                ..labels(&format!("/{number}")).texts()
            })
        };
        (0..count).map(|number| Arc::new(route(number))).collect()
    }

    fn record(recorder: &mut Recorder, routes: &[Arc<Labels>]) {
        for route in routes {
            recorder.make_room();
            recorder.request(route, &sample(200));
        }
    }

    #[test]
    fn recording_allocates_nothing_and_counts_what_has_no_room() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let routes = routes(SERIES_AHEAD + 4, 1);
        let (last, others) = routes.split_last().unwrap();
        let capacity = recorder.series.capacity();
        for route in others {
            recorder.request(route, &sample(200));
        }
        assert_eq!(recorder.series.capacity(), capacity);
        assert_eq!(total(&registry, REQUESTS, ""), SERIES_AHEAD as u64);
        assert_eq!(total(&registry, DROPPED, ""), 3);
        recorder.make_room();
        recorder.request(last, &sample(200));
        assert_eq!(total(&registry, REQUESTS, ""), SERIES_AHEAD as u64 + 1);
    }

    #[test]
    fn the_series_of_a_route_that_is_gone_are_gone() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let (stays, goes) = (labels("/stays"), labels("/goes"));
        recorder.request(&stays, &sample(200));
        recorder.request(&goes, &sample(200));
        drop(goes);
        assert_eq!(samples(&registry, REQUESTS, "").len(), 1);
        assert_eq!(total(&registry, REQUESTS, "/stays"), 1);
    }

    #[test]
    fn series_are_bounded_and_a_scrape_makes_room_where_routes_are_gone() {
        let registry = Registry::new(MetricsOptions { per_host: false, ..MetricsOptions::default() });
        let mut recorder = registry.recorder();
        let (first, second) = (routes(SERIES_PER_WORKER_MAX, 100), routes(SERIES_PER_WORKER_MAX, 100));
        record(&mut recorder, &first);
        record(&mut recorder, &second[..1]);
        assert_eq!(recorder.cells.counter(Counter::SeriesDropped).get(), 1);
        drop(first);
        _ = samples(&registry, REQUESTS, "");
        record(&mut recorder, &second);
        assert_eq!(recorder.cells.counter(Counter::SeriesDropped).get(), 1);
        assert_eq!(recorder.cells.series().len(), SERIES_PER_WORKER_MAX);
        assert_eq!(recorder.series.len(), SERIES_PER_WORKER_MAX);
    }

    #[test]
    fn who_fills_the_table_leaves_room_for_others() {
        let registry = Registry::new(MetricsOptions { per_host: false, ..MetricsOptions::default() });
        let mut recorder = registry.recorder();
        let greedy = routes(SERIES_PER_WORKER_MAX, SERIES_PER_WORKER_MAX);
        record(&mut recorder, &greedy);
        let held = recorder.series.len();
        assert!((SERIES_SHARED_MAX..=SERIES_SHARED_MAX + SERIES_AHEAD).contains(&held), "{held}");
        let modest =
            Arc::new(Labels::from(LabelTexts { namespace: "modest".to_owned(), ..labels("/").texts() }));
        record(&mut recorder, &[Arc::clone(&modest)]);
        assert_eq!(total(&registry, REQUESTS, "namespace=\"modest\""), 1);
    }

    #[test]
    fn statuses_that_nobody_has_defined_go_by_their_class() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let label = labels("/");
        (100..600).for_each(|status| {
            recorder.make_room();
            recorder.request(&label, &sample(status));
        });
        assert_eq!(total(&registry, REQUESTS, ""), 500);
        assert!(samples(&registry, REQUESTS, "").len() < 100);
        assert_eq!(total(&registry, REQUESTS, "status=\"404\""), 1);
        assert_eq!(total(&registry, REQUESTS, "status=\"2xx\""), 90);
    }

    #[test]
    fn requests_for_undefined_hosts_are_left_out_unless_wished_for() {
        let undefined = Arc::new(Labels::from(LabelTexts { host: "_".to_owned(), ..LabelTexts::default() }));
        for (per_host, per_undefined_host, counted) in [(true, false, 0), (true, true, 1), (false, false, 1)]
        {
            let options = MetricsOptions { per_host, per_undefined_host, ..MetricsOptions::default() };
            let registry = Registry::new(options);
            registry.recorder().request(&undefined, &sample(200));
            assert_eq!(total(&registry, REQUESTS, ""), counted);
        }
    }

    #[test]
    fn statuses_are_put_in_classes_where_wished_for() {
        let registry = Registry::new(MetricsOptions { status_classes: true, ..MetricsOptions::default() });
        let mut recorder = registry.recorder();
        let label = labels("/");
        recorder.request(&label, &sample(200));
        recorder.request(&label, &sample(204));
        assert_eq!(total(&registry, REQUESTS, "status=\"2xx\""), 2);
    }

    #[test]
    fn a_scrape_reads_while_a_worker_writes() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let label = labels("/");
        let held = Arc::clone(&label);
        let worker = std::thread::spawn(move || {
            for request in 0..10_000 {
                recorder.request(&held, &sample(200 + request % 300));
                recorder.make_room();
            }
        });
        let mut before = 0;
        while !worker.is_finished() {
            let now = total(&registry, REQUESTS, "");
            assert!(now >= before);
            before = now;
        }
        worker.join().unwrap();
        assert_eq!(total(&registry, REQUESTS, "") + total(&registry, DROPPED, ""), 10_000);
    }
}
