//! A sweep as a page of a report: a table and a plot for each table of field case C.
//!
//! Must not be in here: HTML and SVG.

use ::bench::report::{Axis, Block, Page, Plot, Scale, Series, Table, Unit};

use super::{Row, Sweep, TOPICS, Tables, Topic, show};
use crate::bench::report::machine;

pub(super) fn page(options: &Sweep, tables: &Tables) -> Page {
    let lead = std::iter::once(show::about(options, tables)).chain(show::notes(tables));
    let filled = TOPICS.iter().zip(tables).filter(|(_, rows)| !rows.is_empty());
    Page {
        title: "Rates by the number of CPUs".into(),
        lead: lead.collect::<Vec<_>>().join(" "),
        figures: Vec::new(),
        facts: machine(),
        blocks: filled
            .flat_map(|(topic, rows)| [table(options, topic, rows), plot(options, topic, rows)])
            .collect(),
    }
}

fn table(options: &Sweep, topic: &Topic, rows: &[Row]) -> Block {
    Block::Table(Table {
        title: show::heading(topic),
        note: String::new(),
        columns: show::columns(options).map(String::from).to_vec(),
        rows: rows.iter().map(|row| show::cells(topic, row).to_vec()).collect(),
    })
}

fn plot(options: &Sweep, topic: &Topic, rows: &[Row]) -> Block {
    let points = rows.iter().map(|row| (row.cpus as f64, row.measurement.rate)).collect();
    let label = if options.url.is_some() { "CPUs of the generator" } else { "CPUs of the proxy" };
    Block::Plot(Plot {
        title: String::new(),
        note: String::new(),
        x: Axis { label: label.into(), unit: Unit::Count, scale: Scale::Doubling },
        y: Axis::linear(topic.unit, Unit::Count),
        series: vec![Series::line(topic.title, points)],
    })
}
