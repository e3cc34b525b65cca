//! `/console/history`: the last hour and the last day, kept whether anybody watches or not, so that the
//! charts are not empty when the page is opened because something is wrong.
//!
//! A point takes 56 bytes, and all of them less than 40 KB. Taking one adds up a few hundred cells of each
//! worker.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use observe::{EndpointTotals, Gauge, Registry, Served, latency_bounds};
use serde::Serialize;

use super::quantile::estimate;
use super::seen::lock;

/// Time between two points of the last hour.
const FINE_EVERY: Duration = Duration::from_secs(10);

/// Points of the last hour.
const FINE_POINTS: usize = 360;

/// Points of the last hour that become one of the last day: one each five minutes.
const COARSE_EVERY: usize = 30;

/// Points of the last day.
const COARSE_POINTS: usize = 288;

/// Values of a point, by the names under which `/console/history` has them.
const COLUMNS: [&str; 12] = [
    "requests",
    "clientErrors",
    "serverErrors",
    "p50",
    "p99",
    "upstreamP99",
    "upstreamRequests",
    "opened",
    "regretted",
    "clients",
    "upstreamOpen",
    "upstreamIdle",
];

/// A point: values in the order of [`COLUMNS`]; an unknown value is NaN.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The end of its time, in seconds since 1970.
    at_seconds: f64,
    values: [f32; COLUMNS.len()],
}

/// Counters of the registry at one time.
#[derive(Clone)]
struct Counted {
    at: Instant,
    served: Served,
    upstream: EndpointTotals,
}

/// The points, and the totals that the next one is compared with.
#[derive(Default)]
struct Points {
    fine: VecDeque<Point>,
    coarse: VecDeque<Point>,
    last_fine: Option<Counted>,
    last_coarse: Option<Counted>,
    /// Points of the last hour since the latest one of the last day.
    since_coarse: usize,
}

/// The history of the last day.
#[derive(Default)]
pub(super) struct History(Mutex<Points>);

/// The answer to `/console/history`.
#[derive(Debug, Serialize)]
pub(super) struct HistoryJson {
    /// The last day and then the last hour, each with its points from the oldest on.
    spans: [Span; 2],
}

/// Points at equal distances.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    every_seconds: u64,
    /// When the points were taken, in seconds since 1970.
    at_seconds: Vec<f64>,
    /// The names of the columns: rates a second, times in seconds, numbers of connections.
    columns: [&'static str; COLUMNS.len()],
    /// By column; null where there was no request, or nothing is known.
    values: Vec<Vec<Option<f32>>>,
}

impl History {
    /// Takes points for ever.
    pub(super) async fn keep(&self, registry: &Registry) {
        let mut ticks = tokio::time::interval(FINE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.take(registry, at);
        }
    }

    fn take(&self, registry: &Registry, at: Duration) {
        let now = Counted::of(registry);
        let mut kept = lock(&self.0);
        let kept = &mut *kept;
        if let Some(point) =
            kept.last_fine.replace(now.clone()).and_then(|before| now.since(&before, registry, at))
        {
            push(&mut kept.fine, point, FINE_POINTS);
            kept.since_coarse += 1;
        }
        if kept.last_coarse.is_none() {
            kept.last_coarse = Some(now);
        } else if kept.since_coarse >= COARSE_EVERY {
            kept.since_coarse = 0;
            let point = kept.last_coarse.as_ref().and_then(|before| now.since(before, registry, at));
            if let Some(point) = point {
                push(&mut kept.coarse, point, COARSE_POINTS);
            }
            kept.last_coarse = Some(now);
        }
    }

    pub(super) fn told(&self) -> HistoryJson {
        let kept = lock(&self.0);
        let coarse_every = FINE_EVERY * u32::try_from(COARSE_EVERY).expect("few points");
        HistoryJson { spans: [Span::of(&kept.coarse, coarse_every), Span::of(&kept.fine, FINE_EVERY)] }
    }
}

