//! The figures of samples: each counter as a rate a second and each gauge as it is, by name.
//!
//! Must not be in here: what a figure means.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::read::prometheus;
use crate::sample::Sample;
use crate::sockets::{Direction, SocketGroup};

/// Most series of a metric that are figures of their own; a metric with more of them is only summed up.
const SERIES_MAX: usize = 50;

/// Gauges among the counters of `/proc/net/snmp`.
const SNMP_GAUGES: &[&str] = &["CurrEstab"];

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A counter, told as its growth a second.
    Rate,
    /// A gauge, told as it is.
    Gauge,
}

/// The values that figures had over a time.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<String, Values>);

#[derive(Clone, Debug)]
struct Values {
    kind: Kind,
    values: Vec<f32>,
}

/// How a figure was spread over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the values are below.
    pub median: f64,
    /// 95 % of the values are below.
    pub high: f64,
    /// Median distance of the values from their median.
    pub deviation: f64,
}

/// The raw values of one sample, by name.
#[derive(Default)]
struct Raw(BTreeMap<String, (Kind, f64)>);

impl Figures {
    /// Adds the figures of the time between two samples that follow each other.
    pub fn add(&mut self, earlier: &Sample, later: &Sample) {
        let seconds = later.taken.seconds - earlier.taken.seconds;
        if seconds <= 0.0 || earlier.taken.pid != later.taken.pid {
            return;
        }
        let (before, after) = (Raw::of(earlier), Raw::of(later));
        for (name, (kind, value)) in after.0 {
            let value = match (kind, before.0.get(&name)) {
                (Kind::Gauge, _) => value,
                (Kind::Rate, Some((_, before))) if value >= *before => (value - before) / seconds,
                // It began anew, or was not there: its growth is not known.
                (Kind::Rate, _) => continue,
            };
            let values = self.0.entry(name).or_insert_with(|| Values { kind, values: Vec::new() });
            values.values.push(value as f32);
        }
    }

    /// The names and kinds of all figures.
    pub fn names(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.0.iter().map(|(name, values)| (name.as_str(), values.kind))
    }

    /// The spread of a figure; none where it has no value.
    pub fn spread(&self, name: &str) -> Option<Spread> {
        let mut values = self.0.get(name)?.values.clone();
        let median = quantile(&mut values, 0.5)?;
        let high = quantile(&mut values, 0.95)?;
        let mut distances: Vec<f32> = values.iter().map(|value| (value - median).abs()).collect();
        let deviation = quantile(&mut distances, 0.5)?;
        Some(Spread { median: median.into(), high: high.into(), deviation: deviation.into() })
    }
}

/// The value below which a share of the values lies.
#[expect(clippy::cast_sign_loss, reason = "a share of a number of values is not negative")]
fn quantile(values: &mut [f32], share: f64) -> Option<f32> {
    values.sort_by(f32::total_cmp);
    let at = (values.len().checked_sub(1)? as f64 * share).round() as usize;
    values.get(at).copied()
}

impl Raw {
    fn of(sample: &Sample) -> Raw {
        let mut raw = Raw::default();
        let text = |path: &str| sample.text(path).unwrap_or_default();
        raw.metrics(text("forebay/metrics"));
        for path in ["proc/net/snmp", "proc/net/netstat"] {
            raw.headed(text(path));
        }
        raw.stat(text("proc/stat"));
        for path in ["proc/net/sockstat", "proc/net/sockstat6"] {
            raw.sockstat(text(path));
        }
        raw.softnet(text("proc/net/softnet_stat"));
        raw.devices(text("proc/net/dev"));
        for (path, text) in sample.under("sys/fs/cgroup/") {
            if let Some(folder) = path.strip_suffix("/cpu.stat") {
                raw.cgroup(folder, text);
            }
        }
        for (path, text) in sample.under("proc/pressure/") {
            raw.pressure(path.rsplit('/').next().unwrap_or_default(), text);
        }
        raw.first_number("load of one minute", text("proc/loadavg"));
        raw.first_number("descriptors of the machine", text("proc/sys/fs/file-nr"));
        raw.first_number("conntrack entries", text("proc/sys/net/netfilter/nf_conntrack_count"));
        raw.memory(text("proc/meminfo"));
        let groups: Vec<SocketGroup> = sample.json("forebay/sockets.json").unwrap_or_default();
        raw.sockets(&groups);
        raw
    }

