//! The window of samples that a check is given.
//!
//! Must not be in here: verdicts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::sample::{Absence, Sample};
use crate::samples::Samples;
use crate::ticks::{ConnectionTick, CpuTicks, Ticks};

/// The least time that a window spans, in seconds: checks are made for the five seconds that `forebay doctor`
/// watches. Samples that are farther apart are judged two by two.
const SPAN_SECONDS: f64 = 5.0;

/// A gap between two samples, in seconds, from which they are not compared: in between the process was not
/// there, or its machine slept.
const GAP_SECONDS: f64 = 120.0;

const TICKS: &str = "forebay/ticks.json";

/// A sample, and when it was taken.
#[derive(Clone)]
pub(super) struct Moment {
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) sample: Arc<Sample>,
}

/// A place in the record over which no check compares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Break {
    /// The last sample before it, in milliseconds since 1970.
    pub from_ms: u64,
    /// The first sample after it.
    pub until_ms: u64,
    /// Why they are not compared.
    pub why: Why,
}

/// Why two samples that follow each other are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// The recording process is another one.
    Restart,
    /// There is no sample for a longer time.
    Gap,
}

/// The latest samples: those of the window, and one before them.
#[derive(Default)]
pub(super) struct Window {
    moments: VecDeque<Moment>,
    /// Where the window begins in `moments`.
    begin: usize,
}

impl Window {
    /// Adds the next sample. Returns the break before it, if there is one: the window then begins anew.
    pub(super) fn add(&mut self, moment: Moment) -> Option<Break> {
        let before = self.moments.back();
        let found = before.and_then(|before| {
            why(before, &moment).map(|why| Break { from_ms: before.at_ms, until_ms: moment.at_ms, why })
        });
        if found.is_some() {
            *self = Window::default();
        }
        self.moments.push_back(moment);
        let last = self.moments.len() - 1;
        let end = self.moments[last].sample.taken.seconds;
        let is_long = |at: usize| end - self.moments[at].sample.taken.seconds >= SPAN_SECONDS;
        self.begin = (0..last).rev().find(|at| is_long(*at)).unwrap_or(0);
        while self.begin > 1 {
            self.moments.pop_front();
            self.begin -= 1;
        }
        found
    }

    /// The samples of the window as checks take them; none where there are not two of them.
    pub(super) fn samples(&self) -> Option<Samples> {
        let moments: Vec<_> = self.moments.range(self.begin..).collect();
        (moments.len() >= 2).then(|| samples(&moments))
    }

    /// The samples two by two, from the oldest on, and the times between which each pair was taken.
    pub(super) fn pairs(&self) -> impl DoubleEndedIterator<Item = (u64, u64, Samples)> {
        let followers = self.moments.iter().skip(1);
        self.moments.iter().zip(followers).map(|(one, next)| (one.at_ms, next.at_ms, samples(&[one, next])))
    }

    /// The time of the sample before the last one.
    pub(super) fn before_last_ms(&self) -> Option<u64> {
        self.moments.len().checked_sub(2).map(|at| self.moments[at].at_ms)
    }
}

fn why(before: &Moment, next: &Moment) -> Option<Why> {
    let (old, new) = (&before.sample.taken, &next.sample.taken);
    if old.pid != new.pid || new.seconds <= old.seconds {
        return Some(Why::Restart);
    }
    // A clock that was set forward is no gap.
    (new.seconds - old.seconds > GAP_SECONDS).then_some(Why::Gap)
}

/// The first and the last sample, the last one with the readings of all but the first: those of a sample were
/// taken since the sample before it.
fn samples(moments: &[&Moment]) -> Samples {
    let Some(([first, ..], last)) = moments.split_last().map(|(last, before)| (before, last)) else {
        return Samples::default();
    };
    let mut end = Sample::clone(&last.sample);
    if moments.len() > 2
        && let Some(ticks) = ticks(moments)
    {
        let text = serde_json::to_string(&ticks).map_err(|error| Absence::Unreadable(error.to_string()));
        end.put(TICKS, text);
    }
    Samples { all: vec![Sample::clone(&first.sample), end], ..Samples::default() }
}

