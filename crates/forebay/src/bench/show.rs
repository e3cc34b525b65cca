//! A measurement as text, for people: aligned, readable without colour.
//!
//! Must not be in here: measuring.

use std::fmt::{Display, Write as _};

use ::bench::generator::{Latency, Outcome, Pace, Phases, Plan, Protocol};

use super::measure::{Kind, Measured, Measurement, Subject, micros};

/// Width of the column of names.
const NAME: usize = 13;
/// Width of a column of times.
const TIME: usize = 10;

/// What was asked for, what came of it, and what to make of it.
pub(crate) fn text(subject: &Subject, measured: &Measured, threads: usize) -> String {
    let Measured { measurement, outcome } = measured;
    let mut text = format!("{}\n{}\n\n", subject.url, load(subject.plan(), measurement));
    row(&mut text, unit(measurement.kind), &rate(measurement));
    if measurement.kind != Kind::Rps {
        row(&mut text, "requests/s", &grouped(outcome.rate()));
    }
    row(&mut text, "requests", &requests(measurement, outcome));
    row(&mut text, "connections", &connections(outcome));
    row(&mut text, "received", &received(measurement));
    text.push('\n');
    latency(&mut text, measurement, outcome);
    phases(&mut text, measurement, outcome);
    generator(&mut text, measured, threads);
    text
}

/// The load in a few words.
pub(crate) fn load(plan: &Plan, measurement: &Measurement) -> String {
    let connections = counted(plan.connections as u64, "connection");
    let reuse = if plan.requests_per_connection == Some(1) { "one request each" } else { "kept alive" };
    let protocol = match plan.protocol {
        Protocol::Http1 => "HTTP/1.1".to_owned(),
        Protocol::Http2 { streams } => format!("HTTP/2 with {}", counted(streams as u64, "stream")),
    };
    let pace = match plan.pace {
        Pace::Open { rate_per_second } => format!("open loop at {} requests/s", grouped(rate_per_second)),
        _ => "closed loop".to_owned(),
    };
    format!("{protocol}, {connections}, {reuse}, {pace}, {:.1} s", measurement.duration_seconds)
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<NAME$}{value}");
}

/// What a kind's rate counts.
pub(crate) fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Rps => "requests/s",
        Kind::Tps => "TLS conn/s",
        Kind::Throughput => "Gbit/s",
    }
}

/// A measurement's rate as a number to read.
pub(crate) fn rate(measurement: &Measurement) -> String {
    match measurement.kind {
        Kind::Throughput => format!("{:.3}", measurement.rate),
        Kind::Rps | Kind::Tps => grouped(measurement.rate),
    }
}

fn requests(measurement: &Measurement, outcome: &Outcome) -> String {
    let sent = grouped(measurement.requests as f64);
    if measurement.errors.is_empty() {
        return format!("{sent}, none failed");
    }
    let kinds: Vec<_> =
        measurement.errors.iter().map(|(kind, count)| format!("{kind} {}", grouped(*count as f64))).collect();
    let why = outcome.connect_failure.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
    format!("{sent}, {} answered; {}{why}", grouped(outcome.answered as f64), kinds.join(", "))
}

fn connections(outcome: &Outcome) -> String {
    let opened = format!("{} opened", grouped(outcome.connections_opened as f64));
    if outcome.connections_opened == 0 {
        return opened;
    }
    let each = outcome.sent as f64 / outcome.connections_opened as f64;
    format!("{opened}, {} requests on each", grouped(each))
}

fn received(measurement: &Measurement) -> String {
    let seconds = measurement.duration_seconds;
    let bits = if seconds > 0.0 { measurement.bytes as f64 * 8.0 / seconds } else { 0.0 };
    let speed =
        if bits < 1e9 { format!("{:.1} Mbit/s", bits / 1e6) } else { format!("{:.2} Gbit/s", bits / 1e9) };
    format!("{}, {speed} with heads", bytes(measurement.bytes))
}

