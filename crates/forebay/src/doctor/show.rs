//! Prints findings by category, with their figures and remedies, in the style of `linkerd check`.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;

use control::legible;
use doctor::{Evidence, Finding, Value, Verdict};

use crate::language::Language;
use crate::output::shows_unicode;

/// Whether to use colours: standard output is a terminal, and NO_COLOR is not set (no-color.org).
pub(crate) fn has_colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// All findings by category, and how many there are of each verdict.
pub(crate) fn text<Name: AsRef<str>>(findings: &[Finding<Name>], language: Language, colour: bool) -> String {
    let mut text = String::new();
    let mut category = "";
    for finding in findings {
        if finding.category.as_ref() != category {
            let gap = if category.is_empty() { "" } else { "\n" };
            category = finding.category.as_ref();
            let heading = heading(category, language);
            let _ = writeln!(text, "{gap}{heading}\n{}", "-".repeat(columns(heading)));
        }
        show(&mut text, finding, language, colour);
    }
    let _ = writeln!(text, "\n{}", summary(findings, language));
    text
}

/// Prints one finding, with its figures and its remedy.
pub(crate) fn show<Name: AsRef<str>>(
    text: &mut String,
    finding: &Finding<Name>,
    language: Language,
    colour: bool,
) {
    let words = Words::of(language);
    let sign = sign(finding.verdict, colour);
    let (message, remedy) = told(finding, language);
    let _ = writeln!(text, "{sign} {}{}{}", finding.id.as_ref(), words.colon, legible::line(message));
    if finding.verdict <= Verdict::Unknown {
        return;
    }
    if finding.evidence.iter().next().is_some() {
        let _ = writeln!(text, "    {}{}", words.evidence, legible::line(&figures(&finding.evidence)));
    }
    for (index, line) in remedy.lines().map(legible::line).enumerate() {
        let _ = writeln!(text, "    {}{line}", if index == 0 { words.remedy } else { "          " });
    }
    let _ = writeln!(text, "    {}{}", words.see, page(&finding.doc, language));
}

/// The sign of a verdict.
pub(crate) fn sign(verdict: Verdict, colour: bool) -> String {
    let (sign, plain, paint) = match verdict {
        Verdict::Ok => ("√", "ok", "32"),
        Verdict::Unknown => ("?", "?", "36"),
        Verdict::Warning => ("‼", "!", "33"),
        Verdict::Failure => ("×", "X", "31"),
    };
    let sign = if shows_unicode() { sign } else { plain };
    if colour { format!("\x1b[{paint};1m{sign}\x1b[0m") } else { sign.to_owned() }
}

/// Prints one finding in English with its remedy, without its evidence and references.
pub(crate) fn brief(text: &mut String, finding: &Finding, colour: bool) {
    let mut whole = String::new();
    show(&mut whole, finding, Language::En, colour);
    let is_told = |line: &&str| !["    evidence:", "    see:"].iter().any(|head| line.starts_with(head));
    for line in whole.lines().filter(is_told) {
        let _ = writeln!(text, "  {line}");
    }
}

/// All figures in a line.
pub(crate) fn figures(evidence: &Evidence) -> String {
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

/// The words around findings, each with what stands between it and what follows.
struct Words {
    colon: &'static str,
    evidence: &'static str,
    remedy: &'static str,
    see: &'static str,
}

impl Words {
    const ENGLISH: Words =
        Words { colon: ": ", evidence: "evidence: ", remedy: "remedy:   ", see: "see:      " };
    const CHINESE: Words =
        Words { colon: "：", evidence: "数据：    ", remedy: "处理：    ", see: "详见：    " };

    const fn of(language: Language) -> Words {
        match language {
            Language::En => Words::ENGLISH,
            Language::Zh => Words::CHINESE,
        }
    }
}

/// The message and the remedy. They are English where the process that made the finding does not know the
/// language.
fn told<Name>(finding: &Finding<Name>, language: Language) -> (&str, &str) {
    if language == Language::Zh && !finding.zh.is_empty() {
        return (&finding.zh.message, &finding.zh.remedy);
    }
    (&finding.message, &finding.remedy)
}

/// The page that explains a finding. That of the doctor is there in Chinese, with the same headings.
pub(crate) fn page(doc: &str, language: Language) -> Cow<'_, str> {
    match (language, doc.strip_prefix("docs/doctor.md")) {
        (Language::Zh, Some(heading)) => format!("docs/zh-CN/doctor.md{heading}").into(),
        _ => doc.into(),
    }
}

