//! Prints the judgement of a record: each finding with its begin and end, what changed before it, and its
//! remedy.
//!
//! Must not be in here: judgement.

use std::borrow::Cow;
use std::fmt::Write as _;

use control::legible;
use doctor::Verdict;
use doctor::past::Why;
use jiff::tz::TimeZone;

use super::changes::Happened;
use super::judge::{Found, Told};
use super::when::{length, local, local_with_date};
use super::words::{Words, kind_name};
use crate::doctor::show;
use crate::language::Language;

/// Most changes that are printed of one finding, and most events beside findings. JSON has more.
const EVENTS_MAX: usize = 8;

/// How a judgement is printed.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) language: Language,
    pub(crate) colour: bool,
    /// Whether findings that were there all the time, and brief warnings, are printed in full.
    pub(crate) all: bool,
    pub(crate) zone: TimeZone,
}

/// The worst verdict of the findings that are printed in full, or that were there all the time: what decides
/// the exit status.
pub(crate) fn exit_verdict(told: &Told, all: bool) -> Verdict {
    let counted = told.findings.iter().filter(|found| all || !found.is_brief());
    counted.map(|found| found.finding.verdict).max().unwrap_or(Verdict::Ok)
}

/// The judgement as text. A quiet record is one line.
pub(crate) fn text(told: &Told, manner: &Manner) -> String {
    if told.samples == 0 {
        return with_damage(nothing(manner.language), told, manner.language);
    }
    let is_shown = |found: &&Found| manner.all || !(found.is_constant() || found.is_brief());
    let shown: Vec<_> = told.findings.iter().filter(is_shown).collect();
    let head = format!("{}{}", span(told, manner), breaks(told, manner.language));
    let rest = left_out(told, manner);
    if shown.is_empty() && told.noticed.is_empty() {
        let quiet = match manner.language {
            Language::En => format!("{head}: quiet{rest}\n"),
            Language::Zh => format!("{head}：一切正常{rest}\n"),
        };
        return with_damage(quiet, told, manner.language);
    }
    let mut text = format!("{head}\n");
    for found in &shown {
        text.push('\n');
        one(&mut text, found, told, manner);
    }
    if !told.noticed.is_empty() {
        text.push('\n');
        events(&mut text, &told.noticed, Words::of(manner.language).noticed, told.from_ms, manner);
    }
    let _ = match manner.language {
        Language::En => writeln!(text, "\n{}{rest}", counted(shown.len(), "finding")),
        Language::Zh => writeln!(text, "\n{} 项发现{rest}", shown.len()),
    };
    with_damage(text, told, manner.language)
}

fn nothing(language: Language) -> String {
    match language {
        Language::En => "nothing is recorded of that time\n".to_owned(),
        Language::Zh => "这段时间没有记录\n".to_owned(),
    }
}

fn with_damage(mut text: String, told: &Told, language: Language) -> String {
    for damage in &told.damage {
        let damage = legible::line(damage);
        let _ = match language {
            Language::En => writeln!(text, "left out: {damage}"),
            Language::Zh => writeln!(text, "未读取：{damage}"),
        };
    }
    text
}

/// The time that was judged, and the number of samples.
fn span(told: &Told, manner: &Manner) -> String {
    let from = local_with_date(told.from_ms, &manner.zone);
    let until = local(told.until_ms, told.from_ms, &manner.zone);
    match manner.language {
        Language::En => format!("{from} to {until}, {}", counted(told.samples as usize, "sample")),
        Language::Zh => format!("{from} 至 {until}，{} 个样本", told.samples),
    }
}

fn breaks(told: &Told, language: Language) -> String {
    let count = |why| told.breaks.iter().filter(|one| one.why == why).count();
    let (restarts, gaps) = (count(Why::Restart), count(Why::Gap));
    let mut text = String::new();
    match language {
        Language::En => {
            if restarts > 0 {
                let _ = write!(text, ", {}", counted(restarts, "restart"));
            }
            if gaps > 0 {
                let _ = write!(text, ", {}", counted(gaps, "gap"));
            }
        }
        Language::Zh => {
            if restarts > 0 {
                let _ = write!(text, "，重启 {restarts} 次");
            }
            if gaps > 0 {
                let _ = write!(text, "，中断 {gaps} 次");
            }
        }
    }
    text
}