fn latency(text: &mut String, measurement: &Measurement, outcome: &Outcome) {
    let names = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let us = measurement.latency_us;
    let values = [us.p50, us.p90, us.p99, us.p999, us.p9999, us.max];
    let _ = writeln!(text, "  {:<NAME$}{}", "latency", columns(names));
    let shown = values.map(|value| if outcome.answered == 0 { "-".to_owned() } else { time(value) });
    let _ = writeln!(text, "  {:<NAME$}{}", "", columns(shown));
}

fn columns<const N: usize>(cells: [impl Display; N]) -> String {
    cells.map(|cell| format!("{cell:>TIME$}")).concat()
}

fn phases(text: &mut String, measurement: &Measurement, outcome: &Outcome) {
    let at = |phase: &Latency, percent| time(micros(phase.percentile(percent)));
    let of = |phase: &Latency| (!phase.is_empty()).then(|| [at(phase, 50.0), at(phase, 99.0)]);
    let dns = measurement.phases_us.dns.map(|dns| [time(dns), String::new()]);
    let Phases { connect, tls, first_byte, body } = &outcome.phases;
    let rows = [
        ("dns", dns),
        ("connect", of(connect)),
        ("tls", of(tls)),
        ("first byte", of(first_byte)),
        ("body", of(body)),
    ];
    let _ = writeln!(text, "\n  {:<NAME$}{}", "phases", columns(["p50", "p99"]));
    for (name, cells) in rows {
        if let Some(cells) = cells {
            let _ = writeln!(text, "{}", format!("    {name:<0$}{1}", NAME - 2, columns(cells)).trim_end());
        }
    }
}

/// What it cost to find out, and whether that was the limit.
fn generator(text: &mut String, measured: &Measured, threads: usize) {
    let Measured { measurement, outcome } = measured;
    let used = &measurement.generator;
    let share = |seconds: f64| 100.0 * seconds / (outcome.elapsed.as_secs_f64() * threads as f64);
    let (busy, waited) = (share(used.cpu_seconds), share(outcome.cpu.waited.as_secs_f64()));
    let (threads, memory) = (counted(threads as u64, "thread"), bytes(used.peak_rss_bytes));
    text.push('\n');
    row(
        text,
        "generator",
        &format!("{:.2} s of CPU, {threads} {busy:.0} % busy, peak memory {memory}", used.cpu_seconds),
    );
    if used.limited {
        let waiting = if waited >= 1.0 {
            format!(", and waited for a CPU another {waited:.0} %")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "\nwarning: the load generator was the limit: its {threads} ran {busy:.0} % of the time{waiting}.\n\
             What was measured can do more: use more --threads, CPUs or machines, or an open loop (--rate) below this."
        );
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        us if us < 0.05 => "0 us".to_owned(),
        us if us < 10.0 => format!("{us:.1} us"),
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 10e3 => format!("{:.2} ms", us / 1e3),
        us if us < 100e3 => format!("{:.1} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A size in the unit that suits it.
pub(crate) fn bytes(count: u64) -> String {
    let value = count as f64;
    match value {
        v if v < 1e3 => format!("{count} bytes"),
        v if v < 1e6 => format!("{:.1} kB", v / 1e3),
        v if v < 1e9 => format!("{:.1} MB", v / 1e6),
        v => format!("{:.2} GB", v / 1e9),
    }
}

/// A number with its thousands apart; with a decimal where it is small.
pub(crate) fn grouped(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// `1 thread`, `2 threads`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown = [0.001, 4.26, 251.4, 1_234.0, 12_345.0, 123_456.0, 1_234_567.0].map(time);
        assert_eq!(shown, ["0 us", "4.3 us", "251 us", "1.23 ms", "12.3 ms", "123 ms", "1.23 s"]);
    }

    #[test]
    fn numbers_are_grouped_and_counted() {
        assert_eq!([0.0, 7.25, 999.6, 1_234_567.0].map(grouped), ["0", "7.2", "1,000", "1,234,567"]);
        assert_eq!([1, 2].map(|count| counted(count, "thread")), ["1 thread", "2 threads"]);
        assert_eq!(
            [999, 1_500, 27_300_000, 2_590_000_000].map(bytes),
            ["999 bytes", "1.5 kB", "27.3 MB", "2.59 GB"]
        );
    }
}
