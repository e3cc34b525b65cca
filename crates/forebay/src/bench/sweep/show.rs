//! A sweep as text, and as the object of `--output json`.
//!
//! Must not be in here: measuring.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{Row, Sweep, TOPICS, Tables, Topic};
use crate::bench::format::{grouped, time};
use crate::bench::measure::Kind;

/// Width of a column.
const COLUMN: usize = 13;

/// The object of `--output json`.
pub(super) fn json(options: &Sweep, tables: &Tables) -> Value {
    let tables: Map<_, _> =
        TOPICS.iter().zip(tables).map(|(topic, rows)| (topic.key.to_owned(), json!(rows))).collect();
    json!({ "kind": "sweep", "cpus_of": cpus_of(options), "tables": tables })
}

pub(super) fn text(options: &Sweep, tables: &Tables) -> String {
    let mut text = format!("{}\n", about(options, tables));
    for (topic, rows) in TOPICS.iter().zip(tables).filter(|(_, rows)| !rows.is_empty()) {
        let _ = writeln!(text, "\n{}", heading(topic));
        let lines = std::iter::once(columns(options).map(String::from))
            .chain(rows.iter().map(|row| cells(topic, row)));
        for cells in lines {
            let mut line = String::new();
            for cell in &cells {
                let _ = write!(line, "{cell:>COLUMN$}");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    for note in notes(tables) {
        let _ = writeln!(text, "\n{note}");
    }
    text
}

/// A description of the sweep, in a sentence or two.
pub(super) fn about(options: &Sweep, tables: &Tables) -> String {
    let connections = options.load.connections;
    let seconds = options.load.duration.as_secs_f64();
    let load = format!("{connections} connections, {seconds} s each");
    if let Some(url) = &options.url {
        return format!(
            "{url} by the number of CPUs of the load generator; the proxy stays as it is. {load}."
        );
    }
    let shared = tables.iter().flatten().any(|row| row.shared == Some(true));
    let share = if shared { "; lines with * had no CPUs left for them, and all three share" } else { "" };
    format!(
        "Forebay by the number of its CPUs. Load generator and payload server run on the CPUs of this machine that are left{share}. {load}."
    )
}

/// The title of a table, with what was requested.
pub(super) fn heading(topic: &Topic) -> String {
    let size = match topic.path {
        "/0" => "no body",
        "/1m" => "1 MB",
        _ => "1 KB",
    };
    let tls = if topic.is_tls { ", TLS 1.2, RSA 2048, ECDHE-RSA-AES256-GCM-SHA384" } else { "" };
    let tls = if topic.kind == Kind::Tps { format!("{tls}, no resumption") } else { tls.to_owned() };
    format!("{} ({size}{tls})", topic.title)
}

/// The names of the columns.
pub(super) fn columns(options: &Sweep) -> [&'static str; 6] {
    let cpus = if cpus_of(options) == "proxy" { "CPUs" } else { "generator" };
    [cpus, "rate", "per CPU", "p50", "p99", "proxy used"]
}

/// A row's cells.
pub(super) fn cells(topic: &Topic, row: &Row) -> [String; 6] {
    let show =
        |rate: f64| if topic.kind == Kind::Throughput { format!("{rate:.2}") } else { grouped(rate.round()) };
    let star = if row.shared == Some(true) { "*" } else { "" };
    let us = row.measurement.latency_us;
    let used = row.proxy_cpus_used.map_or_else(|| "-".to_owned(), |used| format!("{used:.2}"));
    [
        format!("{star}{}", row.cpus),
        show(row.measurement.rate),
        show(row.measurement.rate / row.cpus as f64),
        time(us.p50),
        time(us.p99),
        used,
    ]
}

/// Notes that are needed to read the figures.
pub(super) fn notes(tables: &Tables) -> Vec<String> {
    let rows = || tables.iter().flatten();
    let mut notes = Vec::new();
    let limited = rows().any(|row| row.measurement.generator.limited && row.shared != Some(true));
    if limited {
        notes.push(
            "The load generator was the limit in some lines: the proxy can do more than they say.".to_owned(),
        );
    }
    let failed: u64 = rows().flat_map(|row| row.measurement.errors.values()).sum();
    if failed > 0 {
        notes.push(format!("{} requests failed.", grouped(failed as f64)));
    }
    notes
}

fn cpus_of(options: &Sweep) -> &'static str {
    if options.url.is_some() { "generator" } else { "proxy" }
}