/// The findings that are only named.
fn left_out(told: &Told, manner: &Manner) -> String {
    if manner.all {
        return String::new();
    }
    let names = |choose: fn(&Found) -> bool| {
        let mut names: Vec<_> =
            told.findings.iter().filter(|found| choose(found)).map(|found| found.finding.id).collect();
        names.dedup();
        names.join(", ")
    };
    let constant = names(Found::is_constant);
    let brief = names(|found| found.is_brief() && !found.is_constant());
    let mut text = String::new();
    if !constant.is_empty() {
        let _ = match manner.language {
            Language::En => write!(text, "; all the time: {constant}"),
            Language::Zh => write!(text, "；始终存在：{constant}"),
        };
    }
    if !brief.is_empty() {
        let _ = match manner.language {
            Language::En => write!(text, "; for a moment: {brief}"),
            Language::Zh => write!(text, "；短暂出现：{brief}"),
        };
    }
    if !text.is_empty() {
        text.push_str(match manner.language {
            Language::En => " (--all shows them)",
            Language::Zh => "（--all 显示详情）",
        });
    }
    text
}

fn one(text: &mut String, found: &Found, told: &Told, manner: &Manner) {
    let words = Words::of(manner.language);
    let finding = &found.finding;
    let sign = show::sign(finding.verdict, manner.colour);
    let _ = writeln!(text, "{sign} {}  {}", finding.id, time(found, told, manner));
    let (message, remedy) = match manner.language {
        Language::Zh if !finding.zh.is_empty() => (&finding.zh.message, &finding.zh.remedy),
        _ => (&finding.message, &finding.remedy),
    };
    let _ = writeln!(text, "    {}", legible::line(message));
    if finding.evidence.iter().next().is_some() {
        let figures = show::figures(&finding.evidence);
        let at = local(found.worst_ms, found.began_ms, &manner.zone);
        let at = match manner.language {
            Language::En => format!(" (at its worst, {at})"),
            Language::Zh => format!("（最严重时，{at}）"),
        };
        let _ = writeln!(text, "    {}{}{at}", words.evidence, legible::line(&figures));
    }
    // The table of checks has it in English only; the message tells it in both languages.
    if manner.language == Language::En {
        let _ = writeln!(text, "    {}{}", words.cause, found.cause);
    }
    indented(text, words.remedy, remedy.lines().map(legible::line));
    changes(text, found, manner, &words);
    let _ = writeln!(text, "    {}{}", words.see, show::page(&finding.doc, manner.language));
}

/// From when to when, and for how long.
fn time(found: &Found, told: &Told, manner: &Manner) -> String {
    let began = local(found.began_ms, told.from_ms, &manner.zone);
    let ended = local(found.ended_ms, found.began_ms, &manner.zone);
    let lasted = length(found.ended_ms - found.began_ms);
    let pauses = found.pauses;
    match manner.language {
        Language::En => {
            let began = if found.began_before { format!("before {began}") } else { began };
            let ended = if found.goes_on { format!("{ended}, and goes on") } else { ended };
            let pauses =
                if pauses > 0 { format!(", {}", counted(pauses as usize, "pause")) } else { String::new() };
            format!("{began} to {ended} ({lasted}{pauses})")
        }
        Language::Zh => {
            let began = if found.began_before { format!("{began} 之前") } else { began };
            let ended = if found.goes_on { format!("{ended}，仍在持续") } else { ended };
            let pauses = if pauses > 0 { format!("，中断 {pauses} 次") } else { String::new() };
            format!("{began} 至 {ended}（{lasted}{pauses}）")
        }
    }
}