fn push(points: &mut VecDeque<Point>, point: Point, most: usize) {
    if points.len() >= most {
        points.pop_front();
    }
    points.push_back(point);
}

impl Counted {
    fn of(registry: &Registry) -> Self {
        let upstream =
            registry.endpoints().iter().fold(EndpointTotals::default(), |sums, (_, one)| EndpointTotals {
                requests: sums.requests + one.requests,
                opened: sums.opened + one.opened,
                regretted: sums.regretted + one.regretted,
                idle: sums.idle.wrapping_add(one.idle),
                ..sums
            });
        Self { at: Instant::now(), served: registry.served(), upstream }
    }

    /// The point of the time since another moment; none where no time has passed.
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough for a chart")]
    fn since(&self, before: &Self, registry: &Registry, at: Duration) -> Option<Point> {
        let seconds = (self.at - before.at).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let class = |class: usize| rate(self.served.classes[class], before.served.classes[class]);
        let bounds = latency_bounds();
        let quantile = |now: &[u64], before: &[u64], share| {
            let grown: Vec<u64> =
                now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
            estimate(&bounds, &grown, share).unwrap_or(f64::NAN)
        };
        let of_requests = |share| quantile(&self.served.requests, &before.served.requests, share);
        let open: u64 = registry.ports_in_use().iter().map(|one| one.in_use).sum();
        let values = [
            (0..self.served.classes.len()).map(class).sum(),
            class(4),
            class(5),
            of_requests(0.5),
            of_requests(0.99),
            quantile(&self.served.responses, &before.served.responses, 0.99),
            rate(self.upstream.requests, before.upstream.requests),
            rate(self.upstream.opened, before.upstream.opened),
            rate(self.upstream.regretted, before.upstream.regretted),
            registry.at_present(Gauge::ConnectionsActive) as f64,
            open as f64,
            self.upstream.idle as f64,
        ];
        Some(Point { at_seconds: at.as_secs_f64(), values: values.map(|value| value as f32) })
    }
}

impl Span {
    fn of(points: &VecDeque<Point>, every: Duration) -> Self {
        let known = |value: f32| (!value.is_nan()).then_some(value);
        let column = |at: usize| points.iter().map(|point| known(point.values[at])).collect();
        Self {
            every_seconds: every.as_secs(),
            at_seconds: points.iter().map(|point| point.at_seconds).collect(),
            columns: COLUMNS,
            values: (0..COLUMNS.len()).map(column).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Labels;
    use observe::{Method, MetricsOptions, Sample};

    use super::*;

    #[test]
    fn a_day_is_kept_within_its_bounds() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let (history, labels) = (History::default(), Arc::new(Labels::default()));
        let sample = Sample {
            method: Method::Get,
            status: 503,
            request_bytes: 1,
            response_bytes: 1,
            request_time: Duration::from_micros(300),
            upstream: None,
            canary: None,
            reason: None,
            cache: None,
        };
        for tick in 0..=(FINE_POINTS as u64 + 40) {
            recorder.request(&labels, &sample);
            history.take(&registry, Duration::from_secs(tick * 10));
        }
        let [day, hour] = history.told().spans;
        assert_eq!(
            (hour.at_seconds.len(), day.at_seconds.len()),
            (FINE_POINTS, FINE_POINTS / COARSE_EVERY + 1)
        );
        assert_eq!(hour.at_seconds.last(), Some(&4000.0));
        let of = |name| hour.values[COLUMNS.iter().position(|column| *column == name).unwrap()][0];
        assert!(of("requests").unwrap() > 0.0 && of("requests") == of("serverErrors"));
        let p50 = of("p50").unwrap();
        assert!((250e-6..400e-6).contains(&p50), "300 us are told as {p50}");
        assert_eq!(of("upstreamP99"), None, "no endpoint was asked");
        assert!((FINE_POINTS + COARSE_POINTS) * size_of::<Point>() < 40 << 10);
    }
}
