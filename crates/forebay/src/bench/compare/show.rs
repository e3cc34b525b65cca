//! Prints a comparison as text.
//!
//! Must not be in here: measuring, and conclusions.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::ratio::{MEASURES, Measure, failing_share};
use super::{Compare, Comparison};
use crate::bench::format::{counted, grouped, time};
use crate::bench::measure::Measurement;
use crate::bench::show::load;
use crate::doctor::show as findings;
use crate::language::Language;

/// Width of the column with names, and of the other columns.
const NAME: usize = 14;
const COLUMN: usize = 14;

pub(super) fn text(options: &Compare, comparison: &Comparison) -> String {
    let Comparison { direct, via, .. } = comparison;
    let mut text = format!("direct  {}\nvia     {}\n", options.direct, options.via);
    if let Some(objections) = objections(comparison) {
        let _ = writeln!(text, "\n{objections}\n");
    }
    let _ = writeln!(
        text,
        "{} of each way in {}\n",
        load(via.subject.plan(), via.measurement()),
        counted(options.rounds.into(), "round")
    );
    line(&mut text, "", &["direct", "via", "via/direct", "spread"].map(String::from));
    for measure in MEASURES {
        if let Some(cells) = cells(comparison, measure) {
            line(&mut text, measure.label, &cells);
        }
    }
    let failed = |way: &super::MeasuredTarget| grouped(way.measurement().errors.values().sum::<u64>() as f64);
    line(&mut text, "failed", &[failed(direct), failed(via), String::new(), String::new()]);
    let conclusion =
        if objections(comparison).is_some() { "not compared".to_owned() } else { conclusion(comparison) };
    let _ = writeln!(text, "\n{conclusion}\n");
    for finding in &comparison.explanations {
        findings::show(&mut text, finding, Language::En, findings::has_colour());
    }
    text
}

/// Why the two ways are not compared; none where they are.
fn objections(comparison: &Comparison) -> Option<String> {
    let Comparison { direct, via, .. } = comparison;
    let ways = [("direct", direct.measurement()), ("via", via.measurement())];
    let all: Vec<_> = ways.iter().filter_map(|(name, way)| objection(name, way)).collect();
    (!all.is_empty()).then(|| format!("{}. No ratio is computed above 1 %", all.join("; ")))
}

/// Why the figures of a way are not to be compared: the share of its requests that failed, and the kinds of
/// errors, the most frequent first. None where few failed.
fn objection(name: &str, way: &Measurement) -> Option<String> {
    let share = failing_share(way)?;
    let mut kinds: Vec<_> = way.errors.iter().collect();
    kinds.sort_by_key(|(_, count)| Reverse(**count));
    let kind =
        |(kind, count): (&String, &u64)| format!("{} of {}", grouped(*count as f64), kind.replace('_', " "));
    let kinds: Vec<_> = kinds.into_iter().map(kind).collect();
    let requests = grouped(way.requests as f64);
    Some(format!("{name}: {} of {requests} requests failed: {}", percent(share), kinds.join(", ")))
}

/// The share of the rate that is left, as a sentence.
pub(super) fn conclusion(comparison: &Comparison) -> String {
    let (direct, via) = (comparison.direct.measurement(), comparison.via.measurement());
    if let Some(objections) = objections(comparison) {
        return objections;
    }
    let Some(ratio) = comparison.ratios.all.get("rate") else {
        return "nothing was answered directly".into();
    };
    let spread = comparison
        .ratios
        .spread
        .get("rate")
        .map(|spread| format!(" ({} to {} by round)", percent(spread.min), percent(spread.max)));
    format!(
        "{} requests/s direct, {} via the proxy: {}{}",
        grouped(direct.rate.round()),
        grouped(via.rate.round()),
        percent(*ratio),
        spread.unwrap_or_default()
    )
}

/// A share in percent, with a decimal if it is small.
pub(super) fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// A ratio with about three digits.
pub(super) fn times(ratio: f64) -> String {
    let digits = match ratio {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 3,
    };
    format!("{ratio:.digits$}")
}

/// Both figures, their ratio and its spread; `None` if neither figure is above 0.
pub(super) fn cells(comparison: &Comparison, measure: &Measure) -> Option<[String; 4]> {
    let figures = [&comparison.direct, &comparison.via].map(|way| (measure.of)(way.measurement()));
    if figures.iter().all(|figure| figure.is_none_or(|figure| figure == 0.0)) {
        return None;
    }
    let show = |figure: Option<f64>| match figure {
        None => "-".to_owned(),
        Some(rate) if measure.key == "rate" => grouped(rate.round()),
        Some(micros) => time(micros),
    };
    let ratio = comparison.ratios.all.get(measure.key).map(|ratio| times(*ratio));
    let spread = comparison.ratios.spread.get(measure.key);
    let spread = spread.map(|spread| format!("{}..{}", times(spread.min), times(spread.max)));
    let [direct, via] = figures.map(show);
    Some([direct, via, ratio.unwrap_or_default(), spread.unwrap_or_default()])
}

fn line(text: &mut String, name: &str, cells: &[String; 4]) {
    let mut line = format!("  {name:<NAME$}");
    for cell in cells {
        let _ = write!(line, "{cell:>COLUMN$}");
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::fixture::measurement;

    #[test]
    fn a_way_that_fails_says_how() {
        let errors = [("status_503".to_owned(), 40), ("connect".to_owned(), 2), ("timeout".to_owned(), 8)];
        let way = Measurement { requests: 1000, errors: errors.into(), ..measurement(900.0, 1.0, None) };
        assert_eq!(
            objection("via", &way).unwrap(),
            "via: 5.0 % of 1,000 requests failed: 40 of status 503, 8 of timeout, 2 of connect"
        );
        assert_eq!(objection("direct", &measurement(900.0, 1.0, None)), None);
    }
}
