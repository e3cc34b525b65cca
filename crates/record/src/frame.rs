//! The two kinds of things that a record holds.

use std::collections::BTreeMap;

use serde::Serialize;

/// The contents of files at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Milliseconds since the epoch.
    pub at: u64,
    /// Whether the frame is one of a finer capture, which follows a value that left its band.
    pub finer: bool,
    /// Text about the whole frame: who was examined, in the form of its author.
    pub origin: String,
    /// Contents by path, or why there is none.
    pub files: BTreeMap<String, Result<String, Absent>>,
}

/// Why a frame does not hold a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The machine did not have the file.
    Missing,
    /// The file could not be read; the text is the error.
    Unreadable(String),
}

/// One thing that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Milliseconds since the epoch.
    pub at: u64,
    /// One of [`kind`].
    pub kind: String,
    /// The object that it happened to, such as `Ingress default/shop`; empty for the process itself.
    pub object: String,
    /// The event as a sentence without its end.
    pub text: String,
}

/// One entry of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The contents of files.
    Frame(Frame),
    /// Something that happened.
    Event(Event),
}

impl Item {
    /// Milliseconds since the epoch.
    pub fn at(&self) -> u64 {
        match self {
            Self::Frame(frame) => frame.at,
            Self::Event(event) => event.at,
        }
    }
}

/// Kinds of events.
pub mod kind {
    /// The configuration changed.
    pub const CONFIGURATION: &str = "configuration";
    /// A certificate came, was renewed, or cannot be obtained.
    pub const CERTIFICATE: &str = "certificate";
    /// A Kubernetes Event that this program wrote.
    pub const KUBERNETES: &str = "kubernetes";
    /// Endpoints were ejected, or came back.
    pub const EJECTION: &str = "ejection";
    /// Requests were shed.
    pub const SHED: &str = "shed";
    /// The process started.
    pub const START: &str = "start";
    /// The process before ended without a stop.
    pub const KILLED: &str = "killed";
    /// The process stops.
    pub const STOP: &str = "stop";
    /// A thread panicked.
    pub const PANIC: &str = "panic";
    /// A check found something that it had not found before. The object is the check.
    pub const FINDING_BEGAN: &str = "finding-began";
    /// A check does not find any more what it had found. The object is the check.
    pub const FINDING_ENDED: &str = "finding-ended";
    /// A value left the band that was learned for it. The object is the value's name.
    pub const BAND_LEFT: &str = "band-left";
}
