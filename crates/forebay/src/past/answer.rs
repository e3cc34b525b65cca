//! The answers of the admin server about the past: a part of the record as a file, and what the console's
//! time line shows.
//!
//! Both read much, so they are made on separate threads, one at a time. Must not be in here: access control.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use doctor::Sample;
use doctor::past::Traffic;
use hyper::body::Bytes;
use record::{Event, Record, Recorder, kind};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::changes::is_change;
use super::sample;
use super::when::Range;
use crate::query;

/// Bytes of a part of an answer.
const PART_BYTES: usize = 64 << 10;

/// Parts that wait for the client.
const PARTS_WAITING: usize = 4;

/// The longest time that the time line shows at once.
const SHOWN_MS_MAX: u64 = 24 * 3_600_000;

/// Most points of each line that it shows.
const POINTS_MAX: u64 = 360;

/// Most events that it shows, the latest ones.
const EVENTS_MAX: usize = 500;

/// Readers that may wait for their turn, beside the one that is being answered.
const READERS_MAX: usize = 4;

/// The reading of the record for others, one at a time.
pub(crate) struct Readers {
    recorder: Arc<Recorder>,
    places: Semaphore,
    turn: Arc<Semaphore>,
}

/// The parts of a file, as they are made.
pub(crate) type Parts = mpsc::Receiver<Bytes>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The parameters are not those of a range.
    Unusable(String),
    /// As many read as may.
    Busy,
    /// The record cannot be read.
    Failed(String),
}

impl Readers {
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        Self { recorder, places: Semaphore::new(READERS_MAX), turn: Arc::new(Semaphore::new(1)) }
    }

    /// A part of the record as a file.
    pub(crate) async fn export(&self, query: &str) -> Result<Parts, Refusal> {
        let range = range(query)?;
        let turn = self.turn().await?;
        let record = self.open().await?;
        let (parts, answer) = mpsc::channel(PARTS_WAITING);
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut out = PartWriter { parts, filled: Vec::new() };
            // An error here means that the client has broken off.
            let _ = record.write_range(range.from_ms..=range.until_ms, &mut out).and_then(|_| out.flush());
        });
        Ok(answer)
    }

    /// The course of a range, for the time line.
    pub(crate) async fn course(&self, query: &str) -> Result<Course, Refusal> {
        let range = range(query)?;
        let turn = self.turn().await?;
        let record = self.open().await?;
        let work = move || {
            let _turn = turn;
            Course::of(&record, range)
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::Failed(error.to_string()))
    }

    async fn open(&self) -> Result<Record, Refusal> {
        let recorder = Arc::clone(&self.recorder);
        match tokio::task::spawn_blocking(move || recorder.record()).await {
            Ok(Ok(record)) => Ok(record),
            Ok(Err(error)) => Err(Refusal::Failed(error.to_string())),
            Err(error) => Err(Refusal::Failed(error.to_string())),
        }
    }

    /// Waits for its turn, unless there are as many as may.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let _place = self.places.try_acquire().map_err(|_| Refusal::Busy)?;
        Arc::clone(&self.turn).acquire_owned().await.map_err(|_| Refusal::Busy)
    }
}

/// Reads `since` and `until`, in milliseconds since 1970; an end that is not named is open.
fn range(query: &str) -> Result<Range, Refusal> {
    let mut range = Range::ALL;
    for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
        let end = match name {
            "since" => &mut range.from_ms,
            "until" => &mut range.until_ms,
            _ => continue,
        };
        let text = query::decode(value).unwrap_or_default();
        let wrong = || Refusal::Unusable(format!("{name} is in milliseconds since 1970, and not {text:?}"));
        *end = text.parse().map_err(|_| wrong())?;
    }
    if range.from_ms >= range.until_ms {
        return Err(Refusal::Unusable("until is not later than since".to_owned()));
    }
    Ok(range)
}

