//! The report of `forebay check` as a page: three numbers, then by namespace, then what to do.
//!
//! Must not be in here: HTML, which is in the crate `bench`; conclusions.

use ::bench::report::{Block, Figure, Note, Notes, Page, Table, Tone};
use control::migration::{Look, Report, Use};
use control::outcome::Outcome;
use control::{Severity, Translation};
use jiff::Zoned;

use crate::version;

pub(super) fn page(translation: &Translation, report: &Report, now: &Zoned) -> Page {
    Page {
        title: "From ingress-nginx to Forebay".to_owned(),
        lead: format!("{}.", report.verdict()),
        figures: figures(report),
        facts: facts(report, now),
        blocks: vec![
            Block::Table(namespaces(report)),
            Block::Notes(to_do(report)),
            Block::Table(working(report)),
            Block::Notes(not_served(report)),
            Block::Notes(problems(translation)),
        ],
    }
}

fn figures(report: &Report) -> Vec<Figure> {
    let figure = |name: &str, count: usize| {
        let note = format!("of {} Ingresses", report.ingresses);
        Figure { name: name.to_owned(), value: count.to_string(), note }
    };
    vec![
        figure("behave as before", report.as_before()),
        figure("need a look", report.need_a_look.len()),
        figure("serve nothing, as before", report.not_served.len()),
    ]
}

fn facts(report: &Report, now: &Zoned) -> Vec<(String, String)> {
    let mut facts = vec![
        ("date".to_owned(), now.strftime("%Y-%m-%d %H:%M %Z").to_string()),
        ("forebay".to_owned(), version::RELEASE.to_owned()),
    ];
    if let Some(from) = &report.from {
        facts.push(("compared with".to_owned(), format!("ingress-nginx {}", from.version)));
        facts.push(("since".to_owned(), from.why.clone()));
    }
    let others = report.other_classes.iter().map(ToString::to_string);
    facts.extend(others.map(|class| ("not judged".to_owned(), class)));
    facts
}

fn namespaces(report: &Report) -> Table {
    let rows = report.namespaces.iter().map(|of| {
        let as_before = of.ingresses.saturating_sub(of.need_a_look + of.not_served);
        let counts = [of.ingresses, as_before, of.need_a_look, of.not_served];
        std::iter::once(of.namespace.clone()).chain(counts.map(|count| count.to_string())).collect()
    });
    let columns = ["namespace", "Ingresses", "as before", "need a look", "serve nothing"];
    Table {
        title: "By namespace".to_owned(),
        note: String::new(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// Settings first, since one of them may settle many Ingresses.
fn to_do(report: &Report) -> Notes {
    // The first line names the version to compare with, which is among the facts.
    let settings = report.advice().into_iter().skip(1).map(|line| note(Tone::Warning, "set", line));
    let uses = report.annotations.iter().chain(&report.keys).filter_map(of_use);
    Notes {
        title: "What to do".to_owned(),
        none: "Nothing: no setting is missing, and every annotation in use works.".to_owned(),
        notes: settings
            .chain(report.need_a_look.iter().map(|look| of_look(look, "look")))
            .chain(uses)
            .collect(),
    }
}

/// Annotations and keys that work need no note.
fn of_use(Use { name, outcome, count }: &Use) -> Option<Note> {
    let (tone, mark) = match outcome {
        Outcome::Works => return None,
        Outcome::WithoutEffect(_) => (Tone::Plain, "without effect"),
        Outcome::BadValue(_) => (Tone::Plain, "bad value, as before"),
        Outcome::Differs(_) => (Tone::Warning, "works in part"),
        Outcome::Closed(_) => (Tone::Failure, "closed"),
    };
    let used = vec![("used".to_owned(), count.to_string())];
    let text = outcome.to_string();
    let how = text.split_once(": ").map_or(text.as_str(), |(_, how)| how);
    Some(Note { evidence: used, ..note(tone, mark, format!("{name}: {how}")) })
}

fn of_look(look: &Look, mark: &str) -> Note {
    note(Tone::Warning, mark, format!("{}: {}", look.ingress, look.why.join("; ")))
}

fn working(report: &Report) -> Table {
    let works = |one: &&Use| one.outcome == Outcome::Works;
    let rows = report.annotations.iter().chain(&report.keys).filter(works);
    Table {
        title: "Annotations and ConfigMap keys that work as before".to_owned(),
        note: String::new(),
        columns: vec!["name".to_owned(), "used".to_owned()],
        rows: rows.map(|one| vec![one.name.to_owned(), one.count.to_string()]).collect(),
    }
}

fn not_served(report: &Report) -> Notes {
    let ingresses = report.not_served.iter().map(|look| of_look(look, "serves nothing"));
    let parts = report.left_out_before.iter().map(|part| note(Tone::Plain, "left out", part.clone()));
    Notes {
        title: "Left out by ingress-nginx as well".to_owned(),
        none: "Nothing.".to_owned(),
        notes: ingresses.chain(parts).collect(),
    }
}

fn problems(translation: &Translation) -> Notes {
    let notes = translation.problems.iter().map(|problem| {
        let tone = match problem.severity {
            Severity::Error => Tone::Failure,
            Severity::Warning => Tone::Warning,
            Severity::Notice => Tone::Plain,
        };
        note(tone, problem.severity.as_str(), problem.to_string())
    });
    Notes { title: "All problems and notices".to_owned(), none: "None.".to_owned(), notes: notes.collect() }
}

fn note(tone: Tone, mark: &str, text: String) -> Note {
    Note { tone, mark: mark.to_owned(), text, evidence: Vec::new(), remedy: String::new() }
}
