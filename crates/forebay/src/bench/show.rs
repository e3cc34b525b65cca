//! Prints a measurement as text that is aligned and needs no colour.
//!
//! Must not be in here: measuring.

use std::fmt::{Display, Write as _};

use ::bench::generator::{Latency, Outcome, Pace, Phases, Plan, Protocol};

use super::format::{bytes, counted, grouped, time};
use super::measure::{Kind, Measured, Measurement, Subject, micros};

/// Width of the column with names.
const NAME: usize = 13;
/// Width of a column with times.
const TIME: usize = 10;

/// The load, the result, and hints.
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

/// The load as a short text.
pub(crate) fn load(plan: &Plan, measurement: &Measurement) -> String {
    let connections = counted(plan.connections as u64, "connection");
    let reuse = if plan.requests_per_connection == Some(1) { "one request each" } else { "kept alive" };
    let protocol = match plan.protocol {
        Protocol::Http1 => "HTTP/1.1".to_owned(),
        Protocol::Http2 { streams } => format!("HTTP/2 with {}", counted(streams as u64, "stream")),
        Protocol::Http3 { streams } => format!("HTTP/3 with {}", counted(streams as u64, "stream")),
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

/// The unit of a kind's rate.
pub(crate) fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Rps => "requests/s",
        Kind::Tps => "TLS conn/s",
        Kind::Throughput => "Gbit/s",
    }
}

/// The rate of a measurement.
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

/// The resources that the generator used, and whether it was the limit.
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
        let waiting =
            if waited >= 1.0 { format!(", and waited for a CPU {waited:.0} %") } else { String::new() };
        let _ = writeln!(
            text,
            "\nwarning: the load generator was the limit: its {threads} ran {busy:.0} % of the time{waiting}.\n\
             What was measured can do more: use more --threads, CPUs or machines, or an open loop (--rate) below this."
        );
    }
}