/// The readings of all samples but the first, counted from the first; none where a sample has none.
fn ticks(moments: &[&Moment]) -> Option<Ticks> {
    let mut all = Ticks::default();
    let begin = moments.first()?.sample.taken.seconds;
    let offset = |moment: &Moment| Duration::from_secs_f64((moment.sample.taken.seconds - begin).max(0.0));
    for pair in moments.windows(2) {
        let read: Ticks = pair[1].sample.json(TICKS).ok()?;
        let offset_ms = offset(pair[0]).as_millis() as u64;
        for part in read.cpu {
            let at_ms = part.at_ms.iter().map(|at| at + offset_ms);
            if let Some(known) = all.cpu.iter_mut().find(|known| known.of == part.of) {
                known.at_ms.extend(at_ms);
                known.used_us.extend(&part.used_us);
            } else {
                let at_ms = at_ms.collect();
                all.cpu.push(CpuTicks { of: part.of, at_ms, used_us: part.used_us });
            }
        }
        let later = |tick: ConnectionTick| ConnectionTick { at_ms: tick.at_ms + offset_ms, ..tick };
        all.connections.extend(read.connections.into_iter().map(later));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: u64, seconds: f64) -> Moment {
        let mut sample = Sample::default();
        sample.taken.seconds = seconds;
        Moment { at_ms, sample: Arc::new(sample) }
    }

    fn ends(window: &Window) -> Option<(f64, f64)> {
        let samples = window.samples()?;
        Some((samples.all[0].taken.seconds, samples.all[1].taken.seconds))
    }

    #[test]
    fn a_window_spans_five_seconds_or_two_samples() {
        let mut window = Window::default();
        for second in 0..=8 {
            assert_eq!(window.add(moment(second * 1000, second as f64)), None);
        }
        assert_eq!(ends(&window), Some((3.0, 8.0)));
        assert_eq!(window.pairs().map(|(from, until, _)| (from, until)).next(), Some((2000, 3000)));
        assert_eq!(window.add(moment(18_000, 18.0)), None);
        assert_eq!(ends(&window), Some((8.0, 18.0)));
        assert_eq!(window.before_last_ms(), Some(8000));
    }

    #[test]
    fn nothing_is_compared_over_a_restart_or_a_gap() {
        let mut window = Window::default();
        assert_eq!(window.add(moment(0, 100.0)), None);
        assert_eq!(ends(&window), None, "one sample is no window");
        let restart = window.add(moment(20_000, 0.5));
        assert_eq!(restart, Some(Break { from_ms: 0, until_ms: 20_000, why: Why::Restart }));
        assert_eq!(ends(&window), None);
        let gap = window.add(moment(400_000, 380.0)).map(|found| found.why);
        assert_eq!(gap, Some(Why::Gap));
        assert_eq!(window.add(moment(9_000_000, 390.0)), None, "a clock that was set");
        assert_eq!(ends(&window), Some((380.0, 390.0)));
    }

    #[test]
    fn readings_of_all_samples_are_those_of_the_window() {
        let with_ticks = |at_ms: u64, used: &[u64]| {
            let mut sample = Sample::default();
            sample.taken.seconds = at_ms as f64 / 1000.0;
            let cpu = CpuTicks { of: "processes".into(), at_ms: vec![10, 20], used_us: used.to_vec() };
            let connection =
                ConnectionTick { at_ms: 5, remote: "a".into(), pid: None, established: 1, time_wait: 0 };
            let ticks = Ticks { cpu: vec![cpu], connections: vec![connection] };
            sample.put(TICKS, Ok(serde_json::to_string(&ticks).unwrap()));
            Moment { at_ms, sample: Arc::new(sample) }
        };
        let mut window = Window::default();
        for (at_ms, used) in [(0, [0, 0]), (2000, [1, 2]), (4000, [3, 4]), (6000, [5, 6])] {
            window.add(with_ticks(at_ms, &used));
        }
        let ticks = window.samples().unwrap().ticks().unwrap();
        assert_eq!(ticks.cpu[0].at_ms, [10, 20, 2010, 2020, 4010, 4020]);
        assert_eq!(ticks.cpu[0].used_us, [1, 2, 3, 4, 5, 6]);
        assert_eq!(ticks.connections.iter().map(|tick| tick.at_ms).collect::<Vec<_>>(), [5, 2005, 4005]);
    }
}
