//! The course of each check over time: when a finding began, when it ended, and how it stood at its worst.
//!
//! Must not be in here: printing.

use std::sync::Arc;

use serde::Serialize;

use super::window::{Break, Moment, Window};
use crate::check::Check;
use crate::finding::{Finding, Value, Verdict};
use crate::sample::Sample;
use crate::table::all;

/// A pause, in milliseconds, after which a finding that comes back is another one.
const PAUSE_MS: u64 = 60_000;

/// Judges samples in the order in which they were taken.
pub struct Judge {
    window: Window,
    courses: Vec<Course>,
    judged: Judged,
}

/// The judgement of a time.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    /// The time of the first sample, in milliseconds since 1970; none where there is no sample.
    pub from_ms: Option<u64>,
    /// The time of the last sample.
    pub until_ms: Option<u64>,
    /// Number of samples.
    pub samples: u64,
    /// Number of windows that were judged.
    pub windows: u64,
    /// Where samples were not compared with those before them.
    pub breaks: Vec<Break>,
    /// The findings, in the order in which they began.
    pub episodes: Vec<Episode>,
    /// The checks that had nothing to judge in any window, with the reason of the last one.
    pub not_checked: Vec<(&'static str, String)>,
}

/// A time for which a check found something.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Episode {
    /// The check's name.
    pub id: &'static str,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// Whether it was there in the first window already, so that it may have begun earlier.
    pub began_before: bool,
    /// Whether it was there in the last window still.
    pub goes_on: bool,
    /// Number of windows in which it was found.
    pub windows: u64,
    /// Number of times that it was away, each for less than a minute.
    pub pauses: u64,
    /// The part of the time in which it was a failure and not only a warning.
    pub failure: Option<Failed>,
    /// The finding at its worst.
    pub worst: Finding,
    /// The end of the window with the worst finding.
    pub worst_ms: u64,
}

/// The time of an episode from its first failure to its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// When it became a failure, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it was one no more.
    pub ended_ms: u64,
    /// Whether it was one in the first window already.
    pub began_before: bool,
    /// Whether it was one in the last window.
    pub goes_on: bool,
}

/// A check, and what it has found up to now.
struct Course {
    check: &'static Check,
    /// The episode that may go on.
    open: Option<Episode>,
    /// Whether the latest window had the finding.
    is_bad: bool,
    /// The end of the last two samples for which it found something by themselves, since the finding began;
    /// none where it takes a longer window.
    bad_pair_ms: Option<u64>,
    /// Whether it has judged a window.
    has_judged: bool,
    /// Why it could not judge the latest window for which that is so; empty if there was none.
    unknown: String,
}

impl Default for Judge {
    fn default() -> Judge {
        let course = |check| Course {
            check,
            open: None,
            is_bad: false,
            bad_pair_ms: None,
            has_judged: false,
            unknown: String::new(),
        };
        Judge { window: Window::default(), courses: all().map(course).collect(), judged: Judged::default() }
    }
}

impl Judge {
    /// Judges the next sample, taken at this time in milliseconds since 1970.
    pub fn add(&mut self, at_ms: u64, sample: Sample) {
        self.judged.from_ms.get_or_insert(at_ms);
        self.judged.until_ms = Some(at_ms);
        self.judged.samples += 1;
        let ended = self.window.add(Moment { at_ms, sample: Arc::new(sample) });
        if let Some(found) = ended {
            for course in &mut self.courses {
                course.is_bad = false;
            }
            self.judged.breaks.push(found);
        }
        let Some(samples) = self.window.samples() else { return };
        let is_first = self.judged.windows == 0;
        self.judged.windows += 1;
        for course in &mut self.courses {
            let finding = course.check.examine(&samples);
            let ended = course.note(finding, at_ms, &self.window, is_first);
            self.judged.episodes.extend(ended);
        }
    }