/// Writes in parts, and waits for the client.
struct PartWriter {
    parts: mpsc::Sender<Bytes>,
    filled: Vec<u8>,
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.filled.extend_from_slice(bytes);
        if self.filled.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.filled.is_empty() {
            return Ok(());
        }
        let part = Bytes::from(std::mem::take(&mut self.filled));
        self.parts.blocking_send(part).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The course of a time, as the time line shows it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Course {
    /// The begin and the end of all that is recorded, in milliseconds since 1970; none where there is
    /// nothing.
    span_ms: Option<(u64, u64)>,
    /// The time that is shown.
    from_ms: u64,
    until_ms: u64,
    /// The findings of the doctor's checks while they lasted.
    findings: Vec<Bar>,
    /// The events, the oldest first.
    events: Vec<Event>,
    /// The traffic, the oldest first.
    points: Vec<Point>,
}

/// A finding while it lasted.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Bar {
    id: String,
    /// The finding in a sentence.
    text: String,
    /// Whether it was a failure, or else a warning.
    is_failure: bool,
    from_ms: u64,
    /// The end; none where it goes on.
    until_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    at_ms: u64,
    #[serde(flatten)]
    traffic: Traffic,
}

impl Course {
    fn of(record: &Record, asked: Range) -> Course {
        let Some((first, last)) = record.span() else { return Course::default() };
        let until_ms = asked.until_ms.min(last.max(first + 1));
        let from_ms = asked.from_ms.max(first).max(until_ms.saturating_sub(SHOWN_MS_MAX)).min(until_ms);
        let range = Range { from_ms, until_ms };
        // A finding that was there at the begin of the range began before it.
        let all = record.events(0..=until_ms);
        let mut events: Vec<_> =
            all.iter().filter(|event| event.at >= from_ms && is_shown(&event.kind)).cloned().collect();
        events.drain(..events.len().saturating_sub(EVENTS_MAX));
        let mut findings = bars(&all);
        findings.retain(|bar| bar.until_ms.is_none_or(|until| until >= from_ms));
        Course {
            span_ms: Some((first, last)),
            from_ms,
            until_ms,
            findings,
            events,
            points: points(record, range),
        }
    }
}

fn is_shown(kind: &str) -> bool {
    is_change(kind) || kind == kind::BAND_LEFT
}

/// The findings that began and ended, by the events of the process that made them: one that starts anew has
/// none at first.
fn bars(events: &[Event]) -> Vec<Bar> {
    let mut done = Vec::new();
    let mut open = BTreeMap::<&str, Bar>::new();
    for event in events {
        match event.kind.as_str() {
            kind::FINDING_BEGAN => {
                let is_failure = event.text.starts_with("failure");
                if let Some(bar) = open.get_mut(event.object.as_str()) {
                    bar.is_failure |= is_failure;
                    continue;
                }
                let bar = Bar {
                    id: event.object.clone(),
                    text: event.text.clone(),
                    is_failure,
                    from_ms: event.at,
                    until_ms: None,
                };
                open.insert(&event.object, bar);
            }
            kind::FINDING_ENDED => {
                if let Some(bar) = open.remove(event.object.as_str()) {
                    done.push(Bar { until_ms: Some(event.at), ..bar });
                }
            }
            kind::START => {
                let ended = std::mem::take(&mut open).into_values();
                done.extend(ended.map(|bar| Bar { until_ms: Some(event.at), ..bar }));
            }
            _ => {}
        }
    }
    done.extend(open.into_values());
    done.sort_by_key(|bar| bar.from_ms);
    done
}

