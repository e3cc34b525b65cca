//! The page of a case: its figures, its course over time, and the doctor's findings.
//!
//! Must not be in here: HTML and SVG, which are in the crate `bench`.

use bench::report::{Axis, Block, Figure, Note, Notes, Page, Plot, Series, Table, Tone, Unit};
use doctor::Verdict;

use super::cases::Loads;
use super::scene::{Sample, Scene};
use crate::bench::format::grouped;
use crate::bench::report;

/// Readings over which a rate is averaged: bursts are 90 ms apart.
const SMOOTH: usize = 5;

/// The page of what was played, with further blocks at its end.
pub(super) fn page(loads: &Loads, scenes: &[Scene], further: Vec<Block>) -> Page {
    let story = &loads.story;
    let plots = [
        plot("Answers a second", Unit::Count, scenes, |samples| rate(samples, |one| one.answered)),
        plot("Requests that failed, a second", Unit::Count, scenes, |samples| {
            rate(samples, |one| one.failed)
        }),
        plot("Connections opened to Pods, a second", Unit::Count, scenes, |samples| {
            rate(samples, |one| one.connections.opened)
        }),
        plot("Sockets in TIME_WAIT towards Pods", Unit::Count, scenes, |samples| {
            samples.iter().map(|one| (one.seconds, one.connections.time_wait as f64)).collect()
        }),
    ];
    let head = [Block::Table(table(loads, scenes)), Block::Notes(notes(scenes))];
    Page {
        title: story.title.into(),
        lead: format!("{} {}", story.lead.replace('\n', " "), story.conclusion),
        figures: scenes.iter().map(figure).collect(),
        facts: report::machine(),
        blocks: head.into_iter().chain(plots).chain(further).collect(),
    }
}

fn figure(scene: &Scene) -> Figure {
    Figure {
        name: scene.name.into(),
        value: format!("{}/s", grouped(scene.rate().round())),
        note: format!("{} failed", grouped(scene.failed() as f64)),
    }
}

fn table(loads: &Loads, scenes: &[Scene]) -> Table {
    let columns = [String::new()].into_iter().chain(loads.columns.iter().map(ToString::to_string));
    let row = |scene: &Scene| [scene.name.to_owned()].into_iter().chain((loads.cells)(scene)).collect();
    Table {
        title: "Figures".into(),
        note: String::new(),
        columns: columns.collect(),
        rows: scenes.iter().map(row).collect(),
    }
}

fn notes(scenes: &[Scene]) -> Notes {
    let of_scene = |scene: &Scene| {
        let note = |finding: &doctor::Finding| Note {
            tone: if finding.verdict == Verdict::Failure { Tone::Failure } else { Tone::Warning },
            mark: finding.id.into(),
            text: format!("{}: {}", scene.name, finding.message),
            evidence: Vec::new(),
            remedy: finding.remedy.clone(),
        };
        scene.findings.iter().map(note).collect::<Vec<_>>()
    };
    Notes {
        title: "What forebay doctor says".into(),
        none: "Nothing to do with the case.".into(),
        notes: scenes.iter().flat_map(of_scene).collect(),
    }
}

fn plot(title: &str, unit: Unit, scenes: &[Scene], points: fn(&[Sample]) -> Vec<(f64, f64)>) -> Block {
    Block::Plot(Plot {
        title: title.into(),
        note: String::new(),
        x: Axis::linear("seconds", Unit::Seconds),
        y: Axis::linear("", unit),
        series: scenes.iter().map(|scene| Series::line(scene.name, points(&scene.samples))).collect(),
    })
}

/// How fast a counter grew.
fn rate(samples: &[Sample], count: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let pairs = samples.windows(SMOOTH + 1).map(|window| (&window[0], &window[SMOOTH]));
    let grown = |(first, last): (&Sample, &Sample)| {
        let seconds = last.seconds - first.seconds;
        (last.seconds, (count(last) - count(first)) as f64 / seconds.max(f64::MIN_POSITIVE))
    };
    pairs.map(grown).collect()
}
