//! Figures as Markdown, which reads as well on a terminal.
//!
//! Must not be in here: measuring.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::figures::{Figure, Results};
use super::proxy::Peer;
use super::workload::Workload;

const BEGIN: &str = "<!-- peers: begin (written by `cargo xtask peers --write`) -->";
const END: &str = "<!-- peers: end -->";

/// One workload's table and goals.
pub(crate) fn section(workload: &Workload, results: &Results) -> String {
    let mut text = format!("### {}\n\n{}\n\n", workload.name, workload.what);
    text.push_str(&table(&rows(results)));
    text.push('\n');
    for goal in workload.goals {
        let verdict = match (goal.met)(results) {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        let _ = writeln!(text, "- {}: {verdict}", goal.what);
    }
    text
}

/// Puts `text` between the markers of the file, which is made where it is not there.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let page = fs::read_to_string(path).unwrap_or_else(|_| format!("# Performance\n\n{BEGIN}\n{END}\n"));
    let page = splice(&page, text).with_context(|| format!("{} lacks the line {BEGIN}", path.display()))?;
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn splice(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))
}

/// A heading row, then a row for each peer: its figures, and how it compares where CPU or rate is compared.
fn rows(results: &Results) -> Vec<Vec<String>> {
    let figures = results.figures();
    let compared = if figures.contains(&Figure::Cpu) { Figure::Cpu } else { Figure::Rate };
    let others: Vec<Peer> = [Peer::Direct, Peer::Relay, Peer::Nginx]
        .into_iter()
        .filter(|other| results.median(*other, compared).is_some())
        .collect();
    let mut heading = vec![String::new()];
    heading.extend(figures.iter().map(|figure| figure.heading().to_owned()));
    heading.extend(others.iter().map(|other| format!("{} / {}'s", compared.heading(), other.name())));
    let rows = results.peers().map(|peer| {
        let mut row = vec![peer.name().to_owned()];
        row.extend(figures.iter().map(|figure| {
            results.median(peer, *figure).map_or_else(|| "-".into(), |value| figure.show(value))
        }));
        row.extend(others.iter().map(|other| {
            results.ratio(peer, *other, compared).map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
        }));
        row
    });
    [heading].into_iter().chain(rows).collect()
}

/// A Markdown table whose columns line up.
fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0).max(3);
    let line = |row: &[String]| {
        let padded = |(column, cell): (usize, &String)| format!(" {cell:>0$} ", width(column));
        let cells: Vec<_> = row.iter().enumerate().map(padded).collect();
        format!("|{}|\n", cells.join("|"))
    };
    let rule: Vec<String> =
        (0..rows[0].len()).map(|column| format!("{}:", "-".repeat(width(column) - 1))).collect();
    let body: String = rows[1..].iter().map(|row| line(row)).collect();
    line(&rows[0]) + &line(&rule) + &body
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::workload::WORKLOADS;
    use super::*;

    fn keepalive() -> &'static Workload {
        WORKLOADS.iter().find(|workload| workload.name == "keepalive-64").expect("it is in the table")
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
        let text = section(keepalive(), &results());
        assert!(text.contains("| forebay |      20000 |           16.0 |"), "{text}");
        assert!(text.contains("1.07") && text.contains("0.80"), "{text}");
        assert!(text.contains("- CPU per request at most 0.80 of nginx's: met\n"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let text = section(keepalive(), &Results::default());
        assert!(text.contains("of nginx's: not measured\n"), "{text}");
    }

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(splice(&page, "new"), Some(format!("before\n{BEGIN}\n\nnew\n{END}\nafter\n")));
        assert_eq!(splice("no markers", "new"), None);
    }
}
