//! The report of measurements: tables and plots, made from measurements and readings.
//!
//! Must not be in here: HTML and SVG, which are in the crate `bench`; measuring.

use std::fs::File;
use std::path::Path;

use ::bench::generator::Latency;
use ::bench::report::{Axis, Block, Figure, Page, Plot, Series, Table, Unit};
use anyhow::Context;

use super::format::{self, bytes, grouped};
use super::measure::{Kind, Measured, Measurement, Subject};
use super::show;
use super::timeline::{PERIOD, Reading};
use crate::version;

/// Points of a latency distribution for each further nine.
const POINTS_PER_NINE: u32 = 25;

/// Number of readings over which a rate is averaged: one is too few for counters in ticks of 10 ms.
const SMOOTH: usize = 3;

/// Checks that the page can be written, before the measurement.
pub(crate) fn prepare(file: &Path) -> anyhow::Result<()> {
    let open = File::options().create(true).append(true).open(file);
    open.map(drop).with_context(|| format!("cannot write {}", file.display()))
}

/// Writes the page. An error is one line.
pub(crate) fn write(file: &Path, page: &Page) -> anyhow::Result<()> {
    std::fs::write(file, page.html()).with_context(|| format!("cannot write {}", file.display()))
}

/// The page of one measurement.
pub(crate) fn of_one(subject: &Subject, measured: &Measured, readings: &[Reading]) -> Page {
    let measurement = &measured.measurement;
    Page {
        title: format!("{} of {}", title(measurement.kind), measurement.url),
        lead: show::load(subject.plan(), measurement),
        figures: figures(measurement),
        facts: machine(),
        blocks: vec![
            Block::Plot(latency(&[("latency", &measured.outcome.latency)])),
            Block::Plot(rates(measurement.kind, &[("", 0, &[(0.0, f64::MAX)])], readings)),
            Block::Table(times(&[("", measurement)])),
            Block::Plot(sockets(readings)),
            Block::Plot(cpu(readings, None)),
            Block::Table(counts(&[("", measurement)])),
        ],
    }
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Rps => "Requests a second",
        Kind::Tps => "TLS connections a second",
        Kind::Throughput => "Throughput",
    }
}

fn figures(measurement: &Measurement) -> Vec<Figure> {
    let us = measurement.latency_us;
    let figure = |name: &str, value: String| Figure { name: name.into(), value, note: String::new() };
    let failed: u64 = measurement.errors.values().sum();
    vec![
        figure(show::unit(measurement.kind), show::rate(measurement)),
        figure("latency, median", time(us.p50)),
        figure("latency, 99 %", time(us.p99)),
        Figure {
            note: format!("of {} requests", grouped(measurement.requests as f64)),
            ..figure("failed", grouped(failed as f64))
        },
    ]
}

/// The description of this machine.
pub(crate) fn machine() -> Vec<(String, String)> {
    let name = rustix::system::uname();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    vec![
        ("machine".into(), text(name.nodename())),
        ("kernel".into(), format!("{} {}", text(name.sysname()), text(name.release()))),
        ("CPUs".into(), cpus.to_string()),
        ("forebay".into(), version::RELEASE.into()),
    ]
}

