//! The asker of settings, as the readers of settings use it: an Ingress with its annotations, or the policies
//! of a route's rule.
//!
//! Settings have the names of their annotations, without a prefix. Never in here: the meaning of a setting.

use crate::problem::{Problem, Severity, SourceLocation};

/// An object, or a group of policies, with settings.
pub(in crate::translate) trait Asker {
    /// The namespace of objects that are named without one.
    fn namespace(&self) -> &str;

    /// The place of the asker as a whole.
    fn place(&self) -> SourceLocation;

    /// The place of a setting; none if it is not given.
    fn given(&self, name: &str) -> Option<SourceLocation>;

    /// The text of a setting; none if it is not given.
    fn value(&self, name: &str) -> Option<&str>;

    /// The names of all given settings.
    fn names(&self) -> Vec<&str>;

    /// The name of a setting beside others of the asker: `auth-url`.
    fn short(&self, name: &str) -> String;

    /// The full name of a setting: `nginx.ingress.kubernetes.io/auth-url`.
    fn key(&self, name: &str) -> String;

    /// The full name with its kind: `annotation nginx.ingress.kubernetes.io/auth-url`.
    fn called(&self, name: &str) -> String;

    /// The name of the part that is closed if a setting cannot be enforced.
    fn closed(&self) -> &'static str;
}

impl dyn Asker + '_ {
    /// A problem of a setting, or of the whole asker if the setting is not given.
    pub(super) fn problem(&self, severity: Severity, name: &str, message: impl Into<String>) -> Problem {
        Problem::in_place(severity, &self.given(name).unwrap_or_else(|| self.place()), message)
    }

    /// The message about a setting that closes routes of the asker.
    pub(super) fn closing(&self, what: &str, why: &str) -> String {
        format!("{what}: {why}: {} return 503", self.closed())
    }
}
