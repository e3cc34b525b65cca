//! Writes the metrics in the Prometheus text format, version 0.0.4.

pub(super) mod brief;
mod cache;
mod controller;
mod latency;
mod overload;
mod streams;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::coding::{Recoded, Recoding};
use super::histogram::{Histogram, Unit};
use super::local_counter::LocalCounter;
use super::names::{self, Kind, Metric};
use super::registry::{HeapPages, Process, Registry};
use super::series::Identity;
use super::upstream::{ENDPOINT_METRICS, Failure};
use super::worker_cells::WorkerCells;
use super::{Counter, Gauge, Handshake, lock};
use crate::Reason;

/// The `Content-Type` of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Registry {
    /// Appends all metrics. Cells of removed endpoints are released.
    pub fn encode(&self, process: &Process, out: &mut String) {
        let workers = lock(&self.workers).clone();
        let mut page = Page { out, controller: self.controller_labels(), is_brief: false };
        self.encode_requests(&workers, &mut page);
        self.encode_controller(&mut page);
        self.encode_certificates(&mut page);
        encode_process(&workers, process, &mut page);
        encode_memory(process.memory, &mut page);
        self.encode_own(&workers, &mut page);
        self.encode_upstreams(&mut page);
        self.encode_overloads(&workers, &mut page);
        self.encode_streams(&mut page, usize::MAX);
    }

    /// The number of requests so far, for every host.
    pub fn requests(&self) -> u64 {
        sum(&lock(&self.workers), |worker| worker.counter(Counter::Requests))
    }

    fn encode_requests(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        let series = self.merge_series(workers);
        page.family(&names::REQUESTS);
        for (labels, cells) in &series {
            let count: u64 = self.layout.request_duration.buckets(cells).iter().sum();
            page.sample(names::REQUESTS.name, labels, count);
        }
        for histogram in self.layout.histograms() {
            page.family(histogram.metric);
            for (labels, cells) in &series {
                page.histogram(histogram, labels, cells);
            }
        }
        self.encode_latency(workers, page);
        encode_causes(workers, page);
    }

    /// The series of all workers. Those with the same labels are added up.
    fn merge_series(&self, workers: &[Arc<WorkerCells>]) -> BTreeMap<String, Vec<u64>> {
        let mut merged = BTreeMap::new();
        for series in workers.iter().flat_map(|worker| worker.series()) {
            let Some(identity) = series.identity() else { continue };
            let totals =
                merged.entry(self.series_labels(&identity)).or_insert_with(|| vec![0; self.layout.cells]);
            for (total, counter) in totals.iter_mut().zip(&series.cells) {
                *total += counter.get();
            }
        }
        merged
    }

    fn series_labels(&self, identity: &Identity) -> String {
        let labels = &identity.labels;
        let mut text = self.controller_labels();
        push_label(&mut text, "status", &status_text(identity.status));
        push_label(&mut text, "method", identity.method.name());
        push_label(&mut text, "path", labels.path());
        push_label(&mut text, "namespace", labels.namespace());
        push_label(&mut text, "ingress", labels.object());
        if !labels.rule().is_empty() {
            push_label(&mut text, "rule", labels.rule());
        }
        push_label(&mut text, "service", labels.service());
        push_label(&mut text, "canary", identity.canary.as_deref().unwrap_or_default());
        if self.options.per_host {
            push_label(&mut text, "host", labels.host());
        }
        text
    }

    fn controller_labels(&self) -> String {
        let controller = &self.options.controller;
        labels(&[
            ("controller_class", &controller.class),
            ("controller_namespace", &controller.namespace),
            ("controller_pod", &controller.pod),
        ])
    }

    fn encode_own(&self, workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        page.family(&names::FAULTS);
        for reason in Reason::ALL {
            let labels = labels(&[("side", reason.side().name()), ("reason", reason.name())]);
            page.sample(names::FAULTS.name, &labels, sum(workers, |worker| worker.reason(*reason)));
        }
        encode_handshakes(workers, page);
        let count = |counter| sum(workers, |worker| worker.counter(counter));
        encode_codings(workers, page);
        for (metric, counter) in [
            (&names::SERIES_DROPPED, Counter::SeriesDropped),
            (&names::MIRRORS_DROPPED, Counter::MirrorsDropped),
        ] {
            page.family(metric);
            page.sample(metric.name, "", count(counter));
        }
        self.encode_cache(workers, page);
        self.encode_abuse(page, count);
        self.encode_guard(workers, page);
        Self::encode_firewall(workers, page);
        self.encode_tokens(page, count);
        Self::encode_ext_authz(workers, page);
        Self::encode_ext_proc(workers, page);
        self.encode_sign_ins_and_canaries(page);
        Self::encode_countries(workers, page);
        let lost = self.log_lines_lost.load(Ordering::Relaxed);
        page.family(&names::LOG_DROPPED);
        page.sample(names::LOG_DROPPED.name, "", count(Counter::LogLinesDropped) + lost);
        page.family(&names::SPANS_SENT);
        page.sample(names::SPANS_SENT.name, "", self.spans_sent.load(Ordering::Relaxed));
        page.family(&names::SPANS_DROPPED);
        page.sample(names::SPANS_DROPPED.name, "", self.spans_dropped.load(Ordering::Relaxed));
        page.family(&names::EVENTS_DROPPED);
        page.sample(names::EVENTS_DROPPED.name, "", self.events_dropped.load(Ordering::Relaxed));
    }

    fn encode_upstreams(&self, page: &mut Page<'_>) {
        let (endpoints, ports) = {
            let mut upstreams = lock(&self.upstreams);
            upstreams.sweep();
            (upstreams.totals(), upstreams.all_ports())
        };
        for (index, metric) in ENDPOINT_METRICS.iter().enumerate() {
            page.family(metric);
            for (address, totals) in &endpoints {
                page.sample(metric.name, &labels(&[("endpoint", &address.to_string())]), totals.plain[index]);
            }
        }
        page.family(&names::UPSTREAM_FAILURES);
        for (address, totals) in &endpoints {
            for failure in Failure::ALL {
                let labels = labels(&[("endpoint", &address.to_string()), ("reason", failure.name())]);
                page.sample(names::UPSTREAM_FAILURES.name, &labels, totals.failures[*failure as usize]);
            }
        }
        for metric in [&names::PORTS_IN_USE, &names::PORTS_EXHAUSTED] {
            page.family(metric);
            for (source, endpoint, cells) in &ports {
                let count = if metric.kind == Kind::Gauge { cells.in_use() } else { cells.times_exhausted() };
                let (source, endpoint) = (source.to_string(), endpoint.to_string());
                page.sample(metric.name, &labels(&[("source", &source), ("endpoint", &endpoint)]), count);
            }
        }
    }
}

