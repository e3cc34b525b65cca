//! The page with the figures of all workloads, of which a run replaces those that it measured.
//!
//! Must not be in here: what a section says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::workload::GROUPS;

const BEGIN: &str = "<!-- peers: begin (written by `cargo xtask peers --write`) -->";
const END: &str = "<!-- peers: end -->";

/// What a workload's heading begins with, and a group's.
pub(super) const WORKLOAD: &str = "#### ";
const GROUP: &str = "### ";

/// Puts a workload's section between the markers of the file, in place of its earlier one.
pub(super) fn write(path: &Path, name: &str, section: &str) -> Result<()> {
    let page = fs::read_to_string(path).unwrap_or_else(|_| format!("# Performance\n\n{BEGIN}\n{END}\n"));
    let page =
        splice(&page, name, section).with_context(|| format!("{} lacks the line {BEGIN}", path.display()))?;
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn splice(page: &str, name: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (figures, after) = rest.split_once(END)?;
    let mut sections = sections(figures);
    sections.insert(name, section.trim());
    Some(format!("{before}{BEGIN}\n\n{}{END}{after}", in_order(&sections)))
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

/// As the tables of workloads have them; what is in none of them was a workload once.
fn in_order(sections: &BTreeMap<&str, &str>) -> String {
    let groups = GROUPS.iter().map(|group| {
        let measured: Vec<_> = group.names().filter_map(|name| sections.get(name)).copied().collect();
        let text = measured.join("\n\n");
        if text.is_empty() { text } else { format!("{GROUP}{}\n\n{text}\n\n", group.title) }
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_replaced() {
        let page = format!("before\n{BEGIN}\n{END}\nafter\n");
        let page = splice(&page, "tls-new-rsa", "#### tls-new-rsa\n\nfirst\n").expect("markers");
        let page = splice(&page, "keepalive-64", "#### keepalive-64\n\nfirst\n").expect("markers");
        let page = splice(&page, "idle-tls", "#### idle-tls\n\nfirst\n").expect("markers");
        let page = splice(&page, "tls-new-rsa", "#### tls-new-rsa\n\nsecond\n").expect("markers");
        let expected = format!(
            "before\n{BEGIN}\n\n### HTTP/1 in the clear\n\n#### keepalive-64\n\nfirst\n\n\
             ### TLS, HTTP/2, gRPC and TCP\n\n#### tls-new-rsa\n\nsecond\n\n#### idle-tls\n\nfirst\n\n{END}\nafter\n"
        );
        assert_eq!(page, expected);
    }

    #[test]
    fn a_page_without_markers_is_left_alone() {
        assert_eq!(splice("no markers", "idle-tls", "#### idle-tls\n"), None);
    }

    #[test]
    fn what_is_no_workload_any_more_goes() {
        let page = format!("{BEGIN}\n\n#### old\n\nfigures\n\n{END}\n");
        let page = splice(&page, "idle-tls", "#### idle-tls\n").expect("markers");
        assert!(!page.contains("old") && page.contains("idle-tls"), "{page}");
    }
}
