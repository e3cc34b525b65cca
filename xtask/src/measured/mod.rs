//! Names, findings and goals of all commands that measure, and the page that they write.
//!
//! Must not be in here: how anything is measured.

pub(crate) mod page;
mod setups;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use testkit::markdown::wrapped;

use crate::interrupt::Interrupt;
use page::Block;

/// The page to which `--write` adds the figures.
pub(crate) const PAGE: &str = "docs/figures.md";

/// The text in place of missing figures and verdicts.
pub(crate) const NOT_MEASURED: &str = "not measured";

/// Something that is measured.
pub(crate) trait Measured {
    /// The name in `--only` and in the heading.
    fn name(&self) -> &str;

    /// A sentence that describes it.
    fn what(&self) -> &str;
}

/// The table and the goals of a measurement.
#[derive(Default)]
pub(crate) struct Findings {
    /// A row of headings, and the others.
    pub(crate) table: Vec<Vec<String>>,
    /// Goals, and whether each is met; `None` where it was not measured.
    pub(crate) goals: Vec<(String, Option<bool>)>,
}

/// An error where one of these names is none of those that there are.
pub(crate) fn check_names<'a>(
    kind: &str,
    names: &[String],
    all: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let all: Vec<_> = all.collect();
    match names.iter().find(|name| !all.contains(&name.as_str())) {
        Some(unknown) => bail!("there is no {kind}{unknown}; there are: {}", all.join(", ")),
        None => Ok(()),
    }
}

/// The entries with these names; all entries where there are no names.
pub(crate) fn wanted<M: Measured>(all: &'static [M], only: &[String]) -> Result<Vec<&'static M>> {
    check_names("", only, all.iter().map(Measured::name))?;
    let is_wanted = |one: &&M| only.is_empty() || only.iter().any(|name| name == one.name());
    Ok(all.iter().filter(is_wanted).collect())
}

/// The option that leaves these out, for the command behind the figures.
pub(crate) fn without<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { String::new() } else { format!(" --without {}", names.join(" ")) }
}

/// Measures one after the other and prints what comes of it; `write` puts it into the page too. One that
/// fails does not keep the others from being measured. A goal that is not met is printed, not an error:
/// machines differ.
pub(crate) fn run<M: Measured>(
    all: &[&M],
    interrupt: &Interrupt,
    write: Option<&Block>,
    source: impl Fn(&M) -> String,
    mut measure: impl FnMut(&M) -> Result<Findings>,
) -> Result<ExitCode> {
    let mut failed = Vec::new();
    for one in all {
        eprintln!("{}: {}", one.name(), one.what());
        match measure(one) {
            Ok(findings) => {
                let text = findings.section(one.name(), one.what(), &source(one));
                println!("{text}");
                if let Some(block) = write {
                    block.write(Path::new(PAGE), one.name(), &text)?;
                }
            }
            Err(error) => {
                interrupt.check()?;
                eprintln!("error: {}: {error:#}", one.name());
                failed.push(one.name());
            }
        }
    }
    if failed.is_empty() { Ok(ExitCode::SUCCESS) } else { bail!("not measured: {}", failed.join(", ")) }
}

impl Findings {
    /// A table without rows, whose first column has their names.
    pub(crate) fn with(headings: impl IntoIterator<Item = impl Into<String>>) -> Findings {
        let headings = headings.into_iter().map(Into::into);
        Findings { table: vec![[String::new()].into_iter().chain(headings).collect()], ..Findings::default() }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, figures: Vec<String>) {
        let row: Vec<_> = [name.into()].into_iter().chain(figures).collect();
        debug_assert_eq!(row.len(), self.table[0].len());
        self.table.push(row);
    }

    /// Adds a column to a table of one row.
    pub(crate) fn figure(&mut self, heading: &str, value: String) {
        self.table.resize(2, Vec::new());
        self.table[0].push(heading.into());
        self.table[1].push(value);
    }

    pub(crate) fn goal(&mut self, what: impl Into<String>, met: bool) {
        self.goals.push((what.into(), Some(met)));
    }

    /// The section of the page.
    pub(crate) fn section(&self, name: &str, what: &str, source: &str) -> String {
        let mut text = format!("{}{name}\n\n{}\n\n{}\n", page::WORKLOAD, wrapped(what), table(&self.table));
        for (what, met) in &self.goals {
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "NOT MET",
                None => NOT_MEASURED,
            };
            let _ = writeln!(text, "{}", wrapped(&format!("- {what}: {verdict}")));
        }
        let _ = writeln!(text, "- {source}");
        text
    }
}

/// A Markdown table whose columns line up.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0).max(3);
    let line = |row: &[String]| {
        let padded = |(column, cell): (usize, &String)| format!(" {cell:>0$} ", width(column));
        let cells: Vec<_> = row.iter().enumerate().map(padded).collect();
        format!("|{}|\n", cells.join("|"))
    };
    let rule: Vec<String> =
        (0..rows[0].len()).map(|column| format!("{}:", "-".repeat(width(column) + 1))).collect();
    let body: String = rows[1..].iter().map(|row| line(row)).collect();
    line(&rows[0]) + &format!("|{}|\n", rule.join("|")) + &body
}

/// The value in the middle; `None` where there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_section_has_its_table_and_says_whether_goals_are_met() {
        let mut findings = Findings::default();
        findings.figure("failed", 3.to_string());
        findings.goal("0 failed", false);
        findings.goals.push(("fast".into(), None));
        let text = findings.section("a", "what", "here");
        let table = "| failed |\n|-------:|\n|      3 |";
        assert_eq!(
            text,
            format!("#### a\n\nwhat\n\n{table}\n\n- 0 failed: NOT MET\n- fast: not measured\n- here\n")
        );
        let mut findings = Findings::with(["goodput"]);
        findings.row("forebay", vec!["0.98".into()]);
        findings.goal("goodput at least 0.95", true);
        let text = findings.section("rush", "what", "here");
        assert!(text.contains("| forebay |    0.98 |\n"), "{text}");
        assert!(text.ends_with("- goodput at least 0.95: met\n- here\n"), "{text}");
    }
}