/// The traffic between frames that are far enough apart for the number of points.
fn points(record: &Record, range: Range) -> Vec<Point> {
    let every_ms = (range.until_ms - range.from_ms) / POINTS_MAX;
    let mut points = Vec::new();
    let mut before: Option<(u64, Sample)> = None;
    for frame in record.frames(range.from_ms..=range.until_ms) {
        let at_ms = frame.at;
        let is_next = before.as_ref().is_none_or(|(at, _)| at_ms >= at + every_ms || at_ms < *at);
        if !is_next {
            continue;
        }
        let now = sample::of_frame(frame);
        if let Some((_, then)) = &before
            && let Some(traffic) = Traffic::between(then, &now)
        {
            points.push(Point { at_ms, traffic });
        }
        before = Some((at_ms, now));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::frame_of;

    fn event(at: u64, kind: &str, object: &str, text: &str) -> Event {
        Event { at, kind: kind.to_owned(), object: object.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_range_is_read_from_the_query() {
        let of = |query| range(query).map(|range| (range.from_ms, range.until_ms)).ok();
        assert_eq!(of(""), Some((0, u64::MAX)));
        assert_eq!(of("since=5&until=9&x=1"), Some((5, 9)));
        for wrong in ["since=x", "since=9&until=5", "until=-1", "since=%"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn findings_are_bars_from_their_begin_to_their_end() {
        let events = [
            event(10, kind::FINDING_BEGAN, "a", "warning: some"),
            event(20, kind::FINDING_BEGAN, "b", "failure: many"),
            event(25, kind::FINDING_BEGAN, "a", "failure: all"),
            event(30, kind::FINDING_ENDED, "a", ""),
            event(40, kind::START, "", "version"),
            event(50, kind::FINDING_BEGAN, "b", "warning: few"),
        ];
        let found: Vec<_> = bars(&events)
            .iter()
            .map(|bar| (bar.id.clone(), bar.is_failure, bar.from_ms, bar.until_ms))
            .collect();
        assert_eq!(
            found,
            [
                ("a".to_owned(), true, 10, Some(30)),
                ("b".to_owned(), true, 20, Some(40)),
                ("b".to_owned(), false, 50, None),
            ]
        );
    }

    fn recorder(seconds: u64) -> Recorder {
        let recorder = Recorder::in_memory(1 << 20);
        for second in (0..=seconds).step_by(10) {
            let mut sample = Sample::default();
            sample.taken.seconds = second as f64;
            let requests = second * 50;
            let page = format!("nginx_ingress_controller_nginx_process_requests_total {requests}\n");
            sample.put("forebay/metrics", Ok(page));
            recorder.frame(&frame_of(&sample, 1_000_000 + second * 1000, false)).unwrap();
        }
        recorder.event(&event(1_200_000, kind::CONFIGURATION, "Ingress a/b", "changed")).unwrap();
        recorder
    }

    #[test]
    fn a_course_has_points_within_its_bound() {
        let record = recorder(7200).record().unwrap();
        let course = Course::of(&record, Range::ALL);
        assert_eq!(course.span_ms, Some((1_000_000, 8_200_000)));
        assert!((300..=POINTS_MAX as usize).contains(&course.points.len()), "{}", course.points.len());
        assert!(course.points.iter().all(|point| point.traffic.requests == Some(50.0)));
        assert_eq!(course.events.len(), 1);
        let later = Course::of(&record, Range { from_ms: 8_000_000, until_ms: u64::MAX });
        assert_eq!((later.from_ms, later.until_ms, later.events.len()), (8_000_000, 8_200_000, 0));
        let empty = Recorder::in_memory(1 << 20).record().unwrap();
        assert_eq!(Course::of(&empty, Range::ALL).span_ms, None);
    }

    #[test]
    fn an_export_comes_in_parts_and_one_reader_at_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let readers = Readers::new(Arc::new(recorder(7200)));
            let mut parts = readers.export("since=2000000").await.unwrap();
            let mut bytes = Vec::new();
            while let Some(part) = parts.recv().await {
                bytes.extend_from_slice(&part);
            }
            let record = Record::from_bytes(&bytes).unwrap();
            assert_eq!(record.span(), Some((2_000_000, 8_200_000)));
            let _places = readers.places.try_acquire_many(READERS_MAX as u32).unwrap();
            assert!(matches!(readers.export("").await, Err(Refusal::Busy)));
            assert!(matches!(readers.export("since=x").await, Err(Refusal::Unusable(_))));
        });
    }
}
