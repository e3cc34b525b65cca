//! Judges a record, and looks for what changed just before each finding.
//!
//! Must not be in here: printing.

use doctor::past::{Break, Episode, Judge};
use doctor::{Finding, Verdict};
use record::Record;
use serde::Serialize;

use super::changes::{self, Changes, Happened};
use super::sample;
use super::when::{Range, rfc3339};

/// The judgement of a record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    /// The time of the first sample, as RFC 3339; none where there is none in the range.
    pub(crate) from: Option<String>,
    /// The time of the last sample.
    pub(crate) until: Option<String>,
    #[serde(skip)]
    pub(crate) from_ms: u64,
    #[serde(skip)]
    pub(crate) until_ms: u64,
    /// Number of samples.
    pub(crate) samples: u64,
    /// Where samples were not compared: the process was another one, or was not there.
    pub(crate) breaks: Vec<Break>,
    /// Parts of the record that could not be read.
    pub(crate) damage: Vec<String>,
    /// The findings, in the order in which they began.
    pub(crate) findings: Vec<Found>,
    /// Panics, killed processes and values that left their bands, the oldest first.
    pub(crate) noticed: Vec<Happened>,
    /// Checks that had nothing to judge, with the reason.
    pub(crate) not_checked: Vec<(&'static str, String)>,
}

/// A finding with its time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Found {
    /// When it began, as RFC 3339: at or after this moment, and before the next sample.
    began: String,
    /// When it ended.
    ended: String,
    /// Whether it was there when the range began, so that it may have begun earlier.
    pub(crate) began_before: bool,
    /// Whether it was there when the range ended.
    pub(crate) goes_on: bool,
    /// Number of times that it was away, each for less than a minute.
    pub(crate) pauses: u64,
    /// When it was at its worst.
    worst: String,
    #[serde(skip)]
    pub(crate) began_ms: u64,
    #[serde(skip)]
    pub(crate) ended_ms: u64,
    #[serde(skip)]
    pub(crate) worst_ms: u64,
    /// Number of windows in which it was found.
    pub(crate) windows: u64,
    /// The cause in a few words.
    pub(crate) cause: &'static str,
    /// The finding at its worst.
    #[serde(flatten)]
    pub(crate) finding: Finding,
    /// The changes within five minutes before it began, the nearest first.
    pub(crate) changed: Vec<Happened>,
}

impl Found {
    /// Whether it was there all the time: in such a range nothing happened to it.
    pub(crate) fn is_constant(&self) -> bool {
        self.began_before && self.goes_on
    }

    /// Whether it is a warning of a single window.
    pub(crate) fn is_brief(&self) -> bool {
        self.windows <= 1 && self.finding.verdict == Verdict::Warning && !self.goes_on
    }
}

/// Judges the part of a record in a range.
pub(crate) fn judge(record: &Record, range: Range) -> Told {
    let mut judge = Judge::default();
    for frame in record.frames(range.from_ms..=range.until_ms) {
        judge.add(frame.at, sample::of_frame(frame));
    }
    let judged = judge.finish();
    let changes = Changes::of(record, range);
    let found = |episode: Episode| found(told_of(episode), &changes);
    Told {
        from: judged.from_ms.map(rfc3339),
        until: judged.until_ms.map(rfc3339),
        from_ms: judged.from_ms.unwrap_or_default(),
        until_ms: judged.until_ms.unwrap_or_default(),
        samples: judged.samples,
        breaks: judged.breaks,
        damage: record.damage().to_vec(),
        findings: judged.episodes.into_iter().map(found).collect(),
        noticed: changes::noticed(record, range),
        not_checked: judged.not_checked,
    }
}

/// An episode with the time that matters: a warning that was there before, such as that of a parameter, and
/// became a failure, is told by the time of the failure.
fn told_of(episode: Episode) -> Episode {
    match episode.failure {
        Some(failure) if episode.began_before && !failure.began_before => Episode {
            began_ms: failure.began_ms,
            ended_ms: failure.ended_ms,
            began_before: false,
            goes_on: failure.goes_on,
            ..episode
        },
        _ => episode,
    }
}

fn found(episode: Episode, changes: &Changes) -> Found {
    Found {
        began: rfc3339(episode.began_ms),
        ended: rfc3339(episode.ended_ms),
        began_before: episode.began_before,
        goes_on: episode.goes_on,
        pauses: episode.pauses,
        worst: rfc3339(episode.worst_ms),
        began_ms: episode.began_ms,
        ended_ms: episode.ended_ms,
        worst_ms: episode.worst_ms,
        windows: episode.windows,
        cause: doctor::all().find(|check| check.id == episode.id).map_or("", |check| check.what),
        changed: if episode.began_before { Vec::new() } else { changes.before(episode.began_ms) },
        finding: episode.worst,
    }
}
