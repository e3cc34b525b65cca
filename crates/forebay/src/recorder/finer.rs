//! Finer captures: a frame a second for a minute, when a value has left the band that was learned for it.
//!
//! Must not be in here: taking frames, reading files.

use std::time::{Duration, Instant};

use observe::{EndpointSums, Registry, Served, Shortage, latency_bounds};
use record::{Band, Bands, Event, Left, kind};

use crate::console::estimate;

/// Time between two frames of a finer capture.
const EVERY: Duration = Duration::from_secs(1);

/// How long a finer capture takes.
const LASTS: Duration = Duration::from_secs(60);

/// Least time between the begins of two of them.
const APART: Duration = Duration::from_secs(600);

/// Fewest requests of a time for whose share of errors, and for whose times, there is a value.
const REQUESTS_MIN: u64 = 20;
const TIMES_MIN: u64 = 100;

/// The values that have bands, in the order of [`Counted::since`].
const BANDS: &[Band] = &[
    Band { name: "share of 5xx responses", floor: 0.02, times: 3.0 },
    Band { name: "p99 in seconds", floor: 0.05, times: 2.0 },
    Band { name: "connects per request", floor: 0.1, times: 2.0 },
    Band { name: "share of throttled periods", floor: 0.05, times: 2.0 },
    Band { name: "share of time waiting for a CPU", floor: 0.2, times: 2.0 },
    Band { name: "lag of a worker's loop in seconds", floor: 0.05, times: 2.0 },
];

/// The bands that are learned, and the finer capture that is in progress.
pub(super) struct Finer {
    bands: Bands,
    before: Option<Counted>,
    capture: Option<Capture>,
}

/// A finer capture, also for a time after it.
#[derive(Clone, Copy)]
struct Capture {
    begun: Instant,
    /// The next frame.
    next: Instant,
}

/// Counters at a frame.
struct Counted {
    served: Served,
    requests: u64,
    opened: u64,
}

impl Default for Finer {
    fn default() -> Self {
        Self { bands: Bands::new(BANDS), before: None, capture: None }
    }
}

impl Finer {
    /// Compares the values since the last call with their bands. Returns an event for each that left its band
    /// just now. A finer capture begins then, unless there was one short time ago.
    pub(super) fn look(
        &mut self,
        registry: &Registry,
        endpoints: &EndpointSums,
        at: u64,
        now: Instant,
    ) -> Vec<Event> {
        let counted = Counted::of(registry, endpoints);
        let values = self.before.as_ref().map(|before| counted.since(before, registry));
        self.before = Some(counted);
        let hour = (at / 3_600_000 % 24) as usize;
        let left = values.map(|values| self.bands.note(hour, &values)).unwrap_or_default();
        let begins = !left.is_empty() && self.begin(now);
        left.iter().map(|left| event(at, left, begins)).collect()
    }

    fn begin(&mut self, now: Instant) -> bool {
        if self.capture.is_some_and(|capture| now < capture.begun + APART) {
            return false;
        }
        self.capture = Some(Capture { begun: now, next: now + EVERY });
        true
    }

    /// When the next frame is due: that of a finer capture, if it is before the regular one.
    pub(super) fn due(&self, regular: Instant) -> Instant {
        match self.capture {
            Some(capture) if capture.next <= capture.begun + LASTS => capture.next.min(regular),
            _ => regular,
        }
    }

    /// Notes that a frame was taken, regular or not.
    pub(super) fn taken(&mut self, now: Instant) {
        if let Some(capture) = &mut self.capture {
            capture.next = now + EVERY;
        }
    }
}

impl Counted {
    fn of(registry: &Registry, endpoints: &EndpointSums) -> Self {
        Self { served: registry.served(), requests: endpoints.requests, opened: endpoints.opened }
    }

    fn since(&self, before: &Self, registry: &Registry) -> [Option<f64>; BANDS.len()] {
        let grown = |now: &[u64], before: &[u64]| -> Vec<u64> {
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
        };
        let classes = grown(&self.served.classes, &before.served.classes);
        let all: u64 = classes.iter().sum();
        let errors = classes.get(5).copied().unwrap_or(0);
        let times = grown(&self.served.requests, &before.served.requests);
        let p99 = (all >= TIMES_MIN).then(|| estimate(&latency_bounds(), &times, 0.99)).flatten();
        let requests = self.requests.saturating_sub(before.requests);
        let opened = self.opened.saturating_sub(before.opened);
        let share = |of: u64, all: u64| (all >= REQUESTS_MIN).then(|| of as f64 / all as f64);
        let short = |of: Shortage| {
            let found = registry.shortages().find(|(one, ..)| *one == of);
            found.and_then(|(_, permille, _)| permille).map(|permille| permille as f64 / 1000.0)
        };
        [
            share(errors, all),
            p99,
            share(opened, requests),
            short(Shortage::CpuThrottled),
            short(Shortage::CpuStalled),
            short(Shortage::LoopLag),
        ]
    }
}

fn event(at: u64, left: &Left, begins: bool) -> Event {
    let Left { name, value, usual } = left;
    let more = if begins { ": a frame each second for a minute" } else { "" };
    let text = format!("is {value:.3}; at this hour {usual:.3} is usual{more}");
    Event { at, kind: kind::BAND_LEFT.to_owned(), object: (*name).to_owned(), text }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Labels;
    use observe::{Method, MetricsOptions, Recorder, Sample};

    use super::*;

    fn serve(recorder: &mut Recorder, labels: &Arc<Labels>, status: u16, millis: u64) {
        let sample = Sample {
            method: Method::Get,
            status,
            request_bytes: 1,
            response_bytes: 1,
            request_time: Duration::from_millis(millis),
            upstream: None,
            canary: None,
            reason: None,
            cache: None,
        };
        recorder.request(labels, &sample);
    }

    #[test]
    fn errors_and_slow_requests_begin_one_capture() {
        let registry = Registry::new(MetricsOptions::default());
        let mut recorder = registry.recorder();
        let labels = Arc::new(Labels::default());
        let mut finer = Finer::default();
        let (start, every) = (Instant::now(), Duration::from_secs(10));
        let none = EndpointSums::default();
        let mut told = Vec::new();
        for frame in 0..200_u32 {
            let is_bad = frame >= 150;
            for request in 0..200 {
                let status = if is_bad && request % 4 == 0 { 502 } else { 200 };
                serve(&mut recorder, &labels, status, if is_bad { 400 } else { 10 });
            }
            let events = finer.look(&registry, &none, u64::from(frame) * 10_000, start + every * frame);
            told.extend(events.into_iter().map(|event| (frame, event.object, event.text)));
        }
        let names: Vec<_> = told.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names, ["share of 5xx responses", "p99 in seconds"], "{told:?}");
        assert!(told.iter().all(|(frame, ..)| (150..153).contains(frame)), "{told:?}");
        assert!(
            told[0].2.starts_with("is 0.250; at this hour 0.000 is usual: a frame each second"),
            "{told:?}"
        );
    }

    #[test]
    fn a_capture_is_a_minute_and_not_soon_again() {
        let mut finer = Finer::default();
        let start = Instant::now();
        let late = start + Duration::from_secs(3600);
        assert_eq!(finer.due(late), late);
        assert!(finer.begin(start));
        let mut now = start;
        let mut frames = 0;
        while finer.due(late) < late {
            now = finer.due(late);
            finer.taken(now);
            frames += 1;
        }
        assert_eq!((frames, now - start), (60, LASTS));
        assert!(!finer.begin(now) && finer.begin(start + APART));
    }
}
