//! What is wrong with the configuration: which object, where it stands, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use crate::objects::Sourced;
use crate::objects::{At, Resource};

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

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        })
    }
}

/// The name of a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// `Ingress`, `Service` and the like.
    pub kind: &'static str,
    /// Empty where the kind has none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// Something that is wrong with the configuration, or worth knowing about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Whose it is.
    pub object: Option<ObjectRef>,
    /// The file that says so, where a file does.
    pub file: Option<PathBuf>,
    /// Line in the file, from 1.
    pub line: Option<u32>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem that no object has.
    pub(crate) fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity, object: None, file: None, line: None, message: message.into() }
    }

    /// A problem of an object as a whole.
    pub(crate) fn of<T: Resource>(
        severity: Severity,
        object: &Sourced<T>,
        message: impl Into<String>,
    ) -> Self {
        let origin = &object.origin;
        Self {
            object: Some(object.reference()),
            file: origin.file.as_deref().map(Into::into),
            line: origin.file.as_ref().map(|_| origin.line),
            ..Self::new(severity, message)
        }
    }

    /// A problem of one value in an object.
    pub(crate) fn at<T: Resource, V>(
        severity: Severity,
        object: &Sourced<T>,
        value: &At<V>,
        message: impl Into<String>,
    ) -> Self {
        let line = object.origin.line_of(value);
        let whole = Self::of(severity, object, message);
        Self { line: line.or(whole.line), ..whole }
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