/// The name of a category; as it is where it is not known.
fn heading(category: &str, language: Language) -> &str {
    if language == Language::En {
        return category;
    }
    match category {
        "connections" => "连接",
        "clients" => "客户端",
        "ports" => "端口",
        "queues" => "队列",
        "udp" => "UDP",
        "limits" => "上限",
        "traffic" => "流量",
        "cpu" => "CPU",
        "ipvs" => "IPVS",
        "network" => "网络",
        "kernel" => "内核",
        "guard" => "自我保护",
        other => other,
    }
}

/// The columns that a heading takes in a terminal, where a Chinese character takes two.
fn columns(heading: &str) -> usize {
    heading.chars().map(|character| if character.is_ascii() { 1 } else { 2 }).sum()
}

fn summary<Name>(findings: &[Finding<Name>], language: Language) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let failures = count(Verdict::Failure);
    let warnings = count(Verdict::Warning);
    let unknown = count(Verdict::Unknown);
    if language == Language::Zh {
        let mut parts = vec![format!("{} 项正常", count(Verdict::Ok))];
        parts.extend((failures > 0).then(|| format!("{failures} 项故障")));
        parts.extend((warnings > 0).then(|| format!("{warnings} 项警告")));
        parts.extend((unknown > 0).then(|| format!("{unknown} 项未检查")));
        return format!("{} 项检查：{}", findings.len(), parts.join("，"));
    }
    let mut parts = vec![format!("{} ok", count(Verdict::Ok))];
    parts.extend((failures > 0).then(|| format!("{failures} failed")));
    parts.extend((warnings > 0).then(|| format!("{warnings} warned")));
    parts.extend((unknown > 0).then(|| format!("{unknown} not checked")));
    format!("{} checks: {}", findings.len(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_chinese_name() {
        for check in doctor::all() {
            let named = heading(check.category, Language::Zh);
            assert_ne!(named, check.category);
            assert_eq!(heading(check.category, Language::En), check.category);
        }
        assert_eq!((columns("CPU"), columns("端口")), (3, 4));
    }

    #[test]
    fn every_check_has_a_heading_in_the_chinese_page() {
        let page = include_str!("../../../../docs/zh-CN/doctor.md");
        for check in doctor::all() {
            assert!(page.contains(&format!("\n### {}\n", check.id)), "{}", check.id);
        }
    }

    #[test]
    fn findings_are_told_in_chinese() {
        let mut ports: Finding<String> = serde_json::from_value(serde_json::json!({
            "id": "port-range", "category": "ports", "verdict": "failure", "message": "all are in use",
            "evidence": {"ports": 7}, "remedy": "more", "doc": "docs/doctor.md#port-range",
            "zh": {"message": "端口耗尽", "remedy": "更多端口"},
        }))
        .unwrap();
        let of = |finding: &Finding<String>| text(std::slice::from_ref(finding), Language::Zh, false);
        let told = of(&ports);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[..2], ["端口", "----"]);
        assert!(lines[2].ends_with(" port-range：端口耗尽"), "{told}");
        assert_eq!(
            lines[3..6],
            [
                "    数据：    ports=7",
                "    处理：    更多端口",
                "    详见：    docs/zh-CN/doctor.md#port-range",
            ]
        );
        assert_eq!(lines[7], "1 项检查：0 项正常，1 项故障");
        ports.zh = doctor::Translated::default();
        let told = of(&ports);
        assert!(told.contains("：all are in use\n") && told.contains("    处理：    more\n"), "{told}");
    }
}