    /// The judgement of all samples.
    pub fn finish(self) -> Judged {
        let Judge { courses, mut judged, .. } = self;
        for course in courses {
            let Course { check, open, is_bad, has_judged, unknown, .. } = course;
            if let Some(mut episode) = open {
                episode.goes_on = is_bad;
                judged.episodes.push(episode);
            }
            if !has_judged && !unknown.is_empty() {
                judged.not_checked.push((check.id, unknown));
            }
        }
        judged.episodes.sort_by_key(|episode| episode.began_ms);
        judged
    }
}

impl Course {
    /// Takes the finding of the latest window. Returns the episode that is over by now.
    fn note(&mut self, finding: Finding, at_ms: u64, window: &Window, is_first: bool) -> Option<Episode> {
        if finding.verdict == Verdict::Unknown {
            self.unknown.clone_from(&finding.message);
        } else {
            self.has_judged = true;
        }
        let verdict = finding.verdict;
        let was_bad = self.is_bad;
        self.is_bad = finding.verdict > Verdict::Unknown;
        if !self.is_bad {
            if was_bad && let Some(episode) = &mut self.open {
                episode.ended_ms = self.bad_pair_ms.unwrap_or(episode.ended_ms).max(episode.began_ms);
                if let Some(failure) = &mut episode.failure {
                    failure.goes_on = false;
                }
            }
            let is_over = self.open.as_ref().is_some_and(|open| at_ms > open.ended_ms + PAUSE_MS);
            return if is_over { self.open.take() } else { None };
        }
        let over = match &mut self.open {
            Some(open) if was_bad || at_ms <= open.ended_ms + PAUSE_MS => {
                open.pauses += u64::from(!was_bad);
                None
            }
            open => open.take(),
        };
        if over.is_some() || self.open.is_none() {
            self.bad_pair_ms = None;
        }
        self.bad_pair_ms = if self.check.is_unknown_now(window) {
            Some(at_ms)
        } else {
            self.check.bad_pairs(window).next_back().map(|(_, until)| until).or(self.bad_pair_ms)
        };
        match &mut self.open {
            Some(open) => {
                open.windows += 1;
                open.ended_ms = at_ms;
                if is_worse(&finding, &open.worst) {
                    (open.worst, open.worst_ms) = (finding, at_ms);
                }
            }
            open => {
                let begin = self.check.bad_pairs(window).next().map(|(from, _)| from);
                *open = Some(Episode {
                    id: self.check.id,
                    began_ms: begin.or(window.before_last_ms()).unwrap_or(at_ms),
                    ended_ms: at_ms,
                    began_before: is_first,
                    goes_on: false,
                    windows: 1,
                    pauses: 0,
                    failure: None,
                    worst: finding,
                    worst_ms: at_ms,
                });
            }
        }
        if let Some(open) = &mut self.open {
            open.note_failure(self.check, verdict, at_ms, window, is_first);
        }
        over
    }
}

impl Episode {
    /// Notes whether the latest window had a failure.
    fn note_failure(&mut self, check: &Check, verdict: Verdict, at_ms: u64, window: &Window, is_first: bool) {
        if verdict < Verdict::Failure {
            if let Some(failure) = &mut self.failure {
                failure.goes_on = false;
            }
            return;
        }
        let mut pairs = check.pairs_of(window, Verdict::Failure);
        let last = pairs.next_back();
        let ended_ms = last.map_or(at_ms, |(_, until)| until);
        if let Some(failure) = &mut self.failure {
            failure.ended_ms = failure.ended_ms.max(ended_ms);
            failure.goes_on = true;
            return;
        }
        let first = pairs.next().or(last).map(|(from, _)| from);
        let began_ms = first.or(window.before_last_ms()).unwrap_or(at_ms);
        self.failure = Some(Failed { began_ms, ended_ms, began_before: is_first, goes_on: true });
    }
}

