//! The recorder's thread: frames at a fixed interval, judgements, and what others tell in between.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use control::Translation;
use doctor::collect::{Collector, Scope, metrics_read};
use doctor::{Sample, Samples};
use observe::{BriefReader, Registry};
use record::{Event, Recorder, kind};

use super::finer::Finer;
use super::happenings::Happenings;
use super::note::{Note, event, now_ms};
use super::{configuration, frame};
use crate::doctor::serving::Findings;
use crate::machine;

/// Time until the second frame, so that there are findings soon after the start.
const SECOND_AFTER: Duration = Duration::from_secs(1);

/// Checks compare frames that are so many intervals apart: with the default interval 30 s.
const JUDGED_FRAMES: u32 = 3;

/// The page of metrics in a sample.
const METRICS: &str = "forebay/metrics";

/// Least time between two comparisons of configurations. One that comes sooner waits: of several, the first
/// is compared with the last.
const APART: Duration = Duration::from_secs(1);

/// The state of the thread.
pub(super) struct Sampling {
    recorder: Arc<Recorder>,
    registry: Arc<Registry>,
    findings: Arc<Findings>,
    interval: Duration,
    brief: BriefReader,
    happenings: Happenings,
    finer: Finer,
    /// A configuration that is not compared yet with one before it, and until when that waits.
    changed: Option<Changed>,
    /// The time of the last comparison.
    compared: Option<Instant>,
    /// Whether the last write failed.
    is_broken: bool,
}

struct Changed {
    at: u64,
    before: Arc<Translation>,
    now: Arc<Translation>,
    due: Instant,
}

/// The sample that the next one to be judged is compared with.
struct Judged {
    before: Sample,
    /// Frames since then.
    frames: u32,
    /// Frames after which it is judged.
    after: u32,
}

impl Sampling {
    pub(super) fn new(
        recorder: Arc<Recorder>,
        registry: Arc<Registry>,
        findings: Arc<Findings>,
        interval: Duration,
    ) -> Self {
        Self {
            recorder,
            registry,
            findings,
            interval,
            brief: BriefReader::default(),
            happenings: Happenings::default(),
            finer: Finer::default(),
            changed: None,
            compared: None,
            is_broken: false,
        }
    }

    /// Records until it is told to stop.
    pub(super) fn run(mut self, notes: &Receiver<Note>) {
        machine::give_way();
        let scope = Scope { pid: Some(std::process::id()), pods: true, ..Scope::default() };
        let mut collector = match Collector::new(scope) {
            Ok(collector) => Some(collector.sparing()),
            Err(error) => {
                tracing::warn!(%error, "the doctor cannot look");
                None
            }
        };
        let mut judged = collector.as_mut().map(|collector| {
            let before = self.frame(collector, false);
            Judged { before, frames: 0, after: 1 }
        });
        let mut next = Instant::now() + SECOND_AFTER.min(self.interval);
        loop {
            let due = self.finer.due(next);
            match self.wait(notes, due) {
                Woken::ForFrame => {}
                Woken::ToStop(done) => {
                    // Nobody may wait any more.
                    let _ = done.send(());
                    return;
                }
                Woken::Alone => return,
            }
            let is_finer = due < next;
            if let (Some(collector), Some(judged)) = (&mut collector, &mut judged) {
                let sample = self.frame(collector, is_finer);
                if !is_finer {
                    self.judge(judged, sample);
                }
            }
            self.finer.taken(Instant::now());
            if !is_finer {
                // A frame that takes long makes the next one later, and does not pile up.
                next = (next + self.interval).max(Instant::now());
            }
        }
    }

    /// Records what is told until the next frame is due, or the process stops.
    fn wait(&mut self, notes: &Receiver<Note>, next: Instant) -> Woken {
        loop {
            let due = self.changed.as_ref().map_or(next, |changed| changed.due.min(next));
            match notes.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Note::Event(event)) => self.event(&event),
                Ok(Note::Configuration(before, now)) => self.configured(before, now),
                Ok(Note::Stop(why, done)) => {
                    self.tell_changes();
                    self.end(why);
                    return Woken::ToStop(done);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.changed.as_ref().is_some_and(|changed| changed.due <= Instant::now()) {
                        self.tell_changes();
                    }
                    if next <= Instant::now() {
                        return Woken::ForFrame;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Woken::Alone,
            }
        }
    }

    fn configured(&mut self, before: Arc<Translation>, now: Arc<Translation>) {
        if let Some(changed) = &mut self.changed {
            changed.now = now;
        } else {
            let begun = Instant::now();
            let due = self.compared.map_or(begun, |last| last + APART);
            self.changed = Some(Changed { at: now_ms(), before, now, due });
            if due <= begun {
                self.tell_changes();
            }
        }
    }

    fn tell_changes(&mut self) {
        let Some(Changed { at, before, now, .. }) = self.changed.take() else { return };
        self.compared = Some(Instant::now());
        for event in configuration::events(at, &before, &now) {
            self.event(&event);
        }
    }

    /// Takes a frame and records it, with what happened since the last one.
    fn frame(&mut self, collector: &mut Collector, is_finer: bool) -> Sample {
        let at = now_ms();
        let mut sample = collector.sample();
        let mut page = String::new();
        let endpoints = self.registry.encode_brief(&mut self.brief, &machine::process(), &mut page);
        sample.put(METRICS, Ok(page));
        let mut events = self.happenings.look(&self.registry, &endpoints.out, at);
        if !is_finer {
            events.extend(self.finer.look(&self.registry, &endpoints, at, Instant::now()));
        }
        for event in events {
            self.event(&event);
        }
        let written = self.recorder.frame(&frame::of(&sample, at, is_finer));
        self.note(written);
        sample
    }

    /// Judges the sample if it is far enough from the one before.
    fn judge(&mut self, judged: &mut Judged, mut sample: Sample) {
        judged.frames += 1;
        if judged.frames < judged.after {
            return;
        }
        if let Ok(page) = sample.text(METRICS).map(metrics_read) {
            sample.put(METRICS, Ok(page));
        }
        let before = std::mem::take(&mut judged.before);
        (judged.frames, judged.after) = (0, JUDGED_FRAMES);
        let mut samples = Samples { all: vec![before, sample], ..Samples::default() };
        let findings = doctor::examine(&samples);
        judged.before = samples.all.pop().unwrap_or_default();
        for event in self.happenings.judge(&findings, now_ms()) {
            self.event(&event);
        }
        self.findings.set(&self.registry, findings);
    }

    fn event(&mut self, event: &Event) {
        let written = self.recorder.event(event);
        self.note(written);
    }

    fn end(&mut self, why: &str) {
        let written = self.recorder.finish(&event(kind::STOP, "", why.to_owned()));
        self.note(written);
    }

    /// Logs that the record is not written, once until it is again.
    fn note(&mut self, written: std::io::Result<()>) {
        match written {
            Err(error) => {
                if std::mem::replace(&mut self.is_broken, true) {
                    return;
                }
                let folder = self.recorder.folder().map(|folder| folder.display().to_string());
                tracing::warn!(folder, %error, "the flight recorder cannot write: frames are lost");
            }
            Ok(()) if self.is_broken && !self.recorder.is_paused() => {
                self.is_broken = false;
                tracing::info!("the flight recorder writes again");
            }
            Ok(()) => {}
        }
    }
}

/// Why the thread goes on.
enum Woken {
    /// A frame is due.
    ForFrame,
    /// The process stops; the end of the record is told on this channel.
    ToStop(Sender<()>),
    /// Nobody is left to tell anything.
    Alone,
}
