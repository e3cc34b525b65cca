//! One of the two times that are compared: its judgement and its figures.
//!
//! Must not be in here: comparing, printing.

use doctor::Sample;
use doctor::past::{Figures, Judge, Judged, Time};
use record::Record;

use super::sample;
use super::when::Range;

/// One of the two times.
pub(super) struct Side {
    pub(super) judged: Judged,
    figures: Figures,
}

impl Side {
    pub(super) fn of(record: &Record, range: Range) -> Side {
        let mut judge = Judge::default();
        let mut figures = Figures::default();
        let mut before: Option<Sample> = None;
        for frame in record.frames(range.from_ms..=range.until_ms) {
            let at_ms = frame.at;
            let sample = sample::of_frame(frame);
            if let Some(before) = before.replace(sample.clone()) {
                figures.add(&before, &sample);
            }
            judge.add(at_ms, sample);
        }
        Side { judged: judge.finish(), figures }
    }

    /// The time as it is compared.
    pub(super) fn compared(&self) -> Time<'_> {
        Time { judged: &self.judged, figures: &self.figures }
    }
}