fn changes(text: &mut String, found: &Found, manner: &Manner, words: &Words) {
    if found.began_before {
        return;
    }
    if found.changed.is_empty() {
        let _ = writeln!(text, "    {}{}", words.before, words.nothing_changed);
        return;
    }
    events(text, &found.changed, words.before, found.began_ms, manner);
}

/// Events below each other, with their times as they are written beside another one.
fn events(text: &mut String, all: &[Happened], heading: &str, beside_ms: u64, manner: &Manner) {
    let mut lines: Vec<Cow<'_, str>> =
        all.iter().take(EVENTS_MAX).map(|one| change(one, beside_ms, manner).into()).collect();
    let more = all.len().saturating_sub(EVENTS_MAX);
    if more > 0 {
        lines.push(match manner.language {
            Language::En => format!("and {more} more").into(),
            Language::Zh => format!("另有 {more} 项").into(),
        });
    }
    indented(text, heading, lines.into_iter());
}

/// One change: its time, its kind, its object and what happened.
pub(super) fn change(one: &Happened, beside_ms: u64, manner: &Manner) -> String {
    let at = local(one.at_ms, beside_ms, &manner.zone);
    let mut line = format!("{at} {}", kind_name(&one.kind, manner.language));
    for part in [&one.object, &one.text] {
        if !part.is_empty() {
            let _ = write!(line, ": {}", legible::line(part));
        }
    }
    line
}

/// Lines below each other behind one heading.
fn indented<'a>(text: &mut String, heading: &str, lines: impl Iterator<Item = Cow<'a, str>>) {
    for (index, line) in lines.enumerate() {
        let _ = writeln!(text, "    {}{line}", if index == 0 { heading } else { "          " });
    }
}

