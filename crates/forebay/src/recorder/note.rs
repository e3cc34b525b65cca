//! Messages of the rest of `serve` to the recorder.
//!
//! Must not be in here: what becomes of it.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{SystemTime, UNIX_EPOCH};

use control::Translation;
use control::status::Published;
use record::{Event, kind};

/// Tells the recorder's thread what happens. Nothing waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Notes(Sender<Note>);

/// A thing to record.
pub(crate) enum Note {
    /// It is recorded as it is.
    Event(Event),
    /// A configuration was handed to the workers in place of another one.
    Configuration(Arc<Translation>, Arc<Translation>),
    /// The process stops, for this reason. The answer is sent when all is written.
    Stop(&'static str, Sender<()>),
}

impl Published for Notes {
    fn published(&self, object: &str, reason: &str, is_warning: bool) {
        let severity = if is_warning { "Warning" } else { "Normal" };
        self.tell(kind::KUBERNETES, object, format!("{severity} {reason}"));
    }
}

impl Notes {
    /// A sender, and the end of the thread.
    pub(super) fn channel() -> (Self, Receiver<Note>) {
        let (sender, told) = mpsc::channel();
        (Self(sender), told)
    }

    /// Records an event of this moment.
    pub(crate) fn tell(&self, kind: &str, object: &str, text: String) {
        self.send(Note::Event(event(kind, object, text)));
    }

    /// Records what a configuration changes.
    pub(crate) fn configured(&self, before: &Arc<Translation>, now: &Arc<Translation>) {
        self.send(Note::Configuration(Arc::clone(before), Arc::clone(now)));
    }

    pub(super) fn send(&self, note: Note) {
        // Without the thread, which has panicked then, there is no record either.
        let _ = self.0.send(note);
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// An event of this moment.
pub(super) fn event(kind: &str, object: &str, text: String) -> Event {
    Event { at: now_ms(), kind: kind.to_owned(), object: object.to_owned(), text }
}
