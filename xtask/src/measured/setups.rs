//! Machine and versions behind the figures: many sections share them, so the page lists each combination
//! once, under a number.
//!
//! Must not be in here: what a section measures.

use std::fmt::Write as _;

use testkit::markdown::wrapped;

/// The begin of a group's heading.
pub(super) const GROUP: &str = "### ";
/// The beginning of a section's last line, which has the command, the machine and the versions.
const SOURCE: &str = "- `cargo xtask ";
const SETUP: &str = "setup ";
/// Behind the versions: the peers that this run could not measure.
const MISSING: &str = "; not measured: ";

/// The sections with a number in place of machine and versions, and the numbered list behind them.
pub(super) fn numbered(sections: &str, command: &str) -> String {
    let mut setups: Vec<&str> = Vec::new();
    let mut text = String::with_capacity(sections.len());
    for line in sections.lines() {
        let Some((measured, setup, missing)) = source(line) else {
            let _ = writeln!(text, "{line}");
            continue;
        };
        let known = setups.iter().position(|one| *one == setup);
        let number = known.unwrap_or_else(|| {
            setups.push(setup);
            setups.len() - 1
        });
        let _ = writeln!(text, "{measured}; {SETUP}{}{missing}", number + 1);
    }
    if !setups.is_empty() {
        let _ = writeln!(text, "{}\n", heading(command));
        for (index, setup) in setups.iter().enumerate() {
            let _ = writeln!(text, "{}", wrapped(&format!("{}. {setup}", index + 1)));
        }
        text.push('\n');
    }
    text
}

/// The reverse of [`numbered`]: sections with their machine and versions, without the list.
pub(super) fn expanded(sections: &str, command: &str) -> String {
    let Some((sections, list)) = sections.split_once(&heading(command)) else { return sections.to_owned() };
    let mut setups: Vec<String> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("   "), setups.last_mut()) {
            (Some(further), Some(setup)) => setup.extend([" ", further.trim_start()]),
            _ => setups.extend(line.split_once(". ").map(|(_, setup)| setup.to_owned())),
        }
    }
    let line = |line: &str| {
        let expanded = source(line).and_then(|(measured, setup, missing)| {
            let number: usize = setup.strip_prefix(SETUP)?.parse().ok()?;
            Some(format!("{measured}; {}{missing}\n", setups.get(number.checked_sub(1)?)?))
        });
        expanded.unwrap_or_else(|| format!("{line}\n"))
    };
    sections.lines().map(line).collect()
}

fn heading(command: &str) -> String {
    format!("{GROUP}Setups of `cargo xtask {command}`")
}

/// A section's last line: the command, machine and versions, and which peers are missing.
fn source(line: &str) -> Option<(&str, &str, &str)> {
    let (measured, setup) = line.starts_with(SOURCE).then(|| line.split_once("; "))??;
    let end = setup.find(MISSING).unwrap_or(setup.len());
    Some((measured, &setup[..end], &setup[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTIONS: &str = "### First\n\n#### a\n\n- `cargo xtask try --only a`; One CPU; nginx/1.30.6\n\n\
                            #### b\n\n- `cargo xtask try --only b`; Other CPU; not measured: envoy (no; wheel)\n\n\
                            #### c\n\n- `cargo xtask try --only c`; One CPU; nginx/1.30.6\n\n";

    #[test]
    fn each_setup_is_listed_once() {
        let text = numbered(SECTIONS, "try");
        let expected = "### First\n\n#### a\n\n- `cargo xtask try --only a`; setup 1\n\n\
                        #### b\n\n- `cargo xtask try --only b`; setup 2; not measured: envoy (no; wheel)\n\n\
                        #### c\n\n- `cargo xtask try --only c`; setup 1\n\n\
                        ### Setups of `cargo xtask try`\n\n1. One CPU; nginx/1.30.6\n2. Other CPU\n\n";
        assert_eq!(text, expected);
        assert_eq!(expanded(&text, "try"), SECTIONS);
    }

    #[test]
    fn a_long_setup_takes_several_lines() {
        let sections = format!("- `cargo xtask try`; {}\n", vec!["nginx/1.30.6"; 20].join("; "));
        let text = numbered(&sections, "try");
        assert!(text.lines().all(|line| line.len() <= 108), "{text}");
        assert_eq!(expanded(&text, "try"), sections);
    }

    #[test]
    fn sections_without_numbers_stay_as_they_are() {
        assert_eq!(expanded(SECTIONS, "try"), SECTIONS);
        assert_eq!(numbered("", "try"), "");
    }
}