/// A number of things.
pub(super) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use doctor::Sample;
    use doctor::past::Judge;
    use record::{Event, Recorder, kind};

    use super::super::judge::judge;
    use super::super::when::Range;
    use super::*;
    use crate::recorder::frame_of;

    /// 02:00 UTC on some day.
    const BEGIN_MS: u64 = 1_795_658_400_000;

    /// A record of half an hour, of a proxy whose endpoint closes each connection in these seconds.
    fn record(bad: std::ops::Range<u64>) -> record::Record {
        let recorder = Recorder::in_memory(1 << 20);
        let (mut opened, mut requests) = (0, 0);
        for second in (0..1800).step_by(10) {
            let mut sample = Sample::default();
            sample.taken.seconds = second as f64;
            let page = format!(
                "forebay_upstream_connections_opened_total{{endpoint=\"10.0.0.1:80\"}} {opened}\n\
                 forebay_upstream_requests_total{{endpoint=\"10.0.0.1:80\"}} {requests}\n"
            );
            sample.put("forebay/metrics", Ok(page));
            recorder.frame(&frame_of(&sample, BEGIN_MS + second * 1000, false)).unwrap();
            if second + 20 == bad.start {
                let at = BEGIN_MS + second * 1000 + 3000;
                let (kind, object) = (kind::CONFIGURATION.to_owned(), "Ingress shop/web".to_owned());
                let text = "changed\u{1b}[31m".to_owned();
                recorder.event(&Event { at, kind, object, text }).unwrap();
            }
            requests += 1000;
            opened += if bad.contains(&second) { 1000 } else { 0 };
        }
        recorder.record().unwrap()
    }

    fn told(bad: std::ops::Range<u64>, language: Language, all: bool) -> String {
        let manner = Manner { language, colour: false, all, zone: TimeZone::UTC };
        text(&judge(&record(bad), Range::ALL), &manner)
    }

    #[test]
    fn a_finding_has_its_time_its_cause_its_remedy_and_what_changed_before() {
        let told = told(600..720, Language::En, false);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[0], "2026-11-26 02:00:00 to 02:29:50, 180 samples", "{told}");
        assert!(lines[2].ends_with(" upstream-reuse  02:10:00 to 02:12:00 (2 min)"), "{told}");
        assert!(lines[3].contains("1.0 new upstream connection per request"), "{told}");
        assert!(lines[4].starts_with("    evidence: connections_per_second=100 "), "{told}");
        assert!(lines[5].starts_with("    cause:    a new connection to the upstream"), "{told}");
        assert!(lines[6].starts_with("    remedy:   endpoints close the connections"), "{told}");
        let change = "    before:   02:09:43 configuration: Ingress shop/web: changed\\u{1b}[31m";
        assert_eq!(lines[7], change, "{told}");
        assert_eq!(lines[8], "    see:      docs/doctor.md#upstream-reuse", "{told}");
        assert_eq!(lines[10], "1 finding", "{told}");
        let chinese = self::told(600..720, Language::Zh, false);
        assert!(chinese.contains("02:10:00 至 02:12:00（2 min）"), "{chinese}");
        assert!(chinese.contains("    此前：    02:09:43 配置: Ingress shop/web"), "{chinese}");
        assert!(chinese.ends_with("\n1 项发现\n"), "{chinese}");
    }

    #[test]
    fn a_quiet_record_is_one_line() {
        assert_eq!(told(0..0, Language::En, false), "2026-11-26 02:00:00 to 02:29:50, 180 samples: quiet\n");
        let constant = told(0..1800, Language::En, false);
        let end = "180 samples: quiet; all the time: upstream-reuse (--all shows them)\n";
        assert!(constant.ends_with(end), "{constant}");
        let all = told(0..1800, Language::En, true);
        assert!(all.contains("before 02:00:00 to 02:29:50, and goes on"), "{all}");
    }

    #[test]
    fn what_no_check_judges_is_listed() {
        let recorder = Recorder::in_memory(1 << 20);
        let sample = Sample::default();
        for second in [0, 10] {
            recorder.frame(&frame_of(&sample, BEGIN_MS + second * 1000, false)).unwrap();
        }
        for (kind, object, text) in [
            (kind::BAND_LEFT, "share of 5xx responses", "is 1.000; at this hour 0.000 is usual"),
            (kind::CONFIGURATION, "Ingress shop/web", "changed"),
            (kind::PANIC, "", "worker-0"),
            (kind::KILLED, "", "the process before ended without a stop"),
        ] {
            let event = Event {
                at: BEGIN_MS + 3000,
                kind: kind.to_owned(),
                object: object.to_owned(),
                text: text.to_owned(),
            };
            recorder.event(&event).unwrap();
        }
        let manner = Manner { language: Language::En, colour: false, all: false, zone: TimeZone::UTC };
        let told = text(&judge(&recorder.record().unwrap(), Range::ALL), &manner);
        let lines: Vec<_> = told.lines().collect();
        assert!(lines[0].starts_with("2026-11-26 02:00:00 to 02:00:10, 2 samples"), "{told}");
        let band = "02:00:03 band-left: share of 5xx responses: is 1.000; at this hour 0.000 is usual";
        assert_eq!(lines[2], format!("    noticed:  {band}"), "{told}");
        assert_eq!(lines[3], "              02:00:03 panic: worker-0", "{told}");
        let killed = "              02:00:03 killed: the process before ended without a stop";
        assert_eq!(lines[4..], [killed, "", "0 findings"], "{told}");
    }

    #[test]
    fn what_is_all_the_time_decides_the_exit_status_too() {
        let worst = |bad| exit_verdict(&judge(&record(bad), Range::ALL), false);
        assert_eq!(worst(0..0), Verdict::Ok);
        assert_eq!(worst(0..1800), Verdict::Failure);
        assert_eq!(worst(600..720), Verdict::Failure);
    }

    #[test]
    fn an_empty_time_says_so() {
        let record = record(0..0);
        let manner = Manner { language: Language::En, colour: false, all: false, zone: TimeZone::UTC };
        let range = Range { from_ms: 5, until_ms: 10 };
        assert_eq!(text(&judge(&record, range), &manner), "nothing is recorded of that time\n");
        assert_eq!(Judge::default().finish().samples, 0);
    }
}
