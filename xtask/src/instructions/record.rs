//! The file with the counts that were last agreed on.
//!
//! Must not be in here: how they are counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::callgrind::Counts;

/// Counts by scenario.
#[derive(Default)]
pub(super) struct Record(BTreeMap<String, Counts>);

const HEAD: &str = "\
# Instructions of a request in user space, by scenario and function, written by `cargo xtask instructions --write`.
# `make test` fails where a scenario needs 2 % more. Functions below one part in 200 are summed up.
";
/// The line for functions that are not worth a line of their own.
const OTHERS: &str = "(others)";

impl Record {
    /// An empty one where there is no file yet.
    pub(super) fn read(path: &Path) -> Result<Record> {
        if !path.exists() {
            return Ok(Record::default());
        }
        Self::parse(&fs::read_to_string(path)?).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Record> {
        let mut record = Record::default();
        let mut current = None;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some(line) = line.strip_prefix("  ") else {
                current = Some(record.0.entry(line.to_owned()).or_default());
                continue;
            };
            let counted =
                line.trim_start().split_once("  ").and_then(|(n, name)| Some((n.parse().ok()?, name)));
            match (&mut current, counted) {
                (Some(counts), Some((instructions, name))) => counts.add(name, instructions),
                _ => bail!("line {}: neither a scenario nor `INSTRUCTIONS  FUNCTION` of one", index + 1),
            }
        }
        Ok(record)
    }

    pub(super) fn get(&self, scenario: &str) -> Option<&Counts> {
        self.0.get(scenario)
    }

    pub(super) fn set(&mut self, scenario: &str, counts: Counts) {
        self.0.insert(scenario.to_owned(), counts);
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.text()).with_context(|| path.display().to_string())
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (scenario, counts) in &self.0 {
            let _ = writeln!(text, "\n{scenario}");
            let least = counts.total() / 200;
            let mut others = 0;
            for (name, instructions) in counts.functions() {
                if instructions < least || name == OTHERS {
                    others += instructions;
                } else {
                    let _ = writeln!(text, "  {instructions:>7}  {name}");
                }
            }
            let _ = writeln!(text, "  {others:>7}  {OTHERS}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut counts = Counts::default();
        counts.add("proxy::drive::serve", 9_000);
        counts.add("<wire::h1::Head as core::fmt::Debug>::fmt", 990);
        counts.add("small", 10);
        let mut record = Record::default();
        record.set("http1", counts);
        let text = record.text();
        assert!(!text.contains("small"), "{text}");
        let again = Record::parse(&text).expect("its own text");
        assert_eq!(again.get("http1").expect("the scenario").total(), 10_000);
        assert_eq!(again.text(), text);
    }

    #[test]
    fn what_is_no_count_is_refused_with_its_line() {
        let error = Record::parse("# head\nhttp1\n  many  proxy::serve\n").err().expect("an error");
        assert!(error.to_string().starts_with("line 3:"), "{error}");
        assert!(Record::parse("  12  function without a scenario\n").is_err());
    }
}
