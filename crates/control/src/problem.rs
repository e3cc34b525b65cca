//! Problems of the configuration: the object, its place, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::names::ObjectRef;
use crate::objects::{At, Ingress, Resource, Sourced};

/// The severity of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A part of the object is not served.
    Error,
    /// A part of the object is served in another way than the object requests.
    Warning,
    /// Information that needs no action.
    Notice,
}

impl Severity {
    /// The name of the severity, in lower case.
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

/// A problem of the configuration, or information about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Severity of the problem.
    pub severity: Severity,
    /// The object that has the problem; none for a problem of the whole configuration.
    pub object: Option<ObjectRef>,
    /// The uid of the object, which Events need; none for objects in files.
    pub uid: Option<String>,
    /// The file; none if the object is not from a file.
    pub file: Option<PathBuf>,
    /// Line in the file, from 1.
    pub line: Option<u32>,
    /// The kind of problem.
    pub reason: Reason,
    /// The problem, and its remedy.
    pub message: String,
}

/// The kind of a problem. It becomes the reason of the Event, and decides whether the webhook refuses the
/// object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A value of the object is invalid, whatever other objects there are.
    Invalid,
    /// The value of an annotation is invalid.
    Annotation,
    /// The object's rules for a web application firewall do not compile.
    FirewallRules,
    /// The object names something that does not exist or cannot be used.
    Missing,
    /// The object names a Secret that does not exist or cannot be used. The Secret is often created later:
    /// certificate managers start when the Ingress exists.
    Secret,
    /// Another object owns the host or path already.
    Conflict,
    /// The object requests something that only the owner of the host may request.
    NotOwner,
    /// The object requests something that flags or settings do not allow.
    Forbidden,
    /// The object requests something that Forebay does not support.
    Unsupported,
    /// The object requests something that has no effect in this configuration.
    NoEffect,
    /// The object cannot be decoded.
    Undecodable,
    /// Information about the object, without a fault.
    Note,
}

impl Reason {
    /// The reason in an Event. Users have alerts on these names, so they must not change.
    /// `AnnotationParsingFailed` is the name that ingress-nginx uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Annotation => "AnnotationParsingFailed",
            Self::FirewallRules => "FirewallRulesNotUsable",
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

/// Longest message, in bytes. A message may quote a value, which can be as long as an object: a megabyte.
const MESSAGE_BYTES_MAX: usize = 2000;

/// Cuts a message that is too long: its beginning and its length remain.
fn bounded(message: String) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    let beginning = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    format!("{beginning}... ({} bytes)", message.len())
}

impl Problem {
    /// A problem that does not belong to an object.
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
        Self::in_place(severity, &SourceLocation::of(object), message)
    }

    /// The same problem with another reason.
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
        Self::in_place(severity, &SourceLocation::at(object, value), message)
    }

    /// A problem of an annotation, or of the whole object if the object does not carry the annotation.
    pub(crate) fn of_annotation<T: Resource>(
        severity: Severity,
        object: &Sourced<T>,
        key: &str,
        message: impl Into<String>,
    ) -> Self {
        match object.metadata().annotations.get(key) {
            Some(value) => Self::at(severity, object, value, message),
            None => Self::of(severity, object, message),
        }
    }

    /// A problem at a place.
    pub(crate) fn in_place(severity: Severity, place: &SourceLocation, message: impl Into<String>) -> Self {
        let SourceLocation { object, uid, file, line, .. } = place;
        Self {
            object: Some(object.clone()),
            uid: uid.clone(),
            file: file.as_deref().map(Path::to_owned),
            line: *line,
            ..Self::new(severity, message)
        }
    }
}

/// An object, or one value in it, with its file and line.
#[derive(Clone, Debug)]
pub(crate) struct SourceLocation {
    pub(crate) object: ObjectRef,
    /// The uid of the object; none for objects in files.
    pub(crate) uid: Option<String>,
    /// The file; none if the object is not from a file.
    pub(crate) file: Option<Arc<Path>>,
    /// Line in the file, from 1.
    pub(crate) line: Option<u32>,
    /// The object itself, where it is an Ingress whose routes have this place.
    pub(crate) ingress: Option<Arc<Sourced<Ingress>>>,
}

impl SourceLocation {
    /// The place of an object as a whole.
    pub(crate) fn of<T: Resource>(object: &Sourced<T>) -> Self {
        let origin = &object.origin;
        Self {
            object: object.reference(),
            uid: object.metadata().uid().map(str::to_owned),
            file: origin.file.clone(),
            line: origin.file.as_ref().map(|_| origin.line),
            ingress: None,
        }
    }

    /// The place of settings that hold for the whole proxy; its problems are never reported.
    pub(crate) fn of_proxy() -> Self {
        let object = ObjectRef { kind: "", namespace: String::new(), name: String::new() };
        Self { object, uid: None, file: None, line: None, ingress: None }
    }

    /// The place of one value in an object.
    pub(crate) fn at<T: Resource, V>(object: &Sourced<T>, value: &At<V>) -> Self {
        let whole = Self::of(object);
        Self { line: object.origin.line_of(value).or(whole.line), ..whole }
    }

    /// The same place, for routes that the Ingress declares.
    #[must_use]
    pub(crate) fn of_routes(self, ingress: &Arc<Sourced<Ingress>>) -> Self {
        Self { ingress: Some(Arc::clone(ingress)), ..self }
    }
}

/// The text is `examples/a.yaml:12: Ingress default/web: MESSAGE`.
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
