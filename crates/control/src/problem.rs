//! What is wrong with the configuration: which object, where it stands, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::names::ObjectRef;
use crate::objects::{At, Resource, Sourced};

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something that was asked for is not served.
    Error,
    /// Something is served otherwise than was asked for.
    Warning,
    /// Worth knowing; nothing needs to be done.
    Notice,
}

impl Severity {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that is wrong with the configuration, or worth knowing about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Whose it is.
    pub object: Option<ObjectRef>,
    /// Its uid, where it has one: Events name it.
    pub uid: Option<String>,
    /// The file that says so, where a file does.
    pub file: Option<PathBuf>,
    /// Line in the file, from 1.
    pub line: Option<u32>,
    /// What kind of thing is wrong.
    pub reason: Reason,
    /// What is wrong, and what to do.
    pub message: String,
}

/// What kind of thing is wrong: the reason of the Event that tells of it. The webhook refuses by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The object itself: a value that is not what it has to be, whatever else there is.
    Invalid,
    /// The same of an annotation's value.
    Annotation,
    /// Something that the object names is not there, or cannot be used.
    Missing,
    /// The same of a Secret. Often it comes later: what makes certificates begins when it sees the Ingress.
    Secret,
    /// Another object has what this one asks for.
    Conflict,
    /// Something is asked for that only the owner of a host may ask for.
    NotOwner,
    /// Something is asked for that flags or settings do not allow.
    Forbidden,
    /// Something is asked for that Forebay does not do.
    Unsupported,
    /// Something is said that makes no difference as things stand.
    NoEffect,
    /// The object could not be read.
    Undecodable,
    /// Worth knowing.
    Note,
}

impl Reason {
    /// As an Event has it. People have alerts on them: `AnnotationParsingFailed` is ingress-nginx's, the others are ours and
    /// stay.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Annotation => "AnnotationParsingFailed",
            Self::Missing => "ReferenceNotUsable",
            Self::Secret => "SecretNotUsable",
            Self::Conflict => "Conflict",
            Self::NotOwner => "HostNotOwned",
            Self::Forbidden => "Forbidden",
            Self::Unsupported => "Unsupported",
            Self::NoEffect => "NoEffect",
            Self::Undecodable => "Undecodable",
            Self::Note => "Note",
        }
    }
}

/// Bytes of a message. What is quoted may be as long as an object can be: a megabyte.
const MESSAGE_BYTES_MAX: usize = 2000;

/// The message, or its beginning and how long it was.
fn bounded(message: String) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    let beginning = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    format!("{beginning}... ({} bytes)", message.len())
}

impl Problem {
    /// A problem that no object has.
    pub(crate) fn new(severity: Severity, message: impl Into<String>) -> Self {
        let reason = if severity == Severity::Notice { Reason::Note } else { Reason::Invalid };
        Self {
            severity,
            object: None,
            uid: None,
            file: None,
            line: None,
            reason,
            message: bounded(message.into()),
        }
    }

    /// A problem of an object as a whole.
    pub(crate) fn of<T: Resource>(
        severity: Severity,
        object: &Sourced<T>,
        message: impl Into<String>,
    ) -> Self {
        Self::in_place(severity, &Place::of(object), message)
    }

    /// The same, of another kind.
    #[must_use]
    pub fn because(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// A problem of one value in an object.
    pub(crate) fn at<T: Resource, V>(
        severity: Severity,
        object: &Sourced<T>,
        value: &At<V>,
        message: impl Into<String>,
    ) -> Self {
        Self::in_place(severity, &Place::at(object, value), message)
    }

    /// A problem of what stands in a place.
    pub(crate) fn in_place(severity: Severity, place: &Place, message: impl Into<String>) -> Self {
        let Place { object, uid, file, line } = place;
        Self {
            object: Some(object.clone()),
            uid: uid.clone(),
            file: file.as_deref().map(Path::to_owned),
            line: *line,
            ..Self::new(severity, message)
        }
    }
}

/// An object, or one value in it, and where that stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The object.
    pub(crate) object: ObjectRef,
    /// Its uid; files do not have it.
    pub(crate) uid: Option<String>,
    /// The file that holds it, if one does.
    pub(crate) file: Option<Arc<Path>>,
    /// Line in the file, from 1.
    pub(crate) line: Option<u32>,
}

impl Place {
    /// An object as a whole.
    pub(crate) fn of<T: Resource>(object: &Sourced<T>) -> Self {
        let origin = &object.origin;
        Self {
            object: object.reference(),
            uid: object.metadata().uid.clone(),
            file: origin.file.clone(),
            line: origin.file.as_ref().map(|_| origin.line),
        }
    }

    /// One value in an object.
    pub(crate) fn at<T: Resource, V>(object: &Sourced<T>, value: &At<V>) -> Self {
        let whole = Self::of(object);
        Self { line: object.origin.line_of(value).or(whole.line), ..whole }
    }
}

/// `examples/a.yaml:12: Ingress default/web: what is wrong`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, _) => {}
        }
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        f.write_str(&self.message)
    }
}