fn encode_handshakes(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
    page.family(&names::TLS_HANDSHAKES);
    for handshake in Handshake::ALL {
        let count = sum(workers, |worker| worker.handshake(*handshake));
        let kind = if *handshake == Handshake::Resumed { "resumed" } else { "full" };
        let labels = labels(&[("kind", kind), ("key", handshake.name())]);
        page.sample(names::TLS_HANDSHAKES.name, &labels, count);
    }
}

/// Faults by Ingress, Service and status. A combination exists once it has occurred, and a series has few
/// reasons.
fn encode_causes(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    for series in workers.iter().flat_map(|worker| worker.series()) {
        let mut causes = series.causes.get().peekable();
        if causes.peek().is_none() {
            continue;
        }
        let Some(Identity { labels, status, .. }) = series.identity() else { continue };
        for (reason, count) in causes {
            let text = self::labels(&[
                ("namespace", labels.namespace()),
                ("ingress", labels.object()),
                ("service", labels.service()),
                ("status", &status_text(status)),
                ("reason", reason.name()),
            ]);
            *totals.entry(text).or_default() += count;
        }
    }
    page.family(&names::ROUTE_FAULTS);
    for (labels, count) in &totals {
        page.sample(names::ROUTE_FAULTS.name, labels, count);
    }
}

