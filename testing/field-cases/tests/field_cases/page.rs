//! A case's figures: printed, and put into docs/field-cases.md where that is wished.
//!
//! Must not be in here: measuring.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::{env, fs, thread};

use anyhow::{Context, Result};
use testkit::markdown::wrapped;

use crate::chinese;
use crate::measure;
use crate::stage::Stage;

/// Set to 1, figures go into the page. The variable is the same for every page that is made.
const WRITE: &str = "FOREBAY_WRITE_DOCS";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/field-cases.md");
/// The Chinese page has the figures, and its own words around them.
const PAGE_CHINESE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/zh-CN/field-cases.md");

/// The results of a case.
#[derive(Debug)]
pub(crate) struct Section {
    /// The action that was taken.
    what: &'static str,
    /// A row of headings, then a row for each scene.
    rows: Vec<Vec<String>>,
    /// The machine, where figures are its own.
    machine: Option<String>,
    /// The doctor's findings: scene, id and message.
    findings: Vec<[String; 3]>,
    /// Conclusions from the figures.
    notes: Vec<String>,
}

impl Section {
    pub(crate) fn new(what: &'static str, headings: &[&str]) -> Section {
        Section {
            what,
            rows: vec![headings.iter().map(|heading| (*heading).into()).collect()],
            machine: Some(machine()),
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Of other machines, which are named in what was done.
    pub(crate) fn of_others(what: &'static str, headings: &[&str]) -> Section {
        Section { machine: None, ..Section::new(what, headings) }
    }

    /// Adds a scene: its name, and a value for each of the other headings.
    pub(crate) fn row<const N: usize>(&mut self, values: [String; N]) {
        assert_eq!(values.len(), self.rows[0].len(), "a value for each heading");
        self.rows.push(values.into());
    }

    /// Adds what the doctor said.
    pub(crate) fn finding(&mut self, scene: &str, id: &str, message: &str) {
        self.findings.push([scene, id, message].map(Into::into));
    }

    /// The table and the machine, for the Chinese page.
    fn in_chinese(&self) -> String {
        let rows: Vec<Vec<_>> =
            self.rows.iter().map(|row| row.iter().map(|cell| chinese::cell(cell)).collect()).collect();
        let machine = self.machine.iter().map(|machine| format!("\n- {machine}\n"));
        table(&rows) + &machine.collect::<String>()
    }

    /// Adds what follows of the figures.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{}", wrapped(self.what), table(&self.rows))?;
        for [scene, id, message] in &self.findings {
            writeln!(f, "{}", wrapped(&format!("- {scene}, the doctor: `{id}`: {message}")))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{}", wrapped(&format!("- {note}"))))?;
        self.machine.iter().try_for_each(|machine| writeln!(f, "- {machine}"))
    }
}

/// The rate by `forebay bench rps` in the client's namespace, if it is for the page: it is meaningful only
/// where nothing else runs, and takes time.
pub(crate) fn rate(stage: &Stage, target: SocketAddr, connections: usize) -> Result<String> {
    if is_wished() {
        Ok(format!("{:.0}", measure::rate(stage, target, connections)?))
    } else {
        Ok("-".into())
    }
}

/// Whether figures go into the page, so that they are worth their time.
pub(crate) fn is_wished() -> bool {
    env::var_os(WRITE).is_some_and(|value| value == "1")
}

/// Puts the section between the case's markers, if that is wished.
pub(crate) fn write(case: &str, section: &Section) -> Result<()> {
    if !is_wished() {
        return Ok(());
    }
    put(Path::new(PAGE), case, &section.to_string())?;
    put(Path::new(PAGE_CHINESE), case, &section.in_chinese())
}

fn put(path: &Path, case: &str, text: &str) -> Result<()> {
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let page = splice(&page, case, text);
    let page = page.with_context(|| format!("{} has no markers for case {case}", path.display()))?;
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn splice(page: &str, case: &str, text: &str) -> Option<String> {
    let begin = format!("<!-- case {case}: begin (written by `make field-cases`) -->\n");
    let end = format!("<!-- case {case}: end -->");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{text}\n{end}{after}"))
}

/// A Markdown table whose columns line up.
fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let line = |row: &[String]| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if column == 0 { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") }
        });
        format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
    };
    let rule: Vec<String> = (0..rows[0].len())
        .map(|column| "-".repeat(width(column) + 1) + if column == 0 { "-" } else { ":" })
        .collect();
    let body: String = rows[1..].iter().map(|row| line(row)).collect();
    line(&rows[0]) + &format!("|{}|\n", rule.join("|")) + &body
}

/// CPU and kernel, in a few words.
fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown CPU");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("{model}, {cpus} CPUs for everything, Linux {}", kernel.trim())
}