    fn put(&mut self, name: String, kind: Kind, value: f64) {
        if value.is_finite() {
            self.0.insert(name, (kind, value));
        }
    }

    fn counter(&mut self, name: String, value: &str) {
        if let Ok(value) = value.parse() {
            self.put(name, Kind::Rate, value);
        }
    }

    /// Each metric summed up, and its series. Buckets of histograms are left out, as are those of the
    /// recorder (`below`): the sum and the count tell the mean.
    fn metrics(&mut self, page: &str) {
        let mut by_name = BTreeMap::<&str, Vec<_>>::new();
        for series in prometheus::all(page).filter(|series| !series.name.ends_with("_bucket")) {
            by_name.entry(series.name).or_default().push(series);
        }
        for (name, all) in by_name {
            // Of the recorder's own figures all are counters.
            let is_counter = name.starts_with("forebay_record_")
                || ["_total", "_count", "_sum"].iter().any(|end| name.ends_with(end));
            let kind = if is_counter { Kind::Rate } else { Kind::Gauge };
            self.put(name.to_owned(), kind, all.iter().map(|series| series.value).sum());
            if (2..=SERIES_MAX).contains(&all.len())
                && all.iter().all(|series| series.label("below").is_none())
            {
                for series in all {
                    self.put(format!("{name}{{{}}}", series.labels), kind, series.value);
                }
            }
        }
    }

    /// Files in which a line with names is followed by one with their values.
    fn headed(&mut self, text: &str) {
        let lines: Vec<_> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let (mut names, mut values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
            let Some(protocol) = names.next().filter(|head| values.next() == Some(head)) else { continue };
            for (name, value) in names.zip(values) {
                let full = format!("{protocol} {name}").replace(": ", ".");
                match value.parse() {
                    Ok(value) if SNMP_GAUGES.contains(&name) => self.put(full, Kind::Gauge, value),
                    _ => self.counter(full, value),
                }
            }
        }
    }

