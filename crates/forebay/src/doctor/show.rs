//! Prints findings by category, with their figures and remedies, in the style of `linkerd check`.

use std::fmt::Write;
use std::io::IsTerminal;

use control::legible;
use doctor::{Evidence, Finding, Value, Verdict};

use crate::output::shows_unicode;

/// Whether to use colours: standard output is a terminal, and NO_COLOR is not set (no-color.org).
pub(crate) fn has_colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

pub(crate) fn text<Name: AsRef<str>>(findings: &[Finding<Name>], colour: bool) -> String {
    let mut text = String::new();
    let mut category = "";
    for finding in findings {
        if finding.category.as_ref() != category {
            let gap = if category.is_empty() { "" } else { "\n" };
            category = finding.category.as_ref();
            let _ = writeln!(text, "{gap}{category}\n{}", "-".repeat(category.len()));
        }
        show(&mut text, finding, colour);
    }
    let _ = writeln!(text, "\n{}", summary(findings));
    text
}

/// Prints one finding, with its figures and its remedy.
pub(crate) fn show<Name: AsRef<str>>(text: &mut String, finding: &Finding<Name>, colour: bool) {
    let (sign, plain, paint) = match finding.verdict {
        Verdict::Ok => ("√", "ok", "32"),
        Verdict::Unknown => ("?", "?", "36"),
        Verdict::Warning => ("‼", "!", "33"),
        Verdict::Failure => ("×", "X", "31"),
    };
    let sign = if shows_unicode() { sign } else { plain };
    let sign = if colour { format!("\x1b[{paint};1m{sign}\x1b[0m") } else { sign.to_owned() };
    let _ = writeln!(text, "{sign} {}: {}", finding.id.as_ref(), legible::line(&finding.message));
    if finding.verdict <= Verdict::Unknown {
        return;
    }
    if finding.evidence.iter().next().is_some() {
        let _ = writeln!(text, "    evidence: {}", legible::line(&figures(&finding.evidence)));
    }
    for (index, line) in finding.remedy.lines().map(legible::line).enumerate() {
        let _ = writeln!(text, "    {} {line}", if index == 0 { "remedy:  " } else { "         " });
    }
    let _ = writeln!(text, "    see:      {}", finding.doc);
}

/// Prints one finding with its remedy, where what it is about has been told.
pub(crate) fn brief(text: &mut String, finding: &Finding, colour: bool) {
    let mut whole = String::new();
    show(&mut whole, finding, colour);
    let is_told = |line: &&str| !["    evidence:", "    see:"].iter().any(|head| line.starts_with(head));
    for line in whole.lines().filter(is_told) {
        let _ = writeln!(text, "  {line}");
    }
}

fn figures(evidence: &Evidence) -> String {
    let figures = evidence.iter().map(|(name, value)| format!("{name}={}", figure(value)));
    figures.collect::<Vec<_>>().join(" ")
}

/// A figure as a short text.
pub(crate) fn figure(value: &Value) -> String {
    match value {
        Value::Number(number) if number.fract() == 0.0 => format!("{number:.0}"),
        Value::Number(number) => format!("{number:.2}"),
        Value::Text(text) if text.contains(' ') => format!("{text:?}"),
        Value::Text(text) => text.clone(),
    }
}

fn summary<Name>(findings: &[Finding<Name>]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (failures, warnings, unknown) =
        (count(Verdict::Failure), count(Verdict::Warning), count(Verdict::Unknown));
    let mut parts = vec![format!("{} ok", count(Verdict::Ok))];
    parts.extend((failures > 0).then(|| format!("{failures} failed")));
    parts.extend((warnings > 0).then(|| format!("{warnings} warned")));
    parts.extend((unknown > 0).then(|| format!("{unknown} not checked")));
    format!("{} checks: {}", findings.len(), parts.join(", "))
}
