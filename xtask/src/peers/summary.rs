//! The table of docs/performance.md: one row per workload, one column per proxy, CPU per request divided by
//! nginx's. It is computed from the sections in docs/figures.md, whichever runs wrote them.
//!
//! Must not be in here: figures of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::figures::{CARRIED_AS_MUCH, Figure};
use super::proxy::Peer;
use crate::measured::page::{self, Block};
use crate::measured::table;

/// The columns: the proxies that people choose from, each in its current version.
const PEERS: [Peer; 7] =
    [Peer::Nginx, Peer::Haproxy, Peer::Envoy, Peer::Caddy, Peer::Traefik, Peer::Pingora, Peer::Forebay];

const PART: &str = "peers-summary";

/// The cell of a proxy without a figure.
const NOT_MEASURED: &str = "-";

/// The page of the sections, as the summary's page links to it.
const FIGURES: &str = "figures.md";

/// A workload in which nginx has a CPU time.
struct Row {
    name: &'static str,
    cells: Vec<String>,
    /// Machine, and nginx's version.
    origin: String,
}

/// Writes the table into the page, computed from the sections that are in the figures now.
pub(super) fn write(figures: &Path, path: &Path, block: &Block) -> Result<()> {
    let read =
        |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let page = summed_up(&read(figures)?, &read(path)?, block);
    let page = page
        .with_context(|| format!("{} or {} lacks the marker of a part", figures.display(), path.display()))?;
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The page with the table that belongs to the sections of the figures.
fn summed_up(figures: &str, page: &str, block: &Block) -> Option<String> {
    let rows: Vec<_> =
        block.sections(figures)?.into_iter().filter_map(|(name, text)| Row::of(name, &text)).collect();
    let (begin, end) = page::markers(PART, block.command);
    page::replaced(page, &begin, &end, &text(&rows, block.command))
}

fn text(rows: &[Row], command: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = ["workload"].into_iter().chain(PEERS.map(Peer::name)).map(str::to_owned).collect();
    let body = rows.iter().map(|row| [vec![row.link()], row.cells.clone()].concat());
    let lines: Vec<Vec<_>> = [heading].into_iter().chain(body).collect();
    let mut text = table(&lines) + "\n";
    let mut origins: Vec<&str> = Vec::new();
    for row in rows {
        if !origins.contains(&row.origin.as_str()) {
            origins.push(&row.origin);
        }
    }
    let names = |origin: &str| -> Vec<_> {
        rows.iter().filter(|row| row.origin == origin).map(|row| row.name).collect()
    };
    // The one that measured most of them is named last, without a list.
    origins.sort_by_key(|origin| names(origin).len());
    let last = origins.len() - 1;
    for (at, origin) in origins.iter().enumerate() {
        let which = match at {
            _ if at < last => format!(":\n  {}", names(origin).join(", ")),
            0 => String::new(),
            _ => ":\n  all others".to_owned(),
        };
        let _ = writeln!(text, "- `cargo xtask {command} --write`; {origin}{which}");
    }
    text.push('\n');
    text
}

impl Row {
    /// `None` where a request has no CPU time, or nginx none to compare with.
    fn of(name: &'static str, section: &str) -> Option<Row> {
        let mut lines = section.lines().filter(|line| line.starts_with('|')).map(cells);
        let heading = lines.next()?;
        let rows: Vec<_> = lines.skip(1).collect();
        let value = |peer: Peer, figure: Figure| -> Option<f64> {
            let column = heading.iter().position(|cell| *cell == figure.heading())?;
            rows.iter().find(|row| row.first() == Some(&peer.name()))?.get(column)?.parse().ok()
        };
        let ratio = |peer, figure| Some(value(peer, figure)? / value(Peer::Nginx, figure)?);
        ratio(Peer::Nginx, Figure::Cpu)?;
        let cell = |peer: Peer| {
            let cpu = ratio(peer, Figure::Cpu)?;
            let bound = match (value(peer, Figure::Rate), value(Peer::Nginx, Figure::Rate)) {
                (Some(rate), Some(nginx)) => bound(rate, nginx),
                _ => "",
            };
            Some(format!("{bound}{cpu:.2}"))
        };
        let cell = |peer| cell(peer).unwrap_or_else(|| NOT_MEASURED.into());
        Some(Row { name, cells: PEERS.map(cell).into(), origin: origin(section)? })
    }

    /// The name, as a link to its section in the figures.
    fn link(&self) -> String {
        let anchor: String =
            self.name.chars().filter(|one| one.is_ascii_alphanumeric() || *one == '-').collect();
        format!("[{}]({FIGURES}#{anchor})", self.name)
    }
}

/// A sign before a ratio where the two did not carry the same load: the one that carried less was never idle,
/// batched more, and looks better than it is. Rates are on the page without fractions, by which two may be
/// apart at most.
fn bound(rate: f64, nginx: f64) -> &'static str {
    let tolerance = (nginx * CARRIED_AS_MUCH).max(1.0);
    match rate - nginx {
        less if less < -tolerance => "> ",
        more if more > tolerance => "< ",
        _ => "",
    }
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The machine and nginx's version, of the section's last line: its command, the machine, versions.
fn origin(section: &str) -> Option<String> {
    let source = section.lines().rfind(|line| line.starts_with("- `cargo xtask "))?;
    let mut parts = source.split("; ").skip(1);
    let machine = parts.next()?;
    let nginx = parts.find(|part| part.starts_with("nginx/"));
    Some(nginx.map_or_else(|| machine.to_owned(), |nginx| format!("{machine}; {nginx}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = "FOREBAY_WRITE_DOCS";

    fn block() -> Block {
        Block { command: "peers", groups: vec![("First", vec!["a-1.3", "b", "c"])] }
    }

    fn figures() -> String {
        let section = |name: &str, rows: &str, machine: &str| {
            format!(
                "#### {name}\n\nwhat\n\n|   | requests/s | CPU us/request | p50 us |\n| --: | --: | --: | --: |\n{rows}\n\
                 - a goal: met\n- `cargo xtask peers --only {name} --rounds 3 --seconds 2`; {machine}; nginx/1.30.6; Envoy 1.40.0\n\n"
            )
        };
        let a = "|   nginx |  20000 |  30.0 | 9 |\n| envoy | 19990 | 45.0 | 9 |\n|   caddy | 15000 |  30.0 | 9 |\n\
                 | pingora | not measured | - | - |\n| forebay | 20000 | 15.0 | 9 |\n";
        let b = "| haproxy |  20000 |  30.0 | 9 |\n| forebay | 20000 | 15.0 | 9 |\n";
        let c = "|   nginx |      - |  10.0 | - |\n| forebay |     - | 12.5 | - |\n";
        let (first, last) = page::markers("peers", "peers");
        let sections =
            [section("a-1.3", a, "One CPU"), section("b", b, "One CPU"), section("c", c, "Other CPU")];
        format!("# Figures\n\n{first}\n\n### First\n\n{}{last}\n", sections.concat())
    }

    fn page() -> String {
        let (begin, end) = page::markers(PART, "peers");
        format!("# Top\n\n{begin}\n{end}\n")
    }

    #[test]
    fn every_workload_is_compared_with_nginx() {
        let page = summed_up(&figures(), &page(), &block()).expect("markers");
        let (begin, end) = page::markers(PART, "peers");
        let text = page.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).expect("a table").0;
        let lines: Vec<_> = text.trim().lines().collect();
        let heading = ["workload", "nginx", "haproxy", "envoy", "caddy", "traefik", "pingora", "forebay"];
        assert_eq!(cells(lines[0]), heading);
        let first = ["[a-1.3](figures.md#a-13)", "1.00", "-", "1.50", "> 1.00", "-", "-", "0.50"];
        assert_eq!(cells(lines[2]), first);
        assert_eq!(cells(lines[3]), ["[c](figures.md#c)", "1.00", "-", "-", "-", "-", "-", "1.25"]);
        let origins = [
            "- `cargo xtask peers --write`; One CPU; nginx/1.30.6:",
            "  a-1.3",
            "- `cargo xtask peers --write`; Other CPU; nginx/1.30.6:",
            "  all others",
        ];
        assert_eq!(lines[5..], origins);
        assert_eq!(summed_up(&figures(), &page, &block()), Some(page), "a second time changes nothing");
    }

    #[test]
    fn a_ratio_is_a_bound_where_one_carried_less() {
        assert_eq!(
            [bound(15_000.0, 20_000.0), bound(19_990.0, 20_000.0), bound(20_000.0, 15_000.0)],
            ["> ", "", "< "]
        );
        assert_eq!(bound(6.0, 5.0), "", "5.4 and 5.5, rounded");
    }

    #[test]
    fn one_machine_needs_no_list() {
        let figures = figures().replace("Other CPU", "One CPU");
        let page = summed_up(&figures, &page(), &block()).expect("markers");
        assert!(page.contains("\n- `cargo xtask peers --write`; One CPU; nginx/1.30.6\n\n<!--"), "{page}");
    }

    #[test]
    fn the_table_on_the_page_is_that_of_its_sections() {
        let file = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let (figures, path) = (file(crate::measured::PAGE), file(super::super::SUMMARY_PAGE));
        if std::env::var_os(WRITE).is_some() {
            write(&figures, &path, &super::super::block()).expect("the page is written");
        }
        let read = |path: &Path| fs::read_to_string(path).expect("the page");
        let page = read(&path);
        let is_up_to_date = summed_up(&read(&figures), &page, &super::super::block()).as_ref() == Some(&page);
        assert!(is_up_to_date, "{}: {WRITE}=1 cargo test -p xtask summary writes it", path.display());
    }
}
