//! The section of a workload: a row for each peer, and whether goals are met.
//!
//! Must not be in here: measuring.

use super::figures::{Figure, Results};
use super::proxy::Peer;
use super::workload::Workload;
use crate::measured::{Findings, NOT_MEASURED};

/// One workload's table and goals, who is not in it, and where the figures come from.
pub(crate) fn section(workload: &Workload, results: &Results, unmeasured: &[Peer], source: &str) -> String {
    let goals = workload.goals.iter().map(|goal| (goal.what.clone(), goal.is_met(results)));
    let findings = Findings { table: rows(results, unmeasured), goals: goals.collect() };
    findings.section(&workload.name, &workload.what, source)
}

/// A heading row, then a row for each peer: its figures, and how it compares where CPU or rate is compared.
/// A program that was to be measured and was not has no figures.
fn rows(results: &Results, unmeasured: &[Peer]) -> Vec<Vec<String>> {
    let figures: Vec<_> =
        results.figures().into_iter().filter(|figure| *figure != Figure::CpuSystem).collect();
    let comparisons = comparisons(results);
    let mut heading = vec![String::new()];
    heading.extend(figures.iter().map(|figure| figure.heading().to_owned()));
    heading.extend(
        comparisons.iter().map(|(figure, other)| format!("{} / {}'s", compared(*figure), other.name())),
    );
    if figures.is_empty() && !unmeasured.is_empty() {
        heading.push("figures".into());
    }
    let columns = heading.len();
    let mut peers: Vec<_> = results.peers().chain(unmeasured.iter().copied()).collect();
    peers.sort_unstable();
    let rows = peers.into_iter().map(|peer| {
        let mut row = vec![peer.name().to_owned()];
        if unmeasured.contains(&peer) {
            row.push(NOT_MEASURED.into());
            row.resize(columns, "-".into());
            return row;
        }
        row.extend(figures.iter().map(|figure| cell(results, peer, *figure)));
        row.extend(comparisons.iter().map(|(figure, other)| {
            results.ratio(peer, *other, *figure).map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
        }));
        row
    });
    [heading].into_iter().chain(rows).collect()
}

/// By which figure, and with whom: by CPU where it was measured, and with whom the goals name. Direct access
/// has no proxy whose CPU could be measured, so that it is compared by rate.
fn comparisons(results: &Results) -> Vec<(Figure, Peer)> {
    let has = |figure, peer| results.median(peer, figure).is_some();
    let compared = if results.figures().contains(&Figure::Cpu) { Figure::Cpu } else { Figure::Rate };
    let peer = if has(compared, Peer::Nginx) { Peer::Nginx } else { Peer::Haproxy };
    [(Figure::Rate, Peer::Direct), (compared, Peer::Relay), (compared, peer)]
        .into_iter()
        .filter(|(figure, other)| has(*figure, *other))
        .collect()
}

/// A peer's figure; user and system time share a cell.
fn cell(results: &Results, peer: Peer, figure: Figure) -> String {
    let shown = |figure: Figure| results.median(peer, figure).map(|value| figure.show(value));
    let shown = match (shown(figure), shown(Figure::CpuSystem)) {
        (Some(user), Some(system)) if figure == Figure::CpuUser => Some(format!("{user}/{system}")),
        (one, _) => one,
    };
    shown.unwrap_or_else(|| "-".into())
}

/// The figure in the heading of a ratio.
fn compared(figure: Figure) -> &'static str {
    if figure == Figure::Cpu { "CPU" } else { "rate" }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::workload;
    use super::*;

    fn keepalive() -> &'static Workload {
        workload::all().find(|workload| workload.name == "keepalive-64").expect("it is in the table")
    }

    fn results() -> Results {
        let mut results = Results::default();
        for (peer, cpu) in [(Peer::Relay, 15.0), (Peer::Nginx, 20.0), (Peer::Forebay, 16.0)] {
            results.add(peer, Figures::from([(Figure::Cpu, cpu), (Figure::Rate, 20_000.0)]));
        }
        results
    }

    #[test]
    fn a_section_compares_and_judges() {
        let text = section(keepalive(), &results(), &[], "here");
        assert!(text.contains("| forebay |      20000 |           16.0 |"), "{text}");
        assert!(text.contains("1.07") && text.contains("0.80"), "{text}");
        assert!(text.contains("- CPU per request at most 0.82 of nginx's: met\n"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let text = section(keepalive(), &Results::default(), &[], "here");
        assert!(text.contains("of nginx's: not measured\n"), "{text}");
    }
    #[test]
    fn a_peer_that_is_missing_is_named_in_its_place() {
        let text = section(keepalive(), &results(), &[Peer::Envoy], "here");
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with('|')).skip(2).collect();
        let names: Vec<_> = lines.iter().filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
        assert_eq!(names, ["relay", "nginx", "envoy", "forebay"]);
        let cells: Vec<_> =
            lines[2].split('|').skip(2).map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["not measured", "-", "-", "-"]);
        let text = section(keepalive(), &Results::default(), &[Peer::Envoy], "here");
        assert!(text.contains("\n| envoy | not measured |\n"), "{text}");
    }
}
