//! The figures of the proxy's traffic between two samples: what people look at first.
//!
//! Must not be in here: judgement.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::read::metrics::{HTTP_BUCKET, HTTP_COUNT, REQUESTS_TOTAL, UPSTREAM_OPENED};
use crate::read::prometheus::{self, Series};
use crate::sample::Sample;

/// Requests by status, of every request that was answered.
const REQUESTS: &str = "nginx_ingress_controller_requests";

/// Requests by class of the status, and by time, as the flight recorder has them: buckets are not cumulative.
const RECORDED: &str = "forebay_record_requests";
const RECORDED_TIMES: &str = "forebay_record_request_times";

/// The traffic between two samples; a figure is none where the samples do not hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// Requests a second.
    pub requests: Option<f64>,
    /// Answers with a status of 500 or above, a second.
    pub errors: Option<f64>,
    /// The time in seconds within which 99 of 100 requests were answered; without the flight recorder's
    /// figures, within which endpoints responded.
    pub p99: Option<f64>,
    /// Connections to endpoints that were opened, a second.
    pub connects: Option<f64>,
}

impl Traffic {
    /// The traffic between two samples; none where another process took the second one.
    pub fn between(earlier: &Sample, later: &Sample) -> Option<Traffic> {
        let seconds = later.taken.seconds - earlier.taken.seconds;
        if seconds <= 0.0 || earlier.taken.pid != later.taken.pid {
            return None;
        }
        let page = |sample: &Sample| sample.text("forebay/metrics").unwrap_or_default().to_owned();
        let (before, after) = (page(earlier), page(later));
        let rate = |name: &str, choose: fn(&Series<'_>) -> bool| {
            let now = prometheus::sum_where(&after, name, choose)?;
            let then = prometheus::sum_where(&before, name, choose).unwrap_or(0.0);
            Some((now - then).max(0.0) / seconds)
        };
        let all: fn(&Series<'_>) -> bool = |_| true;
        // A status that never occurred has no series: no errors are known as soon as requests are counted.
        let errors_of = |name| rate(name, all).map(|_| rate(name, is_error).unwrap_or(0.0));
        Some(Traffic {
            requests: rate(RECORDED, all)
                .or_else(|| rate(REQUESTS_TOTAL, all))
                .or_else(|| rate(REQUESTS, all)),
            errors: errors_of(RECORDED).or_else(|| errors_of(REQUESTS)).or_else(|| errors_of(HTTP_COUNT)),
            p99: p99(recorded_buckets(&before, &after)).or_else(|| p99(buckets(&before, &after))),
            connects: rate(UPSTREAM_OPENED, all),
        })
    }
}

fn is_error(series: &Series<'_>) -> bool {
    let of = |name| series.label(name).is_some_and(|status| status.starts_with('5'));
    of("status") || of("class")
}

/// The growth of buckets by the bits of their upper bounds: bounds are not negative, so that their bits are
/// in the order of their values, `+Inf` last.
type Buckets = BTreeMap<u64, f64>;

fn growth(before: &str, after: &str, name: &str, label: &str) -> Buckets {
    let mut growth = Buckets::new();
    for (page, sign) in [(after, 1.0), (before, -1.0)] {
        for series in prometheus::named(page, name) {
            if let Some(bound) = series.label(label).and_then(|bound| bound.parse::<f64>().ok()) {
                *growth.entry(bound.to_bits()).or_default() += sign * series.value;
            }
        }
    }
    growth
}

/// The cumulative buckets of all series of `/metrics` together.
fn buckets(before: &str, after: &str) -> Buckets {
    growth(before, after, HTTP_BUCKET, "le")
}

/// The buckets of the flight recorder, made cumulative.
fn recorded_buckets(before: &str, after: &str) -> Buckets {
    let mut sum = 0.0;
    let mut buckets = growth(before, after, RECORDED_TIMES, "below");
    for count in buckets.values_mut() {
        sum += *count;
        *count = sum;
    }
    buckets
}

/// The quantile, within its bucket by its rank; the bound below, where the last bucket has none.
fn p99(buckets: Buckets) -> Option<f64> {
    let total = buckets.values().next_back().copied().filter(|total| *total > 0.0)?;
    let rank = 0.99 * total;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bits, count) in buckets {
        let bound = f64::from_bits(bits);
        if count >= rank {
            let width = if bound.is_finite() { bound - lower } else { 0.0 };
            return Some(lower + width * ((rank - below) / (count - below)).clamp(0.0, 1.0));
        }
        (lower, below) = (bound, count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, requests: u64, errors: u64, slow: u64) -> Sample {
        let mut sample = Sample::default();
        sample.taken.seconds = seconds;
        let page = format!(
            "{REQUESTS_TOTAL} {}\n{HTTP_COUNT}{{status=\"200\"}} {requests}\n{HTTP_COUNT}{{status=\"503\"}} {errors}\n\
             {HTTP_BUCKET}{{host=\"a\",le=\"0.1\"}} {requests}\n{HTTP_BUCKET}{{host=\"a\",le=\"0.5\"}} {}\n\
             {HTTP_BUCKET}{{host=\"a\",le=\"+Inf\"}} {}\n{UPSTREAM_OPENED} {slow}\n",
            requests + errors,
            requests + slow,
            requests + slow,
        );
        sample.put("forebay/metrics", Ok(page));
        sample
    }

    #[test]
    fn traffic_is_what_was_counted_in_between() {
        let traffic = Traffic::between(&sample(0.0, 100, 0, 0), &sample(10.0, 1080, 20, 20)).unwrap();
        assert_eq!((traffic.requests, traffic.errors, traffic.connects), (Some(100.0), Some(2.0), Some(2.0)));
        let p99 = traffic.p99.unwrap();
        assert!((0.29..0.31).contains(&p99), "half way from 0.1 to 0.5: {p99}");
        let quiet = Traffic::between(&sample(0.0, 5, 0, 0), &sample(10.0, 5, 0, 0)).unwrap();
        assert_eq!((quiet.requests, quiet.errors, quiet.p99), (Some(0.0), Some(0.0), None));
        let none = Traffic::between(&sample(0.0, 5, 0, 0), &Sample::default());
        assert_eq!(none, None);
        let recorded = |seconds: f64, good: u64, bad: u64| {
            let mut sample = Sample::default();
            sample.taken.seconds = seconds;
            let page = format!(
                "{RECORDED}{{class=\"2xx\"}} {good}\n{RECORDED}{{class=\"5xx\"}} {bad}\n\
                 {RECORDED_TIMES}{{below=\"0.5\"}} {good}\n{RECORDED_TIMES}{{below=\"1\"}} {bad}\n"
            );
            sample.put("forebay/metrics", Ok(page));
            sample
        };
        let traffic = Traffic::between(&recorded(0.0, 5, 5), &recorded(10.0, 985, 25)).unwrap();
        assert_eq!((traffic.requests, traffic.errors, traffic.p99), (Some(100.0), Some(2.0), Some(0.75)));
        let mut bare = Sample::default();
        bare.taken.seconds = 1.0;
        assert_eq!(Traffic::between(&Sample::default(), &bare), Some(Traffic::default()));
    }
}