/// A status, or its class if only the class is recorded.
fn status_text(status: u16) -> String {
    if status < 100 { format!("{status}xx") } else { status.to_string() }
}

fn encode_codings(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
    let mut family = |metric: &Metric, cell: fn(&Recoded) -> &LocalCounter| {
        page.family(metric);
        for what in Recoding::ALL {
            let count = sum(workers, |worker| cell(&worker.codings.of[*what as usize]));
            page.sample(metric.name, &labels(&[("coding", what.name())]), count);
        }
    };
    family(&names::CODED_CONTENTS, |recoded| &recoded.contents);
    family(&names::CODED_READ, |recoded| &recoded.read);
    family(&names::CODED_WRITTEN, |recoded| &recoded.written);
    page.family(&names::CODED_REFUSED);
    page.sample(names::CODED_REFUSED.name, "", sum(workers, |worker| &worker.codings.refused));
    page.family(&names::COMPRESSION_EASED);
    page.sample(names::COMPRESSION_EASED.name, "", sum(workers, |worker| &worker.codings.eased));
}

fn encode_process(workers: &[Arc<WorkerCells>], process: &Process, page: &mut Page<'_>) {
    page.family(&names::CONNECTIONS);
    for gauge in Gauge::ALL {
        let count = sum(workers, |worker| worker.gauge(*gauge));
        page.own(&names::CONNECTIONS, &[("state", gauge.name())], count);
    }
    let count = |counter| sum(workers, |worker| worker.counter(counter));
    page.family(&names::CONNECTIONS_TOTAL);
    for counter in [Counter::ConnectionsAccepted, Counter::ConnectionsHandled] {
        page.own(&names::CONNECTIONS_TOTAL, &[("state", counter.name())], count(counter));
    }
    page.only(&names::REQUESTS_TOTAL, count(Counter::Requests));
    page.only(&names::CPU_SECONDS, process.cpu_seconds);
    page.only(&names::PROCESSES, 1);
    page.only(&names::START_TIME, process.start_time_seconds);
    page.only(&names::READ_BYTES, process.read_bytes);
    page.only(&names::WRITE_BYTES, process.write_bytes);
    page.only(&names::RESIDENT_BYTES, process.resident_bytes);
    page.only(&names::VIRTUAL_BYTES, process.virtual_bytes);
}

fn encode_memory(memory: HeapPages, page: &mut Page<'_>) {
    for (metric, bytes) in
        [(&names::MEMORY_ACTIVE, memory.active_bytes), (&names::MEMORY_DIRTY, memory.dirty_bytes)]
    {
        page.family(metric);
        page.sample(metric.name, "", bytes);
    }
}

pub(super) fn sum<'a>(
    workers: &'a [Arc<WorkerCells>],
    cell: impl Fn(&'a WorkerCells) -> &'a LocalCounter,
) -> u64 {
    workers.iter().fold(0, |sum, worker| sum.wrapping_add(cell(worker).get()))
}

// === the text ===

pub(super) struct Page<'a> {
    out: &'a mut String,
    /// The labels of all of ingress-nginx's metrics, as text.
    controller: String,
    /// Whether lines about families are left out.
    is_brief: bool,
}

impl Page<'_> {
    pub(super) fn family(&mut self, metric: &Metric) {
        if self.is_brief {
            return;
        }
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        self.line(format_args!("# HELP {} {}", metric.name, metric.help));
        self.line(format_args!("# TYPE {} {kind}", metric.name));
    }

    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    /// A sample with the controller's labels and further ones.
    fn own(&mut self, metric: &Metric, labels: &[(&str, &str)], value: impl Display) {
        let mut text = self.controller.clone();
        for (name, value) in labels {
            push_label(&mut text, name, value);
        }
        self.sample(metric.name, &text, value);
    }

    /// The only sample of a metric.
    fn only(&mut self, metric: &Metric, value: impl Display) {
        self.family(metric);
        self.own(metric, &[], value);
    }

    /// A histogram; it is left out if nothing was counted in it.
    fn histogram(&mut self, histogram: &Histogram, labels: &str, cells: &[u64]) {
        let (name, buckets) = (histogram.metric.name, histogram.buckets(cells));
        let count: u64 = buckets.iter().sum();
        if count == 0 {
            return;
        }
        let mut below = 0;
        for (bound, bucket) in histogram.bounds.iter().zip(buckets) {
            below += bucket;
            self.line(format_args!("{name}_bucket{{{labels},le=\"{}\"}} {below}", GoFloat(*bound)));
        }
        self.line(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"));
        let sum = histogram.sum(cells);
        match histogram.unit {
            Unit::Nanoseconds => self.line(format_args!("{name}_sum{{{labels}}} {}", sum as f64 / 1e9)),
            Unit::Bytes => self.line(format_args!("{name}_sum{{{labels}}} {sum}")),
        }
        self.line(format_args!("{name}_count{{{labels}}} {count}"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.out, "{line}").expect("a String takes everything");
    }
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        push_label(&mut text, name, value);
    }
    text
}

