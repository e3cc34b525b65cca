//! The page with the figures of all workloads, of which a run replaces those that it measured.
//!
//! Must not be in here: what a section says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::setups::{self, GROUP};

/// A part of the page that a command writes.
pub(crate) struct Block {
    /// The command's name.
    pub(crate) command: &'static str,
    /// Titles of groups, with the names of their sections, in order.
    pub(crate) groups: Vec<(&'static str, Vec<&'static str>)>,
}

/// The begin of a workload's heading.
pub(crate) const WORKLOAD: &str = "#### ";

impl Block {
    /// Puts a section between the block's markers in the file, in place of its earlier one.
    pub(crate) fn write(&self, path: &Path, name: &str, section: &str) -> Result<()> {
        let (begin, end) = self.markers();
        let page = fs::read_to_string(path).unwrap_or_else(|_| format!("# Figures\n\n{begin}\n{end}\n"));
        let page = self.splice(&page, name, section);
        let page = page.with_context(|| format!("{} lacks the line {begin}", path.display()))?;
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The sections between the block's markers: by name, in order.
    pub(crate) fn sections(&self, page: &str) -> Option<Vec<(&'static str, String)>> {
        let (begin, end) = self.markers();
        let text = setups::expanded(between(page, &begin, &end)?, self.command);
        let figures = sections(&text);
        let names = self.groups.iter().flat_map(|(_, names)| names);
        Some(names.filter_map(|name| Some((*name, (*figures.get(name)?).to_owned()))).collect())
    }

    fn markers(&self) -> (String, String) {
        markers(self.command, self.command)
    }

    fn splice(&self, page: &str, name: &str, section: &str) -> Option<String> {
        let (begin, end) = self.markers();
        let text = setups::expanded(between(page, &begin, &end)?, self.command);
        let mut sections = sections(&text);
        sections.insert(name, section.trim());
        replaced(page, &begin, &end, &setups::numbered(&self.in_order(&sections), self.command))
    }

    /// As the groups have them; what is in none of them was measured once.
    fn in_order(&self, sections: &BTreeMap<&str, &str>) -> String {
        let groups = self.groups.iter().map(|(title, names)| {
            let measured: Vec<_> = names.iter().filter_map(|name| sections.get(name)).copied().collect();
            let text = measured.join("\n\n");
            if text.is_empty() { text } else { format!("{GROUP}{title}\n\n{text}\n\n") }
        });
        groups.collect()
    }
}

/// The lines before and behind a part of the page that `cargo xtask COMMAND --write` writes.
pub(crate) fn markers(part: &str, command: &str) -> (String, String) {
    (
        format!("<!-- {part}: begin (written by `cargo xtask {command} --write`) -->"),
        format!("<!-- {part}: end -->"),
    )
}

/// The text between two markers.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    Some(page.split_once(begin)?.1.split_once(end)?.0)
}

/// The page with another text between two markers; `None` where it lacks them.
pub(crate) fn replaced(page: &str, begin: &str, end: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{text}{end}{after}"))
}

/// The sections that are there, by workload.
fn sections(figures: &str) -> BTreeMap<&str, &str> {
    let mut sections = BTreeMap::new();
    let mut rest = figures;
    while let Some((start, name)) = heading(rest) {
        let section = &rest[start..];
        let end = section.match_indices('\n').map(|(at, _)| at + 1).find(|at| {
            let line = &section[*at..];
            line.starts_with(WORKLOAD) || line.starts_with(GROUP)
        });
        let (section, behind) = section.split_at(end.unwrap_or(section.len()));
        sections.insert(name, section.trim());
        rest = behind;
    }
    sections
}

/// Where the next workload's heading starts, and whose it is.
fn heading(text: &str) -> Option<(usize, &str)> {
    let start = text.find(&format!("\n{WORKLOAD}")).map(|at| at + 1);
    let start = if text.starts_with(WORKLOAD) { 0 } else { start? };
    let line = text[start..].lines().next()?;
    Some((start, line.strip_prefix(WORKLOAD)?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- try: begin (written by `cargo xtask try --write`) -->";
    const END: &str = "<!-- try: end -->";

    fn block() -> Block {
        Block { command: "try", groups: vec![("First", vec!["a"]), ("Second", vec!["b", "c"])] }
    }

    #[test]
    fn only_what_was_measured_is_replaced() {
        let page = format!("before\n{BEGIN}\n{END}\nafter\n");
        let page = block().splice(&page, "b", "#### b\n\nfirst\n").expect("markers");
        let page = block().splice(&page, "a", "#### a\n\nfirst\n").expect("markers");
        let page = block().splice(&page, "c", "#### c\n\nfirst\n").expect("markers");
        let page = block().splice(&page, "b", "#### b\n\nsecond\n").expect("markers");
        let expected = format!(
            "before\n{BEGIN}\n\n### First\n\n#### a\n\nfirst\n\n\
             ### Second\n\n#### b\n\nsecond\n\n#### c\n\nfirst\n\n{END}\nafter\n"
        );
        assert_eq!(page, expected);
    }

    #[test]
    fn a_page_without_markers_is_left_alone() {
        assert_eq!(block().splice("no markers", "a", "#### a\n"), None);
    }

    #[test]
    fn what_is_not_measured_any_more_goes() {
        let page = format!("{BEGIN}\n\n#### old\n\nfigures\n\n{END}\n");
        let page = block().splice(&page, "a", "#### a\n").expect("markers");
        assert!(!page.contains("old") && page.contains("#### a"), "{page}");
    }
}