    fn stat(&mut self, text: &str) {
        const CPU: &[&str] = &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("cpu") => {
                    for (name, value) in CPU.iter().zip(words) {
                        if let Ok(ticks) = value.parse::<f64>() {
                            self.put(format!("CPUs of the machine: {name}"), Kind::Rate, ticks / 100.0);
                        }
                    }
                }
                Some(name @ ("ctxt" | "processes")) => {
                    self.counter(format!("proc/stat {name}"), words.next().unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    fn sockstat(&mut self, text: &str) {
        for line in text.lines() {
            let Some((protocol, rest)) = line.split_once(": ") else { continue };
            let words: Vec<_> = rest.split_whitespace().collect();
            for pair in words.chunks_exact(2) {
                if let Ok(value) = pair[1].parse() {
                    self.put(format!("sockets {protocol} {}", pair[0]), Kind::Gauge, value);
                }
            }
        }
    }

    fn softnet(&mut self, text: &str) {
        for (column, name) in [(1, "dropped"), (2, "squeezed")] {
            let cells = text.lines().filter_map(|line| line.split_whitespace().nth(column));
            let sum: Option<u64> = cells
                .map(|cell| u64::from_str_radix(cell, 16).ok())
                .reduce(|sum, one| Some(sum? + one?))
                .flatten();
            if let Some(sum) = sum {
                self.put(format!("softnet {name}"), Kind::Rate, sum as f64);
            }
        }
    }

    fn devices(&mut self, text: &str) {
        const COLUMNS: &[(usize, &str)] = &[
            (0, "bytes received"),
            (1, "packets received"),
            (3, "received packets dropped"),
            (8, "bytes sent"),
            (9, "packets sent"),
            (11, "sent packets dropped"),
        ];
        for line in text.lines() {
            let Some((device, rest)) = line.split_once(':') else { continue };
            let cells: Vec<_> = rest.split_whitespace().collect();
            for (column, name) in COLUMNS {
                if let Some(cell) = cells.get(*column) {
                    self.counter(format!("{}: {name}", device.trim()), cell);
                }
            }
        }
    }

    fn cgroup(&mut self, folder: &str, text: &str) {
        let group = folder.trim_start_matches("sys/fs/cgroup");
        let group = if group.is_empty() { "/" } else { group };
        for line in text.lines() {
            if let Some((name @ ("usage_usec" | "nr_throttled" | "throttled_usec"), value)) =
                line.split_once(' ')
            {
                self.counter(format!("cgroup {group} {name}"), value);
            }
        }
    }

    fn pressure(&mut self, of: &str, text: &str) {
        for line in text.lines() {
            if let (Some((some, _)), Some((_, total))) = (line.split_once(' '), line.rsplit_once("total=")) {
                self.counter(format!("pressure {of} {some}, microseconds"), total);
            }
        }
    }

    fn first_number(&mut self, name: &str, text: &str) {
        if let Some(Ok(value)) = text.split_whitespace().next().map(str::parse) {
            self.put(name.to_owned(), Kind::Gauge, value);
        }
    }

    fn memory(&mut self, text: &str) {
        let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        self.first_number("memory available, kB", available.unwrap_or_default());
    }

    fn sockets(&mut self, groups: &[SocketGroup]) {
        let mut sums = BTreeMap::<_, u64>::new();
        for group in groups {
            let direction = match group.direction {
                Direction::Outgoing => "outgoing",
                Direction::Incoming => "incoming",
                Direction::Listening => continue,
            };
            *sums.entry(format!("connections {direction}, {:?}", group.state)).or_default() += group.count;
        }
        for (name, sum) in sums {
            self.put(name, Kind::Gauge, sum as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rates_and_gauges_are_as_they_are() {
        let sample = |seconds: f64, opens: u64, time_wait: u64, requests: u64| {
            let mut sample = Sample::default();
            sample.taken.seconds = seconds;
            let snmp = format!("Tcp: ActiveOpens CurrEstab\nTcp: {opens} 7\n");
            sample.put("proc/net/snmp", Ok(snmp));
            sample.put("proc/net/sockstat", Ok(format!("TCP: inuse 5 tw {time_wait}\n")));
            let metrics =
                format!("a_total{{x=\"1\"}} {requests}\na_total{{x=\"2\"}} 5\nb 3\nc_bucket{{le=\"1\"}} 9\n");
            sample.put("forebay/metrics", Ok(metrics));
            sample.put("sys/fs/cgroup/pod/cpu.stat", Ok(format!("nr_throttled {opens}\n")));
            sample
        };
        let mut figures = Figures::default();
        let samples = [sample(0.0, 100, 4, 0), sample(10.0, 200, 5, 50), sample(20.0, 400, 6, 150)];
        for pair in samples.windows(2) {
            figures.add(&pair[0], &pair[1]);
        }
        let high = |name: &str| figures.spread(name).map(|spread| spread.high);
        assert_eq!(high("Tcp.ActiveOpens"), Some(20.0));
        assert_eq!(high("Tcp.CurrEstab"), Some(7.0));
        assert_eq!(high("sockets TCP tw"), Some(6.0));
        assert_eq!((high("a_total"), high("a_total{x=\"1\"}")), (Some(10.0), Some(10.0)));
        assert_eq!((high("b"), high("c_bucket")), (Some(3.0), None));
        assert_eq!(high("cgroup /pod nr_throttled"), Some(20.0));
    }

    #[test]
    fn a_counter_that_began_anew_has_no_rate() {
        let sample = |seconds: f64, value: u64| {
            let mut sample = Sample::default();
            sample.taken.seconds = seconds;
            sample.put("forebay/metrics", Ok(format!("a_total {value}\n")));
            sample
        };
        let mut figures = Figures::default();
        figures.add(&sample(0.0, 10), &sample(1.0, 3));
        figures.add(&sample(5.0, 10), &sample(1.0, 30));
        assert_eq!(figures.names().count(), 0);
    }

    #[test]
    fn a_spread_is_robust() {
        let values = Values { kind: Kind::Gauge, values: vec![3.0, 1.0, 2.0, 1000.0, 2.0] };
        let figures = Figures([("x".to_owned(), values)].into());
        let spread = figures.spread("x").unwrap();
        assert_eq!((spread.median, spread.high, spread.deviation), (2.0, 1000.0, 1.0));
        assert_eq!(figures.spread("y"), None);
    }
}
