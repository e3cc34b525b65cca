//! A comparison as a page of a report.
//!
//! Must not be in here: HTML and SVG; conclusions.

use ::bench::report::{Block, Figure, Note, Notes, Page, Table, Tone};
use ::doctor::{Finding, Verdict};

use super::ratio::MEASURES;
use super::{Compare, Comparison, explain, show};
use crate::bench::format::grouped;
use crate::bench::measure::Kind;
use crate::bench::report::{counts, cpu, latency, machine, rates, sockets, time, times};
use crate::bench::show::load;
use crate::doctor::show::figure;

pub(super) fn page(options: &Compare, comparison: &Comparison) -> Page {
    let Comparison { direct, via, readings, samples, .. } = comparison;
    let both = [("direct", direct.measurement()), ("via", via.measurement())];
    let latencies = [("direct", &direct.measured.outcome.latency), ("via", &via.measured.outcome.latency)];
    Page {
        title: format!("What the way through {} costs", options.via),
        lead: format!("{}.", show::conclusion(comparison)),
        figures: figures(comparison),
        facts: facts(options, comparison),
        blocks: vec![
            Block::Notes(notes(&comparison.explanations)),
            Block::Table(ratios(options, comparison)),
            Block::Plot(latency(&latencies)),
            Block::Plot(rates(
                Kind::Rps,
                &[("direct", 0, &direct.windows), ("via", 1, &via.windows)],
                readings,
            )),
            Block::Plot(sockets(readings)),
            Block::Plot(cpu(readings, explain::cpu_of_proxy(samples).as_deref())),
            Block::Table(times(&both)),
            Block::Table(counts(&both)),
        ],
    }
}

fn figures(comparison: &Comparison) -> Vec<Figure> {
    let (direct, via) = (comparison.direct.measurement(), comparison.via.measurement());
    let times = |key: &str| {
        comparison
            .ratios
            .all
            .get(key)
            .map_or_else(|| "–".into(), |ratio| format!("{} ×", show::times(*ratio)))
    };
    let sides = |direct: String, via: String| format!("{direct} direct, {via} via");
    let failed: u64 = direct.errors.values().chain(via.errors.values()).sum();
    let figure = |name: &str, value: String, note: String| Figure { name: name.into(), value, note };
    let (fast, slow) = (direct.latency_us, via.latency_us);
    vec![
        figure(
            "rate that is left",
            comparison.ratios.all.get("rate").map_or_else(|| "–".into(), |ratio| show::percent(*ratio)),
            sides(grouped(direct.rate.round()), grouped(via.rate.round())),
        ),
        figure("latency, median", times("latency_p50"), sides(time(fast.p50), time(slow.p50))),
        figure("latency, 99 %", times("latency_p99"), sides(time(fast.p99), time(slow.p99))),
        figure(
            "failed",
            grouped(failed as f64),
            format!("of {} requests", grouped((direct.requests + via.requests) as f64)),
        ),
    ]
}

fn facts(options: &Compare, comparison: &Comparison) -> Vec<(String, String)> {
    let via = &comparison.via;
    let mut facts = vec![
        ("direct".into(), options.direct.clone()),
        ("via".into(), options.via.clone()),
        ("rounds of each way".into(), options.rounds.to_string()),
        ("load".into(), load(via.subject.plan(), via.measurement())),
    ];
    facts.extend(options.pid.map(|pid| ("process looked at".into(), pid.to_string())));
    facts.extend(options.metrics.clone().map(|url| ("metrics".into(), url)));
    facts.extend(machine());
    facts
}

fn ratios(options: &Compare, comparison: &Comparison) -> Table {
    let row = |measure| {
        let cells = show::cells(comparison, measure)?;
        Some(
            std::iter::once(measure.label.to_owned())
                .chain(cells.map(|cell| cell.replace("us", "µs")))
                .collect(),
        )
    };
    Table {
        title: "Side by side".into(),
        note: format!(
            "Phases are medians. The spread is the least and the greatest ratio of {} pairs of rounds.",
            options.rounds
        ),
        columns: ["", "direct", "via", "via / direct", "spread"].map(String::from).to_vec(),
        rows: MEASURES.iter().filter_map(row).collect(),
    }
}

fn notes(findings: &[Finding]) -> Notes {
    let (unseen, seen): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.verdict == Verdict::Unknown);
    let mut notes: Vec<_> = seen.into_iter().map(note).collect();
    if !unseen.is_empty() {
        notes.push(Note {
            tone: Tone::Plain,
            mark: Verdict::Unknown.name().into(),
            text: "Some of it could not be looked at.".into(),
            evidence: unseen.iter().map(|finding| (finding.id.to_owned(), finding.message.clone())).collect(),
            remedy: String::new(),
        });
    }
    Notes { title: "Why".into(), none: "Nothing was found.".into(), notes }
}

fn note(finding: &Finding) -> Note {
    Note {
        tone: match finding.verdict {
            Verdict::Ok | Verdict::Unknown => Tone::Plain,
            Verdict::Warning => Tone::Warning,
            Verdict::Failure => Tone::Failure,
        },
        mark: format!("{}: {}", finding.verdict.name(), finding.id),
        text: finding.message.clone(),
        evidence: finding
            .evidence
            .iter()
            .map(|(name, value)| (name.replace('_', " "), figure(value)))
            .collect(),
        remedy: finding.remedy.clone(),
    }
}