fn push_label(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(name);
    text.push_str("=\"");
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            char => text.push(char),
        }
    }
    text.push('"');
}

/// A bound in the form that Go writes, and so ingress-nginx: `1e+06` from a million on. Queries compare `le`
/// as text.
struct GoFloat(f64);

impl Display for GoFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1e6 {
            return write!(f, "{}", self.0);
        }
        let text = format!("{:e}", self.0);
        let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
        write!(f, "{digits}e+{exponent:0>2}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{CertificateInfo, LabelTexts, Labels};

    use super::super::registry::{Judged, Orphan};
    use super::*;
    use crate::{
        BuildInfo, CacheResult, Controller, DiskFigures, Method, MetricsOptions, Recorder, Sample,
        UpstreamSample,
    };
    use crate::{StreamCounter, StreamName};

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(labels(&[("a", "x\"\\\n"), ("b", "")]), r#"a="x\"\\\n",b="""#);
    }

    #[test]
    fn bounds_read_as_in_go() {
        let texts = [0.005, 2.5, 10.0, 100_000.0, 1e6, 1.5e7].map(|bound| GoFloat(bound).to_string());
        assert_eq!(texts, ["0.005", "2.5", "10", "100000", "1e+06", "1.5e+07"]);
    }

    fn options() -> MetricsOptions {
        let text = str::to_owned;
        MetricsOptions {
            time_buckets: vec![0.005, 1.0],
            length_buckets: vec![10.0, 100.0],
            size_buckets: vec![1000.0, 1e6],
            controller: Controller {
                namespace: text("ingress"),
                class: text("k8s.io/ingress-nginx"),
                pod: text("pod-1"),
            },
            build: BuildInfo { release: text("1.0"), build: text("abc"), repository: text("here") },
            ..MetricsOptions::default()
        }
    }

    fn record_requests(recorder: &mut Recorder, labels: &Arc<Labels>, canary: &Arc<str>) {
        let time = |millis| Some(Duration::from_millis(millis));
        let mut sample = Sample {
            method: Method::Get,
            status: 200,
            request_bytes: 80,
            response_bytes: 1200,
            request_time: Duration::from_millis(7),
            upstream: Some(UpstreamSample { connect: time(0), header: time(5), response: time(6) }),
            canary: None,
            reason: None,
            cache: Some(CacheResult::Hit),
        };
        recorder.request(labels, &sample);
        recorder.request(labels, &Sample { request_time: Duration::from_secs(2), ..sample.clone() });
        sample.canary = Some(canary);
        recorder.request(labels, &sample);
        sample.canary = None;
        recorder.request(
            labels,
            &Sample {
                method: Method::Post,
                status: 503,
                upstream: None,
                reason: Some(Reason::QueueFull),
                ..sample
            },
        );
    }

    fn record_connections(registry: &Registry, recorder: &Recorder) {
        recorder.add(Counter::ConnectionsAccepted, 3);
        recorder.add(Counter::ConnectionsHandled, 2);
        recorder.count(Counter::Requests);
        recorder.inc(Gauge::ConnectionsActive);
        recorder.inc(Gauge::ConnectionsWaiting);
        recorder.inc(Gauge::ConnectionsReading);
        recorder.dec(Gauge::ConnectionsReading);
        recorder.reason(Reason::UnknownHost);
        recorder.handshake(Handshake::Rsa);
        recorder.handshake(Handshake::Resumed);
        registry.config_refused();
        registry.config_applied(|| 42, Duration::from_secs(1_700_000_000));
    }

    fn certificate() -> CertificateInfo {
        CertificateInfo {
            namespace: "default".to_owned(),
            object: "web-tls".to_owned(),
            serial_number: "4711".to_owned(),
            issuer_common_name: "An authority".to_owned(),
            issuer_organization: "Tests".to_owned(),
            public_key_algorithm: "RSA".to_owned(),
            not_after: 1_800_000_000,
        }
    }

    fn sample_labels() -> Labels {
        Labels::from(LabelTexts {
            namespace: "default".into(),
            object: "web".into(),
            service: "web".into(),
            service_port: "80".into(),
            path: "/".into(),
            host: "a.test".into(),
            rule: String::new(),
        })
    }

    #[test]
    fn the_page_reads_as_in_ingress_nginx() {
        let registry = Registry::new(options());
        let (mut one, other) = (registry.recorder(), registry.recorder());
        let labels = Arc::new(sample_labels());
        let canary = Arc::from("default-web-canary-80");
        record_requests(&mut one, &labels, &canary);
        record_connections(&registry, &one);
        other.count(Counter::Requests);
        let address = "10.0.0.2:8080".parse().unwrap();
        let (cells, ports) = (registry.endpoint(address), registry.ports([10, 0, 0, 1].into(), address));
        cells.opened.inc();
        cells.idle.inc();
        cells.fail(Failure::ConnectTimeout);
        ports.taken();
        ports.exhausted();
        let redis =
            StreamName { protocol: "TCP", port: 6379, namespace: "default".into(), service: "redis".into() };
        let stream = one.stream(redis);
        stream.inc(StreamCounter::Opened);
        stream.add(StreamCounter::BytesSent, 5);
        for millis in [1, 2, 3, 11] {
            stream.response(Duration::from_millis(millis), Duration::from_millis(10));
        }
        registry.set_certificates(vec![("a.test".to_owned(), certificate())]);
        registry.set_problems(vec![("error", "Undecodable", 2)]);
        registry.set_watches_failing(1);
        registry.count_panic();
        registry.set_findings(vec![("port-range", 1)]);
        registry.set_leader("ingress-controller-leader", true);
        registry.events_dropped(3);
        registry.judged(Judged {
            roundtrip: Duration::from_micros(1500),
            judging: Duration::from_micros(1250),
            translation: Duration::from_micros(1000),
            ingresses: 4,
            review_bytes: 700,
        });
        registry.set_orphans(|| {
            let orphan = |ingress: &str, (lacks_service, lacks_endpoint)| Orphan {
                namespace: "default".to_owned(),
                ingress: ingress.to_owned(),
                lacks_service,
                lacks_endpoint,
            };
            vec![orphan("web", (false, false)), orphan("old", (true, false)), orphan("idle", (false, true))]
        });
        registry.set_cache_disk(DiskFigures {
            bytes: 7,
            bytes_max: 8,
            full: true,
            read_errors: 1,
            ..DiskFigures::default()
        });
        let process = Process {
            cpu_seconds: 1.5,
            start_time_seconds: 1_700_000_000.0,
            resident_bytes: 1 << 20,
            virtual_bytes: 1 << 21,
            read_bytes: 10,
            write_bytes: 20,
            memory: HeapPages { active_bytes: 1 << 18, dirty_bytes: 1 << 16 },
        };
        let mut page = String::new();
        registry.encode(&process, &mut page);
        insta::assert_snapshot!(page);
    }

    #[test]
    fn every_metric_is_on_the_page() {
        let mut page = String::new();
        Registry::new(options()).encode(&Process::default(), &mut page);
        for metric in names::METRICS {
            assert_eq!(page.matches(&format!("# TYPE {} ", metric.name)).count(), 1, "{}", metric.name);
        }
    }
}
