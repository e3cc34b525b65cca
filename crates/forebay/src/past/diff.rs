//! `forebay doctor diff`: what differs between two times, of one record or of two.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts, in which backticks would be printed")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use doctor::Verdict;
use doctor::past::{Comparison, compare};
use jiff::Zoned;
use serde::Serialize;

use super::show_diff;
use super::side::Side;
use super::source::Asked;
use super::when::{Range, rfc3339};
use crate::doctor::{exit_code, show};
use crate::language::Language;
use crate::output::{self, Format};

#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// First record: the folder of `serve --record`, or a file of `forebay record export` [default: that of
    /// the Forebay that --admin names].
    #[arg(value_name = "A")]
    first: Option<PathBuf>,
    /// Second record [default: the first one].
    #[arg(value_name = "B")]
    second: Option<PathBuf>,
    /// Time of the first record: 02:50..03:20, or -24h..-23h [default: all of it].
    #[arg(long, value_name = "SINCE..UNTIL", allow_hyphen_values = true)]
    a: Option<String>,
    /// Time of the second record: -1h..now.
    #[arg(long, value_name = "SINCE..UNTIL", allow_hyphen_values = true)]
    b: Option<String>,
    /// Admin server of the Forebay whose record is read.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10254", conflicts_with = "first")]
    admin: String,
    /// Number of figures that are shown.
    #[arg(long, value_name = "N", default_value_t = 20)]
    figures: usize,
    /// Form of the output.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value_t = Format::Text)]
    output: Format,
    /// Language of the text [default: that of LC_ALL, LC_MESSAGES or LANG if it is Chinese, else English].
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Option<Language>,
}

/// The time of one side, as JSON has it.
#[derive(Serialize)]
struct Time {
    from: Option<String>,
    until: Option<String>,
    samples: u64,
}

#[derive(Serialize)]
struct Page<'a> {
    a: Time,
    b: Time,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Compares, prints, and tells by the exit status whether the second time has worse findings.
pub(crate) fn run(options: &Diff) -> anyhow::Result<ExitCode> {
    let now = Zoned::now();
    let range =
        |text: &Option<String>| text.as_deref().map_or(Ok(Range::ALL), |text| Range::parse(text, &now));
    let (first_range, second_range) = (range(&options.a)?, range(&options.b)?);
    ensure!(
        options.second.is_some() || first_range != second_range,
        "two times of one record have to differ: --a and --b"
    );
    let asked =
        |path: &Option<PathBuf>, range| Asked { path: path.clone(), admin: options.admin.clone(), range };
    let second = options.second.as_ref().or(options.first.as_ref()).cloned();
    let a = Side::of(&asked(&options.first, first_range).open()?, first_range);
    let b = Side::of(&asked(&second, second_range).open()?, second_range);
    for (name, side) in [("first", &a), ("second", &b)] {
        ensure!(side.judged.windows > 0, "the {name} time has fewer than two samples");
    }
    let mut comparison = compare(a.compared(), b.compared());
    let changed = comparison.figures.len();
    comparison.figures.truncate(options.figures);
    let language = Language::chosen(options.lang);
    let text = match options.output {
        Format::Text => show_diff::text(&a, &b, &comparison, changed, language, show::has_colour()),
        Format::Json => {
            let page = Page { a: Time::of(&a), b: Time::of(&b), comparison: &comparison };
            serde_json::to_string_pretty(&page).expect("text and numbers") + "\n"
        }
    };
    output::print(&text)?;
    Ok(exit_code(worst(&comparison)))
}

/// The worst verdict that the second time has and the first has not.
fn worst(comparison: &Comparison) -> Verdict {
    let level = |held: &doctor::past::Held| held.worst.as_ref().map_or(Verdict::Ok, |found| found.verdict);
    let worse = comparison.checks.iter().filter(|change| level(&change.b) > level(&change.a));
    worse.map(|change| level(&change.b)).max().unwrap_or(Verdict::Ok)
}

impl Time {
    fn of(side: &Side) -> Time {
        Time {
            from: side.judged.from_ms.map(rfc3339),
            until: side.judged.until_ms.map(rfc3339),
            samples: side.judged.samples,
        }
    }
}