/// A table of percentiles and phases, with a column for each measurement.
pub(crate) fn times(columns: &[(&str, &Measurement)]) -> Table {
    type Of = fn(&Measurement) -> Option<f64>;
    let rows: [(&str, Of); 11] = [
        ("latency, 50 %", |m| Some(m.latency_us.p50)),
        ("90 %", |m| Some(m.latency_us.p90)),
        ("99 %", |m| Some(m.latency_us.p99)),
        ("99.9 %", |m| Some(m.latency_us.p999)),
        ("99.99 %", |m| Some(m.latency_us.p9999)),
        ("longest", |m| Some(m.latency_us.max)),
        ("looking up the name", |m| m.phases_us.dns),
        ("connecting, median", |m| m.phases_us.connect),
        ("TLS handshake, median", |m| m.phases_us.tls),
        ("until the first byte, median", |m| m.phases_us.first_byte),
        ("until the last, median", |m| m.phases_us.body),
    ];
    let row = |(name, of): (&str, Of)| {
        let cells = columns.iter().map(|(_, measurement)| of(measurement).map_or_else(dash, time));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    table("Latency and phases", columns, rows.into_iter().map(row).collect())
}

/// A table of counters, with a column for each measurement.
pub(crate) fn counts(columns: &[(&str, &Measurement)]) -> Table {
    type Of = fn(&Measurement) -> String;
    let rows: [(&str, Of); 7] = [
        ("requests", |m| grouped(m.requests as f64)),
        ("failed", failures),
        ("connections opened", |m| grouped(m.connections_opened as f64)),
        ("received", |m| bytes(m.bytes)),
        ("time", |m| format!("{:.1} s", m.duration_seconds)),
        ("CPU time of the generator", |m| format!("{:.2} s", m.generator.cpu_seconds)),
        ("the generator was the limit", |m| if m.generator.limited { "yes" } else { "no" }.into()),
    ];
    let row = |(name, of): (&str, Of)| {
        let cells = columns.iter().map(|(_, measurement)| of(measurement));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    table("Counts", columns, rows.into_iter().map(row).collect())
}

fn failures(measurement: &Measurement) -> String {
    let kinds = measurement.errors.iter().map(|(kind, count)| format!("{kind} {}", grouped(*count as f64)));
    let kinds: Vec<_> = kinds.collect();
    if kinds.is_empty() { "0".into() } else { kinds.join(", ") }
}

fn table(title: &str, columns: &[(&str, &Measurement)], rows: Vec<Vec<String>>) -> Table {
    let names = columns.iter().map(|(name, _)| (*name).to_owned());
    let columns = std::iter::once(String::new()).chain(names).collect();
    Table { title: title.into(), note: String::new(), columns, rows }
}

/// A time, given in microseconds, with a suitable unit in the form of the plots.
pub(crate) fn time(micros: f64) -> String {
    format::time(micros).replace("us", "µs")
}

/// The text for a missing figure.
pub(crate) fn dash() -> String {
    "–".into()
}

/// A plot of latency distributions.
pub(crate) fn latency(ways: &[(&str, &Latency)]) -> Plot {
    Plot {
        title: "Latency distribution".into(),
        note: "At 99.9 % stands the latency that one request of a thousand exceeds.".into(),
        x: Axis::percentile(),
        y: Axis::latency(),
        series: ways.iter().map(|(name, latency)| Series::line(name, distribution(latency))).collect(),
    }
}

/// Shares of the requests, each with the latency in microseconds that the share did not exceed.
fn distribution(latency: &Latency) -> Vec<(f64, f64)> {
    let histogram = latency.histogram();
    let nines = (histogram.len() as f64).log10();
    let steps = (0..).map(|step| f64::from(step) / f64::from(POINTS_PER_NINE)).take_while(|at| *at < nines);
    let share = |at: f64| 1.0 - 10f64.powf(-at);
    let point = |at: f64| (share(at), histogram.value_at_quantile(share(at)) as f64 / 1e3);
    let last = (!histogram.is_empty()).then(|| (share(nines), histogram.max() as f64 / 1e3));
    steps.map(point).chain(last).collect()
}

/// A line of [`rates`]: its name, its counter in the readings, and the windows in which that counter grew.
pub(crate) type Counted<'a> = (&'a str, usize, &'a [(f64, f64)]);

/// A plot of rates.
pub(crate) fn rates(kind: Kind, ways: &[Counted<'_>], readings: &[Reading]) -> Plot {
    let series = ways.iter().map(|(name, counter, windows)| {
        let within = |(begin, end): &(f64, f64)| {
            let inside: Vec<_> =
                readings.iter().filter(|one| (*begin..=*end).contains(&one.at)).copied().collect();
            rate(&inside, |reading| reading.counts[*counter])
        };
        Series { name: (*name).into(), pieces: windows.iter().map(within).collect() }
    });
    over_time(&format!("{} over time", title(kind)), show::unit(kind), series.collect())
}

/// A plot of connections and `TIME_WAIT`s.
pub(crate) fn sockets(readings: &[Reading]) -> Plot {
    let line = |name: &str, of: fn(&Reading) -> f64| {
        Series::line(name, readings.iter().map(|reading| (reading.at, of(reading))).collect())
    };
    let series = vec![
        line("TCP sockets in use", |reading| reading.connections),
        line("TIME_WAIT", |reading| reading.time_wait),
    ];
    let plot = over_time("Connections and TIME_WAIT over time", "sockets", series);
    Plot { note: "Both ends count where both are in this network namespace; so do listeners.".into(), ..plot }
}

/// A plot of CPUs in use: all, and the share of the proxy's processes, if their CPU time by time is known.
pub(crate) fn cpu(readings: &[Reading], proxy: Option<&[(f64, f64)]>) -> Plot {
    let mut series = vec![
        Series::line("whole machine", rate(readings, |reading| reading.machine_cpu)),
        Series::line("generator", rate(readings, |reading| reading.own_cpu)),
    ];
    series.extend(proxy.map(|used| Series::line("proxy", slope(&thinned(used)))));
    over_time("CPU over time", "CPUs", series)
}

fn over_time(title: &str, unit: &str, series: Vec<Series>) -> Plot {
    Plot {
        title: title.into(),
        note: String::new(),
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::linear(unit, Unit::Count),
        series,
    }
}

/// The growth of a counter per second, at each reading.
fn rate(readings: &[Reading], of: impl Fn(&Reading) -> f64) -> Vec<(f64, f64)> {
    slope(&readings.iter().map(|reading| (reading.at, of(reading))).collect::<Vec<_>>())
}

/// Reduces points to about the number of readings, if the counter was read more often.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|last| point.0 - last.0 >= PERIOD.as_secs_f64()) {
            kept.push(*point);
        }
    }
    kept
}

fn slope(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let over = |window: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (window[0], window[window.len() - 1]);
        (f64::midpoint(from, to), (after - before).max(0.0) / (to - from).max(1e-9))
    };
    points.windows(SMOOTH.min(points.len()).max(2)).map(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_becomes_a_rate() {
        let reading = |at: f64, count| Reading { at, counts: [count, 0.0], ..Reading::default() };
        let readings = [
            reading(0.0, 0.0),
            reading(1.0, 10.0),
            reading(2.0, 30.0),
            reading(3.0, 30.0),
            reading(4.0, 30.0),
        ];
        assert_eq!(rate(&readings, |reading| reading.counts[0]), [(1.0, 15.0), (2.0, 10.0), (3.0, 0.0)]);
        assert_eq!(rate(&readings[..1], |reading| reading.at), []);
        let plot = rates(Kind::Rps, &[("a", 0, &[(0.0, 2.0), (3.0, 4.0)])], &readings);
        assert_eq!(plot.series[0].pieces, [vec![(1.0, 15.0)], vec![(3.5, 0.0)]]);
        assert_eq!(thinned(&[(0.0, 1.0), (0.05, 2.0), (0.1, 3.0)]), [(0.0, 1.0), (0.1, 3.0)]);
    }
}