impl Check {
    /// The pairs of samples for which this check finds something by themselves: a window of several says less
    /// exactly when it began and ended.
    fn bad_pairs<'a>(&'a self, window: &'a Window) -> impl DoubleEndedIterator<Item = (u64, u64)> + 'a {
        self.pairs_of(window, Verdict::Warning)
    }

    /// Whether the last two samples by themselves are too little to judge: the window decides then.
    fn is_unknown_now(&self, window: &Window) -> bool {
        window.pairs().next_back().is_some_and(|(.., now)| self.examine(&now).verdict == Verdict::Unknown)
    }

    /// The pairs of samples for which it is at least as bad.
    fn pairs_of<'a>(
        &'a self,
        window: &'a Window,
        verdict: Verdict,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> + 'a {
        let is_bad = move |samples| self.examine(&samples).verdict >= verdict;
        window.pairs().filter_map(move |(from, until, samples)| is_bad(samples).then_some((from, until)))
    }
}

/// Whether a finding is worse than another one of the same check: by its verdict, or else by its first figure
/// that is a number. Evidence begins with the figure that the verdict depends on.
fn is_worse(finding: &Finding, than: &Finding) -> bool {
    let figure = |finding: &Finding| {
        finding.evidence.iter().find_map(|(_, value)| match value {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        })
    };
    match finding.verdict.cmp(&than.verdict) {
        std::cmp::Ordering::Equal => figure(finding) > figure(than),
        ordering => ordering.is_gt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of a proxy that has opened so many connections for its requests by now.
    fn sample(seconds: u64, opened: u64, requests: u64) -> Sample {
        let mut sample = Sample::default();
        sample.taken.seconds = seconds as f64;
        let page = format!(
            "forebay_upstream_connections_opened_total{{endpoint=\"10.0.0.1:80\"}} {opened}\n\
             forebay_upstream_requests_total{{endpoint=\"10.0.0.1:80\"}} {requests}\n"
        );
        sample.put("forebay/metrics", Ok(page));
        sample
    }

    /// Judges samples every so many seconds, of 100 requests a second, of which each opens a connection in
    /// the given times.
    fn judged(every: u64, seconds: u64, bad: &[(u64, u64)]) -> Judged {
        let (mut judge, mut opened) = (Judge::default(), 0);
        for second in 0..=seconds {
            if second.is_multiple_of(every) {
                judge.add(1_000_000 + second * 1000, sample(second, opened, second * 100));
            }
            let is_bad = bad.iter().any(|(from, until)| (*from..*until).contains(&second));
            opened += if is_bad { 100 } else { 0 };
        }
        judge.finish()
    }

    fn times(judged: &Judged) -> Vec<(u64, u64)> {
        let reuse = judged.episodes.iter().filter(|episode| episode.id == "upstream-reuse");
        reuse
            .map(|episode| ((episode.began_ms - 1_000_000) / 1000, (episode.ended_ms - 1_000_000) / 1000))
            .collect()
    }

    #[test]
    fn a_finding_has_its_begin_and_end_within_one_sample() {
        for every in [1, 2, 10] {
            let judged = judged(every, 600, &[(203, 323)]);
            let [(began, ended)] = times(&judged)[..] else { panic!("{judged:#?}") };
            assert!((203 - every..=203).contains(&began), "each {every} s: began at {began}");
            assert!((323..=323 + every).contains(&ended), "each {every} s: ended at {ended}");
            let [episode] = &judged.episodes[..] else { panic!("{judged:#?}") };
            assert!(!episode.began_before && !episode.goes_on && episode.pauses == 0);
            assert_eq!(episode.worst.verdict, Verdict::Failure);
            assert_eq!(episode.worst.evidence.get("connections_per_request"), Some(&Value::Number(1.0)));
            assert!(!episode.worst.remedy.is_empty() && !episode.worst.zh.is_empty());
        }
    }

    #[test]
    fn the_end_is_not_that_of_the_last_window_which_had_some_of_it() {
        let mut judge = Judge::default();
        // 40 of 100 requests a second open a connection in between: four times what is noticed.
        for half in 0..=80_u64 {
            let opened = 20 * half.clamp(20, 40) + u64::from(half > 40) * 3;
            let mut sample = sample(0, opened, half * 50);
            sample.taken.seconds = half as f64 / 2.0;
            judge.add(half * 500, sample);
        }
        let judged = judge.finish();
        let [episode] = &judged.episodes[..] else { panic!("{judged:#?}") };
        assert!(episode.began_ms.abs_diff(10_000) <= 500, "{episode:#?}");
        assert!(episode.ended_ms.abs_diff(20_000) <= 500, "{episode:#?}");
    }

    #[test]
    fn what_was_there_before_and_what_goes_on_is_said() {
        let judged = judged(10, 300, &[(0, 50), (250, 400)]);
        let ends: Vec<_> = judged.episodes.iter().map(|one| (one.began_before, one.goes_on)).collect();
        assert_eq!(ends, [(true, false), (false, true)]);
        assert_eq!(times(&judged), [(0, 50), (250, 300)]);
    }

    #[test]
    fn a_short_pause_does_not_end_a_finding() {
        let judged = judged(10, 600, &[(100, 150), (180, 230), (400, 450)]);
        assert_eq!(times(&judged), [(100, 230), (400, 450)]);
        assert_eq!(judged.episodes[0].pauses, 1);
    }

    #[test]
    fn a_quiet_time_has_no_finding() {
        let judged = judged(10, 86_400, &[]);
        assert!(judged.episodes.is_empty(), "{:#?}", judged.episodes);
        assert_eq!((judged.samples, judged.windows), (8641, 8640));
        assert!(judged.not_checked.iter().any(|(id, _)| *id == "cpu-throttled"), "it has no cgroups");
        assert!(judged.not_checked.iter().all(|(id, _)| *id != "upstream-reuse"));
    }

    #[test]
    fn a_warning_that_becomes_a_failure_for_a_while_has_the_time_of_the_failure() {
        let mut judge = Judge::default();
        let mut opened = 0;
        for second in (0..=600).step_by(10) {
            judge.add(second * 1000, sample(second, opened, second * 100));
            opened += if (200..320).contains(&second) { 1000 } else { 200 };
        }
        let judged = judge.finish();
        let [episode] = &judged.episodes[..] else { panic!("{judged:#?}") };
        assert!(episode.began_before && episode.goes_on);
        let failure = Failed { began_ms: 200_000, ended_ms: 320_000, began_before: false, goes_on: false };
        assert_eq!(episode.failure, Some(failure));
    }

    #[test]
    fn a_failure_that_ends_without_a_warning_does_not_go_on() {
        let mut judge = Judge::default();
        let mut opened = 0;
        for second in (0..=250).step_by(10) {
            judge.add(second * 1000, sample(second, opened, second * 100));
            opened += match second {
                0..200 => 200,
                200..230 => 1000,
                _ => 0,
            };
        }
        let judged = judge.finish();
        let [episode] = &judged.episodes[..] else { panic!("{judged:#?}") };
        assert!(episode.began_before && !episode.goes_on);
        let failure = Failed { began_ms: 200_000, ended_ms: 230_000, began_before: false, goes_on: false };
        assert_eq!(episode.failure, Some(failure));
    }

    #[test]
    fn a_restart_is_no_finding_and_does_not_end_one() {
        let mut judge = Judge::default();
        for second in (0..200).step_by(10) {
            // The process is replaced in the middle, and its counters begin anew.
            let own = if second < 100 { second } else { second - 100 };
            judge.add(second * 1000, sample(own, own * 100, own * 100));
        }
        let judged = judge.finish();
        assert_eq!(judged.breaks.len(), 1);
        let [episode] = &judged.episodes[..] else { panic!("{judged:#?}") };
        assert_eq!((episode.began_ms, episode.ended_ms), (0, 190_000));
        assert!(episode.began_before && episode.goes_on);
    }
}
