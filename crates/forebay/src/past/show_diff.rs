//! Prints the differences between two times.
//!
//! Must not be in here: comparing.

use std::fmt::Write as _;

use control::legible;
use doctor::past::{Change, CheckChange, Comparison, Held, Kind, Spread};
use doctor::{Finding, Verdict};
use jiff::tz::TimeZone;

use super::show::counted;
use super::side::Side;
use super::when::{local, local_with_date};
use crate::doctor::show;
use crate::language::Language;

/// The comparison as text. `changed` is the number of all figures that changed.
pub(super) fn text(
    a: &Side,
    b: &Side,
    comparison: &Comparison,
    changed: usize,
    language: Language,
    colour: bool,
) -> String {
    let mut text = format!("A: {}\nB: {}\n", span(a, language), span(b, language));
    let is_zh = language == Language::Zh;
    if comparison.checks.is_empty() {
        text.push_str(if is_zh {
            "\n两段时间的检查结果相同\n"
        } else {
            "\nthe checks find the same at both times\n"
        });
    }
    for change in &comparison.checks {
        text.push('\n');
        check(&mut text, change, language, colour);
    }
    if comparison.figures.is_empty() {
        text.push_str(if is_zh { "\n没有指标发生变化\n" } else { "\nno figure has changed\n" });
        return text;
    }
    text.push('\n');
    table(&mut text, &comparison.figures, language);
    let more = changed.saturating_sub(comparison.figures.len());
    if more > 0 {
        let _ = match language {
            Language::En => writeln!(text, "\nand {more} more that changed less (--figures)"),
            Language::Zh => writeln!(text, "\n另有 {more} 项指标变化较小（--figures）"),
        };
    }
    text
}

fn span(side: &Side, language: Language) -> String {
    let zone = TimeZone::system();
    let (from, until) = (side.judged.from_ms.unwrap_or_default(), side.judged.until_ms.unwrap_or_default());
    let (begin, end) = (local_with_date(from, &zone), local(until, from, &zone));
    match language {
        Language::En => format!("{begin} to {end}, {}", counted(side.judged.samples as usize, "sample")),
        Language::Zh => format!("{begin} 至 {end}，{} 个样本", side.judged.samples),
    }
}

fn check(text: &mut String, change: &CheckChange, language: Language, colour: bool) {
    let level = |held: &Held| held.worst.as_ref().map_or(Verdict::Ok, |finding| finding.verdict);
    let worse = level(&change.a).max(level(&change.b));
    let _ = writeln!(text, "{} {}", show::sign(worse, colour), change.id);
    for (name, held) in [("A", &change.a), ("B", &change.b)] {
        let _ = writeln!(text, "    {name}: {}", state(held, language));
    }
    if let Some(finding) = change.b.worst.as_ref().filter(|_| level(&change.b) > level(&change.a)) {
        let is_zh = language == Language::Zh && !finding.zh.is_empty();
        let remedy = if is_zh { &finding.zh.remedy } else { &finding.remedy };
        let heading = if language == Language::Zh { "处理：" } else { "remedy: " };
        for (index, line) in remedy.lines().map(legible::line).enumerate() {
            let _ = writeln!(text, "    {}{line}", if index == 0 { heading } else { "        " });
        }
    }
}

fn state(held: &Held, language: Language) -> String {
    let Some(finding) = &held.worst else {
        return if language == Language::Zh { "正常" } else { "ok" }.to_owned();
    };
    let share = held.share * 100.0;
    match language {
        Language::En => {
            format!("{}, {share:.0} % of the time: {}", finding.verdict.name(), message(finding, language))
        }
        Language::Zh => {
            let name = if finding.verdict == Verdict::Failure { "故障" } else { "警告" };
            format!("{name}，占 {share:.0} % 的时间：{}", message(finding, language))
        }
    }
}

fn message(finding: &Finding, language: Language) -> String {
    let is_zh = language == Language::Zh && !finding.zh.is_empty();
    legible::line(if is_zh { &finding.zh.message } else { &finding.message }).into_owned()
}

/// The figures in columns: usual and highest value at each time.
fn table(text: &mut String, figures: &[Change], language: Language) {
    let headings = match language {
        Language::En => ["FIGURE", "A", "B", "A PEAK", "B PEAK"],
        Language::Zh => ["指标", "A", "B", "A 峰值", "B 峰值"],
    };
    let cells = |change: &Change| {
        let value = |number: f64| value(number, change.kind);
        let Spread { median: a, high: a_high, .. } = change.a;
        let Spread { median: b, high: b_high, .. } = change.b;
        [legible::line(&change.name).into_owned(), value(a), value(b), value(a_high), value(b_high)]
    };
    let rows: Vec<[String; 5]> =
        std::iter::once(headings.map(str::to_owned)).chain(figures.iter().map(cells)).collect();
    let width = |column: usize| {
        rows.iter().map(|row| unicode_width::UnicodeWidthStr::width(row[column].as_str())).max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let pad = width - unicode_width::UnicodeWidthStr::width(cell.as_str());
            let _ = write!(line, "{cell}{}   ", " ".repeat(pad));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A value with three digits, and `/s` where it is a rate.
fn value(number: f64, kind: Kind) -> String {
    let unit = if kind == Kind::Rate { "/s" } else { "" };
    let digits = match number.abs() {
        0.0 => return format!("0{unit}"),
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_their_unit() {
        for (number, text) in
            [(0.0, "0/s"), (0.1234, "0.123/s"), (5.678, "5.68/s"), (56.78, "56.8/s"), (5678.9, "5679/s")]
        {
            assert_eq!(value(number, Kind::Rate), text);
        }
        assert_eq!(value(3.0, Kind::Gauge), "3.00");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let change = |name: &str, a: f64, b: f64| {
            let spread = |median| Spread { median, high: median * 2.0, deviation: 0.0 };
            Change { name: name.to_owned(), kind: Kind::Rate, a: spread(a), b: spread(b), score: 1.0 }
        };
        let mut text = String::new();
        table(&mut text, &[change("Tcp.ActiveOpens", 1.0, 500.0), change("x", 20.0, 30.0)], Language::En);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "FIGURE            A        B        A PEAK   B PEAK",
                "Tcp.ActiveOpens   1.00/s   500/s    2.00/s   1000/s",
                "x                 20.0/s   30.0/s   40.0/s   60.0/s",
            ]
        );
    }
}
