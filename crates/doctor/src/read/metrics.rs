//! Reads the proxy's metrics, if a sample holds them.

use std::collections::BTreeMap;

use crate::read::prometheus::{self, Series};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::text::say;

const PATH: &str = "forebay/metrics";

/// Declares the metrics that checks read.
macro_rules! metrics {
    ($($const:ident: $name:literal;)*) => {
        $(pub(crate) const $const: &str = $name;)*

        /// The names of all series that checks read: those of a histogram end with `_bucket` or `_count`.
        pub const METRICS_READ: &[&str] = &[$($const,)*];
    };
}

metrics! {
    ABUSE_ACTIONS: "forebay_abuse_actions_total";
    ABUSE_CLIENTS: "forebay_abuse_clients";
    ACME_CERTIFICATES: "forebay_acme_certificates";
    CERTIFICATES_ENDING: "forebay_certificates_ending";
    CONNECTIONS_TOTAL: "nginx_ingress_controller_nginx_process_connections_total";
    GUARD_LEVEL: "forebay_guard_level";
    GUARD_SPARE: "forebay_guard_spare_descriptor_total";
    GUARD_TURNS: "forebay_guard_turned_on_total";
    HANDSHAKES: "forebay_tls_handshakes_total";
    HTTP_BUCKET: "nginx_ingress_controller_response_duration_seconds_bucket";
    HTTP_COUNT: "nginx_ingress_controller_response_duration_seconds_count";
    HTTP_HEAD_BUCKET: "nginx_ingress_controller_header_duration_seconds_bucket";
    HTTP_HEAD_COUNT: "nginx_ingress_controller_header_duration_seconds_count";
    LIMIT_REDIS_EXCHANGES: "forebay_limit_redis_exchanges_total";
    LIMIT_REDIS_REQUESTS: "forebay_limit_redis_requests_total";
    PORTS_EXHAUSTED: "forebay_upstream_ports_exhausted_total";
    REQUESTS_TOTAL: "nginx_ingress_controller_nginx_process_requests_total";
    STREAM_COUNT: "forebay_stream_response_seconds_count";
    STREAM_RATIO: "forebay_stream_response_over_threshold_ratio";
    UPSTREAM_IDLE: "forebay_upstream_connections_idle";
    UPSTREAM_OPENED: "forebay_upstream_connections_opened_total";
    UPSTREAM_REGRETTED: "forebay_upstream_connections_regretted_total";
    UPSTREAM_REQUESTS: "forebay_upstream_requests_total";
}

/// The page of metrics in the first and in the last sample.
pub(crate) struct Pages<'a> {
    first: &'a str,
    last: &'a str,
}

impl<'a> Pages<'a> {
    /// The pages of the first and the last sample.
    pub(crate) fn of(samples: &'a Samples) -> Result<Pages<'a>, Unknown> {
        let (first, last) = samples.ends()?;
        Ok(Pages { first: page(first)?, last: page(last)? })
    }

    /// The last page.
    pub(crate) fn last(&self) -> &'a str {
        self.last
    }

    /// The growth of all series of a counter; `None` if the proxy does not have it.
    pub(crate) fn growth(&self, name: &str) -> Option<f64> {
        self.growth_where(name, |_| true)
    }

    /// The growth of the series that `choose` selects. A series that is missing in the first page counts as 0
    /// there.
    pub(crate) fn growth_where(&self, name: &str, choose: impl Fn(&Series<'_>) -> bool) -> Option<f64> {
        let last = prometheus::sum_where(self.last, name, &choose)?;
        let first = prometheus::sum_where(self.first, name, &choose).unwrap_or(0.0);
        Some((last - first).max(0.0))
    }

    /// The growth of a counter for each value of a label.
    pub(crate) fn growth_by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut growth = BTreeMap::new();
        for (page, sign) in [(self.last, 1.0), (self.first, -1.0)] {
            for series in prometheus::named(page, name) {
                if let Some(value) = series.label(label) {
                    *growth.entry(value.into_owned()).or_insert(0.0) += sign * series.value;
                }
            }
        }
        growth
    }
}

fn page(sample: &Sample) -> Result<&str, Unknown> {
    let was_asked_for = sample.files().any(|(path, _)| path == PATH);
    if was_asked_for { sample.text(PATH) } else { Err(Unknown(say!("the proxy's metrics were not given"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    #[test]
    fn counters_are_judged_by_their_growth() {
        let samples = scene().grows(PATH, "a{x=\"1\"} 5\n", "a{x=\"1\"} 7\na{x=\"2\"} 3\n").samples();
        let pages = Pages::of(&samples).unwrap();
        assert_eq!((pages.growth("a"), pages.growth("b")), (Some(5.0), None));
        assert_eq!(pages.growth_where("a", |series| series.label("x").as_deref() == Some("2")), Some(3.0));
        let by_label = pages.growth_by("a", "x");
        assert_eq!((by_label["1"], by_label["2"]), (2.0, 3.0));
    }

    #[test]
    fn why_there_are_none_is_told() {
        let why = |samples: Samples| Pages::of(&samples).err().map(|unknown| unknown.to_string());
        assert_eq!(why(scene().samples()), Some("the proxy's metrics were not given".into()));
        let forbidden = why(scene().forbids(PATH).samples());
        assert_eq!(forbidden, Some("permission denied".into()));
    }
}
